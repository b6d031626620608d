package local

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/pods/local/internal/process"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// anyHandler has a handler of any name.
type anyHandler struct{}

func (anyHandler) Prepare(string, []byte, probe.Target) (probe.Handler, error) {
	return probetest.NewHandler(), nil
}

// shownPod returns a pod with one external target that runs, whose loop does not, and its
// pods, which nobody tells of anything.
func shownPod(t *testing.T) (*Pods, *pod) {
	t.Helper()
	pods, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if pods.manager, err = manager.New(manager.Config{Status: pods, Handlers: anyHandler{}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pods.manager.Close() })
	spec := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "u", Annotations: map[string]string{
			manager.Annotation: "c: {readiness: {plugin: {name: x}, period: 1000h}}", // of which no tick comes
		}},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "c"}}},
	}
	if err := pods.manager.AddPod(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	pods.mu.Lock()
	p := pods.newPodLocked(spec)
	pods.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.initialized = true
	p.containers["c"].id = "id"
	p.runningLocked(p.containers["c"], nil)
	return pods, p
}

func readyOf(t *testing.T, pods *Pods, uid types.UID) bool {
	t.Helper()
	status, ok := pods.PodStatus(uid)
	if !ok || len(status.ContainerStatuses) != 1 {
		t.Fatalf("got %+v, %v", status, ok)
	}
	return status.ContainerStatuses[0].Ready
}

// The news of a result may be read when the next one holds already.
func TestLateResultIsIgnored(t *testing.T) {
	pods, p := shownPod(t)
	pods.manager.Results(probe.Readiness).Set("id", results.Success, &results.Subject{PodUID: "u"}, "")
	p.publish()
	pods.decided(results.Update{Kind: probe.Readiness, ContainerID: "id", Result: results.Failure, Subject: results.Subject{PodUID: "u"}})
	if !readyOf(t, pods, "u") {
		t.Error("what holds no more was taken for what is")
	}
}

// A container that has become ready does not seem to be unready again because somebody had
// begun to publish the status before.
func TestReadinessDoesNotFlap(t *testing.T) {
	pods, p := shownPod(t)
	cache := pods.manager.Results(probe.Readiness)
	for i := range 1500 {
		cache.Set("id", results.Failure, &results.Subject{PodUID: "u"}, "")
		p.publish()
		p.mu.Lock()
		p.containers["c"].restarts++ // something is to be published
		p.mu.Unlock()
		var begun atomic.Bool
		var publishing sync.WaitGroup
		publishing.Go(func() {
			begun.Store(true)
			p.publish()
		})
		for !begun.Load() {
			runtime.Gosched()
		}
		for range i % 40 { // to meet it at all of its steps
			_ = pods.Pods()
		}
		cache.Set("id", results.Success, &results.Subject{PodUID: "u"}, "")
		pods.decided(results.Update{Kind: probe.Readiness, ContainerID: "id", Result: results.Success, Subject: results.Subject{PodUID: "u"}})
		before := readyOf(t, pods, "u")
		publishing.Wait()
		if after := readyOf(t, pods, "u"); !before || !after {
			t.Fatalf("ready: %v, and then %v", before, after)
		}
	}
}

// A container that was killed to be started again keeps its probes, though its policy
// restarts none.
func TestRestartedContainerKeepsProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods, p := shownPod(t)
		key := manager.Key{PodUID: "u", Container: "c", Kind: probe.Readiness}
		tick := func() {
			t.Helper()
			p.publish()
			if err := pods.manager.Trigger(key); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		tick()
		p.mu.Lock()
		c := p.containers["c"]
		c.again = true
		c.finish(process.Exit{At: time.Now()}, "")
		p.mu.Unlock()
		tick()
		p.mu.Lock()
		c.again, c.end, c.id = false, nil, "next"
		p.runningLocked(c, nil)
		p.mu.Unlock()
		tick()
		if r, ok := pods.manager.Results(probe.Readiness).Get("next"); !ok || r != results.Success {
			t.Errorf("got %v, %t", r, ok)
		}
	})
}
