module github.com/daeace23/prober/test/e2e/mongodb

go 1.26.0

require (
	github.com/xdg-go/scram v1.4.0
	go.mongodb.org/mongo-driver v1.17.3
)

require (
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/xdg-go/stringprep v1.0.4 // indirect
	golang.org/x/text v0.25.0 // indirect
)
