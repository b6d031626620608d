package process_test

import (
	"context"
	"fmt"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// ExampleLoad starts a plugin that is a program, and probes with it.
func ExampleLoad() {
	ctx := context.Background()
	// The manifest is in the same folder: prober-plugin-ldap.yaml. Package sdk/process is for writing plugins.
	found, err := plugin.ReadProcess("/usr/lib/prober/plugins/prober-plugin-ldap")
	if err != nil {
		panic(err)
	}
	ldap, err := process.Load(ctx, process.Config{}, found)
	if err != nil {
		panic(err)
	}
	defer ldap.Close() // ends the process

	target := probe.Target{Host: "10.0.0.7", Port: 389}
	h, err := ldap.Prepare([]byte(`{"base": "dc=example,dc=com"}`), target)
	if err != nil {
		panic(err)
	}
	out, err := h.Probe(ctx, probe.Request{Target: target})
	fmt.Println(out.Result, out.Output, err)
}
