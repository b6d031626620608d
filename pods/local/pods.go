package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/pods/local/internal/process"
)

// RestartGrace is the RestartGrace in the [manager.Config] of a manager that probes the pods of
// this package: the result of an external target from before a restart of the agent is kept,
// however short ago that was.
const RestartGrace = time.Nanosecond

// The crash back-off of containers, which is the kubelet's.
const (
	DefaultRestartBackoff = 10 * time.Second
	maxRestartBackoff     = 5 * time.Minute
	restartBackoffReset   = 10 * time.Minute
)

// CommandRunner runs the commands of preStop and postStart hooks. The builtin
// package's HostRunner is one, with Environment set to [Pods.Environment].
type CommandRunner interface {
	// RunInContainer runs cmd in the surroundings of the container and returns what
	// it wrote. It ends when ctx does or after timeout (0: none). A code other than 0
	// is an error.
	RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error)
}

// Config is what [Pods] needs. Its zero value works: no events, no state over a
// restart of the agent, hooks that run commands fail.
type Config struct {
	// Recorder takes events; it is called by many goroutines and must not block. Nil: no
	// events.
	Recorder manager.Recorder
	Runner   CommandRunner // of hooks; nil: hooks with a command fail
	Logger   *slog.Logger  // nil: slog's default
	// Output takes what containers write, line by line, each with a prefix
	// "namespace/pod/container: ". A container that floods loses lines, which are
	// counted. Nil discards.
	Output io.Writer
	// RestartBackoff is the pause before the second restart in a row; it doubles from
	// there up to 5 min. 0 means [DefaultRestartBackoff].
	RestartBackoff time.Duration
	// StateDir keeps the IDs, start times and decided results of external targets
	// over a restart of the agent. It is made when missing, for the agent's user only.
	// "" keeps nothing.
	StateDir string
	// Restarted is called after every restart of a container. It must not block. May be nil.
	Restarted func(Restart)
	// Unprobed is called when the manager has refused a probe and no Apply has returned the
	// error: when a pod starts after the end of another, or a container is restarted. The next
	// Apply tries again. It must not block. May be nil.
	Unprobed func()
	// Executable is the program to start as shim; "" means os.Executable.
	Executable string
	// Mark is a variable, "NAME=value", in the environment of every command that is run in a
	// container. Shims find the commands of a killed agent by it. Handlers that run programs
	// may set it too. "" means [NewMark].
	Mark string
	// Marked reports whether the handler of that name runs programs with Mark. Nil means that
	// none does.
	Marked func(handler string) bool
}

// Pods runs pods on this host. It is safe for concurrent use. It is the
// [manager.StatusSource] of the manager that probes them.
//
// Its life: [New], then a manager with it as Status, [Pods.Start] with that manager,
// [Pods.Apply] whenever the desired pods change, and [Pods.Stop].
type Pods struct {
	cfg   Config
	out   process.SharedWriter // over cfg.Output
	shim  string               // program
	mark  string               // a variable of every command that is run in a container
	state *stateDir            // nil: none
	store manager.StatusStore
	watch watchers
	prior map[types.UID]savedPod // read by New, taken by Apply; guarded by mu

	manager *manager.Manager // set once by Start
	cancel  context.CancelFunc
	loops   sync.WaitGroup // goroutines of pods and of Start

	applying sync.Mutex // held while pods are added to the manager or forgotten by it

	mu      sync.Mutex
	pods    map[types.UID]*pod
	guard   *process.Process // nil until a pod needs it
	stopped bool

	unguarded bool // this system supports no guard, which was logged
}

var _ manager.RestartSource = (*Pods)(nil)

// ErrStopped is returned by [Pods.Apply] before [Pods.Start] and after [Pods.Stop].
var ErrStopped = errors.New("pods are stopped")

// NewMark returns a variable for [Config.Mark] that no other agent has.
func NewMark() string { return "PROBER_AGENT_ID=" + rand.Text() }

// New returns a Pods without any pod. It reads the state directory.
func New(cfg Config) (*Pods, error) {
	if cfg.RestartBackoff < 0 {
		return nil, fmt.Errorf("restart back-off %s: must not be negative", cfg.RestartBackoff)
	}
	cfg.RestartBackoff = cmp.Or(cfg.RestartBackoff, DefaultRestartBackoff)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Output == nil {
		cfg.Output = io.Discard
	}
	if process.IsShim(os.Args) {
		return nil, errors.New("this program was started as the shim of a container but does not call ShimMain")
	}
	p := &Pods{cfg: cfg, pods: make(map[types.UID]*pod), mark: cmp.Or(cfg.Mark, NewMark()), shim: cfg.Executable}
	p.out.W = cfg.Output
	var err error
	if p.shim == "" {
		if p.shim, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if cfg.StateDir != "" {
		p.state = &stateDir{path: cfg.StateDir, unsaved: make(map[types.UID]struct{})}
		if p.prior, err = p.state.load(cfg.Logger); err != nil {
			return nil, fmt.Errorf("state directory: %w", err)
		}
	}
	p.store.Changed = func(pod *v1.Pod, _ v1.PodStatus) { p.watch.changed(pod, p.store.PodStatus) }
	return p, nil
}

// Start lets p probe its pods through m, whose Config.Status must be p and whose
// RestartGrace [RestartGrace]. It returns at once. Call it once, before Apply.
func (p *Pods) Start(m *manager.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	p.manager, p.cancel = m, cancel
	updates := m.Subscribe(ctx)
	p.loops.Go(func() {
		for u := range updates {
			p.decided(u)
		}
	})
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
	pod.show(u.Kind, u.ContainerID)
	pod.sync()
}

// Apply sets the desired pods: it starts new pods, ends pods that are not desired any more, and
// updates the others in place. A container whose command, environment or directory changed is
// restarted, the others keep running. Probes that did not change keep their counters. Apply
// returns before the pods have reached the desired state. pods must be valid, as those that
// Load of the manifest package returns, and are not modified.
//
// The error joins those of probes that the manager refuses, for an unknown plugin or a bad
// config; everything else is applied. See [manager.Manager.UpdatePod].
func (p *Pods) Apply(ctx context.Context, pods []*v1.Pod) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	p.mu.Lock()
	if p.stopped || p.manager == nil {
		p.mu.Unlock()
		return ErrStopped
	}
	desired := make(map[types.UID]sets.Empty, len(pods))
	var started, changed []*pod
	for _, spec := range pods {
		desired[spec.UID] = sets.Empty{}
		old := p.pods[spec.UID]
		if old == nil {
			started = append(started, p.newPodLocked(spec))
			continue
		}
		if old.change(spec) {
			changed = append(changed, old)
		}
		p.guardLocked(old.needs)
	}
	for uid, old := range p.pods {
		if _, ok := desired[uid]; !ok {
			old.terminate(nil)
		}
	}
	p.mu.Unlock()
	p.forget(desired)
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

// forget removes the saved state of pods that are not desired.
func (p *Pods) forget(desired map[types.UID]sets.Empty) {
	var gone []types.UID
	p.mu.Lock()
	for uid := range p.prior {
		if _, ok := desired[uid]; !ok && p.pods[uid] == nil {
			delete(p.prior, uid)
			gone = append(gone, uid)
		}
	}
	p.mu.Unlock()
	for _, uid := range gone { // without the lock: a disk or a log may be slow
		if err := p.state.remove(uid); err != nil {
			p.cfg.Logger.Error("saved state not removed", "uid", uid, "err", err)
		}
	}
}

// missesProbe notes that the manager has refused a probe of the pod, and calls Unprobed once.
func (p *pod) missesProbe() {
	p.mu.Lock()
	known := p.unprobed
	p.unprobed = true
	p.mu.Unlock()
	if !known {
		p.owner.callUnprobed()
	}
}

func (p *Pods) callUnprobed() {
	if p.cfg.Unprobed != nil {
		p.cfg.Unprobed()
	}
}

// Stop ends all pods as the kubelet ends a pod: liveness and startup probes stop,
// preStop hooks run, containers get SIGTERM and, when their grace period is over,
// SIGKILL. Readiness is probed until the end. When ctx ends first, all processes are killed at
// once. Stop returns when no process of the pods is left.
func (p *Pods) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.stopped = true
	all := make([]*pod, 0, len(p.pods))
	for _, pod := range p.pods {
		all = append(all, pod)
	}
	p.mu.Unlock()
	for _, pod := range all {
		pod.terminate(ctx.Done())
	}
	for _, pod := range all {
		<-pod.done
	}
	if p.cancel != nil {
		p.cancel()
	}
	p.loops.Wait()
	p.endGuard()
	return nil
}

// PodStatus implements [manager.StatusSource].
func (p *Pods) PodStatus(uid types.UID) (v1.PodStatus, bool) { return p.store.PodStatus(uid) }

// Restarts implements [manager.RestartSource]: an external target is not restarted.
func (p *Pods) Restarts(_ *v1.Pod, c *v1.Container) bool { return !isExternal(c) }

// Pods returns the pods with their live status, sorted by namespace and name. They
// are copies.
func (p *Pods) Pods() []v1.Pod {
	p.mu.Lock()
	specs := make([]*v1.Pod, 0, len(p.pods))
	for _, pod := range p.pods {
		specs = append(specs, pod.published())
	}
	p.mu.Unlock()
	all := make([]v1.Pod, 0, len(specs))
	for _, spec := range specs {
		if status, ok := p.store.PodStatus(spec.UID); ok {
			all = append(all, *withStatus(spec, status))
		}
	}
	slices.SortFunc(all, func(a, b v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// Watch returns the changes of all pods until ctx ends, beginning with their present state. A
// slow reader blocks nothing: it gets the newest state of each pod. The sequence is for one
// reader.
func (p *Pods) Watch(ctx context.Context) iter.Seq[Change] {
	q := p.watch.attach()
	for _, pod := range p.Pods() {
		q.putOlder(Change{Pod: &pod})
	}
	return p.watch.read(ctx, q)
}

// Environment returns the working directory ("" is that of the agent) and the environment of
// the exec probes and hooks of a container: those of its process, or what they would be for an
// external target, with [Config].Mark. The error is that no such container runs.
func (p *Pods) Environment(containerID string) (dir string, env []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range p.pods {
		if dir, env, ok := pod.environment(containerID); ok {
			return dir, env, nil
		}
	}
	return "", nil, fmt.Errorf("container %q is not running", containerID)
}

func withStatus(pod *v1.Pod, status v1.PodStatus) *v1.Pod {
	pod = pod.DeepCopy()
	status.DeepCopyInto(&pod.Status)
	return pod
}
