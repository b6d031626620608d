package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
)

const (
	// longestAttempt is how long an attempt goes on with pods that have changed. The others wait for the next one, so
	// that it begins with pods of other namespaces that have changed meanwhile.
	longestAttempt = time.Second
	// networkTimeout bounds a question to the runtime for the network of a pod.
	networkTimeout = 2 * time.Second
	// spentFor is how long the loop remembers for the pods of which namespaces it has taken time.
	spentFor = time.Minute
)

// edits are the changes of a pod that are applied. Somebody who changes an annotation a hundred times a second
// makes neither the loop nor the log busy.
var edits = pace.Rate{Burst: 10, Every: 5 * time.Second}

var errNotListed = errors.New("the API server has not listed the pods of this node yet")

// applyLoop applies the pods that have changed until ctx ends, after all of them are known.
func (s *Source) applyLoop(ctx context.Context) {
	r, atMost := pods.Reload{Cause: "start"}, time.Duration(math.MaxInt64)
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.toApply.Wake:
		}
		s.mu.Lock()
		synced := s.synced
		s.mu.Unlock()
		if !synced {
			continue // setSynced wakes the loop
		}
		uids := slices.DeleteFunc(s.toApply.Take(), s.isEarly)
		if r.Routine && len(uids) == 0 {
			continue
		}
		_ = s.attempt(ctx, r, uids, atMost) // the agent logs the error
		r, atMost = pods.Reload{Cause: "changed pods", Routine: true}, longestAttempt
	}
}

// Reload applies all pods again.
func (s *Source) Reload(ctx context.Context, r pods.Reload) error {
	s.mu.Lock()
	synced := s.synced
	uids := make([]types.UID, 0, len(s.pods))
	for uid := range s.pods {
		uids = append(uids, uid)
	}
	s.mu.Unlock()
	if !synced {
		return errNotListed
	}
	return s.attempt(ctx, r, uids, math.MaxInt64)
}

// attempt applies some pods, and reports the result of all. Those that it has not begun with after atMost are put back.
func (s *Source) attempt(ctx context.Context, r pods.Reload, uids []types.UID, atMost time.Duration) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	s.host.Begin()
	for _, uid := range uids { // first, since it takes no time
		s.remove(uid)
	}
	begun := time.Now()
	for waiting := s.byNamespace(uids); len(waiting) > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(begun) >= atMost {
			s.toApply.Put(slices.Concat(slices.Collect(maps.Values(waiting))...)...)
			break
		}
		now, of := time.Now(), s.spent.least(waiting)
		s.apply(ctx, waiting[of][0])
		s.spent.add(of, time.Since(now))
		if waiting[of] = waiting[of][1:]; len(waiting[of]) == 0 {
			delete(waiting, of)
		}
	}
	var applied []*declared.Pod
	var errs []error
	s.mu.Lock()
	maps.DeleteFunc(s.edits, func(_ types.UID, of pace.Bucket) bool { return of.Full(time.Now()) })
	for _, p := range s.pods {
		if p.plan == nil {
			continue
		}
		applied = append(applied, p.plan.declared)
		for _, err := range p.failed {
			errs = append(errs, fmt.Errorf("%s/%s: %w", p.latest.Namespace, p.latest.Name, err))
		}
	}
	s.mu.Unlock()
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return s.host.Applied(ctx, r, applied, errors.Join(errs...))
}

// byNamespace returns the pods of each namespace, the oldest first: it finds room before younger ones, whatever agent
// applies them.
func (s *Source) byNamespace(uids []types.UID) map[string][]types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string][]types.UID)
	for _, uid := range uids {
		if p := s.pods[uid]; p != nil {
			all[p.latest.Namespace] = append(all[p.latest.Namespace], uid)
		}
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b types.UID) int {
			return cmp.Or(s.pods[a].latest.CreationTimestamp.Compare(s.pods[b].latest.CreationTimestamp.Time), cmp.Compare(a, b))
		})
	}
	return all
}

// spent is the time that the loop has taken lately for the pods of each namespace. Whose pods take long, by their
// plugins or their size, waits for others, and not others for them.
type spent struct {
	since time.Time
	of    map[string]time.Duration
}

func (s *spent) add(namespace string, took time.Duration) {
	if now := time.Now(); s.of == nil || now.Sub(s.since) > spentFor {
		s.since, s.of = now, make(map[string]time.Duration)
	}
	s.of[namespace] += took
}

// least returns the namespace for which the least time was taken, of those that wait.
func (s *spent) least(waiting map[string][]types.UID) string {
	return slices.MinFunc(slices.Collect(maps.Keys(waiting)), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.of[a], s.of[b]), cmp.Compare(a, b))
	})
}

// remove ends the probes of a pod that is gone, and forgets it.
func (s *Source) remove(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || !p.gone {
		s.mu.Unlock()
		return
	}
	p.changes++ // no report and no event comes of it any more
	s.mu.Unlock()
	if p.plan != nil {
		s.manager.RemovePod(p.shown) // before NetworkOf forgets it
	}
	s.mu.Lock()
	latest, again, left := p.latest, !p.gone, p.left
	delete(s.pods, uid)
	if again { // it is wanted again, and perhaps no more before it is applied
		next := newPod(latest)
		next.inPod, next.network = p.inPod, p.network // until then; see NetworkOf
		s.pods[uid] = next
	}
	s.mu.Unlock()
	if again {
		defer s.toApply.Put(uid)
	}
	s.store.RemovePod(uid)
	s.states.remove(uid)
	s.cfg.Conditions.Remove(uid)
	if p.shown != nil {
		s.feed.Removed(p.shown)
	}
	if left != nil {
		s.notProbed(left)
	}
	s.retryRefused(latest.Namespace)
}

// roomFor returns how many attempts a second the probes of a pod may make: what those of the other pods of its namespace
// leave.
func (s *Source) roomFor(pod *v1.Pod) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := float64(s.cfg.Policy.MaxRate)
	for uid, p := range s.pods {
		if uid != pod.UID && !p.gone && p.plan != nil && p.latest.Namespace == pod.Namespace {
			room -= p.plan.rate
		}
	}
	return room
}

// retryRefused has the pods of a namespace applied again of which probes found no room.
func (s *Source) retryRefused(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, p := range s.pods {
		if !p.gone && p.plan != nil && p.plan.crowded && p.latest.Namespace == namespace {
			s.toApply.Put(uid)
		}
	}
}

// apply gives the manager the probes of a pod.
func (s *Source) apply(ctx context.Context, uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || p.gone {
		s.mu.Unlock()
		return
	}
	latest, before, halted, added := p.latest, p.plan, p.halted, p.plan != nil
	s.mu.Unlock()
	if latest.DeletionTimestamp != nil && added {
		if !halted {
			s.manager.StopLivenessAndStartup(p.shown)
			s.mu.Lock()
			p.halted = true
			s.mu.Unlock()
		}
		return // readiness goes on until the end, as it is
	}
	if s.waits(uid, p) {
		return
	}
	next := newPlan(latest, &s.cfg, s.roomFor(latest))
	if next.inPod && !s.findNetwork(ctx, p, latest) {
		return // it is tried again, and what runs fails in the network that is gone
	}
	failed, slow := s.check(ctx, p, next)
	if slow {
		s.mu.Lock()
		s.preparing[uid] = next.plugins
		p.slow++
		s.mu.Unlock()
		s.toPrepare.Put(uid)
		return
	}
	s.mu.Lock()
	p.slow = 0
	p.inPod = next.inPod // before the first attempt
	p.changes++
	s.mu.Unlock()
	if added && (before.inPod != next.inPod || before.own && !slices.Equal(before.addresses, next.addresses)) {
		s.manager.RemovePod(p.shown) // its targets are not its own any more
		added = false
	}
	probed := next.declared
	if !added {
		probed = probed.WithStatus(priorOf(latest, s.since).Status)
		status := s.firstStatus(latest, probed.Pod(), next)
		s.mu.Lock()
		p.ids = idsOf(&status) // a first attempt may run a command
		s.mu.Unlock()
		s.store.SetPodStatus(published(next.pod), status)
	}
	failed = append(failed, joined.Errors(s.manager.Apply(context.WithoutCancel(ctx), probed))...) // the end of the agent is no fault of a probe
	s.applied(p, latest, next, failed)
}

// isEarly reports whether there is nothing to be done with a pod yet.
func (s *Source) isEarly(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	return p != nil && !p.gone && p.latest.DeletionTimestamp == nil && time.Now().Before(p.again)
}

// waits reports whether a pod is applied later, when it is put into the queue again: it changes too often, or its configs
// take too long.
func (s *Source) waits(uid types.UID, p *pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if _, prepared := s.preparing[uid]; prepared || now.Before(p.again) {
		return true
	}
	if wait := s.edits[uid].Next(edits).Sub(now); wait > 0 {
		p.again = now.Add(wait)
		time.AfterFunc(wait, func() { s.toApply.Put(uid) })
		return true
	}
	s.edits[uid] = s.edits[uid].Take(edits, now)
	return false
}

// applied records what the manager has, and tells what is wrong with the pod.
func (s *Source) applied(p *pod, latest *v1.Pod, next *plan, failed []error) {
	errs := slices.Concat(next.errs, next.notes)
	var mendable []error
	for _, err := range failed {
		if slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
			continue
		}
		errs, mendable = append(errs, err), append(mendable, err)
	}
	text := message(errs)
	s.mu.Lock()
	first, news := p.plan == nil, text != p.told
	acts := p.missed || !first && p.plan.mode != next.mode && (next.mode == liveness.Restart || next.mode == liveness.Evict)
	if first {
		p.prior, p.earlier = priorOf(latest, s.since), toldOf(latest, next.declared, s.since)
	}
	less := !first && next.rate < p.plan.rate
	p.plan, p.failed, p.told, p.missed = next, mendable, text, false
	p.changes++
	p.prior = withStatus(next.pod, p.prior.Status)
	p.shown = published(next.pod)
	s.mu.Unlock()
	uid := latest.UID
	if news && text != "" {
		s.events.Event(reference(latest), v1.EventTypeWarning, "ProbeInvalid", text) // the agent logs it
	}
	if news && text == "" && !first {
		s.log.Info("the probes of a pod are valid again", "namespace", latest.Namespace, "pod", latest.Name)
	}
	if acts {
		s.failedAlready(uid)
	}
	if less {
		s.retryRefused(latest.Namespace)
	}
	s.toPublish.Put(uid)
	s.toReport.Put(uid)
}

// reference returns the object of events about a pod.
func reference(pod *v1.Pod) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion}
}

// withStatus returns pod with the status. The result shares the rest with pod.
func withStatus(pod *v1.Pod, status v1.PodStatus) *v1.Pod {
	next := *pod
	next.Status = status
	return &next
}

// published returns a pod without what readers do not need: variables may have secrets.
func published(pod *v1.Pod) *v1.Pod {
	next := *pod
	hide := func(all []v1.Container) []v1.Container {
		kept := slices.Clone(all)
		for i := range kept {
			kept[i].Env, kept[i].Lifecycle = nil, nil
		}
		return kept
	}
	next.Spec.Containers, next.Spec.InitContainers = hide(pod.Spec.Containers), hide(pod.Spec.InitContainers)
	return &next
}

// priorOf returns pod with the status that an earlier agent has left, for containers that it has
// probed: those that started before this agent, and before a condition of prober became true. What is
// Ready and Started there is what that condition says, and not the kubelet.
func priorOf(latest *v1.Pod, since time.Time) *v1.Pod {
	prior := withStatus(latest, v1.PodStatus{})
	ready := conditionOf(latest, conditions.Ready)
	status := v1.ConditionFalse
	if ready != nil {
		status = ready.Status
	}
	prior.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: status}}
	seed := func(all []v1.ContainerStatus) (kept []v1.ContainerStatus) {
		for i := range all {
			c := &all[i]
			if c.ContainerID == "" || c.State.Running == nil || !c.State.Running.StartedAt.Time.Before(since) {
				continue
			}
			begun := c.State.Running.StartedAt.Time
			isReady := trueSince(ready, begun)
			started := isReady || trueSince(conditionOf(latest, conditions.Live), begun) ||
				trueSince(conditionOf(latest, v1.PodConditionType(conditions.Prefix+"startup."+c.Name)), begun)
			if started {
				kept = append(kept, v1.ContainerStatus{Name: c.Name, ContainerID: c.ContainerID, Ready: isReady, Started: new(true), State: c.State})
			}
		}
		return kept
	}
	prior.Status.ContainerStatuses, prior.Status.InitContainerStatuses = seed(latest.Status.ContainerStatuses), seed(latest.Status.InitContainerStatuses)
	return prior
}

// toldOf returns the states that an earlier agent has told in events, of probes of containers that started
// before this agent: those that a condition lists.
func toldOf(latest *v1.Pod, planned *declared.Pod, since time.Time) map[probeKey]states.State {
	told := make(map[probeKey]states.State)
	for _, p := range planned.Probes() {
		key := probeKey{p.Container, p.Kind}
		gate := conditions.Ready
		if p.Kind == probe.Liveness {
			gate = conditions.Live
		}
		for _, of := range []v1.PodConditionType{gate, v1.PodConditionType(conditions.Prefix + p.Kind.String() + "." + p.Container)} {
			if c := conditionOf(latest, of); c != nil && conditions.Lists(c, p.Container, p.Kind) && startedBefore(latest, p.Container, since) {
				told[key] = stateOf(c)
			}
		}
	}
	return told
}

// stateOf returns the state of a probe that a condition lists.
func stateOf(c *v1.PodCondition) states.State {
	switch {
	case c.Status == v1.ConditionFalse:
		return states.Failure
	case c.Reason == conditions.ProbeWarning:
		return states.Warning
	}
	return states.Unknown
}

func startedBefore(pod *v1.Pod, container string, since time.Time) (before bool) {
	each(&pod.Status, func(c *v1.ContainerStatus) {
		before = before || c.Name == container && c.State.Running != nil && c.State.Running.StartedAt.Time.Before(since)
	})
	return before
}

// trueSince reports whether a condition is true, and became so at begun or later.
func trueSince(c *v1.PodCondition, begun time.Time) bool {
	return c != nil && c.Status == v1.ConditionTrue && !c.LastTransitionTime.Time.Before(begun.Truncate(time.Second))
}

func conditionOf(pod *v1.Pod, t v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == t {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// publishedConditions returns the conditions of prober that a pod has.
func publishedConditions(pod *v1.Pod) (all []v1.PodCondition) {
	for _, c := range pod.Status.Conditions {
		if strings.HasPrefix(string(c.Type), conditions.Prefix) {
			all = append(all, c)
		}
	}
	return all
}
