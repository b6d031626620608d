package plugintest

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/hostfile"
	"github.com/daeace23/prober/plugin/plugintest/internal/loopback"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
	"github.com/daeace23/prober/probe"
)

// guestRun runs the cases of a file with a guest.
type guestRun struct {
	run
	module []byte
	text   []byte       // of a manifest beside the module; nil if it is inside
	limit  *clock.Limit // of each call
	passed *passed      // checks that passed before
	warmUp bool         // call each guest once before its first case

	coverage *wasm.Coverage // nil without [Config.Cover]
}

func newGuestRun(cfg Config, module []byte, manifest *plugin.Manifest, f *File) *guestRun {
	return &guestRun{run: run{cfg, manifest, f}, module: module, limit: newLimit(cfg)}
}

// variant is one way to run a guest.
type variant struct {
	interpreter bool
	isolation   plugin.Isolation
}

func (v variant) String() string {
	if v.interpreter {
		return "interpreter/" + string(v.isolation)
	}
	return "compiler/" + string(v.isolation)
}

// plain returns the variant of an isolation without [Config.Matrix].
func (g *guestRun) plain(isolation plugin.Isolation) variant {
	return variant{g.cfg.Interpreter, isolation}
}

func (g *guestRun) variants() (all []variant) {
	if !g.cfg.Matrix {
		return []variant{g.plain(g.manifest.Isolation)}
	}
	isolations := []plugin.Isolation{plugin.Reset, plugin.Fresh}
	if g.manifest.Stateful {
		isolations = append(isolations, plugin.Pooled)
	}
	for _, interpreter := range []bool{false, true} {
		for _, isolation := range isolations {
			all = append(all, variant{interpreter, isolation})
		}
	}
	return all
}

// cases runs the cases of the file in one variant.
func (g *guestRun) cases(ctx context.Context, v variant) (results []Result, err error) {
	sandboxes := make(map[string]*sandbox) // by sandboxKey
	defer func() {
		for _, s := range sandboxes {
			s.close()
		}
	}()
	for i := range g.file.Cases {
		c := &g.file.Cases[i]
		if !g.cfg.selects(c.Name) {
			continue
		}
		r := Result{Name: c.Name, Variant: v.String(), File: g.file.Path, Line: c.Line}
		if c.HasCommands() && !g.cfg.Commands {
			r.LeftOut = noCommands
			results = append(results, r)
			continue
		}
		start := time.Now()
		key := sandboxKey(c)
		s := sandboxes[key]
		if s == nil {
			if s, err = g.loadSeeded(ctx, v, g.manifest, seedOf(c, -1), c.Grants...); err != nil {
				return nil, err
			}
			s.commands = true
			sandboxes[key] = s
			if g.warmUp {
				s.attempt(ctx, g.typical().Everywhere(peer.Refuse), -1)
			}
		}
		got := s.attempt(ctx, c, i)
		r.Real = time.Since(start)
		if c.HasCommands() { // in real time, as a process
			c, r.Note = c.InRealTime(got, loopback.Slack)
		}
		r.compare(c, got)
		results = append(results, r)
	}
	return results, nil
}

// sandbox is a loaded guest with the network of the case that runs.
type sandbox struct {
	clock   *clock.Virtual
	limit   *clock.Limit // of each call
	current *clock.Limit // of the case that runs: see limitOf
	rand    *seededRand
	host    *wasm.Host
	handler *wasm.Handler
	network *peer.Network
	files   hostfile.Files

	commands bool // peers may be processes
}

// sandboxKey returns a key that cases share if one sandbox serves them. A guest may keep times, so a case with a
// time of its own has a sandbox of its own, as has one with a seed: see loadSeeded.
func sandboxKey(c *Case) string {
	if c.Seed == nil && c.Time.IsZero() {
		return fmt.Sprint(c.Grants)
	}
	return fmt.Sprint(c.Grants, seedOf(c, -1), c.Time, c.Line)
}

// seedOf returns the seed of a case at an index.
func seedOf(c *Case, index int) uint64 {
	if c.Seed != nil {
		return *c.Seed
	}
	return uint64(index + 1)
}

// load loads the guest with a manifest.
func (g *guestRun) load(ctx context.Context, v variant, manifest *plugin.Manifest, grants ...plugin.Grant) (*sandbox, error) {
	return g.loadSeeded(ctx, v, manifest, 0, grants...)
}

// loadSeeded loads the guest with a manifest and a seed. A guest may read random bytes when it is
// initialized, and keep them for each attempt.
func (g *guestRun) loadSeeded(ctx context.Context, v variant, manifest *plugin.Manifest, seed uint64, grants ...plugin.Grant) (*sandbox, error) {
	s := &sandbox{clock: clock.NewVirtual(g.limit), limit: g.limit, rand: &seededRand{}}
	s.rand.seed(seed)
	host, err := wasm.New(wasm.Config{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return s.network.DialContext(ctx, network, addr)
		},
		LookupIP: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return s.network.LookupIP(ctx, host)
		},
		RoundTrip: func(req *http.Request, addr string) (*http.Response, error) {
			return s.network.RoundTrip(req, addr)
		},
		Echo: func(ctx context.Context, r wasm.EchoRequest) (wasm.EchoReply, error) {
			return s.network.Echo(ctx, r)
		},
		Files: func(ctx context.Context, r wasm.FileRequest) (wasm.FileReply, error) {
			return s.files.Do(ctx, s.clock, r)
		},
		DNSServers: []string{peer.DNSServer},
		Handshake: func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
			return s.network.Handshake(ctx, conn, config)
		},
		Clock: s.clock, Rand: s.rand, Interpreter: v.interpreter, Checks: g.cfg.Checks, Coverage: g.coverage, Strict: g.cfg.Strict, CacheDir: g.cfg.CacheDir, Version: g.cfg.Version,
	})
	if err != nil {
		return nil, err
	}
	s.host = host
	own := *manifest
	own.Isolation = v.isolation
	if s.handler, err = host.Load(ctx, plugin.Found{Module: g.module, Manifest: &own, Grants: grants}); err != nil {
		return nil, errors.Join(err, host.Close())
	}
	return s, nil
}

func (s *sandbox) close() {
	_ = s.handler.Close()
	_ = s.host.Close()
}

// attempt makes one attempt at a case. index determines its time and random bytes.
func (s *sandbox) attempt(ctx context.Context, c *Case, index int) *testfile.Answer {
	s.begin(c, index)
	handler, err := s.handler.Prepare(c.ConfigJSON(), c.Target)
	if err != nil {
		return &testfile.Answer{Err: err, BadConfig: true}
	}
	return s.probe(ctx, handler, c)
}

// begin starts a new day on the clock, or the time of the case, with the network of the case.
func (s *sandbox) begin(c *Case, index int) {
	start := clock.Epoch.AddDate(0, 0, index+1)
	if !c.Time.IsZero() {
		start = c.Time
	}
	s.clock.StartAt(start)
	s.current = s.limitOf(c)
	s.clock.SetLimit(s.current)
	s.rand.seed(seedOf(c, index))
	setup := c.Setup()
	setup.Commands = s.commands
	s.files = c.Files
	s.network = peer.New(setup, s.clock, uint64(index))
}

// commandSlack is how much longer than its timeout a case with commands may take in real time.
const commandSlack = 5 * time.Second

// limitOf returns the limit of a case. A case with commands may wait for them until its deadline, in real time,
// which says nothing about the other cases.
func (s *sandbox) limitOf(c *Case) *clock.Limit {
	if !c.HasCommands() {
		return s.limit
	}
	return clock.NewLimit(max(s.limit.Duration(), c.Timeout+commandSlack))
}

// probe makes an attempt with a handler that is prepared for the case.
func (s *sandbox) probe(ctx context.Context, handler probe.Handler, c *Case) *testfile.Answer {
	got := &testfile.Answer{}
	keeper, _ := handler.(wasm.Keeper)
	if keeper != nil {
		keeper.Keep(c.KV)
	}
	start := s.clock.Now()
	ctx, cancel := s.clock.WithTimeout(ctx, c.Timeout)
	defer cancel()
	s.network.Begin(ctx)
	req := tracedRequest(c, got)
	req.Trace = withoutLateDenials(ctx, req.Trace)
	if c.Seed != nil {
		s.rand.seed(*c.Seed) // as in the recording, where the config was checked before
	}
	got.Outcome, got.Err = handler.Probe(ctx, req)
	got.Virtual = s.clock.Now().Sub(start)
	if errors.Is(got.Err, context.Canceled) {
		got.Stuck = fmt.Sprintf("the guest ran for %v of real time without an end", s.current.Exceeded())
		got.Faults = append(got.Faults, got.Stuck)
	}
	if keeper != nil {
		got.Kept = keeper.Kept()
	}
	got.Memory = s.handler.Stats().Size
	if got.Hung() {
		got.States = s.network.States()
	}
	s.network.Close()
	got.Faults = append(got.Faults, s.network.Failures()...)
	return got
}

// withoutLateDenials returns a tracer that drops denials after the attempt: see
// [peer.Network.Over].
func withoutLateDenials(ctx context.Context, all probe.Tracer) probe.Tracer {
	return func(e probe.TraceEvent) {
		if e.Type != probe.TraceDenied || ctx.Err() == nil {
			all(e)
		}
	}
}

// tracedRequest returns the request of a case. Its tracer appends events to a.
func tracedRequest(c *Case, a *testfile.Answer) probe.Request {
	req := c.Request()
	req.Debug = true
	req.Trace = func(e probe.TraceEvent) {
		if e.Type == probe.TraceDenied {
			a.Denied = append(a.Denied, e.Detail)
		}
		a.Trace = append(a.Trace, traceLine(e))
	}
	return req
}

// traceLine returns an event of an attempt on one line. Only the wait at the deadline has a
// duration: on the virtual clock calls take no time.
func traceLine(e probe.TraceEvent) string {
	if e.Type == probe.TraceWait && e.Duration > 0 {
		return fmt.Sprintf("%s %s for %v, %s", e.Type, e.Name, explain.Round(e.Duration), e.Detail)
	}
	return strings.TrimRight(fmt.Sprintf("%s %s %s", e.Type, e.Name, e.Detail), " ")
}

// seededRand is the random source of guests. Each run of a case gets the same bytes.
type seededRand struct {
	mu     sync.Mutex
	source *rand.ChaCha8
	given  [][]byte // the first bytes that were read since the last seed
	left   int      // number of further bytes to keep in given
}

var _ io.Reader = (*seededRand)(nil)

// maxGiven is the number of random bytes of an attempt that a recording looks for in messages.
const maxGiven = 64 << 10

func (s *seededRand) seed(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], n)
	s.source, s.given, s.left = rand.NewChaCha8(key), nil, maxGiven
}

// Read implements [io.Reader].
func (s *seededRand) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.source.Read(p)
	if n <= s.left {
		s.given = append(s.given, bytes.Clone(p[:n]))
		s.left -= n + 1 // empty reads are bounded too
	}
	return n, err
}

// read returns the first bytes that were read since the last seed.
func (s *seededRand) read() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.given)
}
