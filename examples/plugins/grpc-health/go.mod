module github.com/daeace23/prober/examples/plugins/grpc-health

go 1.26.0

require github.com/daeace23/prober v0.0.0

require golang.org/x/net v0.60.0

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2 // indirect
	github.com/tetratelabs/wazero v1.12.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)

replace github.com/daeace23/prober => ../../..
