package local

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local/manifest"
)

// What an agent knows of the pods of every source.
type (
	Change  = pods.Change
	Restart = pods.Restart
	Saving  = pods.Saving
)

// Follower runs the pods of manifests, and does so again when the manifests change: it is
// the source of pods of `prober run`.
//
// Its life: [Follow], then a manager with it as Status, Start with that manager, and Stop.
type Follower struct {
	pods   *Pods
	source *manifest.Source
	host   pods.Host
	cancel context.CancelFunc // set by Start
	polls  sync.WaitGroup

	mu      sync.Mutex            // held while manifests are read and applied
	desired []*v1.Pod             // of the manifests that were read last without a problem
	applied map[types.UID]*v1.Pod // those of them that run as they are
	stamp   string                // of the manifests from before they were read last
}

var _ manager.RestartSource = (*Follower)(nil)

// Follow reads the manifests of source and checks their pods: its error tells of all that is
// wrong. It runs nothing. What of cfg is for the agent to say (Recorder, Logger, Output,
// Restarted, Unprobed, Mark, Marked) and source.Check are set by it.
func Follow(ctx context.Context, source *manifest.Source, cfg Config, host pods.Host) (*Follower, error) {
	if len(source.Paths) == 0 {
		return nil, errors.New("no manifests given")
	}
	f := &Follower{source: source, host: host, cancel: func() {}}
	var err error
	if f.desired, err = f.newest(ctx, true); err != nil {
		return nil, err
	}
	cfg.Recorder, cfg.Logger, cfg.Output, cfg.Restarted = host.Recorder, host.Logger, host.Output, host.Restarted
	cfg.Mark, cfg.Marked = host.Mark, host.RunsPrograms
	cfg.Unprobed = func() { host.RequestReload("a probe that could not be had") }
	f.pods, err = New(cfg)
	return f, err
}

// Start runs the pods that Follow has read, and follows the manifests until ctx ends or Stop
// is called. It returns at once.
func (f *Follower) Start(ctx context.Context, m *manager.Manager) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.pods.Start(m)
	f.polls.Go(func() { f.follow(ctx) })
}

// Stop ends all pods, see [Pods.Stop], and what Start has started.
func (f *Follower) Stop(ctx context.Context) error {
	f.cancel()
	err := f.pods.Stop(ctx)
	f.polls.Wait() // not before: an attempt that is under way may take long to notice its end
	return err
}

// Reload reads the manifests and applies them, if nothing is wrong with them.
func (f *Follower) Reload(ctx context.Context, r pods.Reload) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	desired, err := f.newest(ctx, r.All)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return f.host.Refused(ctx, r, err)
	}
	f.desired = desired
	return f.apply(ctx, r)
}

// PodStatus implements [manager.StatusSource].
func (f *Follower) PodStatus(uid types.UID) (v1.PodStatus, bool) { return f.pods.PodStatus(uid) }

// Restarts implements [manager.RestartSource].
func (f *Follower) Restarts(pod *v1.Pod, c *v1.Container) bool { return f.pods.Restarts(pod, c) }

// Pods returns the pods with their status, see [Pods.Pods].
func (f *Follower) Pods() []v1.Pod { return f.pods.Pods() }

// Watch returns the changes of all pods, see [Pods.Watch].
func (f *Follower) Watch(ctx context.Context) iter.Seq[Change] { return f.pods.Watch(ctx) }

// Environment returns that of a container's commands, see [Pods.Environment].
func (f *Follower) Environment(containerID string) (dir string, env []string, err error) {
	return f.pods.Environment(containerID)
}

// Saving returns how it goes with the state that is saved.
func (f *Follower) Saving() Saving { return f.pods.Saving() }

// RestartGrace returns [RestartGrace].
func (f *Follower) RestartGrace() time.Duration { return RestartGrace }

// RunInContainer runs cmd by [Config].Runner.
func (f *Follower) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	if f.pods.cfg.Runner == nil {
		return nil, errNoRunner
	}
	return f.pods.cfg.Runner.RunInContainer(ctx, containerID, cmd, timeout)
}

var errNoRunner = errors.New("commands cannot be run in containers: no CommandRunner is set")

// follow applies the manifests, and asks for a reload when they have changed, until ctx ends.
func (f *Follower) follow(ctx context.Context) {
	f.mu.Lock()
	_ = f.apply(ctx, pods.Reload{Cause: "start"}) // the agent logs what is wrong
	f.mu.Unlock()
	ticker := time.NewTicker(f.host.PollInterval)
	defer ticker.Stop()
	for files := (filestamp.Settling{}); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			known := f.known()
			if files.Due(now, f.source.Stamp(), known) {
				f.host.RequestReload("changed files")
			}
		}
	}
}

// known returns the stamp of the manifests that were read last. It waits for a reload that is
// under way.
func (f *Follower) known() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stamp
}

// apply makes the desired pods those that run. The caller holds f.mu.
func (f *Follower) apply(ctx context.Context, r pods.Reload) error {
	err := f.pods.Apply(ctx, f.desired)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.applied = make(map[types.UID]*v1.Pod)
	if err == nil {
		for _, pod := range f.desired {
			f.applied[pod.UID] = pod
		}
	}
	return f.host.Applied(ctx, r, f.desired, err)
}

// errSuperseded ends a load of manifests that have changed since it began.
var errSuperseded = errors.New("the manifests have changed meanwhile")

// newest reads the manifests and checks their pods; with all, also those that run as they
// are. A check may wait for a plugin that has to be compiled, or that hangs. The load is given up when the
// manifests change meanwhile, since newer ones may not need the plugin, but only once: steady
// change must not keep manifests from being applied.
func (f *Follower) newest(ctx context.Context, all bool) ([]*v1.Pod, error) {
	loading, giveUp := context.WithCancelCause(ctx)
	f.stamp = f.source.Stamp()
	var watching sync.WaitGroup
	watching.Go(func() {
		if f.awaitChange(loading, f.stamp) {
			giveUp(errSuperseded)
		}
	})
	desired, err := f.load(loading, all)
	superseded := err != nil && context.Cause(loading) == errSuperseded
	giveUp(nil)
	watching.Wait()
	if superseded {
		f.stamp = f.source.Stamp()
		return f.load(ctx, all)
	}
	return desired, err
}

// awaitChange returns true when a change of the manifests since stamp is due, and false at
// the end of ctx.
func (f *Follower) awaitChange(ctx context.Context, stamp string) bool {
	ticker := time.NewTicker(f.host.PollInterval)
	defer ticker.Stop()
	for files := (filestamp.Settling{}); ; {
		select {
		case <-ctx.Done():
			return false
		case now := <-ticker.C:
			if files.Due(now, f.source.Stamp(), stamp) {
				return true
			}
		}
	}
}

// load reads the manifests and checks their pods; without all, those that do not run as they
// are.
func (f *Follower) load(ctx context.Context, all bool) ([]*v1.Pod, error) {
	f.host.Begin()
	f.source.Check = func(pod *v1.Pod) []error {
		if ctx.Err() != nil {
			return []error{context.Cause(ctx)}
		}
		if applied := f.applied[pod.UID]; !all && applied != nil && (applied == pod || equality.Semantic.DeepEqual(applied, pod)) {
			return nil // its handlers are in use
		}
		return f.host.Check(ctx, pod)
	}
	loaded, err := f.source.Load(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	}
	for _, w := range loaded.Warnings {
		f.host.Logger.Warn("unsupported field", "place", w.Error())
	}
	return loaded.Pods, nil
}
