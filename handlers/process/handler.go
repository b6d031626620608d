package process

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/daeace23/prober/internal/abi"
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

	validating atomic.Int32              // configs, for which the log is shut
	refused    atomic.Pointer[time.Time] // when a config last was, or was not answered for; nil: never

	mu     sync.Mutex
	calls  map[*call]struct{} // attempts in flight
	hits   map[plugin.LimitName]uint64
	secret map[*bound]func(string) string
	late   []lateSecret // of probes that have ended, the first first; no two are the same
	closed bool
	idle   chan struct{} // closed when the last call ends after Close has begun
}

// lateSecret is what a probe that has ended keeps secret until a time.
type lateSecret struct {
	of     [sha256.Size]byte // see secretOf
	redact func(text string) string
	until  time.Time
}

// lateFor is how long what a probe kept secret stays so after it has ended.
const lateFor = 10 * time.Minute

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
	s := Stats{Running: h.keeper.current != nil && h.keeper.current.ready(), Starts: h.keeper.starts}
	h.keeper.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	s.Busy, s.Limits = len(h.calls), make(map[plugin.LimitName]uint64, len(h.hits))
	maps.Copy(s.Limits, h.hits)
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
	return &bound{plugin: h, config: config, store: new(store)}, nil
}

// validate asks the process, and once more where it has ended meanwhile.
func (h *Handler) validate(ctx context.Context, config []byte, target probe.Target) error {
	in, answer, err := h.askConfig(ctx, config, target)
	if in != nil && err != nil && !in.ready() && ctx.Err() == nil {
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
	doc := abi.Request{
		ABI: abi.Version, Plugin: abi.Plugin{Name: h.manifest.Name, Version: h.manifest.Version, Digest: h.digest},
		Target: guestTarget(target), Config: config, Host: abi.Host{Version: h.cfg.Version, Features: h.features()},
	}
	in.used.Store(true)
	in.child.lines.begin()
	h.validating.Add(1) // nobody says yet what of the config is secret
	defer func() {
		refused := err != nil || answer.GetCode() != 0
		in.child.lines.end(refused)
		if refused { // and nobody will
			h.refused.Store(new(time.Now()))
		}
		h.validating.Add(-1)
	}()
	answer, err = in.rpc.ValidateConfig(ctx, &pluginpb.ValidateConfigRequest{Request: abi.AppendRequest(nil, &doc)})
	switch {
	case status.Code(err) == codes.DeadlineExceeded: // whoever has more of them to ask for need not try
		err = fmt.Errorf("the process does not say within %s whether it takes a config: %w", h.cfg.StartTimeout, context.DeadlineExceeded)
	case err != nil && ctx.Err() == context.Canceled: // nobody wants to know any more
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
	return (&bound{plugin: h, config: config, store: new(store)}).Probe(ctx, req)
}

// Close takes no more attempts, waits for those in flight, and ends the process.
func (h *Handler) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed, h.idle = true, make(chan struct{})
	if len(h.calls) == 0 {
		close(h.idle)
	}
	h.mu.Unlock()
	drained := time.NewTimer(h.cfg.DrainTimeout)
	defer drained.Stop()
	select {
	case <-h.idle:
	case <-drained.C: // what is left has no deadline worth the name
	}
	return h.keeper.close()
}

// admit takes in an attempt, if there is room for it.
func (h *Handler) admit(c *call) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return errClosed
	}
	if most := h.limits.Instances; most > 0 && len(h.calls) >= most {
		h.hitLocked(plugin.LimitInstances)
		return errFull
	}
	h.calls[c] = struct{}{}
	return nil
}

// leave ends what admit began.
func (h *Handler) leave(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.calls, c)
	for i, hit := range c.hits {
		if hit {
			h.hitLocked(i)
		}
	}
	if h.closed && len(h.calls) == 0 {
		close(h.idle)
	}
}

func (h *Handler) hitLocked(limit int) {
	if h.hits == nil {
		h.hits = make(map[plugin.LimitName]uint64)
	}
	h.hits[plugin.LimitNames[limit]]++
}

// newLines is the log of a process that is about to start.
func (h *Handler) newLines() *lineLog {
	return &lineLog{
		logger: h.cfg.Logger, name: h.manifest.Name, maxLines: h.limits.LogLines, bytes: h.limits.LogBytes, redact: h.redact,
		muted: h.isMuted,
	}
}

// isMuted reports whether what processes write may be about a config of which nobody has said
// what is secret. What was written about one that was refused may be read a moment later.
func (h *Handler) isMuted() bool {
	if h.validating.Load() > 0 { // first: what is refused is noted before it is no longer asked about
		return true
	}
	refused := h.refused.Load()
	return refused != nil && time.Since(*refused) < outputGrace
}

// redact takes the secrets of all probes, also of those that have ended lately, and of all
// attempts in flight, out of a text that a process wrote on behalf of one of them, nobody
// knows which.
func (h *Handler) redact(text string) string {
	h.mu.Lock()
	redact := slices.Collect(maps.Values(h.secret))
	for _, l := range h.lateLocked() {
		redact = append(redact, l.redact)
	}
	for c := range h.calls {
		if c.req.Redact != nil {
			redact = append(redact, c.req.Redact)
		}
	}
	h.mu.Unlock()
	return redactAll(text, redact)
}

// lateLocked forgets what need not be secret any more, and returns the rest.
func (h *Handler) lateLocked() []lateSecret {
	past := slices.IndexFunc(h.late, func(l lateSecret) bool { return time.Now().Before(l.until) })
	if past < 0 {
		past = len(h.late)
	}
	h.late = slices.Delete(h.late, 0, past)
	return h.late
}

// features are the capabilities that the plugin asked for: nothing holds a process to
// less.
func (h *Handler) features() []string {
	var all []string
	for _, r := range h.manifest.Requests {
		all = append(all, r.Capability)
	}
	return all
}
