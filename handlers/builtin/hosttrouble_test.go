package builtin_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

func dialErr(syscallName string, err error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(syscallName, err)}
}

// A connection that the agent's own host cannot make says nothing about the target: it is an error
// of the attempt. In the kubelet it is a Failure, whose output is the text of the dial for http and
// tcp, and that of a timeout for grpc.
func TestHostTrouble(t *testing.T) {
	causes := []struct {
		name, text string
		err        error
		trouble    bool
		reason     probe.Reason // of the kubelet's Failure
	}{
		{"EMFILE", "socket: too many open files", dialErr("socket", syscall.EMFILE), true, ""},
		{"ENFILE", "socket: too many open files in system", dialErr("socket", syscall.ENFILE), true, ""},
		{"ENOBUFS", "connect: no buffer space available", dialErr("connect", syscall.ENOBUFS), true, ""},
		{"ENOMEM", "connect: cannot allocate memory", dialErr("connect", syscall.ENOMEM), true, ""},
		{"EADDRNOTAVAIL", "connect: cannot assign requested address", dialErr("connect", syscall.EADDRNOTAVAIL), true, ""},
		{"a look-up without a descriptor", "lookup h: dial udp 10.0.0.2:53: socket: too many open files", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "dial udp 10.0.0.2:53: socket: too many open files", Name: "h",
		}}, true, ""},
		{"ECONNREFUSED", "connect: connection refused", dialErr("connect", syscall.ECONNREFUSED), false, probe.ReasonConnectRefused},
		{"no such host", "lookup h: no such host", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "h"}}, false, probe.ReasonDNS},
	}
	output := map[string]string{"http": `Get "http://10.0.0.1:80": dial tcp`, "tcp": "dial tcp", "grpc": "timeout: failed to connect service"}
	for _, c := range causes {
		for name, compat := range map[string]probe.Compat{"by default": 0, "with the switch": probe.CompatHostTrouble, "as the kubelet": probe.CompatKubeletV1_36} {
			for handler, h := range dialling(builtin.Config{Compat: compat, DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, c.err }}) {
				t.Run(fmt.Sprintf("%s %s %s", handler, c.name, name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						got, err := attempt(t, prepare(t, h, `{"port":80}`), probe.Request{PodIP: "10.0.0.1"}, time.Second)
						if c.trouble && compat == 0 {
							if got.Result != probe.Unknown || probe.ReasonOf(err) != probe.ReasonHostResources || !strings.Contains(err.Error(), c.text) {
								t.Errorf("got %v, error %v; want an error of the host with %q", got.Result, err, c.text)
							}
							return
						}
						if err != nil || got.Result != probe.Failure || !strings.HasPrefix(got.Output, output[handler]) {
							t.Errorf("got %v, output %q, error %v; want failure, output %q", got.Result, got.Output, err, output[handler])
						}
						if c.trouble {
							wantReason(t, got, probe.ReasonHostResources)
						} else {
							wantReason(t, got, c.reason)
						}
					})
				})
			}
		}
	}
}

// dialling returns the handlers that make connections.
func dialling(cfg builtin.Config) map[string]probe.Preparer {
	return map[string]probe.Preparer{"http": builtin.NewHTTP(cfg), "tcp": builtin.NewTCP(cfg), "grpc": builtin.NewGRPC(cfg)}
}

// grpc dials again until the timeout. The last dial that failed is the cause of a timeout, unless
// the target has answered.
func TestGRPCHostTroubleOfLastDial(t *testing.T) {
	const serving = healthpb.HealthCheckResponse_SERVING
	full, refused := dialErr("socket", syscall.EMFILE), dialErr("connect", syscall.ECONNREFUSED)
	hanging := &health{check: func(ctx context.Context, _ string) (healthpb.HealthCheckResponse_ServingStatus, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}}
	gone := &health{check: func(context.Context, string) (healthpb.HealthCheckResponse_ServingStatus, error) {
		return 0, status.Error(codes.Unavailable, "going away")
	}}
	for _, c := range []struct {
		name          string
		first, second error   // a nil second connects
		health        *health // nil for no service
		want          probe.Result
	}{
		{"refused, then no descriptor", refused, full, nil, probe.Unknown},
		{"no descriptor, then refused", full, refused, nil, probe.Failure},
		{"no descriptor, then no time", full, nil, hanging, probe.Unknown},
		{"no descriptor, then a bad answer", full, nil, nil, probe.Failure},
		{"no descriptor, then a good answer", full, nil, answers(serving), probe.Success},
		{"no descriptor, then a server that is gone", full, nil, gone, probe.Failure},
		{"refused, then no time", refused, nil, hanging, probe.Failure},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var network pipeNetwork
				l, err := network.Listen("tcp", "10.0.0.1:80")
				if err != nil {
					t.Fatal(err)
				}
				serveGRPC(t, l, c.health)
				dials := 0
				cfg := builtin.Config{DialContext: func(ctx context.Context, nw, address string) (net.Conn, error) {
					switch dials++; {
					case dials == 1:
						return nil, c.first
					case c.second != nil:
						return nil, c.second
					}
					return network.DialContext(ctx, nw, address)
				}}
				// The second dial comes after 0.8 to 1.2 s, the third another 1.3 s later.
				got, err := attempt(t, prepare(t, builtin.NewGRPC(cfg), `{"port":80}`), probe.Request{PodIP: "10.0.0.1"}, 1500*time.Millisecond)
				trouble := c.want == probe.Unknown
				if got.Result != c.want || (err != nil) != trouble || trouble && probe.ReasonOf(err) != probe.ReasonHostResources || dials != 2 {
					t.Errorf("got %+v, error %v after %d dials; want %v", got, err, dials, c.want)
				}
			})
		})
	}
}
