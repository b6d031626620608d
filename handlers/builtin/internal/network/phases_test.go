package network_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
	"github.com/daeace23/prober/probe"
)

func endpoint(address string) network.Endpoint {
	at := netip.MustParseAddrPort(address)
	return network.Endpoint{Host: at.Addr().String(), Port: int(at.Port())}
}

// late calls the hooks that net and net/http may still call after the end of an attempt.
func late(p *network.Progress, hooks *httptrace.ClientTrace) {
	hooks.ConnectDone("tcp", "b:1", nil)
	hooks.ConnectStart("tcp", "c:1")
	hooks.DNSStart(httptrace.DNSStartInfo{Host: "late"})
	hooks.DNSDone(httptrace.DNSDoneInfo{Addrs: []net.IPAddr{{IP: net.IPv6loopback}}})
	hooks.TLSHandshakeStart()
	hooks.TLSHandshakeDone(tls.ConnectionState{Version: tls.VersionTLS10}, nil)
	hooks.GotFirstResponseByte()
	refuse := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	_, _ = p.Dial(context.Background(), refuse, "tcp", "late:1", network.StepHTTP)
	p.Done()
}

// begin begins an attempt with one failed phase and two unfinished ones.
func begin(t *testing.T) (*network.Progress, *httptrace.ClientTrace) {
	p := &network.Progress{Traced: true}
	hooks := httptrace.ContextClientTrace(p.Hooks(t.Context()))
	hooks.ConnectStart("tcp", "a:1")
	hooks.ConnectDone("tcp", "a:1", errors.New("refused"))
	hooks.ConnectStart("tcp", "b:1")
	hooks.TLSHandshakeStart()
	return p, hooks
}

var wantEmitted = []string{"connect a:1: refused", "connect b:1 not finished", "tls not finished"}

func TestLateHooksChangeNothing(t *testing.T) {
	p, hooks := begin(t)
	var got []string
	p.Emit(func(e probe.TraceEvent) {
		got = append(got, e.Name+" "+e.Detail)
		late(p, hooks)
	}, true)
	if !slices.Equal(got, wantEmitted) {
		t.Errorf("got %q, want %q", got, wantEmitted)
	}
}

// TestLateHooksBesideEmit has a data race if Emit and hooks share data without the lock.
func TestLateHooksBesideEmit(t *testing.T) {
	for range 200 {
		p, hooks := begin(t)
		emitting := make(chan struct{})
		var wait sync.WaitGroup
		wait.Go(func() {
			<-emitting
			late(p, hooks)
		})
		var got []string
		p.Emit(func(e probe.TraceEvent) {
			if len(got) == 0 {
				close(emitting)
			}
			got = append(got, e.Name+" "+e.Detail)
		}, true)
		wait.Wait()
		if !slices.Equal(got, wantEmitted) {
			t.Fatalf("got %q, want %q", got, wantEmitted)
		}
	}
}

// TestLateDialLeavesTheAddress begins a dial to another address while phases are emitted.
func TestLateDialLeavesTheAddress(t *testing.T) {
	p := &network.Progress{Traced: true}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := p.Connect(ctx, network.NewConnector(nil, 0), endpoint("127.0.0.1:1"), network.StepHTTP); err == nil {
			t.Fatal("connected after the end of ctx")
		}
	}
	var got []string
	p.Emit(func(e probe.TraceEvent) {
		got = append(got, e.Detail)
		_, _ = p.Connect(ctx, network.NewConnector(nil, 0), endpoint("127.0.0.2:2"), network.StepHTTP)
	}, true)
	if len(got) != 2 || got[0] != got[1] {
		t.Errorf("got %q, want the same twice", got)
	}
}

// TestWaitIsOfTheServerBeforeANewDial dials again just before the deadline, as gRPC does if the server
// did not get ready.
func TestWaitIsOfTheServerBeforeANewDial(t *testing.T) {
	l, at := listenAt(t)
	defer l.Close()
	p := &network.Progress{Traced: true}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	conn, err := p.Connect(ctx, network.NewConnector(nil, 0), at, network.StepHTTP2)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-ctx.Done()
	refuse := func(context.Context, string, string) (net.Conn, error) {
		out := probe.Outcome{Result: probe.Failure, Reason: probe.ReasonDeadline}
		p.Explain(ctx, nil, &out)
		if !strings.Contains(out.Details, "no HTTP/2 settings from the server") || !strings.Contains(out.Details, "then dialled again") {
			t.Errorf("details %s", out.Details)
		}
		return nil, ctx.Err()
	}
	_, _ = p.Dial(ctx, refuse, "tcp", at.Address(), network.StepHTTP2)
}

func listenAt(t *testing.T) (net.Listener, network.Endpoint) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l, endpoint(l.Addr().String())
}
