module github.com/daeace23/prober/examples/plugins/httpjson

go 1.26.0

require (
	github.com/daeace23/prober v0.0.0
	github.com/google/go-cmp v0.7.0
)

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/tetratelabs/wazero v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/daeace23/prober => ../../..
