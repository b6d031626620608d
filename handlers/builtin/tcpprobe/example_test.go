package tcpprobe_test

import (
	"context"
	"fmt"
	"net"

	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/probe"
)

// ExampleHandler_Bind probes a port that accepts connections.
func ExampleHandler_Bind() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	h, err := tcpprobe.New(tcpprobe.Config{}).Bind(tcpprobe.Action{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port})
	if err != nil {
		panic(err)
	}
	out, err := h.Probe(context.Background(), probe.Request{})
	fmt.Println(out.Result, err)
	// Output: success <nil>
}
