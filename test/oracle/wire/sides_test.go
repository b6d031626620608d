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
	shortDeadline = 300 * time.Millisecond // of probes whose server hangs
)

// question is one attempt of a probe.
type question struct {
	action  v1.ProbeHandler
	podIP   string
	ports   []v1.ContainerPort
	timeout time.Duration
	// The fields that v1.37 has behind feature gates.
	http2, tls bool
	gates      bool // are on
}

// answer is what a side answers, and what the servers saw.
type answer struct {
	result, output, err string
	saw                 string
}

func (a answer) String() string {
	return fmt.Sprintf("%s, output %.600q (%d bytes), error %q\n\tsaw %.3000s", a.result, a.output, len(a.output), a.err, a.saw)
}

// side is one implementation of the handlers.
type side struct {
	name string
	ask  func(question) answer
	// want returns the answer that is expected where the kubelet's is a.
	want func(a answer) answer
}

var (
	kubelet = side{name: "kubelet", ask: askKubelet}
	compat  = side{"with the profile of the release", ours(profile), func(a answer) answer { return a }}
	// The machine of the test has no route to some addresses, which says nothing of them.
	fixed = side{"with all fixes but CompatHostTrouble", ours(probe.CompatHostTrouble | profile&byRelease), withFixes}
)

// profile is the one of the release that the tests are built with.
var profile = func() (c probe.Compat) {
	for _, r := range probe.KubeletReleases() {
		if r.Name == kubeletprobe.Release {
			c = r.Compat
		}
	}
	return c
}()

// byRelease are switches for what our handlers do as the newest release does.
const byRelease = probe.CompatPortNumbers | probe.CompatIgnoreProtocol

// withFixes returns a with the fix of [probe.CompatBodyHangIsError]: the error of a body is a Failure. The text
// names the status, which is not part of the kubelet's answer, and so is not compared.
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

// The kubelet has one prober of each kind.
var (
	httpProber = kubelethttp.New(false)
	tcpProber  = kubelettcp.New()
	grpcProber = kubeletgrpc.New()
	execProber = kubeletexec.New()
)

// askKubelet dispatches as the kubelet's prober does.
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

// ours returns a function that asks our handlers.
func ours(c probe.Compat) func(question) answer {
	registry := func(c probe.Compat) func() *handlers.Registry {
		return sync.OnceValue(func() *handlers.Registry {
			v := version.Get() // which the kubelet's packages put into their user agent
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
	for field, set := range map[string]bool{`"protocol":"HTTP2"`: q.http2, `"mode":"TLS"`: q.tls} { // this version of v1 lacks them
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
	// differs is a name in differences.
	differs string
}

// asker is the action of a probe of a port.
type asker interface {
	ask(port int) question
}

// playOn lets one side probe the server of the situation.
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
	// unknownPort is the error for a name that no port of the container has, to which ours adds the ports.
	unknownPort = regexp.MustCompile(`^(port ".*" not found): container .*$`)
)

// normalised returns a with word instead of port. Both have five bytes, so that a cut stays where it is.
func (a answer) normalised(port int, word string) answer {
	exact := regexp.MustCompile(fmt.Sprintf(`\b%d\b`, port))
	a.output, a.err = exact.ReplaceAllString(a.output, word), exact.ReplaceAllString(a.err, word)
	a.saw = exact.ReplaceAllString(a.saw, word)
	return a
}

const (
	kubeletAgain = 100 // how often the kubelet is asked again when the answers differ
	oursAgain    = 10  // and ours
)

// quiet is held for writing by a situation that has to be alone.
var quiet sync.RWMutex

// judge compares our answers with the kubelet's.
func (s situation) judge(t *testing.T) {
	t.Helper()
	quiet.RLock()
	start := time.Now()
	first := s.playOn(kubelet)
	if time.Since(start) > longDeadline {
		t.Error("the server hangs, and the table does not say so")
	}
	if *verbose {
		t.Logf("kubelet: %v", first)
	}
	got := map[string]answer{compat.name: s.playOn(compat), fixed.name: s.playOn(fixed)}
	quiet.RUnlock()
	for _, our := range []side{compat, fixed} {
		if s.named(got[our.name]) != s.named(our.want(first)) {
			s.judgeAgain(t, our)
		}
	}
}

// judgeAgain asks both sides many times while no other situation runs: the kernel may have ordered
// events differently. The kubelet must show each of our answers.
func (s situation) judgeAgain(t *testing.T, our side) {
	t.Helper()
	quiet.Lock()
	defer quiet.Unlock()
	want, asked := make(map[answer]bool), 0
	limit, start := kubeletAgain, time.Now()
	s.playOn(kubelet)
	if time.Since(start) > shortDeadline/2 { // where it hangs, chance is seldom
		limit /= 5
	}
	for range oursAgain {
		got := s.named(s.playOn(our))
		if s.differs == "early answer" && noticed.MatchString(got.output) {
			continue
		}
		for ; !want[got] && asked < limit; asked++ {
			want[s.named(our.want(s.playOn(kubelet)))] = true
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

// named returns a without what is a named difference.
func (s situation) named(a answer) answer {
	a.output = probe.Cut(a.output)
	if change, ok := differences[s.differs]; ok {
		a = change(a)
	} else if s.differs != "" {
		panic("unknown difference " + s.differs)
	}
	return a
}

// differences change the answer of either side to one that is the same.
var differences = map[string]func(answer) answer{
	"Texts of HTTPS time-outs": withoutTimeouts,
	// The same, and a matter of chance on both sides: net/http sends headers in any order, and how often it connects
	// again depends on its speed.
	"HTTP/2 without TLS": func(a answer) answer {
		a.saw = headerFields.ReplaceAllStringFunc(a.saw, func(list string) string {
			fields := strings.Split(list[1:len(list)-1], `" "`)
			slices.Sort(fields)
			return strings.Join(fields, " ")
		})
		return withoutTimeouts(compactConnections(a))
	},
	// Not a difference, but a matter of chance on both sides: which part of net/http notices first
	// that a server has closed before the request, and whether that was sent.
	"early close": func(a answer) answer {
		a.output, a.err, a.saw = earlyClose.ReplaceAllString(a.output, "CLOSED"), earlyClose.ReplaceAllString(a.err, "CLOSED"), ""
		return a
	},
	// A reset comes before or after the client has seen the connection.
	"reset at once": func(a answer) answer {
		if a.result == "success" || strings.HasSuffix(a.output, "connect: connection reset by peer") {
			return answer{result: "either"}
		}
		return a
	},
	// A server that is ready and gone: grpc-go calls, or connects again and again until the deadline, as its
	// goroutines run.
	"ready and gone": func(a answer) answer {
		if a.result == "failure" && gone.MatchString(a.output) {
			return answer{result: "failure", output: "GONE"}
		}
		return a
	},
	// A server that refuses the stream and closes: the second call of grpc-go is sent, or goes to another
	// connection, or fails without being sent.
	"refused and gone": func(a answer) answer {
		if a.result == "success" || gone.MatchString(a.output) {
			return answer{result: "either"}
		}
		return a
	},
	// How often grpc-go connects again to a server that closes after its settings depends on its speed.
	"reconnects": compactConnections,
	// A client that closes while it has not read everything resets the connection, and the server may lose what was
	// sent last.
	"unread": func(a answer) answer { a.saw = lastFrames.ReplaceAllString(a.saw, ""); return a },
	// The same as an early close, for a server that has answered before the request: mostly its answer is read, but
	// net/http may notice it first, see noticed.
	"early answer": func(a answer) answer {
		// The prefix tells that a part of the request was written before the answer was noticed.
		a.output, a.saw = strings.Replace(a.output, "net/http: HTTP/1.x transport connection broken: ", "", 1), ""
		return a
	},
	"A cut falls between characters": func(a answer) answer {
		a.output = a.output[:min(len(a.output), probe.MaxOutput-3)]
		return a
	},
}

// compactConnections leaves out connections that are equal to others.
func compactConnections(a answer) answer {
	lines := strings.Split(a.saw, "\n\tand ")
	slices.Sort(lines)
	a.saw = strings.Join(slices.Compact(lines), "\n\tand ")
	return a
}

// withoutTimeouts replaces the texts of time-outs.
func withoutTimeouts(a answer) answer {
	a.saw = strings.ReplaceAll(a.saw, " (left open)", "") // the kubelet's handshake goes on for ten seconds
	a.output, a.err = httpsTimeout.ReplaceAllString(a.output, "TIMED OUT"), httpsTimeout.ReplaceAllString(a.err, "TIMED OUT")
	return a
}

// headerFields are the headers of a request.
var headerFields = regexp.MustCompile(`"header field [^\]]*`)

var earlyClose = regexp.MustCompile(`(EOF|http: server closed idle connection|readLoopPeekFailLocked: .*|\w+ tcp .*: (broken pipe|connection reset by peer))$`)

// noticed matches what net/http returns if it notices an answer, or a close, before it has sent the
// request.
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
			t.Errorf("two situations %q", s.name)
		}
		names[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.judge(t)
		})
	}
}
