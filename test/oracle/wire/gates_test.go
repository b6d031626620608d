package wire

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	kubeletprobe "github.com/daeace23/prober/test/oracle/probe"
)

// http2Protocol is an HTTP probe with protocol HTTP2.
type http2Protocol struct {
	asker
	gates bool
}

func (p http2Protocol) ask(port int) question {
	q := p.asker.ask(port)
	q.http2, q.gates = true, p.gates
	return q
}

// tlsMode is a gRPC probe with mode TLS.
type tlsMode struct {
	asker
	gates bool
}

func (p tlsMode) ask(port int) question {
	q := p.asker.ask(port)
	q.tls, q.gates = true, p.gates
	return q
}

// gates are the possible states of the feature gates in the release. Older releases do not have them.
func gates() []bool {
	if kubeletprobe.Release < "1.37" {
		return []bool{false}
	}
	return []bool{false, true}
}

// TestGateHTTP2 compares probes with protocol HTTP2. They use HTTP/2 without TLS if the gate
// H2CContainerProbe is on, and HTTP/1.1 otherwise.
func TestGateHTTP2(t *testing.T) {
	texts := map[string]string{
		"an answer":               webWhole,
		"trailers":                webHeaders + data("body") + trailers("x", "y"),
		"a body that is cut":      webHeaders + data("bo"),
		"a body that is too long": webHeaders + lastData("body and more"),
		"a redirect":              trailers(":status", "302", "location", "/there"),
		"a redirect to http":      trailers(":status", "302", "location", "http://127.0.0.1:{port}/there"),
		"a redirect to a host":    trailers(":status", "302", "location", "http://example.invalid/"),
		"a redirect to no place":  trailers(":status", "302"),
		"a reset":                 resetStream(http2.ErrCodeInternal),
		"a refused stream":        resetStream(http2.ErrCodeRefusedStream),
		"GOAWAY":                  goAway(0, http2.ErrCodeNo, "bye"),
		"a PING":                  ping("12345678") + webWhole,
		"20 KB":                   headers(":status", "200") + data(strings.Repeat("x", 10<<10)) + lastData(strings.Repeat("x", 10<<10)),
		"HTTP/1.1":                whole,
		"garbage":                 "garbage and garbage",
		"nothing":                 "",
	}
	for _, code := range []int{200, 204, 299, 300, 304, 400, 404, 500, 999} {
		texts[fmt.Sprintf("status %d", code)] = headers(":status", fmt.Sprint(code)) + lastData("body")
	}
	for _, code := range []string{"", "0", "99", "100", "101", "103", "x"} {
		texts[fmt.Sprintf("status %q", code)] = headers(":status", code) + lastData("body")
	}
	var table []situation
	for _, on := range gates() {
		add := func(name string, s server, probe asker, differs string) {
			table = append(table, situation{fmt.Sprintf("%s, gate %t", name, on), s, http2Protocol{probe, on}, differs})
		}
		if on {
			for name, text := range texts {
				s := speaks(text)
				s.scripts = append(s.scripts, speaks(webWhole).scripts...)
				add(name, s, root, "HTTP/2 without TLS")
				if name != "a refused stream" && name != "GOAWAY" { // net/http reconnects until the deadline then
					add(name+", and a hang", speaks(text, hang), root, "HTTP/2 without TLS")
				}
			}
			add("no settings", raw(preface, hang), root, "HTTP/2 without TLS")
			add("a path and headers", speaks(webWhole), get{path: "/a%2fb?c#d", headers: []string{"Host", "example.com", "X", "y", "X", "z", "Connection", "close", "TE", "trailers", "User-Agent", ""}}, "HTTP/2 without TLS")
		}
		s := answers(whole)
		if on {
			s = raw(preface, whole)
		}
		add("a server of HTTP/1.1", s, root, "HTTP/2 without TLS")
		add("nobody", server{}, root, "")
		add("TLS", answers(whole).secured(certified()), timed{root}, "HTTP/2 without TLS")
	}
	judgeAll(t, table)
}

// TestGateGRPCTLS compares probes with mode TLS. They use TLS only if the gate GRPCContainerProbeTLS is on.
func TestGateGRPCTLS(t *testing.T) {
	old := certified("h2")
	old.MaxVersion = tls.VersionTLS12
	var table []situation
	for _, on := range gates() {
		add := func(name string, s server, probe asker, differs string) {
			table = append(table, situation{fmt.Sprintf("%s, gate %t", name, on), s, tlsMode{probe, on}, differs})
		}
		if !on {
			add("an answer", speaks(grpcWhole), check{}, "")
			add("TLS", raw().secured(certified()), timed{check{}}, "")
			continue
		}
		for name, c := range map[string]*tls.Config{"TLS 1.3": certified("h2"), "TLS 1.2": old, "two protocols": certified("http/1.1", "h2")} {
			for what, text := range map[string]string{
				"an answer": grpcWhole, "a status": grpcStatus, "an answer and a GOAWAY": grpcWhole + goAway(1, 0, "bye"),
				"not serving": grpcHeaders + data(message("\x08\x02")) + grpcOK, "unimplemented": trailers(":status", "200", "content-type", "application/grpc", "grpc-status", "12"),
				"a reset": resetStream(http2.ErrCodeInternal), "a 404": headers(":status", "404") + lastData("x"),
			} {
				add(what+" by "+name, speaks(text).secured(c), timed{check{}}, "reconnects")
			}
			add("a hang by "+name, speaks(hang).secured(c), timed{check{}}, "")
			add("a service by "+name, speaks(grpcWhole).secured(c), check{service: new("web")}, "")
		}
		for name, c := range map[string]*tls.Config{"no protocol": certified(), "http/1.1": certified("http/1.1")} {
			add("a server of "+name, speaks(grpcWhole).secured(c), timed{check{}}, "reconnects")
		}
		add("no TLS", speaks(grpcWhole), timed{check{}}, "reconnects")
		add("a close", begins(abandon), timed{check{}}, "reconnects")
		add("a pause", speaks(20*time.Millisecond, grpcWhole).secured(certified("h2")), check{}, "")
		add("nobody", server{}, timed{check{port: 9}}, "")
	}
	judgeAll(t, table)
}
