package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/descriptors"
	"github.com/daeace23/prober/internal/marked"
	"github.com/daeace23/prober/internal/perfdata"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Check is a plugin that runs a program in each attempt. The program follows the conventions of Nagios
// plugins: an exit code, a message, and performance data after a vertical bar. A Check is safe for
// concurrent use.
type Check struct {
	manifest *plugin.Manifest
	limits   plugin.Limits
	env      []string
	command  command
	args     []argument
	input    input
	mark     string // prefix of the marks of all runs; read-only, like the fields above
	strays   sweeper
	logger   *slog.Logger
	strict   bool
	runs     atomic.Uint64

	hits attempt.Hits
	gate gate
}

var _ probe.Preparer = (*Check)(nil)

// LoadCheck returns the plugin of a manifest with the runtime nagios. Its command must be in one of
// found.Folders, and others than the operator must not be able to write there. If the manifest pins a
// digest, the command must have it. LoadCheck uses only Env, Logger and Strict of cfg.
func LoadCheck(cfg Config, found plugin.Found) (*Check, error) {
	c, err := loadCheck(cfg, found)
	if err != nil {
		return nil, attempt.LoadError(found.Manifest.Name, err)
	}
	return c, nil
}

func loadCheck(cfg Config, found plugin.Found) (*Check, error) {
	descriptors.CloseOnExec()
	m := found.Manifest
	cfg = cfg.withDefaults()
	c := &Check{
		logger: cfg.Logger, strict: cfg.Strict,
		manifest: m, env: slices.Clip(append(checkEnvironment(), cfg.Env...)), limits: plugin.Resolve(m.Limits, found.Limits), mark: procgroup.NewMark(),
		strays: sweeper{logger: cfg.Logger, check: m.Name, closed: make(chan struct{})},
	}
	c.gate.limit, c.gate.hits = c.limits.Instances, &c.hits
	for _, a := range m.Command[1:] {
		c.args = append(c.args, parseArgument(a))
	}
	var err error
	if c.input, err = parseInput(m, found.Env); err != nil {
		return nil, err
	}
	folders, err := absolute(found.Folders)
	if err != nil {
		return nil, err
	}
	c.command, err = findCommand(m.Command[0].Text, m.CommandDigest, folders)
	return c, err
}

// absolute returns the absolute paths of folders, because a command has another working folder.
func absolute(folders []string) (all []string, err error) {
	all = make([]string, len(folders))
	for i, folder := range folders {
		if all[i], err = filepath.Abs(folder); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// CommandPath returns the path of the command of found. It does not read the command, and does not check
// whether the command may run.
func CommandPath(found plugin.Found) (string, error) {
	folders, err := absolute(found.Folders)
	if err != nil {
		return "", err
	}
	return locateCommand(found.Manifest.Command[0].Text, folders)
}

// CommandOf returns the path and the digest of the command that [LoadCheck] would run for found. If
// inPlace is true, the command runs from that path and not from a copy. It is then refused after the file
// has been replaced, even by a file with the same bytes.
func CommandOf(found plugin.Found) (path, digest string, inPlace bool, err error) {
	c, err := loadCheck(Config{}, found)
	if err != nil {
		return "", "", false, err
	}
	return c.command.path, c.command.digest, c.command.program == nil, c.Close()
}

// Stats returns the current figures. Starts is not counted.
func (c *Check) Stats() Stats {
	return Stats{Running: true, Busy: c.gate.busyNow(), Limits: c.hits.Counts()}
}

// Close refuses further attempts and waits for the attempts in flight, which end at their deadlines. Then
// it kills the processes that they have left behind.
func (c *Check) Close() error {
	if !c.gate.close() {
		return nil
	}
	c.gate.wg.Wait()
	if c.runs.Load() > 0 {
		c.strays.close(c.mark)
	}
	if c.command.program != nil {
		return c.command.program.Close()
	}
	return nil
}

// Prepare implements [probe.Preparer]. It validates the values that the command gets from the config.
// Values from the target are validated at each attempt.
func (c *Check) Prepare(config []byte, _ probe.Target) (probe.Handler, error) {
	config, err := c.manifest.Config.Apply(config)
	if err != nil {
		return nil, err
	}
	b := &boundCheck{check: c, secrets: c.manifest.Config.SecretsOf(config)}
	if err := json.Unmarshal(config, &b.config); err != nil {
		return nil, err
	}
	for i, a := range c.args {
		if err := a.checkConfig(b.config); err != nil {
			return nil, fmt.Errorf("command[%d]: %w", i+1, err)
		}
	}
	if err := c.input.check(b.config); err != nil {
		return nil, err
	}
	return b, nil
}

// Probe implements [probe.Handler] for a check that needs no config.
func (c *Check) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	b, err := c.Prepare(nil, req.Target)
	if err != nil {
		return probe.Outcome{}, err
	}
	return b.Probe(ctx, req)
}

func (c *Check) hit(limit int) { c.hits[limit].Add(1) }

// boundCheck is a check together with the config of one probe.
type boundCheck struct {
	check   *Check
	config  map[string]any
	secrets []string    // in config
	told    atomic.Bool // whether malformed performance data was logged
}

var (
	_ probe.SecretHolder  = (*boundCheck)(nil)
	_ probe.SecretChecker = (*boundCheck)(nil)
	_ probe.Describer     = (*boundCheck)(nil)
)

// Secrets implements [probe.SecretHolder].
func (b *boundCheck) Secrets() []string { return b.secrets }

// Describe implements [probe.Describer].
func (b *boundCheck) Describe(name string, req *probe.Request) string {
	text, _ := b.config["url"].(string)
	return attempt.Describe(name, attempt.ShownURL(text), req)
}

// CheckSecrets implements [probe.SecretChecker]. It refuses secrets in arguments, which all users
// of the host can read.
func (b *boundCheck) CheckSecrets(fields []string) error {
	return b.check.manifest.CheckSecrets(fields)
}

// Probe implements [probe.Handler].
func (b *boundCheck) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	out, err := b.attempt(ctx, &req)
	return out, attempt.Named(b.check.manifest.Name, err)
}

func (b *boundCheck) attempt(ctx context.Context, req *probe.Request) (probe.Outcome, error) {
	start, c := time.Now(), b.check
	if ctx.Err() != nil {
		return ended(ctx, req, start)
	}
	if err := checkNetwork(ctx, req); err != nil {
		return probe.Outcome{}, err
	}
	if err := c.gate.enter(); err != nil {
		return probe.Outcome{}, err
	}
	defer c.gate.leave()
	args := []string{c.command.path}
	for i, a := range c.args {
		words, err := a.expand(b.config, req)
		if err != nil {
			return probe.Outcome{}, &probe.Error{Reason: probe.ReasonGuest, Err: fmt.Errorf("command[%d]: %w", i+1, err)}
		}
		args = append(args, words...)
	}
	if err := c.command.unchanged(); err != nil {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonInstantiate, Err: err}
	}
	env, stdin, err := c.input.fill(b.config, req)
	if err != nil {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonGuest, Err: err}
	}
	mark := fmt.Sprintf("%s%d.", c.mark, c.runs.Add(1))
	r, err := runCommand(ctx, &c.command, args, slices.Concat(c.env, env, []string{mark}), stdin, c.limits.Stdio)
	if err != nil {
		return probe.Outcome{}, startError(c.command.launch.explain(c.command.path, err))
	}
	if r.killed || r.held {
		c.strays.sweep(mark)
	}
	if r.more {
		c.hit(plugin.LimitStdio)
	}
	if r.killed {
		out, err := ended(ctx, req, start)
		explainRun(req, args, r, time.Since(start), &out)
		return out, err
	}
	traceRun(req, args, r, time.Since(start))
	return c.outcome(r, req, &b.told)
}

// noOutput is the message of a check that printed none, although the convention requires it.
const noOutput = "the command printed no message"

// outcome returns the outcome of a run that has ended. told is the probe's, see [attempt.WarnOfPerfdata]. It redacts secrets before it cuts texts, because
// it would not find the rest of a cut secret.
func (c *Check) outcome(r *result, req *probe.Request, told *atomic.Bool) (probe.Outcome, error) {
	text, numbers := perfdata.Split(strings.ToValidUTF8(r.stdout, "\uFFFD"))
	stderr, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(r.stderr, "\uFFFD")), "\n")
	text = req.Redacted(cmp.Or(text, stderr))
	read := perfdata.Read(numbers, c.limits.Series, req.Redacted)
	if read.More {
		c.hit(plugin.LimitSeries)
	}
	warn := func(text string) {
		c.logger.Warn(text, append(attempt.ProbeOf(req), "handler", c.manifest.Name)...)
	}
	if err := attempt.WarnOfPerfdata(req, &read, told, warn); err != nil && c.strict {
		return probe.Outcome{}, err
	}
	if len(text) > c.limits.Message {
		c.hit(plugin.LimitMessage)
		text = clip.Bytes(text, c.limits.Message)
	}
	verdict, ok := probe.FromExitCode(r.code)
	if c.manifest.ExitCodes == plugin.ExecCodes && r.code > 0 {
		verdict, ok = probe.Failure, true
	}
	if !ok {
		first, _, _ := strings.Cut(text, "\n")
		reason := probe.ReasonProtocol
		if r.code < 0 { // a signal that prober did not send
			reason = probe.ReasonTrap
		}
		return probe.Outcome{}, &probe.Error{Reason: reason, Err: errors.New(strings.TrimSuffix(r.state+": "+first, ": "))}
	}
	if text == "" && c.manifest.ExitCodes != plugin.ExecCodes {
		text = noOutput
	}
	out := probe.Outcome{Result: verdict, Output: text, Metrics: read.Metrics}
	if verdict == probe.Failure {
		out.Reason = probe.ReasonExecExit
	}
	return out, nil
}

// sweepDelay is how long a sweeper waits for more runs before it reads the environment of every
// process.
const sweepDelay = time.Second

// sweeper kills processes that the runs of a check have left behind. It works in the background and for
// many runs at once, because it must scan all processes of the host.
type sweeper struct {
	logger *slog.Logger
	check  string
	closed chan struct{}

	ending sync.Mutex // held by the sweep that kills processes; locked before mu
	mu     sync.Mutex
	marks  []string // marks of runs to sweep
	sweeps sync.WaitGroup
}

// sweep kills the processes left by the run with a mark, after a delay. At most one sweep kills processes
// while another one waits.
func (s *sweeper) sweep(mark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks = append(s.marks, mark); len(s.marks) > 1 {
		return
	}
	s.sweeps.Go(func() {
		select {
		case <-time.After(sweepDelay):
		case <-s.closed:
		}
		s.ending.Lock()
		defer s.ending.Unlock()
		s.mu.Lock()
		marks := s.marks
		s.marks = nil
		s.mu.Unlock()
		s.end(marks...)
	})
}

// close kills the processes left by all runs whose marks begin with mark.
func (s *sweeper) close(mark string) {
	close(s.closed)
	s.sweeps.Wait()
	s.end(mark)
}

func (s *sweeper) end(marks ...string) {
	if left := marked.End(marks...); left > 0 {
		warnOfStrays(s.logger, s.check, left)
	}
}

func warnOfStrays(logger *slog.Logger, name string, left int) {
	logger.Warn("processes that a plugin has left behind do not end", "handler", name, "processes", left)
}
