package liveness_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/liveness"
)

// simulation is a node with random failures, and a record of an actor's actions. It is independent of the
// implementation of the actor.
type simulation struct {
	*node
	t        *testing.T
	dice     sync.Mutex // guards rand
	rand     *rand.Rand
	over     bool // no new failures begin
	removals int32
	changed  map[types.UID]time.Time // when the simulation last changed a pod
	hooks    map[string]bool         // pods that have, or had, a preStop hook
	cfg      liveness.Config
	actor    *liveness.Actor
	workload map[string]string // by pod
	ended    map[string]int    // ends of containers, by ID
	stopping map[string]bool   // by pod
	restarts []restarted
	flips    map[types.UID]time.Time
	lagSince time.Time // zero: no lag
}

type restarted struct {
	pod, workload string
	at            time.Time
}

// TestSimulation checks invariants: no more restarts than the budgets allow, no restarts while the breaker must be
// open, no restarts of containers that have not failed or have recovered, and no missing restarts.
func TestSimulation(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newSimulation(t, seed).run() })
		})
	}
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	s := &simulation{
		node: newNode(), t: t, rand: rand.New(rand.NewPCG(seed, 1)), workload: map[string]string{}, ended: map[string]int{},
		stopping: map[string]bool{}, flips: map[types.UID]time.Time{}, changed: map[types.UID]time.Time{}, hooks: map[string]bool{},
	}
	s.onStop = s.stopped
	s.actor = s.node.actor(t, func(cfg *liveness.Config) {
		cfg.Workload = liveness.Bucket{Burst: 1 + s.rand.IntN(3), Every: time.Duration(1+s.rand.IntN(120)) * time.Second}
		cfg.Node = liveness.Bucket{Burst: 1 + s.rand.IntN(6), Every: time.Duration(1+s.rand.IntN(30)) * time.Second}
		cfg.Backoff = time.Duration(1+s.rand.IntN(20)) * time.Second
		cfg.Breaker = liveness.Breaker{Least: 4, Share: 0.6, Window: 20 * time.Second, Lag: time.Second}
		s.cfg = *cfg
	})
	for i := range 8 + s.rand.IntN(12) {
		uid, workload := types.UID(fmt.Sprint(i)), types.UID(fmt.Sprint("w", s.rand.IntN(6)))
		if workload == "w0" {
			workload = "" // no controller
		}
		pod := s.add(uid, workload, func(p *v1.Pod) {
			if s.rand.IntN(3) == 0 {
				s.hooks[string(uid)] = true
				hooked(v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: s.rand.Int64N(40)}})(p)
			}
		})
		s.workload[string(uid)] = "pod " + string(uid)
		if len(pod.OwnerReferences) > 0 {
			s.workload[string(uid)] = string(workload)
		}
		flip(s.actor, uid, states.Unknown, states.Success)
	}
	return s
}

func (s *simulation) run() {
	for range 1500 {
		s.event()
		after(time.Duration(s.number(8000)) * time.Millisecond)
	}
	s.lag(0)
	s.checkBudgets()
	// No new failures begin, and all failing containers are restarted in the end.
	s.mu.Lock()
	s.over = true
	var failing []string
	for uid, sick := range s.sick {
		if sick && s.pods[uid] != nil && !s.stopping[string(uid)] {
			failing = append(failing, string(uid))
		}
	}
	before := len(s.restarts)
	s.mu.Unlock()
	for len(failing) >= s.cfg.Breaker.Least { // otherwise the breaker would stay open
		uid := types.UID(failing[0])
		failing = failing[1:]
		s.recover(uid)
	}
	after(2 * time.Hour)
	again := map[string]bool{}
	for _, r := range s.restarts[before:] {
		again[r.pod] = true
		if !s.hooks[r.pod] && !slices.Contains(failing, r.pod) {
			s.t.Errorf("pod %s was restarted, which does not fail", r.pod)
		}
	}
	for _, pod := range failing {
		if !again[pod] {
			s.t.Errorf("pod %s still fails", pod)
		}
	}
	if len(s.restarts) < 15 {
		s.t.Errorf("only %d restarts", len(s.restarts))
	}
	s.checkBudgets()
	if done := s.actor.Counts().Done[liveness.Restart]; done != uint64(len(s.restarts)) {
		s.t.Errorf("%d restarts were counted, %d were seen", done, len(s.restarts))
	}
}

// event applies a random event.
func (s *simulation) event() {
	uid := types.UID(fmt.Sprint(s.number(len(s.workload))))
	s.mu.Lock()
	pod, sick := s.pods[uid], s.sick[uid]
	s.changed[uid] = time.Now()
	s.mu.Unlock()
	switch n := s.number(100); {
	case pod == nil:
		s.removals++
		s.setSick(uid, false)
		s.add(uid, types.UID(strings.TrimPrefix(s.workload[string(uid)], "pod "+string(uid))), func(p *v1.Pod) {
			c := &p.Status.ContainerStatuses[0]
			c.RestartCount = 1000 * s.removals // unique container IDs
			c.ContainerID = fmt.Sprintf("x://%s-%d", uid, c.RestartCount)
		})
	case n < 3: // probes are late
		s.lag(time.Duration(s.number(4)) * time.Second)
	case n < 5: // the container ends by itself, and is started again
		s.mu.Lock()
		s.restartLocked(uid)
		s.mu.Unlock()
		s.recover(uid)
	case n < 6 && s.number(4) == 0:
		s.remove(uid)
	case n < 7: // a common dependency fails
		for other := range len(s.workload) {
			s.becomeSick(types.UID(fmt.Sprint(other)))
		}
	case sick && n < 40:
		s.recover(uid)
	case n < 50:
		s.becomeSick(uid)
	}
}

func (s *simulation) recover(uid types.UID) {
	s.setSick(uid, false)
	flip(s.actor, uid, states.Failure, states.Success)
}

func (s *simulation) lag(d time.Duration) {
	s.setLag(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d <= s.cfg.Breaker.Lag {
		s.lagSince = time.Time{}
	} else if s.lagSince.IsZero() {
		s.lagSince = time.Now()
	}
}

func (s *simulation) becomeSick(uid types.UID) {
	s.mu.Lock()
	known := s.pods[uid] != nil && !s.sick[uid] && !s.over
	if known {
		s.flips[uid] = time.Now()
	}
	s.mu.Unlock()
	if known {
		flip(s.actor, uid, states.Success, states.Failure)
		s.fail(s.actor, uid)
	}
}

// stopped checks a restart, which takes a while.
func (s *simulation) stopped(id string, _ time.Duration) error {
	s.mu.Lock()
	pod, attempt, _ := strings.Cut(strings.TrimPrefix(id, "x://"), "-")
	uid := types.UID(pod)
	now, p := time.Now(), s.pods[uid]
	if s.ended[id]++; s.ended[id] > 1 {
		s.t.Errorf("%s was stopped %d times", id, s.ended[id])
	}
	if !s.hooks[pod] && !s.changed[uid].Equal(now) { // otherwise the pod may have changed since the decision
		if p == nil || p.Status.ContainerStatuses[0].ContainerID != id || !s.sick[uid] {
			s.t.Errorf("%s was stopped, which has not failed, or not any more", id)
		}
	}
	if s.stopping[pod] {
		s.t.Errorf("two actions on pod %s at once", pod)
	}
	if !s.lagSince.IsZero() && now.Sub(s.lagSince) > 1100*time.Millisecond {
		s.t.Errorf("%s (attempt %s) was stopped %v after the node had become late", id, attempt, now.Sub(s.lagSince))
	}
	if s.many(pod, func(uid types.UID) bool { d := now.Sub(s.flips[uid]); return d > 0 && d < s.cfg.Breaker.Window }) {
		s.t.Errorf("%s was stopped while many probes had failed", id)
	}
	if s.many(pod, func(uid types.UID) bool {
		return s.sick[uid] && now.Sub(s.flips[uid]) > 1100*time.Millisecond && now.Sub(s.changed[uid]) > 1100*time.Millisecond
	}) {
		s.t.Errorf("%s was stopped while many probes fail", id)
	}
	if open := openFor(s.actor); open != "" {
		s.t.Errorf("%s was stopped while %s", id, open)
	}
	s.stopping[pod] = true
	s.restarts = append(s.restarts, restarted{pod, s.workload[pod], now})
	s.mu.Unlock()
	time.Sleep(time.Duration(len(id)) * 100 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping[pod] = false
	time.AfterFunc(time.Second, func() { // the probe of the new container succeeds
		s.mu.Lock()
		sick := s.sick[uid]
		s.mu.Unlock()
		if !sick {
			s.recover(uid)
		}
	})
	if s.number(2) == 0 { // the new container fails too
		time.AfterFunc(time.Duration(s.number(10_000))*time.Millisecond, func() { s.becomeSick(uid) })
	}
	return nil
}

// many reports whether many pods fail, on the node or in the workload of pod, even without any single workload or pod.
// Pods that were just added or removed may or may not count.
func (s *simulation) many(pod string, fails func(types.UID) bool) bool {
	share := func(pods []types.UID) (failed int, share float64) {
		for _, uid := range pods {
			if fails(uid) {
				failed++
			}
		}
		return failed, float64(failed) / float64(len(pods))
	}
	workloads := map[string][]types.UID{}
	for uid := range s.pods {
		if s.changed[uid].Equal(time.Now()) {
			return false
		}
		workloads[s.workload[string(uid)]] = append(workloads[s.workload[string(uid)]], uid)
	}
	var single [][]types.UID
	for _, uid := range workloads[s.workload[pod]] {
		single = append(single, []types.UID{uid})
	}
	for _, parties := range [][][]types.UID{slices.Collect(maps.Values(workloads)), single} {
		many := len(parties) > 1
		for without := range parties {
			failed, shares := 0, 0.0
			for i, pods := range parties {
				if n, part := share(pods); i != without {
					failed, shares = failed+n, shares+part
				}
			}
			many = many && failed >= s.cfg.Breaker.Least && shares > s.cfg.Breaker.Share*float64(len(parties)-1)+1e-6
		}
		if many {
			return true
		}
	}
	return false
}

func (s *simulation) number(below int) int {
	s.dice.Lock()
	defer s.dice.Unlock()
	return s.rand.IntN(below)
}

// checkBudgets compares the number of restarts in every time span with the budgets. A preStop hook may delay a restart
// after its token was taken, by up to the grace period.
func (s *simulation) checkBudgets() {
	s.t.Helper()
	check := func(what string, b liveness.Bucket, all []restarted) {
		for i := range all {
			for j := i; j < len(all); j++ {
				most := b.Burst + int((all[j].at.Sub(all[i].at)+30*time.Second)/b.Every)
				if got := j - i + 1; got > most {
					s.t.Errorf("%s: %d restarts within %v, more than %d", what, got, all[j].at.Sub(all[i].at), most)
					return
				}
			}
		}
	}
	check("node", s.cfg.Node, s.restarts)
	by := map[string][]restarted{}
	for _, r := range s.restarts {
		by[r.workload] = append(by[r.workload], r)
	}
	for workload, all := range by {
		check(workload, s.cfg.Workload, all)
	}
}
