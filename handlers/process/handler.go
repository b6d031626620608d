package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/internal/pluginpb"
	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Handler is a plugin that runs as a process. It is safe for concurrent use.
type Handler struct {
	cfg      Config
	manifest *plugin.Manifest
	about    attempt.Plugin
	limits   plugin.Limits
	keeps    bool // the probes may store keys and values
	keeper   *keeper
	path     string // for messages
	launch   launch

	secrets secrets
	hits    attempt.Hits

	gate gate
}

var _ probe.ContextPreparer = (*Handler)(nil)

// Stats are figures of a plugin.
type Stats struct {
	Running bool   // the process runs
	Busy    int    // attempts in flight
	Starts  uint64 // number of process starts since the plugin was loaded
	// Limits is how often each limit was hit. Limits that were not hit are omitted.
	Limits map[plugin.LimitName]uint64
}

// Stats returns the current figures.
func (h *Handler) Stats() Stats {
	h.keeper.mu.Lock()
	s := Stats{Running: h.keeper.current != nil && h.keeper.current.child.ready(), Starts: h.keeper.starts}
	h.keeper.mu.Unlock()
	s.Busy, s.Limits = h.gate.busyNow(), h.hits.Counts()
	return s
}

// Prepare implements [probe.Preparer]. It validates config against the manifest's schema, and fills in the
// defaults. If the process validates configs, Prepare also asks the process.
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return h.PrepareContext(context.Background(), config, target)
}

// PrepareContext implements [probe.ContextPreparer]. It stops waiting for the process when ctx ends.
func (h *Handler) PrepareContext(ctx context.Context, config []byte, target probe.Target) (probe.Handler, error) {
	config, err := h.manifest.Config.Apply(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.StartTimeout)
	defer cancel()
	b := &bound{plugin: h, config: config, url: attempt.URLOf(config), store: new(attempt.Store)}
	if err := h.validate(ctx, config, target); err != nil {
		return nil, redact.Error(err, redact.New(b.Secrets()).Replace)
	}
	return b, nil
}

// validate asks the process to validate config. If the process ends meanwhile, it asks once more.
func (h *Handler) validate(ctx context.Context, config []byte, target probe.Target) error {
	in, answer, err := h.askConfig(ctx, config, target)
	if in != nil && err != nil && !in.child.ready() && ctx.Err() == nil {
		_, answer, err = h.askConfig(ctx, config, target)
	}
	switch {
	case err != nil:
		return fmt.Errorf("validate_config: %w", err)
	case answer.GetCode() != 0:
		return errors.New(cmp.Or(probe.Cut(answer.GetMessage()), "the plugin does not accept this config"))
	}
	return nil
}

// askConfig asks the process whether it accepts a config. A process that does not validate configs accepts
// all. in is nil if there is no process to ask.
func (h *Handler) askConfig(ctx context.Context, config []byte, target probe.Target) (in *instance, answer *pluginpb.ValidateConfigResponse, err error) {
	if in, err = h.keeper.await(ctx); err != nil || !in.about.GetValidatesConfig() {
		return in, nil, err
	}
	in.used.Store(true)
	in.child.lines.validate()
	h.secrets.validate()
	defer func() { h.secrets.validated(err != nil || answer.GetCode() != 0) }()
	answer, err = in.rpc.ValidateConfig(ctx, &pluginpb.ValidateConfigRequest{Request: h.about.ConfigRequest(config, target)})
	switch {
	case status.Code(err) == codes.DeadlineExceeded: // the caller must not try other configs
		err = fmt.Errorf("the process does not say within %s whether it takes a config: %w", h.cfg.StartTimeout, context.DeadlineExceeded)
	case err != nil && ctx.Err() == context.Canceled:
		err = ctx.Err()
	case err != nil:
		err = in.fault(ctx, err, true)
	}
	return in, answer, err
}

// Probe implements [probe.Handler] for a plugin that needs no config.
func (h *Handler) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	config, err := h.manifest.Config.Apply(nil)
	if err != nil {
		return probe.Outcome{}, err
	}
	return (&bound{plugin: h, config: config, store: new(attempt.Store)}).Probe(ctx, req)
}

// Close refuses further attempts, waits for the attempts in flight, and ends the process.
func (h *Handler) Close() error {
	if !h.gate.close() {
		return nil
	}
	drained := make(chan struct{})
	go func() {
		h.gate.wg.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(drainTimeout): // the remaining attempts have unusually late deadlines
	}
	err := h.keeper.close()
	<-drained // attempts end with the process
	return err
}

// newLines returns the log for a process that is about to start.
func (h *Handler) newLines() *lineLog {
	return &lineLog{
		logger: h.cfg.Logger, name: h.manifest.Name, maxLines: h.limits.LogLines, bytes: h.limits.LogBytes,
		secrets: &h.secrets, unknown: h.secrets.unknowns(),
	}
}

// gate counts the attempts in flight, and lets no attempt begin after it was closed. Its first two fields
// are read-only.
type gate struct {
	limit int           // maximum number of concurrent attempts; 0 means no limit
	hits  *attempt.Hits // counts attempts that were refused

	mu     sync.Mutex
	busy   int
	closed bool
	wg     sync.WaitGroup // counts attempts
}

// enter counts an attempt. If it returns no error, the caller must call leave.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return attempt.ErrClosed
	case g.limit > 0 && g.busy >= g.limit:
		g.hits[plugin.LimitInstances].Add(1)
		return &attempt.Skipped{Err: errors.New("as many attempts as the limit allows are in flight")}
	}
	g.busy++
	g.wg.Add(1)
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	g.wg.Done()
}

// close lets no further attempt begin, and reports whether the gate was open. The caller then waits for
// wg.
func (g *gate) close() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	wasOpen := !g.closed
	g.closed = true
	return wasOpen
}

// busyNow returns the number of attempts in flight.
func (g *gate) busyNow() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy
}
