package execprobe_test

import (
	"context"
	"fmt"
	"time"

	"github.com/daeace23/prober/handlers/builtin/execprobe"
	"github.com/daeace23/prober/probe"
)

func ExampleHandler_Bind() {
	run, err := execprobe.New(execprobe.Config{Runner: &execprobe.HostRunner{}})
	if err != nil {
		panic(err)
	}
	h, err := run.Bind(execprobe.Action{Command: []string{"sh", "-c", "echo out of disk; exit 1"}})
	if err != nil {
		panic(err)
	}
	out, err := h.Probe(context.Background(), probe.Request{Spec: probe.Spec{Timeout: time.Minute}})
	fmt.Printf("%v: %q, error %v\n", out.Result, out.Output, err)
	// Output: failure: "out of disk\n", error <nil>
}
