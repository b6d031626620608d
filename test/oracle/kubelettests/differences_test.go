package kubelettests

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-base/version"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/test/oracle"
	"github.com/daeace23/prober/test/oracle/prober"
)

// differences are the tests of differences that remain with the profile of a release, by their names in
// docs/kubelet-parity.md. Each test checks both sides.
var differences = map[string]func(t *testing.T){
	"Unread updates are merged":           mergedUpdates,
	"Removals are reported":               reportedRemovals,
	"Stopping cancels":                    cancelledAttempts,
	"RemovePod and AddPod at one instant": removedAndAdded,
	"UpdatePodStatus of a pod without the readiness probe that runs": probeNotInPod,
	"Two PodReady conditions":                           twoConditions,
	"Container IDs without a scheme":                    idsWithoutScheme,
	"Probes that the API refuses":                       refusedProbes,
	"Commands of megabytes":                             longCommands,
	"A container without a start time":                  noStartTime,
	"All output is cut":                                 cutOutput,
	"A cut falls between characters":                    cutCharacters,
	"Texts of HTTPS time-outs":                          timeoutTexts,
	"DISABLE_HTTP2":                                     disabledHTTP2,
	"gRPC ports":                                        grpcPorts,
	"gRPC addresses with a zone":                        grpcZones,
	"HTTP schemes":                                      httpSchemes,
	"A target without a host":                           noHost,
	"Texts of unknown ports":                            unknownPorts,
	"Exec probes of a pod that terminates, before 1.37": frozenProbes,
	"Redirects from HTTP/2 without TLS to HTTPS":        verifiedRedirects,
	"User agents":                                       userAgents,
}

func TestDifferences(t *testing.T) {
	for name, f := range differences {
		t.Run(name, f)
	}
}

// TestDifferencesAreDocumented checks that docs/kubelet-parity.md and the tests have the same names.
func TestDifferencesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/kubelet-parity.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^- \*\*(.*)\.\*\*`).FindAllSubmatch(text, -1) {
		names = append(names, strings.ReplaceAll(string(m[1]), "`", ""))
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(differences)); !slices.Equal(names, want) {
		t.Errorf("the document has\n%q, the tests are\n%q", names, want)
	}
}

// differ runs f on both sides, and compares its results with the expected results kubelet and ours.
func differ(t *testing.T, kubelet, ours string, f func(t *testing.T, r *rig) string) {
	t.Helper()
	for _, side := range []struct {
		name, want string
		maker      oracle.Maker
	}{{"kubelet", kubelet, oracle.Kubelet}, {"ours", ours, oracle.Ours(oracle.Profile())}} {
		t.Run(side.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, side.maker)
				defer r.Close()
				if got := f(t, r); got != side.want {
					t.Errorf("got %q, want %q", got, side.want)
				}
			})
		})
	}
}

// differentAnswers compares the answers of both sides' handlers with the expected answers. An answer has the
// form "RESULT OUTPUT" or "error TEXT".
func differentAnswers(t *testing.T, r request, kubelet, ours string) {
	t.Helper()
	for side, want := range map[string]string{"kubelet": kubelet, "ours": ours} {
		a := handlerSides[side](r)
		got := a.result + " " + a.output
		if a.err != nil {
			got = "error " + a.err.Error()
		}
		if got != want {
			t.Errorf("%s: got %.300q, want %.300q", side, got, want)
		}
	}
}

func mergedUpdates(t *testing.T) {
	for side, c := range map[string]struct {
		make    func() (cache, func())
		set     int // of 30 results, before anyone reads
		updates int
	}{"kubelet": {kubeletCache, 20, 30}, "ours": {ourCache, 30, 1}} {
		t.Run(side, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, done := c.make()
				defer done()
				var set atomic.Int64
				go func() {
					for i := range 30 {
						cache.set("test://x", i%2)
						set.Add(1)
					}
				}()
				synctest.Wait()
				if got := set.Load(); got != int64(c.set) {
					t.Errorf("%d results were set, want %d", got, c.set)
				}
				n := 0
				for cache.unread() != "" {
					synctest.Wait()
					n++
				}
				if n != c.updates {
					t.Errorf("%d updates, want %d", n, c.updates)
				}
			})
		})
	}
}

func reportedRemovals(t *testing.T) {
	for side, want := range map[string]string{"kubelet": "", "ours": "test://x removed"} {
		t.Run(side, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, done := map[string]func() (cache, func()){"kubelet": kubeletCache, "ours": ourCache}[side]()
				defer done()
				cache.set("test://x", 0)
				cache.unread()
				cache.remove("test://x")
				if got := cache.unread(); got != want {
					t.Errorf("update %q, want %q", got, want)
				}
			})
		})
	}
}

func cancelledAttempts(t *testing.T) {
	t.Run("attempts", func(t *testing.T) {
		differ(t, "[Warning Unhealthy Liveness probe failed: bad]", "[]", func(t *testing.T, r *rig) string {
			r.settle()
			r.setStatus(uid, isRunning(liveness))
			r.answer("bad", exit(1))
			r.takes = time.Second / 2
			pod := podWith(liveness)
			r.add(pod)
			r.RemovePod(pod)
			r.wait(10 * time.Second)
			return fmt.Sprint(r.observe().events)
		})
	})
	t.Run("the delay of a first tick", func(t *testing.T) {
		differ(t, "[liveness]", "[]", func(t *testing.T, r *rig) string {
			r.setStatus(uid, isRunning(liveness))
			pod := podWith(liveness, func(_ *v1.Pod, p *v1.Probe) { p.PeriodSeconds = 1 << 20 })
			r.add(pod)
			r.RemovePod(pod)
			return fmt.Sprint(r.commandsIn(1 << 21 * time.Second))
		})
	})
}

func removedAndAdded(t *testing.T) {
	differ(t, "[]", "[liveness]", func(t *testing.T, r *rig) string {
		r.settle()
		r.setStatus(uid, isRunning(liveness))
		pod := podWith(liveness)
		r.add(pod)
		r.RemovePod(pod)
		r.add(pod)
		return fmt.Sprint(r.commandsIn(10 * time.Second))
	})
}

// restarted returns the status of a pod whose container was started before the agent.
func (r *rig) restarted() *v1.PodStatus {
	s := isRunning(readiness)
	s.ContainerStatuses[0].State.Running.StartedAt.Time = r.start.Add(-time.Hour)
	return s
}

func probeNotInPod(t *testing.T) {
	differ(t, "ready true", "ready false", func(t *testing.T, r *rig) string {
		r.settle()
		pod := podWith(readiness)
		r.add(pod)
		s := r.restarted()
		other := podWith(readiness)
		other.Spec.Containers[0].ReadinessProbe = nil
		r.UpdatePodStatus(t.Context(), other, s)
		return fmt.Sprint("ready ", s.ContainerStatuses[0].Ready)
	})
}

func twoConditions(t *testing.T) {
	differ(t, "ready true", "ready false", func(t *testing.T, r *rig) string {
		r.settle()
		pod := podWith(readiness)
		r.add(pod)
		s := r.restarted()
		pod.Status = *s.DeepCopy()
		for _, status := range []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue} {
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: status})
		}
		r.UpdatePodStatus(t.Context(), pod, s)
		return fmt.Sprint("ready ", s.ContainerStatuses[0].Ready)
	})
}

func idsWithoutScheme(t *testing.T) {
	// The kubelet cannot parse the ID, so each tick is the first one of a new container.
	differ(t, "[readiness ://]", "[readiness web-1]", func(t *testing.T, r *rig) string {
		r.settle()
		s := isRunning(readiness)
		s.ContainerStatuses[0].ContainerID = "web-1"
		r.setStatus(uid, s)
		r.add(podWith(readiness))
		r.wait(5 * time.Second)
		return fmt.Sprint(slices.Sorted(maps.Keys(r.observe().updates)))
	})
}

func longCommands(t *testing.T) {
	differ(t, "[Warning Unhealthy Liveness probe failed: bad] []",
		"[] [AddPod of pod: spec.containers[0].livenessProbe.exec.command: Invalid value: all commands of the probes of the pod take more than 2097152 bytes with their variables]",
		func(t *testing.T, r *rig) string {
			r.settle()
			r.answer("bad", exit(1))
			r.setStatus(uid, isRunning(liveness))
			r.add(podWith(liveness, func(pod *v1.Pod, p *v1.Probe) {
				pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1<<20)}}
				p.ProbeHandler = v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"$(A)$(A)", "x"}}}
			}))
			return r.complaints()
		})
}

func refusedProbes(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*v1.Pod, *v1.Probe)
		kubelet, ours string
	}{
		"no handler": {
			func(_ *v1.Pod, p *v1.Probe) { p.ProbeHandler = v1.ProbeHandler{} },
			"[Warning Unhealthy Liveness probe errored and resulted in unknown state: missing probe handler for pod_ns(uid):web] []",
			"[] [AddPod of pod: spec.containers[0].livenessProbe: Required value: must specify a handler type]",
		},
		"a negative delay": {
			func(_ *v1.Pod, p *v1.Probe) { p.InitialDelaySeconds = -100 },
			"[Warning Unhealthy Liveness probe failed: bad] []",
			"[] [AddPod of pod: spec.containers[0].livenessProbe.initialDelaySeconds: Invalid value: -100: must be at least 0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			differ(t, c.kubelet, c.ours, func(t *testing.T, r *rig) string {
				r.settle()
				r.answer("bad", exit(1))
				r.setStatus(uid, isRunning(liveness))
				r.add(podWith(liveness, c.change))
				return r.complaints()
			})
		})
	}
}

// complaints returns the events and the error of AddPod.
func (r *rig) complaints() string {
	seen := r.observe()
	return fmt.Sprint(seen.events, " ", seen.faults)
}

// noStartTime checks a running container without a start time. The kubelet's result depends on the
// processor, ours does not.
func noStartTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, oracle.Ours(oracle.Profile()))
		defer r.Close()
		r.settle()
		s := isRunning(readiness)
		s.ContainerStatuses[0].State.Running.StartedAt.Reset()
		r.setStatus(uid, s)
		r.add(podWith(readiness))
		r.wantCached(readiness, first, "Success")
	})
}

func cutOutput(t *testing.T) {
	const limit = 10 << 10
	long := strings.Repeat("x", 2*limit)
	cut := func(prefix string) string { return prefix + long[:limit-len(prefix)] }
	t.Run("exec time-out", func(t *testing.T) {
		r := request{
			handler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, timeout: time.Minute,
			err: runtimeTimeout{fmt.Errorf("%s", long)},
		}
		differentAnswers(t, r, "failure "+long, "failure "+cut(""))
	})
	t.Run("grpc", func(t *testing.T) {
		const prefix = "error: health rpc probe failed: rpc error: code = NotFound desc = "
		r := request{
			handler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(serveGRPC(t, grpcServer{echoes: true})), Service: &long}},
			podIP:   "127.0.0.1", timeout: 10 * time.Second,
		}
		differentAnswers(t, r, "failure "+prefix+long, "failure "+cut(prefix))
	})
	t.Run("redirect that is not followed", func(t *testing.T) {
		const prefix = "Probe terminated redirects, Response body: "
		address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusMultipleChoices)
			_, _ = io.WriteString(w, long)
		})
		differentAnswers(t, get(address, "/"), "warning "+prefix+long[:limit], "warning "+cut(prefix))
	})
}

func cutCharacters(t *testing.T) {
	output := "a" + strings.Repeat("é", 6000) // the limit is in the middle of a character
	r := request{handler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"x"}}}, timeout: time.Minute, output: output}
	differentAnswers(t, r, "success "+output[:10<<10], "success "+output[:10<<10-1])
}

func timeoutTexts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // never accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	hanging := serveHTTP2(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	const ours = `Get "%s": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`
	for name, address := range map[string]string{"handshake": "https://" + listener.Addr().String(), "HTTP/2": hanging} {
		t.Run(name, func(t *testing.T) {
			r := getTLS(address)
			r.timeout = time.Second
			askOurs(r).want(t, "failure", "="+fmt.Sprintf(ours, address))
			got := askKubelet(r)
			got.want(t, "failure", address)
			if !strings.Contains(got.output, "context deadline exceeded") && !strings.Contains(got.output, "request canceled") {
				t.Errorf("kubelet: %s", got.output)
			}
		})
	}
}

func disabledHTTP2(t *testing.T) {
	address := serveHTTP2(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) })
	t.Setenv("DISABLE_HTTP2", "1")
	differentAnswers(t, getTLS(address), "success HTTP/1.1", "success HTTP/2.0")
}

func serveHTTP2(t *testing.T, f http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(f)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func getTLS(address string) request {
	r := get(address, "")
	r.handler.HTTPGet.Scheme = v1.URISchemeHTTPS
	return r
}

func grpcPorts(t *testing.T) {
	for _, port := range []int32{0, 70000} {
		r := request{handler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: port}}, podIP: "127.0.0.1", timeout: time.Second}
		differentAnswers(t, r, fmt.Sprintf(`failure timeout: failed to connect service "127.0.0.1:%d" within 1s: context deadline exceeded`, port),
			fmt.Sprintf("error invalid port number: %d", port))
	}
}

// noHost probes a pod without an IP. The server listens on the loopback address.
func noHost(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := request{handler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt(l.Addr().(*net.TCPAddr).Port)}}, timeout: time.Second}
	differentAnswers(t, r, "success ", "error the probe's target has no host")
}

func grpcZones(t *testing.T) {
	r := request{handler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: 1}}, podIP: "::1%lo", timeout: time.Second}
	differentAnswers(t, r, `failure error: failed to connect service at "[::1%lo]:1": parse "passthrough:///[::1%lo]:1": invalid URL escape "%lo"`,
		`failure timeout: failed to connect service "[::1%lo]:1" within 1s: context deadline exceeded`)
}

// Frames of HTTP/2.
const (
	http2Preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	http2Settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"                 // empty
	http2Data     = "\x00\x00\x05\x00\x01\x00\x00\x00\x01"                 // the frame header of 5 bytes that end a request
	http2Reset    = "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x02" // INTERNAL_ERROR
	http2Serving  = "\x00\x00\x14\x01\x04\x00\x00\x00\x01\x88\x0f\x10\x10application/grpc" +
		"\x00\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x02\x08\x01" +
		"\x00\x00\x0f\x01\x05\x00\x00\x00\x01\x00\x0bgrpc-status\x010"
	http2Estimate = "\x00\x00\x08\x06\x00\x00\x00\x00\x00\x02\x04\x10\x10\x09\x0e\x07\x07" // the PING by which grpc-go estimates the bandwidth
)

// rawGRPC serves connections with f. It returns a request that probes it, and the number of connections.
func rawGRPC(t *testing.T, f func(conn net.Conn)) (r request, conns *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Add(1)
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				f(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	port := listener.Addr().(*net.TCPAddr).Port
	return request{handler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port)}}, podIP: "127.0.0.1", timeout: time.Second}, conns
}

// TestGRPCLibrary tests the behavior of grpc-go that [probe.CompatGRPCLibrary] requires.
func TestGRPCLibrary(t *testing.T) {
	for _, side := range []struct {
		name  string
		ask   func(request) answer
		fixes probe.Compat
	}{{"kubelet", askKubelet, 0}, {"ours", askOurs, 0}, {"ours without the switch", askOurs, probe.CompatGRPCLibrary}} {
		t.Run(side.name+" does not ask a server that sends no settings", func(t *testing.T) {
			received := make(chan string, 1)
			r, _ := rawGRPC(t, func(conn net.Conn) {
				b, _ := io.ReadAll(conn)
				received <- string(b)
			})
			r.fixes = side.fixes
			side.ask(r).want(t, "failure", fmt.Sprintf(`=timeout: failed to connect service "127.0.0.1:%d" within 1s: context deadline exceeded`, r.handler.GRPC.Port))
			rest, ok := strings.CutPrefix(<-received, http2Preface+http2Settings)
			if !ok || strings.Contains(rest, http2Data) {
				t.Errorf("the server has received %q after the settings", rest)
			}
		})
		for name, c := range map[string]struct{ frames, result, output string }{
			"a plain answer":    {http2Serving, "success", "=service healthy"},
			"an unusual answer": {http2Reset, "failure", "=error: health rpc probe failed: rpc error: code = Internal desc = stream terminated by RST_STREAM with error code: INTERNAL_ERROR"},
		} {
			t.Run(side.name+" gets "+name, func(t *testing.T) {
				received := make(chan string, 10)
				r, conns := rawGRPC(t, func(conn net.Conn) { received <- answerByFrames(conn, c.frames) })
				r.fixes = side.fixes
				side.ask(r).want(t, c.result, c.output)
				got := <-received
				if n := strings.Count(got, http2Data); n != 1 || conns.Load() != 1 {
					t.Errorf("%d requests in the first of %d connections", n, conns.Load())
				}
				estimates := c.frames == http2Serving && side.fixes == 0
				if strings.Contains(got, http2Estimate) != estimates {
					t.Errorf("got %q; want an estimate of the bandwidth: %t", got, estimates)
				}
			})
		}
	}
}

// answerByFrames answers a request with frames, and returns the bytes that the client has sent.
func answerByFrames(conn net.Conn, frames string) string {
	_, _ = io.WriteString(conn, http2Settings)
	var received []byte
	for !bytes.Contains(received, []byte(http2Data)) {
		b := make([]byte, 1024)
		n, err := conn.Read(b)
		if err != nil {
			return string(received)
		}
		received = append(received, b[:n]...)
	}
	_, _ = io.WriteString(conn, frames)
	rest, _ := io.ReadAll(conn)
	return string(append(received, rest...))
}

func httpSchemes(t *testing.T) {
	differ(t, `[Warning Unhealthy Liveness probe failed: Get "ftp://127.0.0.1:1": unsupported protocol scheme "ftp"] []`,
		`[] [AddPod of pod: spec.containers[0].livenessProbe: handler "http": scheme: unknown scheme "ftp"; known: HTTP, HTTPS]`,
		func(t *testing.T, r *rig) string {
			r.settle()
			r.setStatus(uid, isRunning(liveness))
			r.add(podWith(liveness, func(_ *v1.Pod, p *v1.Probe) {
				p.ProbeHandler = v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Scheme: "FTP", Port: intstr.FromInt(1)}}
			}))
			return r.complaints()
		})
}

func unknownPorts(t *testing.T) {
	const errored = `[Warning Unhealthy Liveness probe errored and resulted in unknown state: `
	kubelet := errored + `port "nosuch" not found] []`
	ours := errored + `port "nosuch" not found: container "web" has no ports] []`
	if before("1.37") {
		kubelet = errored + `strconv.Atoi: parsing "nosuch": invalid syntax] []`
		ours = kubelet
	}
	differ(t, kubelet, ours,
		func(t *testing.T, r *rig) string {
			r.settle()
			r.setStatus(uid, isRunning(liveness))
			r.add(podWith(liveness, func(_ *v1.Pod, p *v1.Probe) {
				p.ProbeHandler = v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("nosuch")}}
			}))
			return r.complaints()
		})
}

// before reports whether the release of the kubelet is older than release.
func before(release string) bool { return prober.Release < release }

// frozenProbes cancels the context of AddPod, as the kubelet's pod worker does when it begins to terminate
// the pod. The runtime then refuses to run the command.
func frozenProbes(t *testing.T) {
	kubelet := "ready"
	if before("1.37") {
		kubelet = "no result, [Warning Unhealthy Readiness probe errored and resulted in unknown state: context canceled]"
	}
	t.Run("#260 the context of AddPod ends", func(t *testing.T) {
		differ(t, kubelet, "ready", func(t *testing.T, r *rig) string {
			r.settle()
			r.setStatus(uid, isRunning(readiness))
			r.takes = time.Second / 2
			ctx, terminate := context.WithCancel(t.Context())
			r.AddPod(ctx, podWith(readiness, func(_ *v1.Pod, p *v1.Probe) { p.PeriodSeconds, p.InitialDelaySeconds = 10, 10 }))
			synctest.Wait()
			terminate()
			r.wait(15 * time.Second)
			if r.Cached(readiness, first) == "Success" {
				return "ready"
			}
			return fmt.Sprint("no result, ", r.observe().events)
		})
	})
}

// verifiedRedirects redirects a probe to a server with a self-signed certificate.
func verifiedRedirects(t *testing.T) {
	secure := serveHTTP2(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secure") })
	server := httptest.NewUnstartedServer(http.RedirectHandler(secure, http.StatusFound))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.Protocols.SetHTTP1(true)
	server.Start()
	t.Cleanup(server.Close)
	r := get(server.URL, "")
	r.http2 = true
	askOurs(r).want(t, "success", "=secure")
	if before("1.37") { // with HTTP/1.1, which does not verify certificates
		askKubelet(r).want(t, "success", "=secure")
	} else {
		askKubelet(r).want(t, "failure", "tls: failed to verify certificate: x509: certificate signed by unknown authority")
	}
}

func userAgents(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.UserAgent()) })
	v := version.Get()
	differentAnswers(t, get(address, "/"), fmt.Sprintf("success kube-probe/%s.%s", v.Major, v.Minor), "success "+builtin.DefaultUserAgent)
}
