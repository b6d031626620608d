package builtin_test

import (
	"fmt"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// ExampleRegister registers the kubelet's handlers under their names in pods. Commands run on this host.
func ExampleRegister() {
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		panic(err)
	}
	fmt.Println(registry.Names())

	h, err := registry.Prepare("http", []byte(`{"path": "/healthz", "port": 8080}`), probe.Target{})
	if err != nil {
		panic(err)
	}
	fmt.Println(probe.Describe(h, "http", &probe.Request{PodIP: "10.0.0.7"}))
	// Output:
	// [exec grpc http tcp]
	// GET http://10.0.0.7:8080/healthz
}
