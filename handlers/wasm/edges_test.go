package wasm_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// edges are boundary values of lengths, pointers, handles and times, for one page of memory. Functions
// with many parameters get only the first values.
var edges = []string{"0", "-1", "65536", "1", "64", "65535", "2147483647", "-2147483648"}

// callsWithEdges returns calls of a function with all combinations of edges.
func callsWithEdges(f abi.Func) string {
	some := edges[:map[int]int{0: 1, 1: 8, 2: 8, 3: 8, 4: 5, 5: 3}[len(f.Params)]]
	calls := []string{""}
	for _, p := range f.Params {
		var more []string
		for _, call := range calls {
			for _, edge := range some {
				typ := map[abi.Type]string{abi.I32: "i32", abi.I64: "i64", abi.F64: "f64"}[p]
				more = append(more, call+" "+typ+".const "+edge)
			}
		}
		calls = more
	}
	drop := strings.Repeat(" drop", len(f.Results))
	return strings.Join(calls, " call $f"+drop+"\n") + " call $f" + drop + "\n"
}

// signature returns the signature of a function in the text format.
func signature(f abi.Func) string {
	name := func(types []abi.Type) (text string) {
		for _, t := range types {
			text += " " + map[abi.Type]string{abi.I32: "i32", abi.I64: "i64", abi.F64: "f64"}[t]
		}
		return text
	}
	text := "(param" + name(f.Params) + ")"
	if len(f.Results) > 0 {
		text += " (result" + name(f.Results) + ")"
	}
	return text
}

// silentConn is a connection that sends nothing and accepts everything.
type silentConn struct{ net.Conn }

func (silentConn) Read([]byte) (int, error)    { return 0, io.EOF }
func (silentConn) Write(p []byte) (int, error) { return len(p), nil }

// TestImportsWithEdgeValues checks that no parameter makes the host panic.
func TestImportsWithEdgeValues(t *testing.T) {
	h, err := wasm.New(wasm.Config{
		CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, DNSServers: []string{"10.0.0.9:53"},
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			t.Cleanup(func() { far.Close() })
			return silentConn{near}, nil
		},
		RoundTrip: func(r *http.Request, _ string) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Request: r, Body: io.NopCloser(strings.NewReader("body"))}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	target := probe.Target{Host: "10.0.0.7", Port: 80}
	for _, f := range abi.Imports() {
		t.Run(f.Module+"."+f.Name, func(t *testing.T) {
			const get, ask = `{"url":"http:///","method":"GET"}`, `{"name":"a.example","server":"target"}`
			text := fmt.Sprintf(`(module
  (import "%s" "%s" (func $f %s))
  (import "prober_v1_net" "dial" (func $dial (param i32 i32 i32) (result i32)))
  (import "prober_v1_http" "do" (func $do (param i32 i32 i32 i32) (result i32)))
  (import "prober_v1_dns" "lookup" (func $lookup (param i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "%s")
  (data (i32.const 256) "%s")
  (func (export "probe") (result i32)
    i32.const 0 i32.const 0 i32.const 0 call $dial drop
    i32.const 64 i32.const %d i32.const 0 i32.const 0 call $do drop
    i32.const 256 i32.const %d i32.const 0 call $lookup drop
    %s i32.const 0))`, f.Module, f.Name, signature(f), strings.ReplaceAll(get, `"`, `\22`), strings.ReplaceAll(ask, `"`, `\22`), len(get), len(ask), callsWithEdges(f))
			p, err := h.Load(t.Context(), plugin.Found{Module: assemble(t, text), Manifest: asking("edges", plugin.Request{Capability: "kv"}, plugin.Request{Capability: "dns"}, plugin.Request{Capability: "files"}), Grants: grants(t, "kv", "dns", "file:///nowhere/**")})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			got, err := overrun(t, bind(t, p, "{}", target), probe.Request{Target: target}, 300*time.Millisecond) // some calls wait for the deadline
			if r := probe.ReasonOf(err); err != nil && r != probe.ReasonProtocol {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
