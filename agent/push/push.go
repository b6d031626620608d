// Package push has the checks to which others report results.
//
// [Pushes] owns the checks, as endpoints of package core/endpoint. http.go has the requests with reports.
// journal.go stores each report in the state directory before its request is answered.
package push

import (
	"cmp"
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
	"time"

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
	keys   sync.Map                                     // name to manager.Key, of the probes of present and former checks

	storing chan struct{} // has an element while journal is used, which a slow disk may make long
	journal *journal
	waits   sync.WaitGroup // stores the begins of waits

	mu      sync.Mutex // held briefly, and never while a file is written
	checks  []config.Push
	last    map[string]*record // by the names of checks; its records are read-only
	counts  map[Count]uint64
	senders map[string]int // requests with tokens, by the names of checks
	failing bool           // the newest report could not be stored
}

// maxStoring is how long a report waits for others that are being stored.
const maxStoring = 5 * time.Second

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
	p := &Pushes{cfg: cfg, set: set, storing: make(chan struct{}, 1), counts: make(map[Count]uint64), senders: make(map[string]int)}
	p.journal, p.last = openJournal(cfg.StateDir, cfg.Log)
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

// Close ends all checks. Run must have returned. It does not wait long for a disk that hangs.
func (p *Pushes) Close() {
	_ = p.set.Shutdown(context.Background()) // it has no probes
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		p.waits.Wait()
	}()
	select {
	case <-stored:
	case <-time.After(maxStoring):
	}
	if p.acquire() {
		defer p.release()
		p.journal.close()
	}
}

// acquire reports whether the caller may use the journal, until it calls release.
func (p *Pushes) acquire() bool {
	select {
	case p.storing <- struct{}{}:
		return true
	case <-time.After(maxStoring):
		return false
	}
}

func (p *Pushes) release() { <-p.storing }

// Set replaces the checks. file is the path of prober.yaml. An error changes nothing.
func (p *Pushes) Set(file string, checks []config.Push) error {
	tokens, err := readTokens(file, checks)
	if err != nil {
		return err
	}
	named := make(map[string]bool)
	for i := range checks {
		c := &checks[i]
		named[c.Name] = true
		if err := p.put(c); err != nil {
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
		}
	}
	p.tokens.Store(&tokens)
	p.noteWaits(checks)
	return nil
}

// noteWaits stores when the wait for the first report of each new check has begun, so that a restart does not
// begin it again. It does not wait for the disk.
func (p *Pushes) noteWaits(checks []config.Push) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var added []string
	for i := range checks {
		name := checks[i].Name
		if s, ok := p.set.Status(name); ok && p.last[name] == nil {
			p.last[name] = &record{Name: name, State: *s.Checks[0].Push}
			added = append(added, name)
		}
	}
	p.waits.Go(func() {
		for _, name := range added {
			if p.store(name) != nil {
				return // a later report stores it
			}
		}
	})
}

// put adds or replaces a check. No report comes between its last record and the check.
func (p *Pushes) put(c *config.Push) error {
	check := c.Check
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.last[c.Name]; last != nil {
		check.Last = &last.State
	}
	return p.set.Put(c.Name, endpoint.Endpoint[string]{Checks: []endpoint.Check{{Name: checkName, Push: &check}}})
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
// stored: then the check has the result, and only a restart loses it.
func (p *Pushes) Report(name string, o probe.Outcome) error {
	o.Output = strings.Clone(clip.Bytes(o.Output, states.MaxText)) // without the memory of its request
	return p.record(name, o.Result.String(), o.Output, func() error { return p.set.Report(name, checkName, o) })
}

// Started tells that a run has begun. Its errors are those of Report.
func (p *Pushes) Started(name string) error {
	return p.record(name, resultStarted, "", func() error { return p.set.Started(name, checkName) })
}

func (p *Pushes) record(name, result, message string, change func() error) error {
	if !p.apply(strings.Clone(name), result, message, change) {
		return ErrUnknown
	}
	return p.store(name)
}

// apply changes a check, counts the report, and makes the record of the check. It returns false if there is no
// such check.
func (p *Pushes) apply(name, result, message string, change func() error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if change() != nil {
		return false
	}
	p.counts[Count{name, result}]++
	r := &record{Name: name, Message: message}
	if before := p.last[name]; result == resultStarted && before != nil {
		r.Message = before.Message
	}
	if s, ok := p.set.Status(name); ok {
		r.State = *s.Checks[0].Push
	}
	p.last[name] = r
	return true
}

// store stores the last record of a check, which may be newer than the report of the caller. It logs the first
// error, and its end.
func (p *Pushes) store(name string) error {
	err := p.tryStore(name)
	p.mu.Lock()
	changed := p.failing != (err != nil)
	p.failing = err != nil
	p.mu.Unlock()
	switch {
	case changed && err != nil:
		p.cfg.Log.Error("a report to a push cannot be stored", "push", name, "error", err.Error())
	case changed:
		p.cfg.Log.Info("reports to pushes are stored again")
	}
	return err
}

func (p *Pushes) tryStore(name string) error {
	if !p.acquire() {
		return fmt.Errorf("the disk has not stored another report for %v", maxStoring)
	}
	defer p.release()
	p.mu.Lock()
	r := p.last[name]
	p.mu.Unlock()
	return p.journal.add(r, func() []*record {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Collect(maps.Values(p.last))
	})
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
	if last := p.last[name]; last != nil {
		message = last.Message
	}
	return e.Checks[0], message, true
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

// Describe implements [probe.Describer]. A push has no target.
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
		return probe.Outcome{Result: probe.Failure, Output: cmp.Or(s.Text, "a failure was reported")}, nil
	case s.Text != "":
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: errors.New(s.Text)}
	case s.Run > 0:
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: fmt.Errorf("too few equal reports in a row to decide: %d", s.Run)}
	default:
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonUndecided, Err: errors.New("no report yet")}
	}
}
