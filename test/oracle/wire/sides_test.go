package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/version"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
	kubeletprobe "github.com/daeace23/prober/test/oracle/probe"
	kubeletexec "github.com/daeace23/prober/test/oracle/probe/exec"
	kubeletgrpc "github.com/daeace23/prober/test/oracle/probe/grpc"
	kubelethttp "github.com/daeace23/prober/test/oracle/probe/http"
	kubelettcp "github.com/daeace23/prober/test/oracle/probe/tcp"
)

const (
	longDeadline  = 10 * time.Second
	shortDeadline = 300 * time.Millisecond // for probes whose server hangs
)

// question is one attempt of a probe.
type question struct {
	action  v1.ProbeHandler
	podIP   string
	ports   []v1.ContainerPort
	timeout time.Duration
	// Fields that v1.37 has behind feature gates.
	http2, tls bool
	gates      bool // whether the gates are on
}

// answer is the answer of a side, and the observations of the servers.
type answer struct {
	result, output, err string
	saw                 string // observations of the servers
}

func (a answer) String() string {
	return fmt.Sprintf("%s, output %.600q (%d bytes), error %q\n\tsaw %.3000s", a.result, a.output, len(a.output), a.err, a.saw)
}

// side is one implementation of the handlers.
type side struct {
	name string
	ask  func(question) answer
	// want returns the expected answer, if the kubelet's is a.
	want func(a answer) answer
}

var (
	kubelet = side{name: "kubelet", ask: askKubelet}
	compat  = side{"with the profile of the release", ours(profile), func(a answer) answer { return a }}
	// CompatHostTrouble is set because the machine of the test has no route to some addresses, which would
	// not count as a failure otherwise.
	fixed = side{"with all fixes but CompatHostTrouble", ours(probe.CompatHostTrouble | profile&byRelease), withFixes}
)

// profile is the profile of the release that the tests are built with.
var profile = func() (c probe.Compat) {
	for _, r := range probe.KubeletReleases() {
		if r.Name == kubeletprobe.Release {
			c = r.Compat
		}
	}
	return c
}()

// byRelease are switches of behavior that differs between releases. Without them, our handlers behave like
// the newest release.
const byRelease = probe.CompatPortNumbers | probe.CompatIgnoreProtocol

// withFixes returns a as it is without [probe.CompatBodyHangIsError]: an error while reading the body is a
// Failure. Our output also has the status code, which the kubelet's answer does not have, so it is not
// compared.
func withFixes(a answer) answer {
	if a.result == "failure" && a.err != "" {
		if strings.Contains(a.err, "malformed MIME") { // a trailer
			a.err = "malformed trailer"
		}
		a.output, a.err = "then failed to read the body: "+a.err, ""
	}
	return a
}

var bodyFailure = regexp.MustCompile(`^HTTP probe got statuscode: -?\d+, then`)

// The kubelet has one prober for each kind of handler.
var (
	httpProber = kubelethttp.New(false)
	tcpProber  = kubelettcp.New()
	grpcProber = kubeletgrpc.New()
	execProber = kubeletexec.New()
)

// askKubelet calls the kubelet's handler for q, as the kubelet's prober does.
func askKubelet(q question) answer {
	result, output, err := kubeletprobe.Unknown, "", error(nil)
	container := &v1.Container{Name: "web", Ports: q.ports}
	switch h := q.action; {
	case h.Exec != nil:
		if len(h.Exec.Command) == 0 {
			return answer{err: "no command"}
		}
		result, output, err = execProber.Probe(&runtimeCommand{command: h.Exec.Command})
	case h.HTTPGet != nil:
		req, bad := kubelethttp.NewRequestForHTTPGetAction(h.HTTPGet, container, q.podIP, "probe")
		if bad != nil {
			return answer{result: "unknown", err: bad.Error()}
		}
		if q.http2 && q.gates {
			result, output, err = httpProber.ProbeH2C(req, q.timeout)
		} else {
			result, output, err = httpProber.Probe(req, q.timeout)
		}
	case h.TCPSocket != nil:
		port, bad := kubeletprobe.ResolveContainerPort(h.TCPSocket.Port, container)
		if bad != nil {
			return answer{result: "unknown", err: bad.Error()}
		}
		host := h.TCPSocket.Host
		if host == "" {
			host = q.podIP
		}
		result, output, err = tcpProber.Probe(host, port, q.timeout)
	default:
		service := ""
		if h.GRPC.Service != nil {
			service = *h.GRPC.Service
		}
		result, output, err = grpcProber.Probe(q.podIP, service, int(h.GRPC.Port), q.timeout, kubeletgrpc.ProbeOptions{UseTLS: q.tls && q.gates})
	}
	a := answer{result: string(result), output: output}
	if err != nil {
		a.err = err.Error()
	}
	return a
}

// ours returns a function that calls our handlers with the switches c.
func ours(c probe.Compat) func(question) answer {
	registry := func(c probe.Compat) func() *handlers.Registry {
		return sync.OnceValue(func() *handlers.Registry {
			v := version.Get() // the kubelet's packages use it in their user agent
			registry := new(handlers.Registry)
			if err := builtin.Register(registry, builtin.Config{
				Runner: &builtin.HostRunner{}, Compat: c, UserAgent: fmt.Sprintf("kube-probe/%s.%s", v.Major, v.Minor),
			}); err != nil {
				panic(err)
			}
			return registry
		})
	}
	usual, gates := registry(c), registry(c&^probe.CompatIgnoreProtocol)
	return func(q question) answer {
		registry := usual
		if q.gates {
			registry = gates
		}
		h, err := prepare(registry(), q)
		if err != nil {
			return answer{result: "unknown", err: err.Error()}
		}
		return attempt(h, q)
	}
}

// prepare returns the handler of one probe.
func prepare(registry *handlers.Registry, q question) (probe.Handler, error) {
	name, action := "grpc", any(q.action.GRPC)
	switch h := q.action; {
	case h.Exec != nil:
		name, action = "exec", h.Exec
	case h.HTTPGet != nil:
		name, action = "http", h.HTTPGet
	case h.TCPSocket != nil:
		name, action = "tcp", h.TCPSocket
	}
	config, err := json.Marshal(action)
	if err != nil {
		return nil, err
	}
	for field, set := range map[string]bool{`"protocol":"HTTP2"`: q.http2, `"mode":"TLS"`: q.tls} { // this version of v1 does not have them
		if set {
			config = append(append(config[:len(config)-1], ","+field...), '}')
		}
	}
	return registry.Prepare(name, config, probe.Target{})
}

// attempt makes one attempt.
func attempt(h probe.Handler, q question) answer {
	ctx, cancel := context.WithTimeout(context.Background(), q.timeout)
	defer cancel()
	c := &probe.Container{Name: "web"}
	for _, p := range q.ports {
		c.Ports = append(c.Ports, probe.Port{Name: p.Name, Number: int(p.ContainerPort), Protocol: string(p.Protocol)})
	}
	outcome, err := worker.Attempt(ctx, h, probe.Request{
		Spec: probe.Spec{Timeout: q.timeout}, PodIP: q.podIP, Target: probe.Target{Host: q.podIP},
		Pod: new(probe.Pod), Container: c, ContainerID: "test://c",
	})
	a := answer{result: outcome.Result.String(), output: bodyFailure.ReplaceAllString(outcome.Output, "then")}
	if err != nil {
		a.err = err.Error()
	}
	return a
}

// situation is a server and a probe of it.
type situation struct {
	name   string
	server server
	probe  asker
	// differs is a name in differences, or "".
	differs string
}

// asker returns the question of a probe for a port.
type asker interface {
	ask(port int) question
}

// playOn starts the server of the situation, and probes it with one side.
func (s situation) playOn(side side) answer {
	q := s.probe.ask(1)
	var main, other *running
	if s.server.scripts != nil {
		main = s.server.start(s.server.scripts)
		if s.server.other != nil {
			second := s.server
			second.tls = nil
			other = second.start(s.server.other)
			other.otherPort, main.otherPort = main.port, other.port
		}
		q = s.probe.ask(main.port)
	}
	if q.timeout == 0 {
		q.timeout = longDeadline
		if s.server.hangs() {
			q.timeout = shortDeadline
		}
	}
	a := side.ask(q)
	if main != nil {
		a.saw = strings.Join(main.stop(), "\n\tand ")
		if other != nil {
			a.saw += "\n\tother " + strings.Join(other.stop(), "\n\tand ")
		}
		a = a.normalised(main.port, "_PORT")
		if other != nil {
			a = a.normalised(other.port, "OTHER")
		}
	}
	a.output, a.err = localPort.ReplaceAllString(a.output, ":LOCAL->"), localPort.ReplaceAllString(a.err, ":LOCAL->")
	a.err = unknownPort.ReplaceAllString(a.err, "$1")
	return a
}

var (
	localPort = regexp.MustCompile(`:\d+->`)
	// unknownPort is the error for an unknown port name. Ours also lists the ports of the container.
	unknownPort = regexp.MustCompile(`^(port ".*" not found): container .*$`)
)

// normalised returns a with word instead of port. Both have five bytes, so truncated output keeps its length.
func (a answer) normalised(port int, word string) answer {
	exact := regexp.MustCompile(fmt.Sprintf(`\b%d\b`, port))
	a.output, a.err = exact.ReplaceAllString(a.output, word), exact.ReplaceAllString(a.err, word)
	a.saw = exact.ReplaceAllString(a.saw, word)
	return a
}

const (
	kubeletAgain = 100 // how often the kubelet's side runs again if the answers differ
	oursAgain    = 10  // how often our side runs again
)

// quiet is locked for writing while a situation runs alone.
var quiet sync.RWMutex

// judge compares our answers with the kubelet's.
func (s situation) judge(t *testing.T) {
	t.Helper()
	quiet.RLock()
	start := time.Now()
	first := s.playOn(kubelet)
	if time.Since(start) > longDeadline {
		t.Error("the server hangs, but the table does not say so")
	}
	if *verbose {
		t.Logf("kubelet: %v", first)
	}
	got := map[string]answer{compat.name: s.playOn(compat), fixed.name: s.playOn(fixed)}
	quiet.RUnlock()
	for _, our := range []side{compat, fixed} {
		if s.normalize(got[our.name]) != s.normalize(our.want(first)) {
			s.judgeAgain(t, our)
		}
	}
}

// judgeAgain runs both sides many times while no other situation runs, because the kernel may have ordered
// events differently. Each of our answers must be one of the kubelet's.
func (s situation) judgeAgain(t *testing.T, our side) {
	t.Helper()
	quiet.Lock()
	defer quiet.Unlock()
	want, asked := make(map[answer]bool), 0
	limit, start := kubeletAgain, time.Now()
	s.playOn(kubelet)
	if time.Since(start) > shortDeadline/2 { // answers of servers that hang are seldom random
		limit /= 5
	}
	for range oursAgain {
		got := s.normalize(s.playOn(our))
		if s.differs == "early answer" && noticed.MatchString(got.output) {
			continue
		}
		for ; !want[got] && asked < limit; asked++ {
			want[s.normalize(our.want(s.playOn(kubelet)))] = true
		}
		if !want[got] {
			t.Errorf("%s:\n\t%v", our.name, got)
			for a := range want {
				t.Logf("the kubelet:\n\t%v", a)
			}
			return
		}
	}
}

func (s situation) isGRPC() bool { return s.probe.ask(1).action.GRPC != nil }

// normalize removes the known difference of the situation from a.
func (s situation) normalize(a answer) answer {
	a.output = probe.Cut(a.output)
	if change, ok := differences[s.differs]; ok {
		a = change(a)
	} else if s.differs != "" {
		panic("unknown difference " + s.differs)
	}
	return a
}

// differences has functions that make answers of both sides equal, by the name of a known difference.
var differences = map[string]func(answer) answer{
	"Texts of HTTPS time-outs": withoutTimeouts,
	// Also, some things are random on both sides: net/http sends headers in any order, and the number of its
	// reconnections depends on its speed.
	"HTTP/2 without TLS": func(a answer) answer {
		a.saw = headerFields.ReplaceAllStringFunc(a.saw, func(list string) string {
			fields := strings.Split(list[1:len(list)-1], `" "`)
			slices.Sort(fields)
			return strings.Join(fields, " ")
		})
		return withoutTimeouts(compactConnections(a))
	},
	// Not a difference, but random on both sides: which part of net/http first notices that a server has
	// closed the connection before the request, and whether the request was sent.
	"early close": func(a answer) answer {
		a.output, a.err, a.saw = earlyClose.ReplaceAllString(a.output, "CLOSED"), earlyClose.ReplaceAllString(a.err, "CLOSED"), ""
		return a
	},
	// A reset may come before or after the client has connected.
	"reset at once": func(a answer) answer {
		if a.result == "success" || strings.HasSuffix(a.output, "connect: connection reset by peer") {
			return answer{result: "either"}
		}
		return a
	},
	// A server is ready, and closes the connection: grpc-go calls it, or reconnects until the deadline. The
	// order of its goroutines decides.
	"ready and gone": func(a answer) answer {
		if a.result == "failure" && gone.MatchString(a.output) {
			return answer{result: "failure", output: "GONE"}
		}
		return a
	},
	// A server refuses the stream and closes the connection: grpc-go may send the second call on it or on
	// another connection, or the call may fail without being sent.
	"refused and gone": func(a answer) answer {
		if a.result == "success" || gone.MatchString(a.output) {
			return answer{result: "either"}
		}
		return a
	},
	// The number of reconnections to a server that closes after its settings depends on the speed of grpc-go.
	"reconnects": compactConnections,
	// A client that closes a connection with unread data resets it, and the server may lose the last frames.
	"unread": func(a answer) answer { a.saw = lastFrames.ReplaceAllString(a.saw, ""); return a },
	// Like an early close, for a server that answers before the request: mostly its answer is read, but
	// net/http may notice it first, see noticed.
	"early answer": func(a answer) answer {
		// The prefix means that a part of the request was written before net/http noticed the answer.
		a.output, a.saw = strings.Replace(a.output, "net/http: HTTP/1.x transport connection broken: ", "", 1), ""
		return a
	},
	"A cut falls between characters": func(a answer) answer {
		a.output = a.output[:min(len(a.output), probe.MaxOutput-3)]
		return a
	},
}

// compactConnections omits duplicates of equal connections.
func compactConnections(a answer) answer {
	lines := strings.Split(a.saw, "\n\tand ")
	slices.Sort(lines)
	a.saw = strings.Join(slices.Compact(lines), "\n\tand ")
	return a
}

// withoutTimeouts replaces the texts of timeouts.
func withoutTimeouts(a answer) answer {
	a.saw = strings.ReplaceAll(a.saw, " (left open)", "") // the kubelet's handshake continues for ten seconds
	a.output, a.err = httpsTimeout.ReplaceAllString(a.output, "TIMED OUT"), httpsTimeout.ReplaceAllString(a.err, "TIMED OUT")
	return a
}

// headerFields matches the headers of a request.
var headerFields = regexp.MustCompile(`"header field [^\]]*`)

var earlyClose = regexp.MustCompile(`(EOF|http: server closed idle connection|readLoopPeekFailLocked: .*|\w+ tcp .*: (broken pipe|connection reset by peer))$`)

// noticed matches the error of net/http if it notices an answer, or a closed connection, before it has sent
// the request.
var noticed = regexp.MustCompile(`(http: server closed idle connection|readLoopPeekFailLocked: .*)$`)

var lastFrames = regexp.MustCompile(`; (RST_STREAM|GOAWAY) .*`)

var gone = regexp.MustCompile(`^timeout: failed to connect|^error: health rpc probe failed: rpc error: code = Unavailable|^timeout: health rpc did not complete`)

var httpsTimeout = regexp.MustCompile(`(context deadline exceeded|net/http: request canceled|net/http: TLS handshake timeout).*$`)

// judgeAll judges the situations of a table.
func judgeAll(t *testing.T, table []situation) {
	t.Helper()
	names := make(map[string]bool)
	for _, s := range table {
		if names[s.name] {
			t.Errorf("two situations have the name %q", s.name)
		}
		names[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.judge(t)
		})
	}
}
