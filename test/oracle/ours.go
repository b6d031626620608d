package oracle

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/test/oracle/prober"
)

// ours is prober's manager, with its own exec handler.
type ours struct {
	*manager.Manager
	outside Outside
	slow    iter.Seq[results.Update] // read only at the end
	stop    context.CancelFunc       // ends slow
	prompt  *reader
	// tamper changes each added pod, to build in a fault. It may be nil.
	tamper func(*v1.Pod)
}

var _ Side = (*ours)(nil)

// UpdatePodStatus implements [Side]. The context exists for the kubelet's manager only.
func (o *ours) UpdatePodStatus(_ context.Context, pod *v1.Pod, status *v1.PodStatus) {
	o.Manager.UpdatePodStatus(pod, status)
}

// Ours makes prober's side with the given switches.
func Ours(compat manager.Compat) Maker { return Tampered(compat, nil) }

// Tampered makes prober's side with the given switches. tamper changes every added pod.
func Tampered(compat manager.Compat, tamper func(*v1.Pod)) Maker {
	return func(o Outside) Side {
		registry := new(handlers.Registry)
		if err := builtin.Register(registry, builtin.Config{Runner: execRunner(o.Run), Compat: compat}); err != nil {
			panic(fmt.Sprintf("register the built-in handlers: %v", err))
		}
		status := manager.StatusSource(podStatuses(o.PodStatus))
		if o.Published != nil {
			status = o.Published
		}
		m, err := manager.New(manager.Config{
			Status:   status,
			Handlers: registry,
			Recorder: eventRecorder(o.Event),
			Logger:   slog.New(slog.DiscardHandler),
			Compat:   compat,
		})
		if err != nil {
			panic(fmt.Sprintf("make a manager: %v", err))
		}
		ctx, stop := context.WithCancel(context.Background())
		s := &ours{Manager: m, outside: o, tamper: tamper, slow: m.Subscribe(ctx), stop: stop, prompt: newReader()}
		for _, kind := range probe.Kinds {
			go s.read(m.Results(kind))
		}
		return s
	}
}

// Profile returns the switches for the release of the kubelet that the tests are built with.
func Profile() manager.Compat {
	for _, r := range probe.KubeletReleases() {
		if r.Name == prober.Release {
			return r.Compat
		}
	}
	panic("release " + prober.Release + " of the kubelet has no profile")
}

// AddPod implements [Side]. An error is a fault, because the kubelet's AddPod returns none.
func (s *ours) AddPod(ctx context.Context, pod *v1.Pod) {
	if s.tamper != nil {
		s.tamper(pod)
	}
	if err := s.Manager.AddPod(ctx, pod); err != nil {
		s.outside.Fault("AddPod of %s: %v", pod.Name, err)
	}
}

// Cached implements [Side].
func (s *ours) Cached(kind, id string) string {
	k, err := probe.ParseKind(kind)
	if err != nil {
		return err.Error()
	}
	if r, ok := s.Results(k).Get(id); ok {
		return r.String()
	}
	return ""
}

// read reads the updates of a cache without delay. It reports all but removals, which the kubelet does not
// send.
func (s *ours) read(cache *results.Cache) {
	for u := range cache.Updates() {
		s.prompt.add(u)
		if !u.Removed {
			s.outside.Update(updateKey(u), updateText(u))
		}
	}
}

// LastUpdates implements [Side]. It also checks that the last update of each key matches the cache.
func (s *ours) LastUpdates() map[string]string {
	slow := newReader()
	var reading sync.WaitGroup
	reading.Go(func() {
		for u := range s.slow {
			slow.add(u)
		}
	})
	synctest.Wait()
	s.stop()
	reading.Wait()
	s.check("prompt", s.prompt)
	s.check("slow", slow)
	return slow.texts()
}

// check reports a fault for each key whose last update is a removal although the cache has a result, or
// the reverse.
func (s *ours) check(name string, r *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, u := range r.last {
		if _, present := s.Results(u.Kind).Get(u.ContainerID); present == u.Removed {
			s.outside.Fault("the cache has %s: %v; the last update for a %s reader: %+v", key, present, name, u)
		}
	}
}

// reader keeps the last update of each key.
type reader struct {
	mu      sync.Mutex
	last    map[string]results.Update
	changes map[string]string // last updates except removals, as text
}

func newReader() *reader {
	return &reader{last: make(map[string]results.Update), changes: make(map[string]string)}
}

func (r *reader) add(u results.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[updateKey(u)] = u
	if !u.Removed {
		r.changes[updateKey(u)] = updateText(u)
	}
}

func (r *reader) texts() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

func updateKey(u results.Update) string { return u.Kind.String() + " " + u.ContainerID }

func updateText(u results.Update) string { return fmt.Sprintf("%v of %s", u.Result, u.PodUID) }

// Close implements [Side].
func (s *ours) Close() {
	s.stop()
	if err := s.Manager.Close(); err != nil {
		panic(fmt.Sprintf("close the manager: %v", err))
	}
}

type podStatuses func(types.UID) (v1.PodStatus, bool)

func (f podStatuses) PodStatus(uid types.UID) (v1.PodStatus, bool) { return f(uid) }

type execRunner func(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error)

func (r execRunner) RunInContainer(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error) {
	return r(ctx, id, cmd, timeout)
}
