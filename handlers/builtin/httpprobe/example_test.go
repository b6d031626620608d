package httpprobe_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/probe"
)

// ExampleHandler_Bind makes a probe. One Handler serves all probes of a program.
func ExampleHandler_Bind() {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "fine, "+r.Host)
	}))
	defer target.Close()
	host, text, _ := net.SplitHostPort(target.Listener.Addr().String())
	port, _ := strconv.Atoi(text)

	web := httpprobe.New(httpprobe.Config{UserAgent: "acme-agent/1"})
	h, err := web.Bind(httpprobe.Action{
		Host: host, Port: port, Path: "/healthz",
		Header: http.Header{"Host": {"shop.example.com"}},
	})
	if err != nil {
		panic(err)
	}
	out, err := h.Probe(context.Background(), probe.Request{})
	fmt.Println(out.Result, out.Output, err)
	// Output: success fine, shop.example.com <nil>
}
