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
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Handler is a plugin that is a process. It is safe for concurrent use.
type Handler struct {
	cfg      Config
	manifest *plugin.Manifest
	digest   string
	limits   plugin.Limits
	keeps    bool // its probes keep keys and values
	keeper   *keeper

	secrets secrets
	hits    attempt.Hits

	gate gate // of attempts
}

var _ probe.Preparer = (*Handler)(nil)

// Manifest returns the plugin's manifest, which must not be changed.
func (h *Handler) Manifest() *plugin.Manifest { return h.manifest }

// Digest returns the digest of the executable, "sha256:…".
func (h *Handler) Digest() string { return h.digest }

// Stats is what a plugin takes and did.
type Stats struct {
	Running bool   // there is a process
	Busy    int    // attempts in flight
	Starts  uint64 // of processes, since the plugin was loaded
	// Limits is how often each limit was hit; those that were not are left out.
	Limits map[plugin.LimitName]uint64
}

// Stats returns the figures of this moment.
func (h *Handler) Stats() Stats {
	h.keeper.mu.Lock()
	s := Stats{Running: h.keeper.current != nil && h.keeper.current.child.ready(), Starts: h.keeper.starts}
	h.keeper.mu.Unlock()
	s.Busy, s.Limits = h.gate.busyNow(), h.hits.Counts()
	return s
}

// Prepare implements [probe.Preparer]. It holds config against the manifest's schema,
// fills in the defaults, and asks the process if it validates configs.
func (h *Handler) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return h.PrepareContext(context.Background(), config, target)
}

// PrepareContext is Prepare that waits for the process no longer than ctx lasts.
func (h *Handler) PrepareContext(ctx context.Context, config []byte, target probe.Target) (probe.Handler, error) {
	config, err := h.manifest.Config.Apply(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.StartTimeout) // that of Prepare has no end
	defer cancel()
	if err := h.validate(ctx, config, target); err != nil {
		return nil, err
	}
	return &bound{plugin: h, config: config, store: new(attempt.Store)}, nil
}

// validate asks the process, and once more where it has ended meanwhile.
func (h *Handler) validate(ctx context.Context, config []byte, target probe.Target) error {
	in, answer, err := h.askConfig(ctx, config, target)
	if in != nil && err != nil && !in.child.ready() && ctx.Err() == nil {
		_, answer, err = h.askConfig(ctx, config, target)
	}
	switch {
	case err != nil:
		return fmt.Errorf("validate_config: %w", err)
	case answer.GetCode() != 0:
		return errors.New(cmp.Or(probe.Cut(answer.GetMessage()), "the plugin does not take this config"))
	}
	return nil
}

// askConfig asks whether a config is taken. A process that cannot say takes any. in is nil
// where there was none to ask.
func (h *Handler) askConfig(ctx context.Context, config []byte, target probe.Target) (in *instance, answer *pluginpb.ValidateConfigResponse, err error) {
	if in, err = h.keeper.await(ctx); err != nil || !in.about.GetValidatesConfig() {
		return in, nil, err
	}
	in.used.Store(true)
	in.child.lines.validate()
	v := h.secrets.validate()
	defer func() { v.end(err != nil || answer.GetCode() != 0) }()
	answer, err = in.rpc.ValidateConfig(ctx, &pluginpb.ValidateConfigRequest{Request: h.about().ConfigRequest(config, target)})
	switch {
	case status.Code(err) == codes.DeadlineExceeded: // whoever has more of them to ask for need not try
		err = fmt.Errorf("the process does not say within %s whether it takes a config: %w", h.cfg.StartTimeout, context.DeadlineExceeded)
	case err != nil && ctx.Err() == context.Canceled: // nobody wants to know any more
		err = ctx.Err()
	case err != nil:
		err = in.fault(ctx, err, &v)
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

// Close refuses further attempts, waits for those in flight, and ends the process.
func (h *Handler) Close() error {
	drained, ok := h.gate.close()
	if !ok {
		return nil
	}
	timer := time.NewTimer(h.cfg.DrainTimeout)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C: // what is left has no deadline worth the name
	}
	return h.keeper.close()
}

// enter counts an attempt in, if there is room for it.
func (h *Handler) enter() error {
	err := h.gate.enter(h.limits.Instances)
	if err == errFull {
		h.hits[plugin.LimitInstances].Add(1)
	}
	return err
}

// newLines is the log of a process that is about to start.
func (h *Handler) newLines() *lineLog {
	return &lineLog{
		logger: h.cfg.Logger, name: h.manifest.Name, maxLines: h.limits.LogLines, bytes: h.limits.LogBytes,
		secrets: &h.secrets, unknown: h.secrets.unknowns(),
	}
}

// about returns what the requests of h have in common. Its features are all capabilities that
// the plugin asks for: a process is not confined to fewer.
func (h *Handler) about() *attempt.Plugin {
	p := &attempt.Plugin{Manifest: h.manifest, Digest: h.digest, HostVersion: h.cfg.Version}
	for _, r := range h.manifest.Requests {
		p.Features = append(p.Features, r.Capability)
	}
	return p
}

var errFull = &attempt.Skipped{Err: errors.New("as many attempts as the limit allows are in flight")}

// gate counts the attempts in flight, and lets none begin after it is closed.
type gate struct {
	mu     sync.Mutex
	busy   int
	closed bool
	idle   chan struct{} // closed when the last attempt ends after close
}

// enter counts an attempt in, unless there are most of them; 0 means no limit. An enter
// without an error is followed by a leave.
func (g *gate) enter(most int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return attempt.ErrClosed
	case most > 0 && g.busy >= most:
		return errFull
	}
	g.busy++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy--; g.closed && g.busy == 0 {
		close(g.idle)
	}
}

// close lets no attempt begin any more. idle is closed when the last has ended; ok is false if
// the gate was closed before.
func (g *gate) close() (idle <-chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, false
	}
	g.closed, g.idle = true, make(chan struct{})
	if g.busy == 0 {
		close(g.idle)
	}
	return g.idle, true
}

// busyNow returns the number of attempts in flight.
func (g *gate) busyNow() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy
}
