package builtin_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// TestHostTrouble checks that a connection that the agent's own host cannot make is an error of the
// attempt, because it says nothing about the target. In the kubelet it is a Failure. Its output is the
// error of the dial for http and tcp, and a timeout for grpc.
func TestHostTrouble(t *testing.T) {
	causes := []struct {
		name, text string
		err        error
		trouble    bool
		reason     probe.Reason // of the host's error, or of the Failure if it is not the host's
	}{
		{"EMFILE", "socket: too many open files", rig.DialError("socket", syscall.EMFILE), true, probe.ReasonHostResources},
		{"ENFILE", "socket: too many open files in system", rig.DialError("socket", syscall.ENFILE), true, probe.ReasonHostResources},
		{"ENOBUFS", "connect: no buffer space available", rig.DialError("connect", syscall.ENOBUFS), true, probe.ReasonHostResources},
		{"ENOMEM", "connect: cannot allocate memory", rig.DialError("connect", syscall.ENOMEM), true, probe.ReasonHostResources},
		{"EADDRNOTAVAIL", "connect: cannot assign requested address", rig.DialError("connect", syscall.EADDRNOTAVAIL), true, probe.ReasonHostResources},
		{"a look-up without a descriptor", "lookup h: dial udp 10.0.0.2:53: socket: too many open files", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "dial udp 10.0.0.2:53: socket: too many open files", Name: "h",
		}}, true, probe.ReasonHostResources},
		{"ENETUNREACH", "connect: network is unreachable", rig.DialError("connect", syscall.ENETUNREACH), true, probe.ReasonHostNetwork},
		{"a resolver that is not there", "lookup h: read udp 127.0.0.1:9->127.0.0.1:53: read: connection refused", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "read udp 127.0.0.1:9->127.0.0.1:53: read: connection refused", Name: "h",
		}}, true, probe.ReasonHostNetwork},
		{"EHOSTUNREACH", "connect: no route to host", rig.DialError("connect", syscall.EHOSTUNREACH), false, ""},
		{"ECONNREFUSED", "connect: connection refused", rig.DialError("connect", syscall.ECONNREFUSED), false, probe.ReasonConnectRefused},
		{"no such host", "lookup h: no such host", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "h"}}, false, probe.ReasonDNS},
	}
	output := map[string]string{"http": `Get "http://10.0.0.1:80": dial tcp`, "tcp": "dial tcp", "grpc": "timeout: failed to connect service"}
	for _, c := range causes {
		for name, compat := range map[string]probe.Compat{"by default": 0, "with the switch": probe.CompatHostTrouble, "as the kubelet": probe.CompatKubeletV1_36} {
			for handler, h := range dialling(builtin.Config{Compat: compat, DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, c.err }}) {
				t.Run(fmt.Sprintf("%s %s %s", handler, c.name, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						got, err := rig.Attempt(t, rig.Prepare(t, h, `{"port":80}`), probe.Request{PodIP: "10.0.0.1"}, time.Second)
						if c.trouble && compat == 0 {
							if got.Result != probe.Unknown || probe.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.text) {
								t.Errorf("got %v, error %v; want an error of the host with %q", got.Result, err, c.text)
							}
							return
						}
						if err != nil || got.Result != probe.Failure || !strings.HasPrefix(got.Output, output[handler]) {
							t.Errorf("got %v, output %q, error %v; want failure, output %q", got.Result, got.Output, err, output[handler])
						}
						rig.WantReason(t, got, c.reason)
					})
				})
			}
		}
	}
}

// dialling returns the handlers that make connections, by name.
func dialling(cfg builtin.Config) map[string]probe.Preparer {
	return map[string]probe.Preparer{"http": builtin.NewHTTP(cfg), "tcp": builtin.NewTCP(cfg), "grpc": builtin.NewGRPC(cfg)}
}
