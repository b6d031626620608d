package liveness

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/internal/pace"
)

const (
	maxBackoff     = 5 * time.Minute
	backoffReset   = 10 * time.Minute // without an action
	minBlockedWait = 10 * time.Second
)

// guards has the budgets and the back-off. The goroutine of Run owns it. Its maps grow only with actions, which the
// budget of the node limits. forget deletes entries without effect.
type guards struct {
	cfg       *Config
	node      pace.Bucket
	workloads map[types.UID]pace.Bucket
	backoffs  map[key]backoff
	served    map[string]time.Time // when a namespace last took a token of the node; cleared when that bucket is full
}

// key names a container of a pod.
type key struct {
	uid       types.UID
	container string
}

// backoff counts the actions on a container.
type backoff struct {
	times int
	last  time.Time
}

// next returns the earliest time of the next action; zero if there was none.
func (b backoff) next(first time.Duration) time.Time {
	if b.times == 0 {
		return time.Time{}
	}
	return b.last.Add(pace.Doubled(first, maxBackoff, b.times-1))
}

// fill sets the times of the guards in s.
func (g *guards) fill(s *situation, k key, workload types.UID) {
	s.backoff = g.backoffs[k].next(g.cfg.Backoff)
	s.node = g.node.Next(g.cfg.Node)
	s.workload = g.workloads[workload].Next(g.cfg.Workload)
}

// take takes a token of each budget.
func (g *guards) take(workload types.UID, namespace string, now time.Time) {
	g.served[namespace] = now
	g.node = g.node.Take(g.cfg.Node, now)
	g.workloads[workload] = g.workloads[workload].Take(g.cfg.Workload, now)
}

// giveBack returns the tokens of an action that did nothing.
func (g *guards) giveBack(workload types.UID) {
	g.node = g.node.Return(g.cfg.Node)
	g.workloads[workload] = g.workloads[workload].Return(g.cfg.Workload)
}

// acted lengthens the back-off of a container.
func (g *guards) acted(k key, now time.Time) {
	g.backoffs[k] = backoff{g.backoffs[k].times + 1, now}
}

// forget deletes entries that have no effect.
func (g *guards) forget(now time.Time) {
	if g.node.Full(now) {
		clear(g.served)
	}
	for uid, t := range g.workloads {
		if t.Full(now) {
			delete(g.workloads, uid)
		}
	}
	for k, b := range g.backoffs {
		if now.Sub(b.last) >= backoffReset {
			delete(g.backoffs, k)
		}
	}
}

// scopeOf returns the workload of a pod.
func scopeOf(pod *v1.Pod) Scope { return Scope{pod.Namespace, workloadOf(pod)} }

// PartyOf returns the party of a pod. acts reports whether failures of its probes restart or evict.
func PartyOf(pod *v1.Pod, gated, acts bool) Party { return Party{scopeOf(pod), gated, acts} }

// workloadOf returns the UID of the controller of a pod, or the pod's own UID if it has none.
func workloadOf(pod *v1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.UID != "" {
		return owner.UID
	}
	return pod.UID
}
