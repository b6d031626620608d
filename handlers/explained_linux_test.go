package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// attempt has the results of an attempt.
type attempt struct {
	out   probe.Outcome
	err   error
	trace []probe.TraceEvent
	took  time.Duration
}

// waiting returns the field "waiting" of the attempt's details.
func (a *attempt) waiting() string {
	var details struct{ Waiting string }
	_ = json.Unmarshal([]byte(a.out.Details), &details)
	return details.Waiting
}

// try makes an attempt.
func try(ctx context.Context, h probe.Handler, req probe.Request) (a attempt) {
	var mu sync.Mutex
	req.Debug = true
	req.Trace = func(e probe.TraceEvent) {
		mu.Lock()
		defer mu.Unlock()
		a.trace = append(a.trace, e)
	}
	start := time.Now()
	a.out, a.err = probe.Call(ctx, h, req)
	mu.Lock()
	defer mu.Unlock()
	a.took = time.Since(start)
	a.trace = slices.Clip(a.trace)
	return a
}

var (
	spans      = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s|m|h)(\d+(\.\d+)?(ms|s|m))*\b`)
	byteCounts = regexp.MustCompile(`(\d+) bytes? sent, (\d+) received`)
	noneSent   = regexp.MustCompile(`\b0 bytes sent`)
	quoted     = regexp.MustCompile(`"(\\.|[^"\\])+"`)
	nothing    = regexp.MustCompile(`(^|[ (;])[:;,]|[:;,]$|: ?;|""|''|\(\)|://[?/:]|  |^ | $|\b0s\b`)
	jargon     = regexp.MustCompile(`%!|<nil>|2562047h|0001-01-01|context deadline exceeded|context canceled|(^|[^0-9]: )i/o timeout|use of closed|operation was canceled|0x[0-9a-f]{6}`)
	bare       = regexp.MustCompile(`^(context deadline exceeded|context canceled|i/o timeout|EOF|<nil>)?$`)
)

// isLine returns an error unless text is one readable line of bounded length.
func isLine(text string) error {
	switch {
	case !utf8.ValidString(text):
		return errors.New("is not UTF-8")
	case len(text) > 4<<10:
		return fmt.Errorf("has %d bytes", len(text))
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("is not one line of characters that are printable")
	}
	return nil
}

// isExplanation returns an error unless text is a valid explanation of an attempt that took took.
func isExplanation(text string, took time.Duration) error {
	if err := isLine(text); err != nil {
		return err
	}
	if found := jargon.FindString(text); found != "" {
		return fmt.Errorf("has %q, which tells nothing", found)
	}
	if found := nothing.FindString(quoted.ReplaceAllString(text, `"…"`)); found != "" {
		return fmt.Errorf("has %q, where something is missing", found)
	}
	for _, span := range spans.FindAllString(quoted.ReplaceAllString(text, `"…"`), -1) {
		if d, err := time.ParseDuration(span); err != nil || d < 0 || d > took+time.Millisecond { // rounded
			return fmt.Errorf("says %s of an attempt that took %v", span, took)
		}
	}
	if strings.Contains(text, "handshake") && noneSent.MatchString(text) {
		return errors.New("counts no bytes of a handshake")
	}
	return nil
}

// side is a handler with a server that it probes.
type side struct {
	name    string
	handler probe.Handler
	serve   func(t *testing.T, p *peer)
	inside  bool              // the plugin counts bytes inside TLS
	parts   map[string]string // pattern of the explanation, by the unfinished part of the exchange
	deaf    string            // the phase in which an attempt waits if the server reads nothing; "" if it sends too little
	redials bool              // a failed connection does not end the attempt
	second  bool              // the second connection is checked
}

// probes makes the handlers.
type probes struct {
	builtin builtin.Config
	plugins map[string]probe.Preparer
}

func newProbes(t *testing.T, cache string, dial func(ctx context.Context, network, address string) (net.Conn, error), lookUp *net.Resolver) *probes {
	t.Helper()
	p := &probes{builtin: builtin.Config{DialContext: dial, Runner: new(builtin.HostRunner)}, plugins: make(map[string]probe.Preparer)}
	cfg := wasm.Config{CacheDir: cache, DialContext: dial, Interpreter: interpreter}
	if lookUp != nil {
		p.builtin.DialContext = (&net.Dialer{Resolver: lookUp}).DialContext
		cfg.LookupIP = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return lookUp.LookupNetIP(ctx, "ip", host)
		}
	}
	host, err := wasm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	found, err := shipped.Plugins()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Manifest.Name != "expect" && f.Manifest.Name != "httpcheck" {
			continue
		}
		h, err := host.Load(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		p.plugins[f.Manifest.Name] = h
	}
	return p
}

// bound binds handler to config, for the target of each request.
func bound(t *testing.T, handler probe.Preparer, config string) probe.Handler {
	t.Helper()
	h, err := handler.Prepare([]byte(config), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// long does not fit into the buffers of a connection whose peer does not read.
var long = strings.Repeat("x", 40<<10)

// sides returns all handlers with their servers.
func (p *probes) sides(t *testing.T) []side {
	t.Helper()
	web, h2, lines := serverTLS("http/1.1"), serverTLS("h2"), serverTLS()
	const talk = `"queryResponse":[{"expect":"^220 "},{"send":"EHLO"},{"expect":"^250 "}]`
	const unverified = `"tlsConfig":{"insecureSkipVerify":true},`
	const restarted = unverified + `"queryResponse":[{"expect":"^220 "},{"send":"EHLO"},{"expect":"^250 ","starttls":true},{"expect":"^220 "},{"send":"EHLO"},{"expect":"^250 "}]`
	header := `"httpHeaders":[{"name":"X-Long","value":"` + long + `"}]`
	library := p.builtin
	library.Compat = probe.CompatGRPCLibrary
	http := map[string]string{
		"tls":  `^tls tcp AT: .*; the handshake is not finished; connected after [^;]*; [1-9]\d* bytes sent, \d+ received`,
		"http": `^http tcp AT: .*; (no response headers|the response headers are not finished); connected after [^;]*; [1-9]\d* bytes sent, \d+ received`,
		"body": `^body tcp AT: .*; status 200; the body is not finished; connected after [^;]*; [1-9]\d* bytes sent, [1-9]\d* received`,
	}
	health := map[string]string{
		"tls":              `^tls tcp AT: .*; the handshake (is not finished|has failed: [a-z].*; waits before the next dial); connected after .*; [1-9]\d* bytes sent, \d+ received`,
		"settings":         `^http2 tcp AT: .*; no HTTP/2 settings from the server(: [a-z].*; waits before the next dial)?; connected after `,
		"call":             `^grpc tcp AT: .*; no answer to grpc.health.v1.Health/Check; connected after `,
		"settings or call": `^(http2|grpc) tcp AT: .*; no (answer to grpc.health.v1.Health/Check|HTTP/2 settings from the server(: [a-z].*; waits before the next dial)?); connected after `,
	}
	read := func(network string) string {
		return `^read ` + network + ` AT: .*; connected after [^;]*; \d+ bytes sent, \d+ received`
	}
	handshake := `^starttls tcp AT: .*; the TLS handshake is not finished; connected after [^;]*; [1-9]\d* bytes sent, \d+ received(; 5 bytes sent, \d+ received before it)?(; before: .*)?$`
	checks := func(scheme string) map[string]string {
		return map[string]string{
			"tls":  `^http GET ` + scheme + `://AT/x: .*; the TLS handshake with AT is not finished; connected after [^;]*; [1-9]\d* bytes sent, \d+ received$`,
			"http": `^http GET ` + scheme + `://AT/x: .*; (no response headers|the response headers are not finished) from AT; connected after [^;]*; [1-9]\d* bytes sent, \d+ received$`,
			"body": `^read ` + scheme + `://AT/x: .*; status 200; the body is not finished; \d+ bytes? of it received; `,
		}
	}
	const unsent = `^http tcp AT: .*; the request is not sent: the server does not read all of it; connected after `
	return []side{
		{name: "http", handler: bound(t, builtin.NewHTTP(p.builtin), `{"path":"/x",`+header+`}`), serve: func(t *testing.T, p *peer) { serveWeb(t, p, nil) }, parts: http, deaf: unsent},
		{name: "http after a redirect", handler: bound(t, builtin.NewHTTP(p.builtin), `{"path":"/moved"}`), serve: func(t *testing.T, p *peer) { serveWeb(t, p, nil) }, parts: http, second: true},
		{name: "https", handler: bound(t, builtin.NewHTTP(p.builtin), `{"path":"/x","scheme":"HTTPS"}`), serve: func(t *testing.T, p *peer) { serveWeb(t, p, web) }, parts: http, deaf: http["tls"]},
		{name: "https over HTTP/2", handler: bound(t, builtin.NewHTTP(p.builtin), `{"path":"/x","scheme":"HTTPS"}`), serve: func(t *testing.T, p *peer) { serveWeb(t, p, h2) }, parts: map[string]string{
			"tls": http["tls"], "http": http["http"], "body": `^(http|body) tcp AT: .*`,
		}},
		{name: "tcp", handler: bound(t, builtin.NewTCP(p.builtin), `{}`), serve: func(t *testing.T, p *peer) { serveLines(t, p, nil, false) }},
		{name: "grpc", handler: bound(t, builtin.NewGRPC(p.builtin), `{}`), serve: func(t *testing.T, p *peer) { serveHealth(t, p, nil) }, parts: health, redials: true, deaf: health["settings"]},
		{name: "grpc over TLS", handler: bound(t, builtin.NewGRPC(p.builtin), `{"mode":"TLS"}`), serve: func(t *testing.T, p *peer) { serveHealth(t, p, h2) }, parts: health, redials: true, deaf: health["tls"]},
		{name: "grpc-go", handler: bound(t, builtin.NewGRPC(library), `{}`), serve: func(t *testing.T, p *peer) { serveHealth(t, p, nil) }, parts: health, redials: true},
		{name: "grpc-go over TLS", handler: bound(t, builtin.NewGRPC(library), `{"mode":"TLS"}`), serve: func(t *testing.T, p *peer) { serveHealth(t, p, h2) }, parts: health, redials: true},
		{name: "plugin", handler: bound(t, p.plugins["expect"], `{`+talk+`}`), serve: func(t *testing.T, p *peer) { serveLines(t, p, nil, false) }, parts: map[string]string{
			"greeting": read("tcp"), "answer": read("tcp"),
		}},
		{name: "plugin that sends much", handler: bound(t, p.plugins["expect"], `{"queryResponse":[{"send":"`+long+`"}]}`), serve: func(t *testing.T, p *peer) { serveLines(t, p, nil, false) },
			deaf: `^write tcp AT: .*; a write of \d+ bytes is not finished; connected after `},
		{name: "plugin over TLS", handler: bound(t, p.plugins["expect"], `{"tls":true,`+unverified+talk+`}`), serve: func(t *testing.T, p *peer) { serveLines(t, p, lines, false) }, inside: true, parts: map[string]string{
			"tls": handshake, "greeting": read("tls"), "answer": read("tls"),
		}, deaf: handshake},
		{name: "plugin with STARTTLS", handler: bound(t, p.plugins["expect"], `{`+restarted+`}`), serve: func(t *testing.T, p *peer) { serveLines(t, p, lines, true) }, inside: true, parts: map[string]string{
			"greeting before TLS": read("tcp"), "answer before TLS": read("tcp"), "tls": handshake, "greeting": read("tls"), "answer": read("tls"),
		}},
		{name: "plugin over HTTP", handler: bound(t, p.plugins["httpcheck"], `{"url":"http:///x"}`), serve: func(t *testing.T, p *peer) { serveWeb(t, p, nil) }, parts: checks("http")},
		{name: "plugin over HTTPS", handler: bound(t, p.plugins["httpcheck"], `{"url":"https:///x",`+unverified[:len(unverified)-1]+`}`), serve: func(t *testing.T, p *peer) { serveWeb(t, p, web) }, parts: checks("https"), deaf: checks("https")["tls"]},
	}
}

// timeouts are for attempts at servers that never answer. A slow machine may need a longer one to reach
// the part of the exchange at which the server stops answering.
var timeouts = []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second, 8 * time.Second, 30 * time.Second}

// crowd runs subtests that wait most of the time. More of them run concurrently than -parallel allows.
type crowd struct {
	t       *testing.T
	places  chan struct{}
	running sync.WaitGroup
}

func newCrowd(t *testing.T) *crowd {
	places := 24
	if interpreter {
		places = 4
	}
	return &crowd{t: t, places: make(chan struct{}, places)}
}

func (c *crowd) run(name string, test func(t *testing.T)) {
	c.places <- struct{}{}
	c.running.Go(func() {
		defer func() { <-c.places }()
		c.t.Run(name, test)
	})
}

// check checks all texts of an attempt at a peer.
func (s *side) check(t *testing.T, p *peer, a *attempt) {
	t.Helper()
	bad := func(what, text string, err error) {
		t.Errorf("%s %q %v\nerror %v; output %q; details %s; trace %q", what, text, err, a.err, a.out.Output, a.out.Details, a.trace)
	}
	if a.err != nil {
		if err := isLine(a.err.Error()); err != nil || a.err.Error() == "" {
			bad("the error", a.err.Error(), err)
		}
	}
	if a.out.Result != probe.Success && s.name != "exec" { // the output of a Success comes from the server or the command
		if err := isLine(a.out.Output); err != nil {
			bad("the output", a.out.Output, err)
		}
	}
	if a.out.Result == probe.Failure && s.name != "exec" && bare.MatchString(a.out.Output) {
		bad("the output", a.out.Output, errors.New("tells nothing"))
	}
	waits := 0
	for i, e := range a.trace {
		text := strings.TrimPrefix(e.Name+": "+e.Detail, ": ")
		if e.Detail == "" {
			text = e.Name
		}
		if err := isExplanation(text, a.took); err != nil {
			bad("the event", text, err)
		}
		if e.Name == "" || e.Type == "" || e.Duration < 0 || e.Duration > a.took {
			bad("the event", fmt.Sprintf("%+v", e), fmt.Errorf("is of an attempt that took %v", a.took))
		}
		if a.out.Result == probe.Success && strings.Contains(text, "not finished") {
			bad("the event", text, errors.New("is of a success"))
		}
		if e.Type == probe.TraceWait {
			if waits++; i < len(a.trace)-1 {
				bad("the event", text, errors.New("is not the last one"))
			}
		}
		if _, err := json.Marshal(e); err != nil {
			bad("the event", text, err)
		}
	}
	waiting := a.waiting()
	if (waiting != "") != (waits == 1) {
		bad("the details", waiting, fmt.Errorf("beside %d events", waits))
	}
	if waiting == "" {
		return
	}
	if err := isExplanation(waiting, a.took); err != nil {
		bad("the wait", waiting, err)
	}
	last := a.trace[len(a.trace)-1]
	if !strings.HasPrefix(waiting, last.Name+" ") && !strings.HasPrefix(waiting, last.Name+": ") {
		bad("the wait", waiting, fmt.Errorf("is not of the last event"))
	}
	if p == nil || last.Name == "guest" { // has no address
		return
	}
	if !strings.Contains(waiting, "127.0.0.1:"+strconv.Itoa(p.port)) {
		bad("the wait", waiting, errors.New("names no place"))
	}
	if _, err := s.checkBytes(p, waiting); err != nil {
		bad("the wait", waiting, err)
	}
}

// farewell is how many bytes a client may send after the end of an attempt, such as TLS alerts and HTTP/2
// resets.
const farewell = 256

// checkBytes compares the numbers of bytes in a text with the counts of the peer. lags reports whether
// the attempt has sent more than the text says, which is possible if it ended during a write.
func (s *side) checkBytes(p *peer, waiting string) (lags bool, err error) {
	said, got, ok := p.counts()
	counts := byteCounts.FindStringSubmatch(waiting)
	if counts == nil || !ok {
		return false, nil
	}
	sent, _ := strconv.ParseInt(counts[1], 10, 64)
	received, _ := strconv.ParseInt(counts[2], 10, 64)
	switch inside := s.inside && !strings.Contains(waiting, "handshake"); {
	case received > said:
		return false, fmt.Errorf("has received more than the %d bytes that were sent", said)
	default:
		return !inside && sent+farewell < got, nil
	}
}

// phaseOf maps the first word of a wait to the phases that may be unfinished.
var phaseOf = map[string][]string{
	"dns": {"dns"}, "dial": {"connect"}, "tls": {"tls"}, "http": {"first byte", "headers"}, "body": {"body"}, "http2": {"settings"}, "grpc": {"call"},
}

// checkPhase checks that the unfinished phase matches the wait of the attempt.
func checkPhase(t *testing.T, a *attempt) {
	t.Helper()
	first, _, _ := strings.Cut(a.waiting(), " ")
	wanted, ok := phaseOf[first]
	if !ok || strings.Contains(a.waiting(), "waits before the next dial") || strings.Contains(a.waiting(), "then dialled again") {
		return
	}
	for _, e := range a.trace {
		if e.Type == probe.TracePhase && strings.HasSuffix(e.Detail, "not finished") && !slices.Contains(wanted, e.Name) {
			t.Errorf("the phase %s is not finished, but the attempt waits for %q", e.Name, a.waiting())
		}
	}
}

// awaits makes attempts with increasing timeouts, until the explanation of one matches pattern.
func (s *side) awaits(t *testing.T, p *peer, at, pattern string) {
	t.Helper()
	want := regexp.MustCompile(strings.ReplaceAll(pattern, "AT", regexp.QuoteMeta(at)))
	var a attempt
	var told []string
	for _, timeout := range timeouts {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		a = try(ctx, s.handler, probe.Request{Spec: probe.Spec{Timeout: timeout}, PodIP: "127.0.0.1", Target: targetOf(at)})
		cancel()
		if errors.Is(a.err, probe.ErrNoSlot) {
			continue
		}
		s.check(t, p, &a)
		checkPhase(t, &a)
		lags := false
		if p != nil {
			lags, _ = s.checkBytes(p, a.waiting())
		}
		if want.MatchString(a.waiting()) && !lags {
			return
		}
		told = append(told, fmt.Sprintf("after %v: %s; error %v; output %s", timeout, a.waiting(), a.err, a.out.Output))
	}
	t.Errorf("no attempt waits for %s\n%s\ntrace %+v", want, strings.Join(told, "\n"), a.trace)
}

func targetOf(at string) probe.Target {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return probe.Target{}
	}
	number, _ := strconv.Atoi(port)
	return probe.Target{Host: host, Port: number}
}

// ends makes an attempt that the peer ends, and checks its texts.
func (s *side) ends(t *testing.T, p *peer, timeout time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	a := try(ctx, s.handler, probe.Request{Spec: probe.Spec{Timeout: timeout}, PodIP: "127.0.0.1", Target: probe.Target{Host: "127.0.0.1", Port: p.port}})
	s.check(t, p, &a)
	if p.fault == "" && p.stuck != nil && (a.err != nil || a.out.Result != probe.Success) {
		t.Fatalf("a healthy server: %+v", a)
	}
}

// isCancelled cancels an attempt when its peer has reached the cut.
func (s *side) isCancelled(t *testing.T, p *peer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	stop := make(chan struct{})
	var stopping sync.WaitGroup
	stopping.Go(func() {
		select {
		case <-p.stuck:
			cancel()
		case <-stop:
		}
	})
	a := try(ctx, s.handler, probe.Request{Spec: probe.Spec{Timeout: 5 * time.Minute}, PodIP: "127.0.0.1", Target: probe.Target{Host: "127.0.0.1", Port: p.port}})
	close(stop)
	stopping.Wait()
	s.check(t, p, &a)
	if a.waiting() != "" {
		t.Errorf("an attempt that was cancelled waits for %q", a.waiting())
	}
}

// cuts returns the positions at which peers break off: around the end of each part, and many in a handshake.
func cuts(healthy *peer) (all []int) {
	begin := 0
	for _, m := range healthy.marks {
		most := 2
		if m.part == "tls" {
			most = 10
		}
		for i := range most {
			all = append(all, begin+(m.said-begin)*i/most)
		}
		all = append(all, begin+1, m.said-1)
		begin = m.said
	}
	if interpreter { // a guest takes seconds for a handshake
		all = nil
		for _, m := range healthy.marks {
			all = append(all, m.said-1)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(cut int) bool { return healthy.partAt(cut) == "" })
}

// TestExplanations checks that every text of an attempt explains what happened, for every fault of a
// server in every part of the exchange.
func TestExplanations(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "cache")
	t.Run("servers", func(t *testing.T) { explainServers(t, cache) })
	t.Run("dials", func(t *testing.T) { explainDials(t, cache) })
	t.Run("look-ups", func(t *testing.T) { explainLookUps(t, cache) })
	t.Run("servers that read nothing", func(t *testing.T) { explainDeafServers(t, cache) })
	t.Run("shutdown", func(t *testing.T) { explainNoShutdown(t, cache) })
}

func explainServers(t *testing.T, cache string) {
	all := newCrowd(t)
	defer all.running.Wait()
	probes := newProbes(t, cache, nil, nil)
	for _, s := range probes.sides(t) {
		healthy := &peer{second: s.second}
		s.serve(t, healthy)
		s.ends(t, healthy, 5*time.Minute)
		if s.parts == nil { // the server sends nothing
			continue
		}
		<-healthy.finished
		for _, cut := range cuts(healthy) {
			part := healthy.partAt(cut)
			for _, f := range []fault{silent, drips, closes, resets, garbage} {
				all.run(fmt.Sprintf("%s/%s at %d of %s", s.name, f, cut, part), func(t *testing.T) {
					p := &peer{fault: f, cut: cut, second: s.second}
					s.serve(t, p)
					at := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port))
					switch {
					case f == silent, f == drips:
						s.awaits(t, p, at, s.parts[part])
					case s.redials:
						s.ends(t, p, timeouts[1])
					default:
						s.ends(t, p, timeouts[2])
					}
				})
			}
			all.run(fmt.Sprintf("%s/cancelled at %d of %s", s.name, cut, part), func(t *testing.T) {
				p := &peer{fault: silent, cut: cut, second: s.second}
				s.serve(t, p)
				s.isCancelled(t, p)
			})
		}
	}
}

func explainDials(t *testing.T, cache string) {
	all := newCrowd(t)
	defer all.running.Wait()
	probes := newProbes(t, cache, nil, nil)
	for _, s := range probes.sides(t) {
		all.run(s.name+"/no answer", func(t *testing.T) {
			port := fullQueue(t)
			at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			s.awaits(t, &peer{port: port}, at, `^(dial (tcp |tcp://)AT|http GET https?://AT/x): .*; no answer to the SYN`)
		})
		all.run(s.name+"/refused", func(t *testing.T) {
			p := &peer{port: closedPort(t)}
			s.ends(t, p, timeouts[1])
		})
	}
}

func explainLookUps(t *testing.T, cache string) {
	all := newCrowd(t)
	defer all.running.Wait()
	for name, text := range map[string]string{"silent": "", "garbage": noise} {
		probes := newProbes(t, cache, nil, resolver(t, text))
		for _, s := range probes.sides(t) {
			if interpreter && s.name == "plugin that sends much" { // it is slow, and looks names up like the others
				continue
			}
			all.run(s.name+"/"+name, func(t *testing.T) {
				s.awaits(t, nil, "db.example:5432", `^(dns db.example|dial tcp://AT|http GET https?://AT/x): .*; no answer from the resolver$`)
			})
		}
	}
}

func explainDeafServers(t *testing.T, cache string) {
	all := newCrowd(t)
	defer all.running.Wait()
	probes := newProbes(t, cache, smallSendBuffer, nil)
	for _, s := range probes.sides(t) {
		if s.deaf == "" {
			continue
		}
		all.run(s.name, func(t *testing.T) {
			p := &peer{fault: silent, deaf: true}
			s.serve(t, p)
			s.awaits(t, p, net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), s.deaf)
		})
	}
}

func TestExplanationsOfCommands(t *testing.T) {
	exec := func(words ...string) probe.Handler {
		h, err := builtin.NewExec(builtin.Config{Runner: new(builtin.HostRunner)})
		if err != nil {
			t.Fatal(err)
		}
		config, err := json.Marshal(map[string]any{"command": words})
		if err != nil {
			t.Fatal(err)
		}
		bound, err := h.Prepare(config, probe.Target{})
		if err != nil {
			t.Fatal(err)
		}
		return bound
	}
	for name, c := range map[string]struct {
		words   []string
		pattern string
	}{
		"silent":   {[]string{"sleep", "1000"}, `^exec sleep 1000: still running for .*; no output; it waited: `},
		"drips":    {[]string{"sh", "-c", "while echo x; do sleep 0.01; done"}, `^exec sh -c "while .*": still running for .*; \d+ bytes of output, the last line "x"; it `},
		"computes": {[]string{"sh", "-c", "while :; do :; done"}, `^exec sh -c "while .*": still running for .*; no output; it `},
		"garbage":  {[]string{"sh", "-c", `printf '\000\377\033[31m\n\n\200 x  y: '; sleep 1000`}, `^exec sh -c .*: still running for .*; \d+ bytes of output, the last line ".*"; it `},
		"long":     {[]string{"sh", "-c", "sleep 1000; : " + strings.Repeat("é\n", 20<<10)}, `^exec sh -c "sleep 1000; : é.*: still running for .*; no output; it waited: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			(&side{name: "exec", handler: exec(c.words...)}).awaits(t, nil, "", c.pattern)
		})
	}
	for name, words := range map[string][]string{
		"exits":   {"sh", "-c", "echo no; exit 3"},
		"killed":  {"sh", "-c", "kill -9 $$"},
		"missing": {filepath.Join(os.TempDir(), "no such program")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			a := try(ctx, exec(words...), probe.Request{Spec: probe.Spec{Timeout: 5 * time.Minute}})
			(&side{name: "exec"}).check(t, nil, &a)
		})
	}
}

// ticks records the ticks and events of a group.
type ticks struct {
	mu  sync.Mutex
	all []string
}

func (k *ticks) Observe(worker.Info) worker.ProbeObserver { return k }

func (k *ticks) Tick(t *worker.Tick) { k.add(fmt.Sprintf("tick %v %v", t.Outcome, t.Err)) }

func (*ticks) Skipped(worker.SkipReason, int) {}

func (*ticks) Close() {}

func (k *ticks) add(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, text)
}

// explainNoShutdown checks that a shutdown reports nothing about the attempts that it ends.
func explainNoShutdown(t *testing.T, cache string) {
	all := newCrowd(t)
	defer all.running.Wait()
	probes := newProbes(t, cache, nil, nil)
	for _, s := range probes.sides(t) {
		if s.parts == nil {
			continue
		}
		healthy := &peer{second: s.second}
		s.serve(t, healthy)
		s.ends(t, healthy, 5*time.Minute)
		<-healthy.finished
		for _, m := range healthy.marks {
			all.run(s.name+"/"+m.part, func(t *testing.T) {
				p := &peer{fault: silent, cut: m.said - 1, second: s.second}
				s.serve(t, p)
				s.isShutDown(t, p)
			})
		}
	}
}

// isShutDown shuts a group down when its attempt at the peer has reached the cut.
func (s *side) isShutDown(t *testing.T, p *peer) {
	t.Helper()
	seen := new(ticks)
	g, err := group.New[string](group.Config{
		Observers: []worker.Observer{seen}, History: 1 << 20, Event: func(e group.Event) { seen.add(e.Message) },
	})
	if err != nil {
		t.Fatal(err)
	}
	task := &worker.Task{Subject: results.Subject{Pod: "shop", Container: "web"}}
	task.SetState(worker.Running("shop/web/1", time.Now()))
	if err := g.Add("shop", group.Probe{
		Task: task, Kind: probe.Readiness, Handler: s.handler, Name: s.name,
		Spec: probe.Spec{Period: time.Millisecond, Timeout: 5 * time.Minute}, Target: probe.Target{Host: "127.0.0.1", Port: p.port},
	}); err != nil {
		t.Fatal(err)
	}
	<-p.stuck
	if err := g.Shutdown(t.Context()); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.all) > 0 {
		t.Errorf("a shutdown tells %q", seen.all)
	}
}
