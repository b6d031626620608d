package local

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local/manifest"
)

// Generator generates pods in addition to the pods of manifests. Package targets implements it.
type Generator interface {
	// Check returns the errors of the pods of the next Generate, without requests to sources of targets. It changes
	// no pod.
	Check(ctx context.Context, all bool, others []*declared.Pod, check func(*declared.Pod) []error) error
	// Generate returns the pods with their probes. Unchanged pods are the same objects as before. With all set,
	// unchanged pods are checked too. others are the pods of manifests, whose names are taken. check is the Check of a
	// [pods.Host].
	Generate(ctx context.Context, all bool, others []*declared.Pod, check func(*declared.Pod) []error) ([]*declared.Pod, error)
	// Run calls request whenever Generate may return other pods, until ctx ends. It is called once,
	// after Generate.
	Run(ctx context.Context, request func(cause string))
	// Targets returns the targets as of the last call of Generate.
	Targets() pods.Targets
	// CheckTarget is the Guard of a [pods.Source]. It allows all targets for pods that are not generated.
	CheckTarget(podUID string, to netns.To) error
	// OwnName is the OwnName of a [pods.Source]. It is false for pods that are not generated.
	OwnName(podUID, host string) bool
}

// PodSource runs the pods of manifests, and applies the manifests again when they change. It is
// the source of pods of `prober run`.
//
// Call [NewPodSource], make a manager with the source as its Status, call Start with that manager, and Stop at
// the end.
type PodSource struct {
	*podSet

	manifests *manifest.Source
	generator Generator          // nil for none
	cancel    context.CancelFunc // set by Start
	polls     sync.WaitGroup

	mu      sync.Mutex      // held while manifests are read and applied
	desired []*declared.Pod // the pods that were last read without an error
	applied bool            // the desired pods were applied without an error
	stamp   string          // stamp of the manifests before they were last read
}

// podSet is an alias of Pods. An embedded field with the name Pods would hide the method Pods.
type podSet = Pods

// NewPodSource reads the manifests, checks their pods, and returns a source that runs them. The
// error joins every problem. NewPodSource sets Known and Check of manifests, and starts nothing. The list of
// manifests may be empty if cfg has a Generator or is Empty.
func NewPodSource(ctx context.Context, manifests *manifest.Source, cfg Config, host pods.Host) (*PodSource, error) {
	if len(manifests.Paths) == 0 && cfg.Generator == nil && !cfg.Empty {
		return nil, errors.New("no manifests given")
	}
	set, err := New(cfg, host)
	if err != nil {
		return nil, err
	}
	s := &PodSource{podSet: set, manifests: manifests, generator: cfg.Generator, cancel: func() {}}
	s.desired, err = s.read(ctx, true)
	return s, err
}

// ForAgent returns the source as an agent uses it.
func (s *PodSource) ForAgent() pods.Source {
	source := pods.Source{
		Status: s.podSet, Start: s.Start, Stop: s.Stop, Pods: s.Pods, Watch: s.Watch,
		Reload: s.Reload, RunInContainer: s.RunInContainer, RestartGrace: RestartGrace, Saving: s.Saving, Targets: s.Targets,
	}
	if s.generator != nil {
		source.Guard, source.OwnName = s.generator.CheckTarget, s.generator.OwnName
	}
	return source
}

// Desired returns the pods that were last read without an error.
func (s *PodSource) Desired() []*declared.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.desired)
}

// Start runs the pods that NewPodSource has read, and applies manifests that change until ctx
// ends or Stop is called. It returns at once.
func (s *PodSource) Start(ctx context.Context, m *manager.Manager) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.podSet.Start(m)
	s.polls.Go(func() { s.poll(ctx) })
	if s.generator != nil {
		s.polls.Go(func() { s.generator.Run(ctx, s.host.RequestReload) })
	}
}

// Stop ends all pods as [Pods.Stop] does, and then the goroutines of Start.
func (s *PodSource) Stop(ctx context.Context) error {
	s.cancel()
	err := s.podSet.Stop(ctx)
	s.polls.Wait() // last, since a reload in progress may take long to end
	return err
}

// Reload reads the manifests and applies them if they have no errors.
func (s *PodSource) Reload(ctx context.Context, r pods.Reload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	desired, err := s.read(ctx, r.All)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return s.host.Refused(ctx, r, err)
	}
	s.desired = desired
	return s.applyLocked(ctx, r)
}

// Targets returns the targets of the Generator.
func (s *PodSource) Targets() pods.Targets {
	if s.generator == nil {
		return pods.Targets{}
	}
	return s.generator.Targets()
}

// poll applies the manifests, and requests a reload whenever they have changed, until ctx ends.
func (s *PodSource) poll(ctx context.Context) {
	s.mu.Lock()
	_ = s.applyLocked(ctx, pods.Reload{Cause: "start"}) // the agent logs the error
	s.mu.Unlock()
	known := func() string { // waits for a reload in progress
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.stamp
	}
	for s.awaitChange(ctx, known) {
		s.host.RequestReload("changed files")
	}
}

// awaitChange returns true when a change of the manifests since the stamp known is due, and
// false at the end of ctx.
func (s *PodSource) awaitChange(ctx context.Context, known func() string) bool {
	ticker := time.NewTicker(s.host.PollInterval)
	defer ticker.Stop()
	for files := (filestamp.Settling{}); ; {
		select {
		case <-ctx.Done():
			return false
		case now := <-ticker.C:
			stamp := known()
			if files.Due(now, s.manifests.Stamp(), stamp) {
				return true
			}
		}
	}
}

// applyLocked applies the desired pods.
func (s *PodSource) applyLocked(ctx context.Context, r pods.Reload) error {
	s.applied = false
	err := s.Apply(ctx, s.desired)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.applied = err == nil
	return s.host.Applied(ctx, r, s.desired, err)
}

// errSuperseded cancels a read of manifests that have changed since it began.
var errSuperseded = errors.New("the manifests have changed meanwhile")

// read returns the pods of the manifests, after a check. Without all, it does not check pods that
// are applied. A check may wait for a plugin that is being compiled or hangs. If the manifests change
// meanwhile, the newer ones may not need the plugin, so read starts again. It does so only once, because
// manifests that change steadily must be applied too.
func (s *PodSource) read(ctx context.Context, all bool) ([]*declared.Pod, error) {
	first, cancel := context.WithCancelCause(ctx)
	s.stamp = s.manifests.Stamp()
	known := func() string { return s.stamp }
	var watching sync.WaitGroup
	watching.Go(func() {
		if s.awaitChange(first, known) {
			cancel(errSuperseded)
		}
	})
	desired, err := s.load(first, all)
	superseded := err != nil && context.Cause(first) == errSuperseded
	cancel(nil)
	watching.Wait()
	if superseded {
		s.stamp = s.manifests.Stamp()
		return s.load(ctx, all)
	}
	return desired, err
}

// load loads the manifests once, and checks their pods. For an unchanged pod it returns the object from the
// desired pods, without parsing its probes again.
func (s *PodSource) load(ctx context.Context, all bool) ([]*declared.Pod, error) {
	s.host.Begin()
	desired := make(map[types.UID]*declared.Pod, len(s.desired))
	for _, d := range s.desired {
		desired[d.Pod().UID] = d
	}
	s.manifests.Known = func(pod *v1.Pod) *declared.Pod {
		if known := desired[pod.UID]; known != nil && equality.Semantic.DeepEqual(known.Pod(), pod) {
			return known
		}
		return nil
	}
	s.manifests.Check = func(pod *declared.Pod) []error {
		if ctx.Err() != nil {
			return []error{context.Cause(ctx)}
		}
		if !all && s.applied && pod == desired[pod.Pod().UID] {
			return nil // its handlers are in use
		}
		return s.host.Check(ctx, pod)
	}
	loaded, err := s.manifests.Load(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, w := range loaded.Warnings {
		s.host.Logger.Warn(pods.Doubtful, "place", w.Error())
	}
	if s.generator == nil {
		return loaded.Pods, err
	}
	check := func(d *declared.Pod) []error { return s.host.Check(ctx, d) }
	if err != nil {
		return nil, errors.Join(err, s.generator.Check(ctx, all, loaded.Pods, check))
	}
	generated, err := s.generator.Generate(ctx, all, loaded.Pods, check)
	return slices.Concat(loaded.Pods, generated), err
}
