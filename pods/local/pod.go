package local

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// pod is one pod. Only its loop starts and kills containers.
type pod struct {
	owner *Pods
	uid   types.UID
	name  types.NamespacedName
	begun metav1.Time
	jobs  sync.WaitGroup // kills, hooks and waits in progress

	// syncs counts the calls of sync that the loop has not seen yet. The loop runs while it is
	// not 0. It is also not 0 from newPodLocked to the end of run, while there is no loop yet.
	syncs atomic.Int64
	timer *time.Timer // calls sync for the next back-off; nil before the first; owned by the loop

	// publishing is held from the read of the decided results until the status has them, so
	// that no older result replaces a newer one. It is locked before mu.
	publishing sync.Mutex

	mu          sync.Mutex
	declared    *declared.Pod // from Apply
	spec        *v1.Pod       // the pod of declared, with its deletion time; replaced, never modified
	shown       *v1.Pod       // the spec that was last published
	ip          string
	containers  []*container // containers of spec, and removed ones until they end
	initialized bool
	complete    bool           // the pod has ended by itself: no container remains to be started
	resetting   bool           // all containers are being stopped, to be restarted together
	terminating bool           // the pod is being deleted
	stopped     bool           // the loop has begun to end it
	unprobed    bool           // the manager has refused a probe
	killing     bool           // all processes must be killed
	restarts    []pods.Restart // not reported yet
	next        *declared.Pod  // runs after the end of this pod
	restored    savedPod       // saved by an earlier agent; cleared by firstStatus
	frozen      *savedPod      // set when the pod begins to end: the state to save; never modified
}

// newPodLocked returns a new pod, which [Pods.run] starts.
func (p *Pods) newPodLocked(d *declared.Pod) *pod {
	spec := d.Pod()
	pod := &pod{
		owner: p, uid: spec.UID, name: types.NamespacedName{Namespace: spec.Namespace, Name: spec.Name}, begun: metav1.Now(),
	}
	pod.syncs.Store(1) // run starts the loop
	pod.setSpecLocked(d)
	if saved, ok := p.prior[spec.UID]; ok {
		delete(p.prior, spec.UID)
		pod.restoreLocked(saved)
	}
	p.pods[spec.UID] = pod
	p.living.Add(1)
	return pod
}

// run publishes the pod, adds it to the manager and starts its loop. It returns the errors of probes
// that the manager refuses.
func (p *Pods) run(ctx context.Context, pod *pod) error {
	d, status := pod.firstStatus()
	p.store.SetPodStatus(d.Pod(), status)
	err := pod.setUnprobed(p.manager.Add(ctx, d.WithStatus(status)))
	p.loops.Go(pod.loop)
	return err
}

// change gives the pod a new spec and reports whether its probes must be updated.
func (p *pod) change(d *declared.Pod) bool {
	spec := d.Pod()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.terminating:
		p.next = d
		return false
	case p.spec.Namespace != spec.Namespace || p.spec.Name != spec.Name: // another pod with the same UID
		p.next = d
		p.terminateLocked()
		return false
	case samePod(p.declared, d):
		return p.unprobed && !p.complete
	case p.complete: // it has ended by itself: run the new spec as a new pod
		p.next = d
		p.terminateLocked()
		return false
	}
	p.setSpecLocked(d)
	return true
}

// updateProbes updates the probes of the pod in the manager.
func (p *pod) updateProbes(ctx context.Context) error {
	return p.setUnprobed(p.owner.manager.Apply(ctx, p.probes()))
}

// setUnprobed records whether the manager has refused a probe, and returns err. The next Apply tries
// again.
func (p *pod) setUnprobed(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unprobed = err != nil
	return err
}

// refused reports whether the manager has refused a probe.
func (p *pod) refused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unprobed
}

// probes returns the probes of the pod with its published status.
func (p *pod) probes() *declared.Pod {
	p.mu.Lock()
	d, spec := p.declared, p.spec
	p.mu.Unlock()
	status, _ := p.owner.store.PodStatus(p.uid)
	return d.WithPod(withStatus(spec, status))
}

// current returns the pod with its published status.
func (p *pod) current() *v1.Pod {
	spec := p.published()
	status, _ := p.owner.store.PodStatus(p.uid)
	return withStatus(spec, status)
}

// published returns the spec of the pod, with the time of its deletion if it is being deleted.
func (p *pod) published() *v1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spec
}

// environment returns the directory and the environment of the commands of a running container;
// ok is false when no container has the ID.
func (p *pod) environment(id string) (dir string, env []string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.containers {
		if c.id != id || !c.running() {
			continue
		}
		if c.external {
			l, _ := launchOf(p.spec, c.spec) // commands for a target run as the agent's user
			return l.Dir, append(l.Env, p.owner.host.Mark), true
		}
		return c.dir, append(slices.Clone(c.env), p.owner.host.Mark), true
	}
	return "", nil, false
}

// user returns the user of the container with an ID; nil for the agent's user. ok is false if the
// container does not run.
func (p *pod) user(id string) (u *procgroup.User, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.containers {
		if c.id == id && c.running() {
			return c.user, true
		}
	}
	return nil, false
}

// containerLocked returns the container with a name, or nil.
func (p *pod) containerLocked(name string) *container {
	for _, c := range p.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// sync requests another pass, and starts the loop if it does not run. An idle pod has no goroutine.
func (p *pod) sync() {
	if p.syncs.Add(1) == 1 {
		p.owner.loops.Go(p.loop)
	}
}

// terminate ends the pod.
func (p *pod) terminate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = nil
	p.terminateLocked()
}

// kill kills the processes of a pod that is being ended.
func (p *pod) kill() {
	p.mu.Lock()
	p.killing = true
	p.mu.Unlock()
	p.sync()
}

func (p *pod) terminateLocked() {
	if !p.terminating {
		p.terminating = true
		spec := *p.spec
		spec.DeletionTimestamp = new(metav1.Now())
		p.spec = &spec
	}
	p.sync()
}

// loop brings the pod to its desired state. It returns when nothing remains to be done until the next
// call of sync, or when the pod was deleted and has ended. Each pod has its own loop, so that a slow start or
// plugin delays no other pod.
func (p *pod) loop() {
	for {
		seen := p.syncs.Load()
		retry, ended := p.pass()
		p.syncAt(retry)
		if ended {
			p.jobs.Wait()
			p.finish()
			p.owner.living.Done()
			return // syncs stays above 0: no further loop starts
		}
		if p.syncs.CompareAndSwap(seen, 0) {
			return
		}
	}
}

// syncAt sets the timer to call sync at a time, or stops it if the time is zero.
func (p *pod) syncAt(at time.Time) {
	switch {
	case at.IsZero() && p.timer != nil:
		p.timer.Stop()
	case at.IsZero():
	case p.timer == nil:
		p.timer = time.AfterFunc(time.Until(at), p.sync)
	default:
		p.timer.Reset(time.Until(at))
	}
}

// pass is one iteration of the loop. retry is the time of the next iteration if sync is not called before,
// or zero. ended reports whether the deleted pod has ended.
func (p *pod) pass() (retry time.Time, ended bool) {
	p.publish()
	p.mu.Lock()
	terminating, complete := p.terminating, p.complete
	p.mu.Unlock()
	switch {
	case terminating:
		p.freeze()
		p.owner.state.save(p.uid, p)
		ended = p.end()
		p.killIfAsked()
		return time.Time{}, ended
	case !complete:
		retry = p.act()
		p.publish()
		p.reportRestarts()
	}
	p.owner.state.save(p.uid, p)
	return retry, false
}

// act starts and kills containers. retry is the time of the next start after a back-off, or zero.
func (p *pod) act() (retry time.Time) {
	began := time.Now()
	p.mu.Lock()
	if p.resetLocked() {
		p.mu.Unlock()
		return time.Time{}
	}
	spec := p.spec
	todo := computeActions(spec, p.viewsLocked())
	p.initialized = todo.initialized
	p.dropRemovedLocked()
	if todo.killPod {
		p.complete = p.stopAllLocked() == 0
		complete := p.complete
		p.mu.Unlock()
		if complete {
			p.owner.manager.RemovePod(spec)
		}
		return time.Time{}
	}
	for _, k := range todo.kill {
		p.killLocked(p.containerLocked(k.container.Name), k)
	}
	var starts []*container
	for _, c := range todo.start {
		if c := p.containerLocked(c.Name); c.state != running {
			starts = append(starts, c)
		}
	}
	p.mu.Unlock()
	p.startAll(starts)
	return p.nextRetry(began)
}

// startAll starts the containers whose back-off is over.
func (p *pod) startAll(starts []*container) {
	tried, restarted := false, false
	for _, c := range starts {
		ran := c.id != "" // only the loop changes it
		if p.start(c) {
			tried, restarted = true, restarted || ran
		}
	}
	// Add the workers again: the worker of a container that could not be restarted has ended. At a first
	// start, the workers exist, unless the manager has refused one.
	if !tried || !restarted && !p.refused() {
		return
	}
	spec := p.published()
	err := p.owner.manager.Add(context.Background(), p.probes())
	for p.published() != spec { // Apply has changed it meanwhile
		spec = p.published()
		err = p.owner.manager.Apply(context.Background(), p.probes())
	}
	if err != nil {
		p.owner.host.Logger.Debug("some probes cannot run", "pod", p.uid, "err", err)
		p.mu.Lock()
		before := p.unprobed
		p.unprobed = true
		p.mu.Unlock()
		if !before {
			p.owner.requestReload()
		}
	}
}

// nextRetry returns the earliest end of a back-off after now, or zero.
func (p *pod) nextRetry(now time.Time) (retry time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.containers {
		if c.retry.After(now) && (retry.IsZero() || c.retry.Before(retry)) {
			retry = c.retry
		}
	}
	return retry
}

// viewsLocked returns the input of computeActions.
func (p *pod) viewsLocked() map[string]view {
	views := make(map[string]view, len(p.containers))
	for _, c := range p.containers {
		v := view{
			state: c.state, again: c.again, stopping: c.stopping != nil, external: c.external,
			changed:    c.state == running && c.hash != p.hashOf(c.spec),
			liveness:   p.decided(probe.Liveness, c.id),
			startup:    p.decided(probe.Startup, c.id),
			hasStartup: c.probes.kinds[probe.Startup],
		}
		if c.end != nil {
			v.exitCode = c.end.ExitCode
		}
		views[c.name] = v
	}
	return views
}

// decided returns the decided result of a probe of a container.
func (p *pod) decided(kind probe.Kind, id string) decision {
	var d decision
	d.result, d.found = p.owner.manager.Results(kind).Get(id)
	return d
}

// dropRemovedLocked stops the containers that are not in the spec.
func (p *pod) dropRemovedLocked() {
	desired := containerNames(p.spec)
	p.containers = slices.DeleteFunc(p.containers, func(c *container) bool {
		if desired.Has(c.name) || c.running() {
			return false
		}
		p.setIDLocked(c, "")
		return true
	})
	for _, c := range p.containers {
		if !desired.Has(c.name) && c.stopping == nil {
			p.stopLocked(c, killRequest{}, nil)
		}
	}
}

// resetLocked restarts all containers when one has ended with an exit code for which its restart rules
// have the action RestartAllContainers. It reports whether containers are still being stopped.
func (p *pod) resetLocked() bool {
	if !p.resetting {
		status := p.statusLocked()
		p.resetting = manager.AllContainersShouldRestart(p.spec, &status)
	}
	if !p.resetting {
		return false
	}
	if p.stopAllLocked() > 0 {
		return true
	}
	p.resetting = false
	for _, c := range p.containers {
		if c.state == finished {
			c.state, c.last = absent, c.end // keep the end for the back-off
		}
	}
	return false
}

// finish removes a pod that has ended, and runs the pod that replaces it. It requests a reload
// with no lock held, since the host may call Apply.
func (p *pod) finish() {
	if err := p.remove(); err != nil {
		p.owner.host.Logger.Error("some probes cannot run", "pod", p.uid, "err", err)
		p.owner.requestReload()
	}
}

// requestReload asks the host for a reload, because the manager has refused a probe.
func (p *Pods) requestReload() { p.host.RequestReload("a probe was refused") }

// remove removes a pod that has ended, and runs the next one. It returns the error of the next pod's probes.
func (p *pod) remove() error {
	o := p.owner
	o.applying.Lock()
	defer o.applying.Unlock()
	o.manager.RemovePod(p.published())
	p.publish()
	last := p.current()

	o.mu.Lock()
	delete(o.pods, p.uid)
	var left sets.Set[types.UID]
	p.mu.Lock()
	desired := p.next
	for _, c := range p.containers {
		p.setIDLocked(c, "")
	}
	if p.unprobed { // the manager may have probes that are not in the spec
		left = sets.KeySet(o.pods)
	}
	p.mu.Unlock()
	if !o.stopped { // otherwise the next agent restores the pod
		o.state.save(p.uid, nil)
	}
	var next *pod
	if desired != nil && !o.stopped {
		next = o.newPodLocked(desired)
	}
	o.mu.Unlock()
	o.store.RemovePod(p.uid)
	o.feed.Removed(last)
	if left != nil {
		o.manager.CleanupPods(left)
	}
	if next == nil {
		return nil
	}
	o.startGuard(next)
	return o.run(context.Background(), next)
}

// event records an event of a container.
func (p *pod) event(c *container, eventType, reason, message string) {
	ref := manager.ContainerReference(p.name.Namespace, p.name.Name, p.uid, c.name, c.init)
	p.owner.host.Recorder.Event(ref, eventType, reason, message)
}
