package plugintest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Config configures [Run]. Every field may be left zero.
type Config struct {
	// Plugin is the path of the module, or of the executable of a process, in place of the
	// one that the file names.
	Plugin string

	// Process starts a plugin that is a process, with env as its environment: [process.Load]
	// does; and of the runtime nagios [process.LoadCheck]. Nil refuses such plugins. It is given here so that tests of modules carry nothing
	// of gRPC.
	//
	// [process.LoadCheck]: https://pkg.go.dev/github.com/daeace23/prober/handlers/process#LoadCheck
	// [process.Load]: https://pkg.go.dev/github.com/daeace23/prober/handlers/process#Load
	Process func(ctx context.Context, found plugin.Found, env []string) (Program, error)

	// Folders are those from which the command of a plugin of the runtime nagios may run,
	// beside that of its plugin.yaml.
	Folders []string

	// Run keeps the cases whose name it matches. Nil keeps all.
	Run *regexp.Regexp

	// Matrix runs each case on every way to execute a guest and in every isolation,
	// which all have to agree.
	Matrix bool

	// Interpreter runs guests without compiling them, as Matrix does too: slower, but
	// quick to begin with under the race detector.
	Interpreter bool

	// Strict fails guests whose result has fields that the contract does not know, which else
	// are ignored. Whoever starts a process sees to that of its own.
	Strict bool

	// CasesOnly leaves the conformance checks out.
	CasesOnly bool

	// CacheDir keeps compiled modules, as [wasm.Config.CacheDir] does.
	CacheDir string

	// Stuck is how long a guest may run in real time without an end. 0 means 20 s. A guest that
	// did gets 2 s at most from then on.
	Stuck time.Duration

	// Patience is how long the check for growth may call the guest. 0 means 5 s.
	Patience time.Duration

	// Version is the version of prober that guests are told.
	Version string
}

const defaultPatience = 5 * time.Second

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

// Result is what became of one case, or of one conformance check.
type Result struct {
	Name     string
	Variant  string // "compiler/reset", or "process"
	File     string
	Line     int           // 0 for a conformance check
	LeftOut  string        // why it did not run: a process cannot be shown everything
	Failures []string      // empty when all is well
	Note     string        // of a conformance check: how far it went
	Diff     string        // of what was wanted and what came
	Trace    []string      // what the guest did; of a case that failed
	Peers    []string      // what the peers were doing at its end; of a case that failed and hung
	Real     time.Duration // that it took
	Virtual  time.Duration // that passed for the guest; of a process it is real

	got *answer
	c   *Case
}

// OK reports whether the case passed.
func (r *Result) OK() bool { return len(r.Failures) == 0 }

// Report is what became of a file.
type Report struct {
	File    string
	Plugin  string // name and version
	Results []Result

	text []byte // of File, as it was run
}

// OK reports whether everything passed.
func (r *Report) OK() bool {
	return !slices.ContainsFunc(r.Results, func(c Result) bool { return !c.OK() })
}

// Run runs the cases of a file, then the conformance checks. The error says why the
// plugin could not be run at all.
func Run(ctx context.Context, f *File, cfg Config) (*Report, error) {
	path := cmp.Or(cfg.Plugin, f.Plugin)
	if isProgram(path) {
		return runProcess(ctx, f, path, cfg)
	}
	found, err := plugin.Read(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Path, err)
	}
	manifest := found.Manifest
	s := newSession(cfg, found.Module, manifest, f)
	report := &Report{File: f.Path, text: f.text, Plugin: manifest.Name + " " + manifest.Version}
	for _, v := range s.variants() {
		results, err := s.cases(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", err, path)
		}
		report.Results = append(report.Results, results...)
	}
	agree(report.Results)
	if !cfg.CasesOnly {
		checks, err := s.conformance(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w (%s)", err, path)
		}
		report.Results = append(report.Results, checks...)
	}
	return report, ctx.Err()
}

// plain is the variant of an isolation that runs without [Config.Matrix].
func (s *session) plain(isolation plugin.Isolation) variant {
	return variant{s.cfg.Interpreter, isolation}
}

func (s *session) variants() []variant {
	if !s.cfg.Matrix {
		return []variant{s.plain(s.manifest.Isolation)}
	}
	var all []variant
	for _, interpreter := range []bool{false, true} {
		isolations := []plugin.Isolation{plugin.Reset, plugin.Fresh}
		if s.manifest.Stateful {
			isolations = append(isolations, plugin.Pooled)
		}
		for _, isolation := range isolations {
			all = append(all, variant{interpreter, isolation})
		}
	}
	return all
}

// session is what the runs of one file share.
type session struct {
	cfg      Config
	module   []byte
	manifest *plugin.Manifest
	file     *File
	stuck    *allowance
	warm     bool // each guest has been called before its first case
}

func newSession(cfg Config, module []byte, manifest *plugin.Manifest, f *File) *session {
	return &session{cfg: cfg, module: module, manifest: manifest, file: f, stuck: newAllowance(cmp.Or(cfg.Stuck, firstAllowance))}
}

// cases runs the cases of the file in one variant.
func (s *session) cases(ctx context.Context, v variant) ([]Result, error) {
	worlds := make(map[string]*world) // by grants
	defer func() {
		for _, w := range worlds {
			w.close()
		}
	}()
	var results []Result
	for i := range s.file.Cases {
		c := &s.file.Cases[i]
		if s.cfg.Run != nil && !s.cfg.Run.MatchString(c.Name) {
			continue
		}
		start := time.Now()
		granted := fmt.Sprint(c.Grants)
		w := worlds[granted]
		if w == nil {
			var err error
			if w, err = s.open(ctx, v, s.manifest, c.Grants...); err != nil {
				return nil, err
			}
			worlds[granted] = w
			if s.warm {
				w.attempt(ctx, s.typical().everywhere(Refuse), -1)
			}
		}
		got := w.attempt(ctx, c, i)
		r := Result{
			Name: c.Name, Variant: v.String(), File: s.file.Path, Line: c.Line,
			Real: time.Since(start), Virtual: got.virtual, got: got, c: c,
		}
		r.judge()
		results = append(results, r)
	}
	return results, nil
}

// world is a loaded plugin in a world that is played.
type world struct {
	clock   *clock
	rand    *seeded
	host    *wasm.Host
	handler *wasm.Handler
	network *network // of the case that runs
}

// open loads the plugin as manifest says.
func (s *session) open(ctx context.Context, v variant, manifest *plugin.Manifest, grants ...plugin.Grant) (*world, error) {
	w := &world{clock: newClock(s.stuck), rand: &seeded{}}
	w.rand.seed(0)
	host, err := wasm.New(wasm.Config{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return w.network.DialContext(ctx, network, addr)
		},
		LookupIP: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return w.network.LookupIP(ctx, host)
		},
		RoundTrip: func(req *http.Request, addr string) (*http.Response, error) {
			return w.network.RoundTrip(req, addr)
		},
		DNSServers: []string{dnsServer},
		Handshake: func(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, error) {
			return w.network.handshake(ctx, conn, config)
		},
		Clock: w.clock, Rand: w.rand, Interpreter: v.interpreter, Strict: s.cfg.Strict, CacheDir: s.cfg.CacheDir, Version: s.cfg.Version,
	})
	if err != nil {
		return nil, err
	}
	w.host = host
	own := *manifest
	own.Isolation = v.isolation
	if w.handler, err = host.LoadGranted(ctx, s.module, &own, grants); err != nil {
		return nil, errors.Join(err, host.Close())
	}
	return w, nil
}

func (w *world) close() {
	_ = w.handler.Close()
	_ = w.host.Close()
}

// answer is what a plugin made of a case.
type answer struct {
	out     probe.Outcome
	err     error
	config  bool // the error is about the config
	virtual time.Duration
	memory  uint64
	denied  []string
	kept    map[string][]byte
	faults  []string
	stuck   string // the one of the faults that says that the guest came to no end
	trace   []string
	peers   []string // what they were doing when the attempt hung
}

// attempt makes one attempt at a case. index gives it a time and a seed of its own.
func (w *world) attempt(ctx context.Context, c *Case, index int) *answer {
	w.begin(c, index)
	handler, err := w.handler.Prepare(c.ConfigJSON(), c.Target)
	if err != nil {
		return &answer{err: err, config: true}
	}
	return w.carry(ctx, handler, c)
}

// begin begins a day of its own, with a seed of its own, on which the case has not
// happened yet.
func (w *world) begin(c *Case, index int) {
	w.clock.startAt(epoch.AddDate(0, 0, index+1))
	w.rand.seed(uint64(index + 1))
	w.network = newNetwork(c, w.clock, rand.New(rand.NewPCG(uint64(index), 0)))
}

// carry has a handler that is prepared for the case carry it out.
func (w *world) carry(ctx context.Context, handler probe.Handler, c *Case) *answer {
	got := &answer{}
	keeper, _ := handler.(wasm.Keeper)
	if keeper != nil {
		keeper.Keep(c.KV)
	}
	start := w.clock.Now()
	ctx, cancel := w.clock.WithTimeout(ctx, c.Timeout)
	defer cancel()
	w.network.attempt = ctx
	req := got.request(c)
	req.Trace = denialsInTime(ctx, req.Trace)
	got.out, got.err = handler.Probe(ctx, req)
	got.virtual = w.clock.Now().Sub(start)
	if errors.Is(got.err, context.Canceled) {
		got.stuck = fmt.Sprintf("the guest ran for %v of real time without an end", w.clock.stuck.spend())
		got.faults = append(got.faults, got.stuck)
	}
	if keeper != nil {
		got.kept = keeper.Kept()
	}
	got.memory = w.handler.Stats().Size
	if got.hung() {
		got.peers = w.network.states()
	}
	got.faults = append(got.faults, w.network.ended()...)
	return got
}

// denialsInTime is a tracer that hears of no denial after the attempt: see [network.over].
func denialsInTime(ctx context.Context, all probe.Tracer) probe.Tracer {
	return func(e probe.TraceEvent) {
		if e.Type != probe.TraceDenied || ctx.Err() == nil {
			all(e)
		}
	}
}

// request is what the plugin is asked; what it does is noted.
func (a *answer) request(c *Case) probe.Request {
	return probe.Request{
		Kind: c.Kind, Attempt: c.Attempt, LastResult: c.LastResult, Target: c.Target, PodIP: c.PodIP,
		Spec:      probe.Spec{Period: 10 * time.Second, Timeout: c.Timeout, SuccessThreshold: 1, FailureThreshold: 3},
		Pod:       &c.Pod,
		Container: &c.Container,
		Trace: func(e probe.TraceEvent) {
			if e.Type == probe.TraceDenied {
				a.denied = append(a.denied, e.Detail)
			}
			a.trace = append(a.trace, traced(e))
		},
	}
}

// result spells the result as a file does.
func (a *answer) result() string {
	switch {
	case a.config:
		return "error(config)"
	case a.err != nil:
		return fmt.Sprintf("error(%s)", probe.ReasonOf(a.err))
	default:
		return a.out.Result.String()
	}
}

func (a *answer) message() string {
	if a.err != nil {
		return a.err.Error()
	}
	return a.out.Output
}
