package kube_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// slowPods adds pods of another namespace whose plugin never accepts their configs, and returns them. Their names sort
// before the names of the other pods.
func (w *world) slowPods(n int) (all []*v1.Pod) {
	compiled := false
	w.prepare = func(ctx context.Context, name string) error {
		pod, _ := ctx.Value(checkedPod{}).(string)
		switch {
		case strings.HasPrefix(pod, "a-slow"):
			<-ctx.Done()
		case name == "compiled" && !compiled: // it takes a second
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
				compiled = true
			}
		}
		return context.Cause(ctx)
	}
	for i := range n {
		pod := podNamed(fmt.Sprint("a-slow-", i), `{web: {readiness: {plugin: {name: slow}}}}`)
		pod.Namespace, pod.UID = "a", types.UID(fmt.Sprint("a-", i))
		w.cluster.set(pod)
		all = append(all, pod)
	}
	return all
}

// untilProbed returns how long it takes until a new pod is probed.
func (w *world) untilProbed(pod *v1.Pod) time.Duration {
	w.t.Helper()
	begun := time.Now()
	w.cluster.set(pod)
	for len(w.conditionsOf(pod.Name)) == 0 {
		if w.wait(10 * time.Millisecond); time.Since(begun) > time.Hour {
			w.t.Fatalf("%s was not applied in an hour", pod.Name)
		}
	}
	return time.Since(begun)
}

// Pods do not wait for pods of another namespace whose configs a plugin takes long to accept, however many there are
// and however often they change.
func TestSlowConfigsOfANamespace(t *testing.T) {
	t.Run("which change", func(t *testing.T) {
		bubble(t, func(w *world) {
			all := w.slowPods(20)
			w.start()
			end := make(chan struct{})
			go func() {
				for i := 0; ; i++ {
					select {
					case <-end:
						return
					case <-time.After(100 * time.Millisecond):
					}
					for _, pod := range all {
						pod.Annotations[declared.Annotation] = fmt.Sprintf(`{web: {readiness: {plugin: {name: slow, config: {n: %d}}}}}`, i)
						w.cluster.set(pod)
					}
				}
			}()
			for i := range 5 {
				w.wait(17 * time.Second)
				if took := w.untilProbed(podNamed(fmt.Sprint("web-", i), readiness)); took > 2*time.Second {
					t.Errorf("pod %d was applied after %v", i, took)
				}
			}
			close(end)
			w.wait(time.Second)
		})
	})
	t.Run("while a plugin of another one is compiled", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.slowPods(30)
			w.start()
			w.wait(2 * time.Minute)
			if took := w.untilProbed(podNamed("web", `{web: {readiness: {plugin: {name: compiled}}}}`)); took > 5*time.Second {
				t.Errorf("a pod whose plugin takes a second was applied after %v", took)
			}
		})
	})
	t.Run("and the agent starts", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.slowPods(30)
			w.cluster.set(podNamed("web", readiness))
			w.start()
			w.wait(1100 * time.Millisecond)
			w.wantConditions("web", "readiness.web=success")
		})
	})
}

// An annotation that changes a hundred times a second is applied about every five seconds, in the loop, the log and at
// the API server. The last change takes effect.
func TestFrequentAnnotationChangesAreLimited(t *testing.T) {
	bubble(t, func(w *world) {
		pod := podNamed("web", readiness)
		w.cluster.set(pod)
		w.start()
		before := len(w.attempts())
		for i := range 6000 {
			if pod.Annotations[declared.Annotation] = readiness; i%2 == 0 {
				pod.Annotations[declared.Annotation] = fmt.Sprintf("{web: {readiness: {unknown%d: 1}}}", i)
			}
			w.cluster.set(pod)
			w.wait(10 * time.Millisecond)
		}
		events, attempts := len(w.takeEvents()), len(w.attempts())-before
		if attempts > 40 || events > attempts || w.logged("\n") > attempts {
			t.Errorf("%d attempts, %d events and %d lines of log in a minute", attempts, events, w.logged("\n"))
		}
		prepared := 0
		w.mu.Lock()
		w.bind = func(string, []byte, probe.Target) (probe.Handler, error) {
			prepared++ // only the loop calls this
			return probetest.NewHandler(success), nil
		}
		w.mu.Unlock()
		for i := range 6000 {
			if pod.Annotations[declared.Annotation] = readiness; i%2 == 0 {
				delete(pod.Annotations, declared.Annotation)
			}
			w.cluster.set(pod)
			w.wait(10 * time.Millisecond)
		}
		if prepared > 20 {
			t.Errorf("probes were started %d times in a minute", prepared)
		}
		pod.Annotations[declared.Annotation] = `{web: {liveness: {tcpSocket: {port: 1}, period: 1s}}}`
		w.cluster.set(pod)
		w.wait(7 * time.Second)
		w.wantConditions("web", "liveness.web=success")
	})
}
