// Package push has the checks to which others report results.
//
// [Pushes] owns the checks, as endpoints of package core/endpoint. http.go has the requests with reports.
// journal.go stores each report in the state directory before its request is answered.
package push

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/daeace23/prober/agent/access"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/probe"
)

// Config configures [Pushes]. Trigger and Log are required.
type Config struct {
	StateDir string                  // "": reports are forgotten when the agent ends
	Trigger  func(manager.Key) error // requests an attempt of a probe; it must not block
	Log      *slog.Logger
}

// ErrUnknown is the error for the name of a push that does not exist.
var ErrUnknown = errors.New("there is no such push in prober.yaml")

// resultStarted is the [Count].Result of the start of a run.
const resultStarted = "started"

// checkName is the name of the only check of each endpoint.
const checkName = "push"

// Pushes has the checks. It is safe for concurrent use.
type Pushes struct {
	cfg    Config
	set    *endpoint.Set[string]
	tokens atomic.Pointer[map[[sha256.Size]byte]string] // names by the hashes of tokens
	keys   sync.Map                                     // name to manager.Key, of the probes of checks

	storing sync.Mutex // held while a report is stored, and in Set
	journal *journal

	mu       sync.Mutex // held briefly, and never while a file is written
	checks   []config.Push
	messages map[string]string // of the last reports, by the names of checks
	counts   map[Count]uint64
}

// Count identifies a counter of reports.
type Count struct {
	Name   string // of the push
	Result string // a result, or "started"
}

// New returns Pushes without checks. It reads the journal of the state directory.
func New(cfg Config) *Pushes {
	set, err := endpoint.New[string](endpoint.Config{})
	if err != nil {
		panic(err) // the zero config works
	}
	p := &Pushes{cfg: cfg, set: set, journal: openJournal(cfg.StateDir, cfg.Log), messages: make(map[string]string), counts: make(map[Count]uint64)}
	for name, r := range p.journal.last {
		p.messages[name] = r.Message
	}
	p.tokens.Store(new(map[[sha256.Size]byte]string))
	return p
}

// Run requests an attempt of the probe of each check that changes, until ctx ends.
func (p *Pushes) Run(ctx context.Context) {
	for c := range p.set.Subscribe(ctx) {
		if key, ok := p.keys.Load(c.Key); ok {
			_ = p.cfg.Trigger(key.(manager.Key)) // an error means that the probe does not exist
		}
	}
}

// Applied is called after the pods of checks were applied. It requests an attempt of each probe, so that a
// state that is known is not unknown until the first attempt.
func (p *Pushes) Applied() {
	for _, key := range p.keys.Range {
		_ = p.cfg.Trigger(key.(manager.Key)) // an error means that the probe does not exist
	}
}

// Close ends all checks. Run must have returned.
func (p *Pushes) Close() {
	_ = p.set.Shutdown(context.Background()) // it has no probes
	p.storing.Lock()
	defer p.storing.Unlock()
	p.journal.close()
}

// Set replaces the checks. file is the path of prober.yaml. An error changes nothing.
func (p *Pushes) Set(file string, checks []config.Push) error {
	tokens, err := readTokens(file, checks)
	if err != nil {
		return err
	}
	p.storing.Lock()
	defer p.storing.Unlock()
	named := make(map[string]bool)
	for i := range checks {
		c := &checks[i]
		named[c.Name] = true
		check := c.Check
		if last, ok := p.journal.last[c.Name]; ok {
			check.Last = &last.State
		}
		err := p.set.Put(c.Name, endpoint.Endpoint[string]{Checks: []endpoint.Check{{Name: checkName, Push: &check}}})
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", file, c.Line, c.Path, err) // cannot happen: package config has checked it
		}
	}
	p.mu.Lock()
	before := p.checks
	p.checks = slices.Clone(checks)
	maps.DeleteFunc(p.counts, func(c Count, _ uint64) bool { return !named[c.Name] })
	p.mu.Unlock()
	for _, old := range before {
		if !named[old.Name] {
			_ = p.set.Remove(old.Name) // nothing else changes the set
			p.keys.Delete(old.Name)
		}
	}
	p.tokens.Store(&tokens)
	p.noteWaits(checks)
	return nil
}

// noteWaits stores when the wait for the first report of a new check has begun, so that a restart does not
// begin it again.
func (p *Pushes) noteWaits(checks []config.Push) {
	for i := range checks {
		name := checks[i].Name
		s, ok := p.set.Status(name)
		if _, known := p.journal.last[name]; known || !ok {
			continue
		}
		if err := p.journal.add(&record{Name: name, State: *s.Checks[0].Push}); err != nil {
			p.cfg.Log.Warn("the beginning of the wait for a report cannot be stored", "push", name, "error", err.Error())
			return
		}
	}
}

// readTokens reads the tokens of all checks.
func readTokens(file string, checks []config.Push) (map[[sha256.Size]byte]string, error) {
	d := yamlpos.Decoder{File: file}
	tokens := make(map[[sha256.Size]byte]string)
	for i := range checks {
		c := &checks[i]
		if c.TokenFile == "" {
			continue
		}
		token, err := readToken(config.Beside(file, c.TokenFile))
		if err != nil {
			d.ErrorAt(c.Line, c.Path+".tokenFile", err)
			continue
		}
		sum := sha256.Sum256([]byte(token))
		if other, ok := tokens[sum]; ok {
			d.ErrorAt(c.Line, c.Path+".tokenFile", fmt.Errorf("has the same token as the file of %s", other))
		}
		tokens[sum] = c.Name
	}
	return tokens, d.Err()
}

// maxToken is the maximum length of a token in bytes.
const maxToken = 128

func readToken(path string) (string, error) {
	t, err := access.TokenFile(path)
	if err != nil {
		return "", err
	}
	text, err := t.Read()
	isOther := func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-' || r == '_')
	}
	if err == nil && (len(text) > maxToken || strings.ContainsFunc(text, isOther)) {
		err = fmt.Errorf("token file %s: must have at most %d letters, digits, dashes and underscores, since it is part of a URL", path, maxToken)
	}
	return text, err
}

// Report adds a result to a check, and stores it. The error is [ErrUnknown], or says that it could not be
// stored.
func (p *Pushes) Report(name string, o probe.Outcome) error {
	return p.record(name, o.Result.String(), o.Output, func() error { return p.set.Report(name, checkName, o) })
}

// Started tells that a run has begun. Its errors are those of Report.
func (p *Pushes) Started(name string) error {
	return p.record(name, resultStarted, "", func() error { return p.set.Started(name, checkName) })
}

func (p *Pushes) record(name, result, message string, change func() error) error {
	p.storing.Lock()
	defer p.storing.Unlock()
	if change() != nil {
		return ErrUnknown
	}
	r := record{Name: name, Message: p.note(name, result, clip.Bytes(message, states.MaxText))}
	if s, ok := p.set.Status(name); ok {
		r.State = *s.Checks[0].Push
	}
	return p.journal.add(&r)
}

// note counts a report, and returns the message of the last one with a result.
func (p *Pushes) note(name, result, message string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[Count{name, result}]++
	if result != resultStarted {
		p.messages[name] = message
	}
	return p.messages[name]
}

// Counts returns the numbers of reports.
func (p *Pushes) Counts() map[Count]uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Status is the state of a check.
type Status struct {
	Config config.Push
	endpoint.CheckStatus
	Message string // of the last report
}

// All yields all checks, in the order of prober.yaml.
func (p *Pushes) All() iter.Seq[Status] {
	return func(yield func(Status) bool) {
		p.mu.Lock()
		checks := p.checks // Set replaces it as a whole
		p.mu.Unlock()
		for _, c := range checks {
			state, message, ok := p.state(c.Name)
			if ok && !yield(Status{c, state, message}) {
				return
			}
		}
	}
}

// state returns the state of a check, and the message of the last report; false if there is none.
func (p *Pushes) state(name string) (s endpoint.CheckStatus, message string, ok bool) {
	e, ok := p.set.Status(name)
	if !ok {
		return s, "", false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.Checks[0], p.messages[name], true
}

// Handler returns the handler of the probe of a check, which has the given key.
func (p *Pushes) Handler(name string, key manager.Key) probe.Handler {
	p.keys.Store(name, key)
	return &handler{p, name}
}

// handler answers with the state of a check.
type handler struct {
	pushes *Pushes
	name   string
}

var _ probe.Describer = (*handler)(nil)

// Describe implements [probe.Describer].
func (h *handler) Describe(string, *probe.Request) string { return "" }

// Probe implements [probe.Handler].
func (h *handler) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	s, message, ok := h.pushes.state(h.name)
	switch {
	case !ok:
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: ErrUnknown}
	case s.State == states.Success:
		return probe.Outcome{Result: probe.Success, Output: message}, nil
	case s.State == states.Warning:
		return probe.Outcome{Result: probe.Warning, Output: s.Text}, nil
	case s.State == states.Failure:
		return probe.Outcome{Result: probe.Failure, Output: s.Text}, nil
	case s.Text != "":
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: errors.New(s.Text)}
	default:
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: errors.New("no report yet")}
	}
}
