package kube_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/kube"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe/probetest"
)

// decided returns the conditions that [conditions.Decide] would write for a pod, as "TYPE=STATUS REASON".
func (w *world) decided(name string) (words []string) {
	pod := w.setOf(name)
	for _, c := range conditions.Decide(&pod) {
		words = append(words, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return words
}

func (w *world) wantDecided(name, want string) {
	w.t.Helper()
	if got := strings.Join(w.decided(name), ", "); got != want {
		w.t.Errorf("conditions of %s: got %q, want %q", name, got, want)
	}
}

// Reported as node-problem-detector 423, 470, 1011.
func TestConditionsOfRemovedProbesTurnUnknown(t *testing.T) {
	const both = `{web: {readiness: {httpGet: {path: /r, port: http}, period: 1s}, liveness: {tcpSocket: {port: 2}, period: 1s}}}`
	const event = "Warning NotProbed the pod has the readiness gate prober.dev/ready, and no probe in its annotation"
	published := func(pod *v1.Pod) {
		publish(pod, conditions.Ready, v1.ConditionTrue, time.Now())
		publish(pod, conditions.Live, v1.ConditionFalse, time.Now())
		publish(pod, "prober.dev/liveness.web", v1.ConditionFalse, time.Now())
	}
	for _, c := range []struct {
		name   string
		change func(*v1.Pod)
		want   string
		event  string
	}{
		{"annotation is removed", func(p *v1.Pod) { delete(p.Annotations, declared.Annotation) },
			"prober.dev/ready=Unknown NotProbed, prober.dev/live=Unknown NotProbed, prober.dev/liveness.web=Unknown NotProbed", event},
		{"annotation is empty", func(p *v1.Pod) { p.Annotations[declared.Annotation] = "{}" },
			"prober.dev/ready=Unknown NotProbed, prober.dev/live=Unknown NotProbed, prober.dev/liveness.web=Unknown NotProbed", event},
		{"liveness probe is removed", func(p *v1.Pod) { p.Annotations[declared.Annotation] = readiness },
			"prober.dev/live=Unknown NotProbed, prober.dev/liveness.web=Unknown NotProbed", ""},
		{"pod is being deleted", func(p *v1.Pod) {
			delete(p.Annotations, declared.Annotation)
			p.DeletionTimestamp = new(metav1.Now())
		}, "prober.dev/live=True ProbeSucceeded, prober.dev/liveness.web=True ProbeSucceeded, prober.dev/readiness.web=True ProbeSucceeded", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				pod := podNamed("web", both, kube.ConditionsAnnotation, "true")
				published(pod)
				w.cluster.set(pod)
				w.start()
				w.wait(2 * time.Second)
				w.takeEvents()
				c.change(pod)
				w.cluster.set(pod)
				w.wait(2 * time.Second)
				if c.name == "liveness probe is removed" { // the condition does not change again
					pod := w.setOf("web")
					pod.PerProbe = false
					w.mu.Lock()
					w.set["web"] = pod
					w.mu.Unlock()
				}
				w.wantDecided("web", c.want)
				pod.Labels = map[string]string{"a": "b"}
				w.cluster.set(pod)
				w.wait(2 * time.Second)
				if c.event == "" {
					w.wantEvents()
				} else {
					w.wantEvents(c.event)
				}
			})
		})
	}
	t.Run("agent starts later", func(t *testing.T) {
		bubble(t, func(w *world) {
			pod := podNamed("web", both)
			delete(pod.Annotations, declared.Annotation)
			pod.Generation = 4
			publish(pod, conditions.Live, v1.ConditionFalse, time.Now())
			w.cluster.set(pod)
			w.start()
			w.wait(time.Second)
			w.wantDecided("web", "prober.dev/ready=Unknown NotProbed, prober.dev/live=Unknown NotProbed")
			if got := w.setOf("web").Generation; got != 4 {
				t.Errorf("generation %d, want 4", got)
			}
			w.wantEvents(event)
			w.cluster.remove("web")
			w.wait(time.Second)
			if got := locked(w, &w.removed); len(got) != 1 {
				t.Errorf("the writer was told the end of %d pods, want 1", len(got))
			}
		})
	})
	t.Run("earlier agent has recorded the event", func(t *testing.T) {
		bubble(t, func(w *world) {
			pod := podNamed("web", both)
			delete(pod.Annotations, declared.Annotation)
			pod.Status.Conditions = []v1.PodCondition{{Type: conditions.Ready, Status: v1.ConditionUnknown, Reason: conditions.NotProbed, Message: "no probe of prober decides this condition"}}
			w.cluster.set(pod)
			w.start()
			w.wait(time.Second)
			w.wantDecided("web", "")
			w.wantEvents()
		})
	})
	t.Run("pod of others", func(t *testing.T) {
		bubble(t, func(w *world) {
			pod := podNamed("web", both)
			delete(pod.Annotations, declared.Annotation)
			pod.Spec.ReadinessGates = nil
			w.cluster.set(pod)
			w.start()
			w.wait(time.Second)
			if got := locked(w, &w.sets); got != 0 {
				t.Errorf("conditions were set %d times", got)
			}
			w.wantEvents()
		})
	})
}

// A probe that has returned only errors has no condition. It gets one event.
func TestSourceProbeThatAlwaysErrsHasEvent(t *testing.T) {
	bubble(t, func(w *world) {
		h := w.script("/r", probetest.Error(errors.New(`port "nosuch" is not a port of container web`)))
		w.cluster.set(podNamed("web", readiness))
		w.start()
		w.wait(time.Minute)
		w.wantEvents(`Warning ProbeUnknown Readiness probe cannot be carried out: port "nosuch" is not a port of container web`)
		h.Then(failure)
		w.wait(5 * time.Second)
		w.wantEvents("Warning Unhealthy Readiness probe failed: bad")
	})
}

// A condition with a name that is too long, and a static pod, get an event.
func TestSourceIgnoredRequestsHaveEvents(t *testing.T) {
	t.Run("long name", func(t *testing.T) {
		bubble(t, func(w *world) {
			name := "c" + strings.Repeat("x", 60)
			pod := podNamed("web", `{`+name+`: {readiness: {tcpSocket: {port: 1}, period: 1s}}}`, kube.ConditionsAnnotation, "true")
			pod.Spec.Containers[0].Name, pod.Status.ContainerStatuses[0].Name = name, name
			w.cluster.set(pod)
			w.start()
			w.wait(2 * time.Second)
			w.wantEvents(`Warning ProbeInvalid metadata.annotations[prober.dev/conditions]: Invalid value: "readiness.` + name + `": the name of the condition would be longer than 63 characters`)
			w.wantConditions("web", "readiness."+name+"=success")
		})
	})
	t.Run("second document", func(t *testing.T) {
		bubble(t, func(w *world) {
			w.cluster.set(podNamed("web", "web: {readiness: {tcpSocket: {port: 1}}}\n---\nweb: {liveness: {tcpSocket: {port: 1}}}"))
			w.start()
			w.wait(2 * time.Second)
			w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/probes]")
		})
	})
	for _, runtime := range []bool{true, false} {
		t.Run(fmt.Sprint("static pod, runtime=", runtime), func(t *testing.T) {
			bubble(t, func(w *world) {
				pod := podNamed("web", readiness)
				pod.Annotations[v1.MirrorPodAnnotationKey] = "0123456789abcdef0123456789abcdef"
				w.owners[pod.Status.ContainerStatuses[0].ContainerID] = "0123456789abcdef0123456789abcdef"
				w.cluster.set(pod)
				w.start()
				w.wait(2 * time.Second)
				if !runtime {
					w.wantEvents()
					w.wantConditions("web", "readiness.web=success")
					return
				}
				w.wantEvents("Warning ProbeInvalid metadata.annotations[kubernetes.io/config.mirror]: Forbidden: the runtime does not know the containers of a static pod")
			}, func(w *world) {
				if runtime {
					withRuntime(w)
				}
			})
		})
	}
}

// The probes of a namespace make at most maxRate attempts a second. Beyond that, the probes of its youngest pods are
// refused. Other namespaces are not affected.
func TestSourceMaxRate(t *testing.T) {
	periods := "period: 100ms"
	many := func(containers int) string {
		var all []string
		for i := range containers {
			all = append(all, fmt.Sprintf("c%d: {readiness: {tcpSocket: {port: 1}, %s}}", i, periods))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	add := func(w *world, namespace, name string, containers int) *v1.Pod {
		pod := podNamed(name, many(containers))
		pod.Namespace, pod.CreationTimestamp = namespace, metav1.Now()
		pod.Spec.Containers, pod.Status.ContainerStatuses = nil, nil
		for i := range containers {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: fmt.Sprint("c", i)})
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, v1.ContainerStatus{
				Name: fmt.Sprint("c", i), ContainerID: fmt.Sprint("x://", name, i), State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now()}},
			})
		}
		w.cluster.set(pod)
		return pod
	}
	running := func(w *world) map[string]int {
		count := make(map[string]int)
		for _, p := range w.manager.Probes() {
			count[p.Pod]++
		}
		return count
	}
	check := func(w *world, want map[string]int) {
		w.t.Helper()
		synctest.Wait()
		if got := running(w); fmt.Sprint(got) != fmt.Sprint(want) {
			w.t.Errorf("probes %v, want %v", got, want)
		}
	}
	bubble(t, func(w *world) {
		add(w, "shop", "z-old", 3)
		w.wait(2 * time.Second)
		add(w, "shop", "a-young", 4)
		add(w, "other", "victim", 5)
		w.start()
		w.wait(time.Second)
		check(w, map[string]int{"z-old": 3, "a-young": 2, "victim": 5})
		w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/probes][c2].readiness.period: Forbidden: kubernetes.maxRate of the agent allows the probes of namespace shop on this node 50 attempts a second; ")
		w.wait(time.Second)
		add(w, "shop", "youngest", 40)
		w.wait(time.Second)
		check(w, map[string]int{"z-old": 3, "a-young": 2, "victim": 5})
		if got := w.takeEvents(); len(got) != 1 || !strings.Contains(got[0], "maxRate") {
			w.t.Errorf("events %q", got)
		}
		w.cluster.remove("z-old") // makes room for three
		w.wait(time.Second)
		check(w, map[string]int{"a-young": 4, "youngest": 1, "victim": 5})
		w.cluster.remove("youngest")
		add(w, "shop", "later", 2)
		w.wait(time.Second)
		check(w, map[string]int{"a-young": 4, "later": 1, "victim": 5})
	}, func(w *world) { w.cfg.Policy.MaxRate = 50 })
	periods = "period: 1h, unhealthyPeriod: 100ms" // the shorter one counts
	bubble(t, func(w *world) {
		add(w, "shop", "web", 6)
		w.start()
		w.wait(time.Second)
		check(w, map[string]int{"web": 5})
		w.wantEvents("Warning ProbeInvalid metadata.annotations[prober.dev/probes][c5].readiness.unhealthyPeriod: Forbidden: kubernetes.maxRate of the agent allows the probes of namespace shop on this node 50 attempts a second")
	}, func(w *world) { w.cfg.Policy.MaxRate = 50 })
}
