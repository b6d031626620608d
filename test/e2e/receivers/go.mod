module github.com/daeace23/prober/test/e2e/receivers

go 1.26.0

require (
	github.com/PagerDuty/go-pagerduty v1.8.0
	github.com/slack-go/slack v0.35.0
)

require (
	github.com/google/go-querystring v1.1.0 // indirect
	github.com/gorilla/websocket v1.5.3 // indirect
)
