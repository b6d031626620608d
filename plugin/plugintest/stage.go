package plugintest

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Stage is a plugin in the world of one case, to be called over and over, as a
// benchmark does. It is not safe for concurrent use.
type Stage struct {
	world   *world
	c       *Case
	handler probe.Handler
	calls   uint64
}

// NewStage loads a module as manifest says, which need not be its own, and prepares it
// for the case. Of cfg it heeds how guests are executed, and where they are cached.
func NewStage(ctx context.Context, c *Case, module []byte, manifest *plugin.Manifest, cfg Config) (*Stage, error) {
	s := newSession(cfg, module, manifest, nil)
	w, err := s.open(ctx, s.plain(manifest.Isolation), manifest, c.Grants...)
	if err != nil {
		return nil, err
	}
	st := &Stage{world: w, c: c}
	st.reset()
	config := c.Config
	if config == nil {
		config = []byte("{}")
	}
	if st.handler, err = w.handler.Prepare(config, c.Target); err != nil {
		w.close()
		return nil, err
	}
	return st, nil
}

// reset begins a day of its own, on which the case has not happened yet.
func (s *Stage) reset() {
	s.calls++
	s.world.clock.startAt(s.world.clock.Now().Add(time.Hour))
	s.world.rand.seed(s.calls)
	s.world.network = newNetwork(s.c, s.world.clock, rand.New(rand.NewPCG(s.calls, 0)))
}

// Call carries out the case once more, and returns how long the plugin took in real
// time, what the host and the played peers do included.
func (s *Stage) Call(ctx context.Context) (probe.Outcome, time.Duration, error) {
	s.reset()
	if keeper, ok := s.handler.(wasm.Keeper); ok && s.c.KV != nil {
		keeper.Keep(s.c.KV)
	}
	req := probe.Request{
		Kind: s.c.Kind, Attempt: s.c.Attempt, LastResult: s.c.LastResult, Target: s.c.Target, PodIP: s.c.PodIP,
		Spec: probe.Spec{Period: 10 * time.Second, Timeout: s.c.Timeout, SuccessThreshold: 1, FailureThreshold: 3},
		Pod:  &s.c.Pod, Container: &s.c.Container,
	}
	ctx, cancel := s.world.clock.WithTimeout(ctx, s.c.Timeout)
	defer cancel()
	start := time.Now()
	out, err := s.handler.Probe(ctx, req)
	return out, time.Since(start), err
}

// Memory returns the bytes of linear memory of the guest that was called last.
func (s *Stage) Memory() uint64 { return s.world.handler.Stats().Size }

// Close frees what the plugin holds.
func (s *Stage) Close() { s.world.close() }
