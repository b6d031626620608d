package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local/internal/process"
	"github.com/daeace23/prober/probe"
)

// RestartGrace is the RestartGrace of a [manager.Config] for the pods of this package. The result
// of an external target is kept over a restart of the agent, even if the target was restored a
// moment ago.
const RestartGrace = time.Nanosecond

// The crash back-off of containers, which is the kubelet's.
const (
	DefaultRestartBackoff = 10 * time.Second
	maxRestartBackoff     = 5 * time.Minute
	restartBackoffReset   = 10 * time.Minute
)

// CommandRunner runs the commands of exec probes and hooks. The builtin package's HostRunner implements
// it, with Environment and User set to [Pods.Environment] and [Pods.User].
type CommandRunner interface {
	// RunInContainer runs cmd with the directory and the environment of the container, and
	// returns its output. It ends with ctx, or after timeout (0: no timeout). An exit code
	// other than 0 is an error. It must not change cmd.
	RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
}

// Config is the configuration of [Pods]. Its zero value works.
type Config struct {
	Runner CommandRunner // nil: commands in containers fail
	// RestartBackoff is the pause before the second restart in a row. It doubles up to 5 min.
	// 0 means [DefaultRestartBackoff].
	RestartBackoff time.Duration
	// StateDir keeps the IDs, start times and decided results of external targets over a
	// restart of the agent. It is created if it is missing, for the agent's user only. ""
	// keeps nothing. Stop saves everything. If the agent is killed, the changes of its last 5 s are lost.
	StateDir string
	// Generator generates pods in addition to the manifests, for [NewPodSource]; nil for none.
	Generator Generator
	// Empty allows [NewPodSource] without manifests and Generator: there are no pods then.
	Empty bool
}

// Pods runs pods on this host. It is safe for concurrent use. It is the
// [manager.StatusSource] of the manager that probes them.
//
// Call [New], make a manager with the Pods as its Status, and call [Pods.Start] with that manager. Call
// [Pods.Apply] whenever the desired pods change, and [Pods.Stop] at the end.
type Pods struct {
	cfg   Config
	host  pods.Host
	state *saver // nil: no state is saved
	store manager.StatusStore
	feed  pods.Feed
	// ids maps the present or last ID of each container to its pod.
	ids sync.Map

	ending  chan struct{}    // closed when Stop begins
	manager *manager.Manager // set once by Start
	cancel  context.CancelFunc
	loops   sync.WaitGroup // goroutines of pods and of Start
	living  sync.WaitGroup // pods that have not ended; none is added once stopped is set

	applying sync.Mutex       // held while pods are added to the manager or removed from it
	guard    *process.Process // nil until a pod needs it; guarded by applying

	mu      sync.Mutex
	pods    map[types.UID]*pod
	prior   map[types.UID]savedPod // read by New; Apply removes restored pods
	stopped bool
}

var (
	_ manager.RestartSource   = (*Pods)(nil)
	_ manager.StatusPublisher = (*Pods)(nil)
)

// ErrStopped is returned by [Pods.Apply] before [Pods.Start] and after [Pods.Stop].
var ErrStopped = errors.New("pods are stopped")

// New returns a Pods without any pod. It reads the state directory. Commands in containers get
// host.Mark. When the manager has refused a probe and no Apply has returned the error, the host is
// asked for a reload. Begin, Check, Refused and Applied of host are not used.
func New(cfg Config, host pods.Host) (*Pods, error) {
	if cfg.RestartBackoff < 0 {
		return nil, fmt.Errorf("restart back-off %s: must not be negative", cfg.RestartBackoff)
	}
	cfg.RestartBackoff = cmp.Or(cfg.RestartBackoff, DefaultRestartBackoff)
	p := &Pods{cfg: cfg, host: host, ending: make(chan struct{}), pods: make(map[types.UID]*pod)}
	if cfg.StateDir != "" {
		var err error
		if p.state, p.prior, err = newSaver(cfg.StateDir, host.Logger); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
	}
	p.store.Changed = func(pod *v1.Pod, _ v1.PodStatus) { p.feed.Changed(pod, p.store.PodStatus) }
	return p, nil
}

// Start makes m probe the pods. The Status of its config must be p, and its RestartGrace must be
// [RestartGrace]. Start returns at once. Call it once, before Apply.
func (p *Pods) Start(m *manager.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	p.manager, p.cancel = m, cancel
	updates := m.Subscribe(ctx)
	p.loops.Go(func() {
		for u := range updates {
			p.decided(u)
		}
	})
	if p.state != nil {
		go p.state.run(ctx) // Stop waits for it
	}
}

// decided handles a change of a decided result as the sync loop of the kubelet does.
func (p *Pods) decided(u results.Update) {
	uid := types.UID(u.PodUID)
	p.mu.Lock()
	pod := p.pods[uid]
	p.mu.Unlock()
	if pod == nil {
		return
	}
	pod.setResult(u.Kind, u.ContainerID)
	p.mu.Lock()
	if p.pods[uid] == pod { // otherwise its file was removed
		p.state.save(uid, pod)
	}
	p.mu.Unlock()
	if u.Kind != probe.Readiness && u.Reason != results.Initial { // other changes cause no action
		pod.sync()
	}
}

// Apply sets the desired pods: it starts new pods, ends pods that are no longer desired, and
// updates the others in place. A container whose command, environment or directory changed is
// restarted. The others keep running, and probes that did not change keep their counters. Apply
// returns before the pods have reached the desired state. The pods must be valid, as returned by
// [manifest.Source.Load].
//
// The error joins the errors of probes that the manager refuses, for an unknown plugin or an invalid
// config. Everything else is applied. See [manager.Manager.UpdatePod].
func (p *Pods) Apply(ctx context.Context, specs []*declared.Pod) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	p.mu.Lock()
	if p.stopped || p.manager == nil {
		p.mu.Unlock()
		return ErrStopped
	}
	desired := sets.New[types.UID]()
	var started, changed []*pod
	for _, spec := range specs {
		uid := spec.Pod().UID
		desired.Insert(uid)
		if old := p.pods[uid]; old == nil {
			started = append(started, p.newPodLocked(spec))
		} else if old.change(spec) {
			changed = append(changed, old)
		}
	}
	all := slices.Collect(maps.Values(p.pods))
	for _, old := range all {
		if !desired.Has(old.uid) {
			old.terminate()
		}
	}
	p.mu.Unlock()
	p.removePrior(desired)
	p.startGuard(all...)
	var errs []error
	for _, pod := range started {
		errs = append(errs, p.run(ctx, pod))
	}
	for _, pod := range changed {
		errs = append(errs, pod.updateProbes(ctx))
		pod.sync()
	}
	return errors.Join(errs...)
}

// removePrior removes the saved state of an earlier agent for pods that are not desired.
func (p *Pods) removePrior(desired sets.Set[types.UID]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for uid := range p.prior {
		if !desired.Has(uid) {
			delete(p.prior, uid)
			p.state.save(uid, nil)
		}
	}
}

// Stop ends all pods as the kubelet does: liveness and startup probes stop, preStop hooks run,
// containers get SIGTERM, and SIGKILL after their grace period. Readiness is probed until the end.
// When ctx ends first, all processes are killed at once. Stop returns when no process of the pods
// is left. It returns an error if the disk of StateDir does not answer.
func (p *Pods) Stop(ctx context.Context) error {
	p.mu.Lock()
	if !p.stopped {
		p.stopped = true
		close(p.ending)
	}
	all := slices.Collect(maps.Values(p.pods))
	p.mu.Unlock()
	for _, pod := range all {
		pod.terminate()
	}
	killed := make(chan struct{})
	cancelKill := context.AfterFunc(ctx, func() {
		defer close(killed)
		for _, pod := range all {
			pod.kill()
		}
	})
	p.living.Wait()
	if !cancelKill() {
		<-killed
	}
	if p.cancel != nil {
		p.cancel()
	}
	p.loops.Wait()
	p.endGuard()
	if p.state == nil || p.cancel == nil {
		return nil
	}
	return p.state.end(ctx)
}

// PodStatus implements [manager.StatusSource].
func (p *Pods) PodStatus(uid types.UID) (v1.PodStatus, bool) { return p.store.PodStatus(uid) }

// WatchStatus implements [manager.StatusPublisher].
func (p *Pods) WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func()) {
	return p.store.WatchStatus(uid, publish)
}

// Restarts implements [manager.RestartSource]. An external target is not restarted.
func (p *Pods) Restarts(_ *v1.Pod, c *v1.Container) bool { return !isExternal(c) }

// Pods returns all pods with their present status, sorted by namespace and name. They share memory, and must not be
// modified.
func (p *Pods) Pods() []v1.Pod {
	p.mu.Lock()
	specs := make([]*v1.Pod, 0, len(p.pods))
	for _, pod := range p.pods {
		specs = append(specs, pod.published())
	}
	p.mu.Unlock()
	slices.SortFunc(specs, func(a, b *v1.Pod) int { // sort pointers: a v1.Pod is large to move
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	all := make([]v1.Pod, 0, len(specs))
	for _, spec := range specs {
		if status, ok := p.store.PodStatus(spec.UID); ok {
			all = append(all, *spec)
			all[len(all)-1].Status = status
		}
	}
	return all
}

// RunInContainer runs cmd by the Runner of the [Config].
func (p *Pods) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	if p.cfg.Runner == nil {
		return nil, errors.New("commands cannot be run in containers: no CommandRunner is set")
	}
	return p.cfg.Runner.RunInContainer(ctx, containerID, cmd, timeout)
}

// Environment returns the working directory (the agent's if "") and the environment for the exec probes
// and hooks of a container. Both are the same as for its process, with the Mark of the host added. It returns an
// error if the container does not run.
func (p *Pods) Environment(containerID string) (dir string, env []string, err error) {
	if v, ok := p.ids.Load(containerID); ok {
		if dir, env, ok := v.(*pod).environment(containerID); ok {
			return dir, env, nil
		}
	}
	return "", nil, fmt.Errorf("container %q is not running", containerID)
}

// User returns the user for the exec probes and hooks of a container: the user of its process; nil for
// the agent's user. It returns an error if the container does not run.
func (p *Pods) User(containerID string) (*procgroup.User, error) {
	if v, ok := p.ids.Load(containerID); ok {
		if u, ok := v.(*pod).user(containerID); ok {
			return u, nil
		}
	}
	return nil, fmt.Errorf("container %q is not running", containerID)
}

// withStatus returns a shallow copy of pod with the status. Pods passed to Apply, and statuses in the store, are
// never modified.
func withStatus(pod *v1.Pod, status v1.PodStatus) *v1.Pod {
	shown := *pod
	shown.Status = status
	return &shown
}
