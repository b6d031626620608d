package liveness

import (
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	backoffMost   = 5 * time.Minute
	backoffForget = 10 * time.Minute // without an action
	blockedFirst  = 10 * time.Second
)

// guards are the budgets and the back-off. The goroutine of Run owns them. All of them grow with
// actions only, which the budget of the node bounds, and forget what has no effect any more.
type guards struct {
	cfg       *Config
	node      tokens
	workloads map[types.UID]tokens
	backoffs  map[key]backoff
}

// key names a container of a pod.
type key struct {
	uid       types.UID
	container string
}

// tokens is a token bucket: when it will be full again.
type tokens struct{ full time.Time }

// next returns when there is a token.
func (t tokens) next(b Bucket) time.Time { return t.full.Add(-time.Duration(b.Burst-1) * b.Every) }

func (t tokens) take(b Bucket, now time.Time) tokens {
	if t.full.Before(now) {
		t.full = now
	}
	return tokens{t.full.Add(b.Every)}
}

func (t tokens) giveBack(b Bucket) tokens { return tokens{t.full.Add(-b.Every)} }

// backoff is what is known of the actions on a container.
type backoff struct {
	times int
	last  time.Time
}

// next returns when the next action may be.
func (b backoff) next(first time.Duration) time.Time {
	if b.times == 0 {
		return time.Time{}
	}
	return b.last.Add(doubled(first, b.times))
}

// doubled returns d, doubled with each time after the first, up to 5 min.
func doubled(d time.Duration, times int) time.Duration {
	for ; times > 1 && d < backoffMost; times-- {
		d *= 2
	}
	return min(d, backoffMost)
}

// jittered returns d, or up to half of it more.
func jittered(d time.Duration) time.Duration { return d + rand.N(d/2+1) }

// fill sets the times of the guards in s.
func (g *guards) fill(s *situation, k key, workload types.UID) {
	s.backoff = g.backoffs[k].next(g.cfg.Backoff)
	s.node = g.node.next(g.cfg.Node)
	s.workload = g.workloads[workload].next(g.cfg.Workload)
}

// take takes a token of each budget.
func (g *guards) take(workload types.UID, now time.Time) {
	g.node = g.node.take(g.cfg.Node, now)
	g.workloads[workload] = g.workloads[workload].take(g.cfg.Workload, now)
}

// giveBack returns the tokens of an action that did nothing.
func (g *guards) giveBack(workload types.UID) {
	g.node = g.node.giveBack(g.cfg.Node)
	g.workloads[workload] = g.workloads[workload].giveBack(g.cfg.Workload)
}

// acted lengthens the back-off of a container.
func (g *guards) acted(k key, now time.Time) {
	g.backoffs[k] = backoff{g.backoffs[k].times + 1, now}
}

// forget drops what has no effect any more.
func (g *guards) forget(now time.Time) {
	for uid, t := range g.workloads {
		if !now.Before(t.full) {
			delete(g.workloads, uid)
		}
	}
	for k, b := range g.backoffs {
		if now.Sub(b.last) >= backoffForget {
			delete(g.backoffs, k)
		}
	}
}

// workloadOf returns the UID of the controller of a pod; else that of the pod.
func workloadOf(pod *v1.Pod) types.UID {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.UID != "" {
		return owner.UID
	}
	return pod.UID
}
