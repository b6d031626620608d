package manager_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
)

func barePod(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

// phases records the phases that a watch publishes, "removed" for a removal.
type phases struct {
	mu  sync.Mutex
	all []string
}

func (p *phases) publish(s *v1.PodStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s == nil {
		p.all = append(p.all, "removed")
	} else {
		p.all = append(p.all, string(s.Phase))
	}
}

func (p *phases) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.all
	p.all = nil
	return all
}

func TestStatusStoreWatch(t *testing.T) {
	var store manager.StatusStore
	var a, b phases
	check := func(step string, p *phases, want ...string) {
		t.Helper()
		if got := p.take(); !slices.Equal(got, want) {
			t.Errorf("%s: published %q, want %q", step, got, want)
		}
	}
	stopA := store.WatchStatus("a", a.publish)
	check("no status", &a)
	store.SetPodStatus(barePod("a"), v1.PodStatus{Phase: v1.PodPending})
	check("first status", &a, "Pending")
	stopB := store.WatchStatus("a", b.publish)
	check("watch of a pod with a status", &b, "Pending")
	check("watch by another", &a)
	store.SetPodStatus(barePod("other"), v1.PodStatus{Phase: v1.PodFailed})
	check("another pod", &a)
	store.SetPodStatus(barePod("a"), v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "web", ContainerID: "1"}}})
	check("second status", &a, "Running")
	check("second status", &b, "Running")
	store.SetContainerReadiness("a", "1", true)
	store.SetContainerReadiness("a", "1", true) // unchanged
	store.SetContainerStartup("a", "unknown", true)
	check("changed readiness", &a, "Running")
	stopA()
	stopA() // has no effect
	store.SetContainerStartup("a", "1", true)
	check("stopped", &a)
	check("not stopped", &b, "Running", "Running")
	store.RemovePod("a")
	check("removed pod", &b, "removed")
	store.SetPodStatus(barePod("a"), v1.PodStatus{Phase: v1.PodRunning})
	check("pod that is back", &b, "Running")
	stopB()
	store.RemovePod("a")
	check("all stopped", &b)
}

// TestStatusStoreWatchOrder changes a status in one goroutine while others watch it. Each watcher must see
// the statuses in order and the last one, and none after it has stopped. The test is also for the race
// detector.
func TestStatusStoreWatchOrder(t *testing.T) {
	var store manager.StatusStore
	const changes = 2000
	seen := make([]phases, 8)
	stops := make([]func(), len(seen))
	var all sync.WaitGroup
	all.Go(func() {
		for i := range changes {
			store.SetPodStatus(barePod("a"), v1.PodStatus{Phase: v1.PodPhase(fmt.Sprintf("%06d", i))})
		}
	})
	for i := range seen {
		all.Go(func() {
			stops[i] = store.WatchStatus("a", seen[i].publish)
			if i%2 == 0 {
				stops[i]()
				seen[i].take()
			}
		})
	}
	all.Wait()
	for i := range seen {
		got := seen[i].take()
		switch last := fmt.Sprintf("%06d", changes-1); {
		case i%2 == 0:
			if len(got) > 0 {
				t.Errorf("watch %d: %d statuses after the stop", i, len(got))
			}
		case !slices.IsSorted(got) || len(got) == 0 || got[len(got)-1] != last:
			t.Errorf("watch %d: last of %d statuses is not %s, or they are not in order", i, len(got), last)
		default:
			stops[i]()
		}
	}
}

// TestConcurrentPods adds, updates and removes pods while their statuses change and are read. It is for the
// race detector. At the end no worker and no watch may be left.
func TestConcurrentPods(t *testing.T) {
	store := &watchCounter{}
	r := newYoungRig(t, func(cfg *manager.Config) { cfg.Status = store })
	var writers, readers sync.WaitGroup
	over := make(chan struct{})
	readers.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				_ = r.m.Probes()
			}
		}
	})
	uid := func(n int) types.UID { return types.UID(fmt.Sprint("pod-", n%3)) }
	pod := func(n int) *v1.Pod {
		p := barePod(uid(n))
		p.Name, p.Labels = string(uid(n)), map[string]string{"n": fmt.Sprint(n)}
		web := v1.Container{Name: "web", ReadinessProbe: &v1.Probe{
			PeriodSeconds: int32(1 + n%2), ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{fmt.Sprint(n % 4)}}},
		}}
		if n%5 > 0 {
			web.LivenessProbe = web.ReadinessProbe
		}
		p.Spec.Containers = []v1.Container{web}
		return p
	}
	for i := range 4 {
		writers.Go(func() {
			for n := i; n < 400; n++ {
				p := pod(n)
				switch n % 7 {
				case 0, 1:
					_ = r.m.AddPod(t.Context(), p)
				case 2, 3:
					_ = r.m.UpdatePod(t.Context(), p)
				case 4:
					r.m.RemovePod(p)
				case 5:
					store.SetPodStatus(p, v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
						Name: "web", ContainerID: fmt.Sprint(p.UID, n%3), State: v1.ContainerState{Running: new(v1.ContainerStateRunning)},
					}}})
				default:
					r.m.StopLivenessAndStartup(p)
				}
			}
		})
	}
	writers.Wait()
	close(over)
	readers.Wait()
	for n := range 3 {
		r.m.RemovePod(pod(n))
	}
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	if left := r.keys(); len(left) > 0 {
		t.Errorf("workers left: %v", left)
	}
	store.count.Lock()
	defer store.count.Unlock()
	if store.started == 0 || store.started != store.stopped {
		t.Errorf("%d watches started, %d stopped", store.started, store.stopped)
	}
}

// watchCounter counts the watches of its store.
type watchCounter struct {
	manager.StatusStore
	count            sync.Mutex
	started, stopped int
}

func (c *watchCounter) WatchStatus(uid types.UID, publish func(*v1.PodStatus)) (stop func()) {
	c.count.Lock()
	c.started++
	c.count.Unlock()
	unwatch := c.StatusStore.WatchStatus(uid, publish)
	return func() {
		c.count.Lock()
		c.stopped++
		c.count.Unlock()
		unwatch()
	}
}
