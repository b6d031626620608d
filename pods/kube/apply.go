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
	// longestAttempt is how long an attempt goes on to begin with changed pods. The rest waits for the next
	// attempt, which considers pods of other namespaces that have changed meanwhile.
	longestAttempt = time.Second
	// networkTimeout limits a request to the runtime for the network of a pod.
	networkTimeout = 2 * time.Second
	// spentFor is how long the time used by each namespace is remembered.
	spentFor = time.Minute
)

// edits limits how often the changes of one pod are applied. So an annotation that changes a hundred times a second
// does not flood the loop or the log.
var edits = pace.Rate{Burst: 10, Every: 5 * time.Second}

var errNotListed = errors.New("the API server has not listed the pods of this node yet")

// applyLoop waits for the first list of pods, and then applies changed pods until ctx ends.
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

// attempt applies the pods with the given UIDs, and reports the result of all pods to the host. It stops beginning
// with further pods after atMost, and puts those back into the queue.
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
		now, namespace := time.Now(), s.spent.least(waiting)
		s.apply(ctx, waiting[namespace][0])
		s.spent.add(namespace, time.Since(now))
		if waiting[namespace] = waiting[namespace][1:]; len(waiting[namespace]) == 0 {
			delete(waiting, namespace)
		}
	}
	var applied []*declared.Pod
	var errs []error
	s.mu.Lock()
	maps.DeleteFunc(s.edits, func(_ types.UID, b pace.Bucket) bool { return b.Full(time.Now()) })
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

// byNamespace groups pods by namespace, each group sorted from the oldest pod to the newest. So every agent gives
// the rate of a namespace to its oldest pods first.
func (s *Source) byNamespace(uids []types.UID) map[string][]types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string][]types.UID)
	for _, uid := range uids {
		if p := s.pods[uid]; p != nil {
			all[p.latest.Namespace] = append(all[p.latest.Namespace], uid)
		}
	}
	for _, group := range all {
		slices.SortFunc(group, func(a, b types.UID) int {
			return cmp.Or(s.pods[a].latest.CreationTimestamp.Compare(s.pods[b].latest.CreationTimestamp.Time), cmp.Compare(a, b))
		})
	}
	return all
}

// spent records how much time was used lately for the pods of each namespace. A namespace whose pods take long,
// by their plugins or their size, comes after the others.
type spent struct {
	since  time.Time
	byName map[string]time.Duration
}

func (s *spent) add(namespace string, took time.Duration) {
	if now := time.Now(); s.byName == nil || now.Sub(s.since) > spentFor {
		s.since, s.byName = now, make(map[string]time.Duration)
	}
	s.byName[namespace] += took
}

// least returns the waiting namespace that has used the least time.
func (s *spent) least(waiting map[string][]types.UID) string {
	return slices.MinFunc(slices.Collect(maps.Keys(waiting)), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.byName[a], s.byName[b]), cmp.Compare(a, b))
	})
}

// remove ends the probes of a pod with gone set, and forgets the pod.
func (s *Source) remove(uid types.UID) {
	s.mu.Lock()
	p := s.pods[uid]
	if p == nil || !p.gone {
		s.mu.Unlock()
		return
	}
	p.changes++ // stops reports and events about it
	s.mu.Unlock()
	if p.plan != nil {
		s.manager.RemovePod(p.shown) // before NetworkOf forgets it
	}
	s.mu.Lock()
	latest, again, left := p.latest, !p.gone, p.left
	delete(s.pods, uid)
	if again { // the pod has the annotation again
		next := newPod(latest)
		next.inPod, next.network = p.inPod, p.network // until it is applied; see NetworkOf
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

// roomFor returns how many attempts a second the probes of a pod may make: the rate limit of its namespace minus the
// rates of the namespace's other pods.
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

// retryRefused queues the pods of a namespace whose probes were refused for their rate.
func (s *Source) retryRefused(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, p := range s.pods {
		if !p.gone && p.plan != nil && p.plan.crowded && p.latest.Namespace == namespace {
			s.toApply.Put(uid)
		}
	}
}

// apply gives the probes of a pod to the manager, unless the pod must wait.
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
		return // readiness probes continue unchanged until the end
	}
	if s.mustWait(uid, p) {
		return
	}
	next := newPlan(latest, s.spaces.labelsOf(latest), s.chosen.of(latest), &s.cfg, s.roomFor(latest))
	if next.inPod && !s.findNetwork(ctx, p, latest) {
		return // tried again later; running probes fail in the old namespace
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
	if added && (before.inPod != next.inPod || before.ownAddr && !slices.Equal(before.addresses, next.addresses)) {
		s.manager.RemovePod(p.shown) // its targets have changed
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
	failed = append(failed, joined.Errors(s.manager.Apply(context.WithoutCancel(ctx), probed))...) // the end of the agent must not be an error of a probe
	s.applied(p, latest, next, failed)
}

// isEarly reports whether a pod waits for its time notBefore.
func (s *Source) isEarly(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[uid]
	return p != nil && !p.gone && p.latest.DeletionTimestamp == nil && time.Now().Before(p.notBefore)
}

// mustWait reports whether a pod is applied later, because it changes too often or its plugins are being prepared.
// The pod is queued again then.
func (s *Source) mustWait(uid types.UID, p *pod) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if _, prepared := s.preparing[uid]; prepared || now.Before(p.notBefore) {
		return true
	}
	if wait := s.edits[uid].Next(edits).Sub(now); wait > 0 {
		p.notBefore = now.Add(wait)
		time.AfterFunc(wait, func() { s.toApply.Put(uid) })
		return true
	}
	s.edits[uid] = s.edits[uid].Take(edits, now)
	return false
}

// applied records the plan that the manager has, and reports the errors of the pod as an event.
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
	first, news := p.plan == nil, text != p.invalidMessage
	acts := p.missedFailure || !first && p.plan.mode != next.mode && (next.mode == liveness.Restart || next.mode == liveness.Evict)
	if first {
		p.prior, p.earlier = priorOf(latest, s.since), reportedEarlier(latest, next.declared, s.since)
	}
	less := !first && next.rate < p.plan.rate
	p.plan, p.failed, p.invalidMessage, p.missedFailure = next, mendable, text, false
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

// withStatus returns a shallow copy of pod with the status.
func withStatus(pod *v1.Pod, status v1.PodStatus) *v1.Pod {
	next := *pod
	next.Status = status
	return &next
}

// published returns a copy of a pod for readers, without hooks and variables, which may have secrets.
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

// priorOf returns pod with the results of an earlier agent as its status. It has the containers that started
// before this agent, and before a condition of prober became true. Their Ready and Started come from
// the conditions of prober, and not from the kubelet.
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

// reportedEarlier returns the states that an earlier agent has reported in events: the states of the probes that
// a condition lists, if the container started before this agent.
func reportedEarlier(latest *v1.Pod, planned *declared.Pod, since time.Time) map[probeKey]states.State {
	reported := make(map[probeKey]states.State)
	for _, p := range planned.Probes() {
		key := probeKey{p.Container, p.Kind}
		gate := conditions.Ready
		if p.Kind == probe.Liveness {
			gate = conditions.Live
		}
		for _, conditionType := range []v1.PodConditionType{gate, v1.PodConditionType(conditions.Prefix + p.Kind.String() + "." + p.Container)} {
			if c := conditionOf(latest, conditionType); c != nil && conditions.Lists(c, p.Container, p.Kind) && startedBefore(latest, p.Container, since) {
				reported[key] = stateOf(c)
			}
		}
	}
	return reported
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

// trueSince reports whether a condition is true, and became true at begun or later.
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

// publishedConditions returns the conditions in the status of a pod whose type has prober's prefix.
func publishedConditions(pod *v1.Pod) (all []v1.PodCondition) {
	for _, c := range pod.Status.Conditions {
		if strings.HasPrefix(string(c.Type), conditions.Prefix) {
			all = append(all, c)
		}
	}
	return all
}
