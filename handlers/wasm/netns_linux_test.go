package wasm_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/netnstest"
	"github.com/daeace23/prober/probe"
)

// inNamespace returns a handler that makes the attempts of h in a new network namespace, in which a
// server listens at address.
func inNamespace(t *testing.T, h probe.Handler, address string) probe.Handler {
	t.Helper()
	n := netnstest.New(t)
	namespace, err := netns.Open(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = namespace.Close() })
	var l net.Listener
	n.Do(func() { l, err = net.Listen("tcp", address) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
		return h.Probe(netns.With(ctx, namespace), req)
	})
}

// TestOwnListenerOfAnotherNamespaceIsReached has a pod that listens on the same address as this program.
func TestOwnListenerOfAnotherNamespaceIsReached(t *testing.T) {
	own := serve(t, "tcp", "127.0.0.1:0")
	h := hostWith(t, wasm.Config{Listeners: []net.Addr{own.Addr()}})
	p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), grants(t, "tcp://*:*", "tcp://0.0.0.0/0:*")...)
	target := targetOf(own)
	req := probe.Request{Target: target, PodIP: "10.0.0.7"}
	bound := bind(t, p, dialling(t, ""), target)
	if got, err := attempt(t, bound, req, patience); err != nil || got.Reason != probe.ReasonDenied {
		t.Errorf("in the own namespace: got %+v, %v, want a denial", got, err)
	}
	if got, err := attempt(t, inNamespace(t, bound, own.Addr().String()), req, patience); err != nil || got.Result != probe.Success {
		t.Errorf("in that of the pod: got %+v, %v, want success", got, err)
	}
	same, err := netns.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	again := probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
		return bound.Probe(netns.With(ctx, same), req)
	})
	if got, err := attempt(t, again, req, patience); err != nil || got.Reason != probe.ReasonDenied {
		t.Errorf("in the own namespace as that of a pod: got %+v, %v, want a denial", got, err)
	}
}

// TestOwnListenerIsDeniedToOtherDials uses the embedder's dial function, which may ignore the namespace.
func TestOwnListenerIsDeniedToOtherDials(t *testing.T) {
	own := serve(t, "tcp", "127.0.0.1:0")
	h := hostWith(t, wasm.Config{Listeners: []net.Addr{own.Addr()}, DialContext: new(net.Dialer).DialContext})
	p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), grants(t, "tcp://*:*")...)
	bound := inNamespace(t, bind(t, p, dialling(t, ""), targetOf(own)), own.Addr().String())
	if got, err := attempt(t, bound, probe.Request{Target: targetOf(own)}, patience); err != nil || got.Reason != probe.ReasonDenied {
		t.Errorf("got %+v, %v, want a denial", got, err)
	}
}

// TestLoopbackOfNamespaceIsThePods grants all addresses. That covers no loopback address except the
// pod's.
func TestLoopbackOfNamespaceIsThePods(t *testing.T) {
	own := serve(t, "tcp", "127.0.0.1:0")
	h := hostWith(t, wasm.Config{})
	p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), grants(t, "tcp://*:*", "tcp://0.0.0.0/0:*")...)
	target := probe.Target{Host: "10.0.0.7", Port: 80}
	bound := inNamespace(t, bind(t, p, dialling(t, "tcp://"+own.Addr().String()), target), own.Addr().String())
	for port, denied := range map[int]bool{portOf(own): false, 1: true} {
		req := probe.Request{Target: target, PodIP: "10.0.0.7", Pod: &probe.Pod{Ports: []probe.Port{{Number: port}}}}
		got, err := attempt(t, bound, req, patience)
		if isDenied := got.Reason == probe.ReasonDenied; err != nil || isDenied != denied || !denied && got.Result != probe.Success {
			t.Errorf("declared port %d: got %+v, %v, want denied: %v", port, got, err, denied)
		}
	}
}

// TestNamespaceThatCannotBeUsedIsNoVerdict makes attempts in a closed namespace, also with the switch
// CompatHostTrouble.
func TestNamespaceThatCannotBeUsedIsNoVerdict(t *testing.T) {
	own := serve(t, "tcp", "127.0.0.1:0")
	for _, compat := range []probe.Compat{0, probe.CompatHostTrouble} {
		h := hostWith(t, wasm.Config{Compat: compat})
		p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()))
		for _, url := range []string{"", fmt.Sprintf("udp://127.0.0.1:%d", portOf(own)), "tcp://?sourceAddress=127.0.0.1"} {
			n := netnstest.New(t)
			closed, err := netns.Open(n.Path)
			if err != nil {
				t.Fatal(err)
			}
			_ = closed.Close()
			got, err := bind(t, p, dialling(t, url), targetOf(own)).Probe(netns.With(t.Context(), closed), probe.Request{Target: targetOf(own)})
			if err == nil || probe.ReasonOf(err) != probe.ReasonHostResources || !strings.Contains(err.Error(), "network namespace "+n.Path+": file already closed") {
				t.Errorf("%q: got %+v, %v, want an error of the host", url, got, err)
			}
		}
	}
}
