package kube_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/kube"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// The tests of this file check the states that readers see while the probes of a pod change.

// slowRelease is a handler whose release takes a while.
type slowRelease struct {
	probe.Handler
	takes time.Duration
}

// Release implements [probe.Releaser].
func (s slowRelease) Release() { time.Sleep(s.takes) }

// An annotation that is removed, and added again while the probes end, takes effect.
func TestAnnotationComesBackWhileProbesEnd(t *testing.T) {
	bubble(t, func(w *world) {
		w.bind = func(string, []byte, probe.Target) (probe.Handler, error) {
			return slowRelease{probetest.NewHandler(success), 2 * time.Second}, nil
		}
		pod := podNamed("web", readiness)
		publish(pod, conditions.Ready, v1.ConditionTrue, time.Now())
		w.cluster.set(pod)
		w.start()
		w.wait(3 * time.Second)
		for _, text := range []string{"", readiness} {
			if pod.Annotations[declared.Annotation] = text; text == "" {
				delete(pod.Annotations, declared.Annotation)
			}
			w.cluster.set(pod)
			w.wait(500 * time.Millisecond)
			w.wantDecided("web", "")
		}
		w.wait(10 * time.Second)
		w.wantConditions("web", "readiness.web=success")
		w.wantEvents()
	})
}

// Annotation, addresses, containers and plugins of a pod change at any time, and its probe always fails. No reader
// sees the pod without probes, or its container as ready.
func TestSourceChangeIsAtomicForReaders(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		bubble(t, func(w *world) {
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 0))
			upTo := func(most time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				if random.IntN(3) > 0 {
					return 0
				}
				return time.Duration(random.Int64N(int64(most)))
			}
			failing := probetest.NewHandler(failure)
			w.bind = func(string, []byte, probe.Target) (probe.Handler, error) {
				time.Sleep(upTo(time.Second))
				return slowRelease{failing, upTo(time.Second)}, nil
			}
			w.prepare = func(ctx context.Context, _ string) error {
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(upTo(3 * time.Second)):
					return nil
				}
			}
			pod := podNamed("web", readiness)
			w.cluster.set(pod)
			w.start()
			w.wait(5 * time.Second)
			ctx, cancel := context.WithCancel(w.t.Context())
			var reading sync.WaitGroup
			reading.Go(func() {
				for c := range w.source.Watch(ctx) {
					for _, s := range c.Pod.Status.ContainerStatuses {
						if s.Ready && !c.Removed {
							w.t.Errorf("seed %d: container %s is shown as ready", seed, s.ContainerID)
						}
					}
				}
			})
			w.mu.Lock()
			w.seen = func(p *conditions.Pod) {
				w.cluster.mu.Lock()
				_, annotated := w.cluster.pods["web"].Annotations[declared.Annotation]
				w.cluster.mu.Unlock()
				if len(p.Probes) == 0 && annotated {
					w.t.Errorf("seed %d: conditions are told of a pod without probes", seed)
				}
			}
			w.mu.Unlock()
			for i := range 60 {
				switch random.IntN(5) {
				case 0:
					pod.Annotations[declared.Annotation] = fmt.Sprintf(`{web: {readiness: {httpGet: {path: /%d, port: http}, period: 1s}}}`, i)
				case 1:
					pod.Annotations[declared.Annotation] = fmt.Sprintf(`{web: {readiness: {plugin: {name: p%d, target: {host: %s}}, period: 1s}, liveness: {tcpSocket: {port: 1}}}}`, i, pod.Status.PodIP)
				case 2:
					pod.Status.PodIP = fmt.Sprintf("10.1.0.%d", 1+random.IntN(200))
					pod.Status.PodIPs = []v1.PodIP{{IP: pod.Status.PodIP}}
				case 3:
					run(pod, fmt.Sprint("c", i), time.Now())
				case 4:
					text := pod.Annotations[declared.Annotation]
					delete(pod.Annotations, declared.Annotation)
					w.cluster.set(pod)
					w.wait(upTo(2 * time.Second))
					pod.Annotations[declared.Annotation] = text
				}
				w.cluster.set(pod)
				w.wait(upTo(20 * time.Second))
			}
			cancel()
			reading.Wait()
			pod.Annotations[declared.Annotation] = readiness
			w.cluster.set(pod)
			w.wait(2 * time.Minute)
			if got := strings.Join(w.conditionsOf("web"), " "); got != "readiness.web=failure!" {
				w.t.Errorf("seed %d: at the end %s", seed, got)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A liveness probe may fail while the other probes of its pod are started. The failure is passed with its settings.
func TestFailureWhileProbesAreStarted(t *testing.T) {
	const both = `{web: {liveness: {tcpSocket: {port: 1}, period: 1s, failureThreshold: 1, terminationGracePeriodSeconds: 7}}, z: {readiness: {httpGet: {path: /slow, port: 1}}}}`
	for _, c := range []struct{ name, first string }{
		{"new pod", both},
		{"new probe", `{web: {readiness: {httpGet: {path: /r, port: 1}}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.bind = func(_ string, config []byte, _ probe.Target) (probe.Handler, error) {
					if strings.Contains(string(config), "slow") {
						time.Sleep(3 * time.Second)
					}
					return probetest.NewHandler(failure), nil
				}
				pod := podNamed("web", c.first, kube.LivenessAnnotation, "restart")
				pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "z"})
				w.cluster.set(pod)
				w.start()
				w.wait(time.Second)
				pod.Annotations[declared.Annotation] = both
				w.cluster.set(pod)
				w.wait(time.Minute)
				if all := w.failed(); len(all) != 1 || all[0].Grace == nil || *all[0].Grace != 7 || all[0].Period != time.Second {
					t.Errorf("failures %+v, want one with the grace period and the period of the probe", all)
				}
			}, func(w *world) { w.cfg.Policy.Liveness.Modes = []string{"observe", "restart"} })
		})
	}
}

// The first attempt of an exec probe finds a container that ran before the agent started.
func TestFirstAttemptRunsCommand(t *testing.T) {
	bubble(t, func(w *world) {
		pod := podNamed("web", `{web: {readiness: {exec: {command: [ok]}, period: 1s}}, z: {readiness: {httpGet: {path: /slow, port: 1}}}}`)
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: "z"})
		id := pod.Status.ContainerStatuses[0].ContainerID
		w.owners[id] = pod.UID
		w.bind = func(_ string, config []byte, _ probe.Target) (probe.Handler, error) {
			if strings.Contains(string(config), "slow") {
				time.Sleep(5 * time.Second) // meanwhile, the other probe makes its first attempts
			}
			return probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
				_, err := w.source.RunInContainer(ctx, id, []string{"ok"}, time.Second)
				if err != nil {
					w.t.Errorf("an attempt: %v", err)
				}
				return probe.Outcome{Result: probe.Success}, err
			}), nil
		}
		w.cluster.set(pod)
		w.start()
		w.wait(10 * time.Second)
		w.wantConditions("web", "readiness.web=success", "readiness.z=unknown?")
	}, withRuntime)
}

// No action is taken on a pod that is being deleted, even before an attempt has stopped its probes.
func TestPodIsDeletedWhileOthersAreApplied(t *testing.T) {
	bubble(t, func(w *world) {
		w.prepare = func(ctx context.Context, _ string) error {
			if ctx.Value(checkedPod{}) == "slow" {
				<-ctx.Done()
			}
			return context.Cause(ctx)
		}
		w.script("/l", failure)
		pod := podNamed("web", `{web: {liveness: {httpGet: {path: /l, port: 1}, period: 1s, failureThreshold: 1}}}`, kube.LivenessAnnotation, "restart")
		w.cluster.set(pod)
		w.start()
		w.wait(3 * time.Second)
		w.cluster.set(podNamed("slow", `{web: {readiness: {plugin: {name: slow}}}}`))
		w.wait(100 * time.Millisecond)
		pod.DeletionTimestamp = new(metav1.Now())
		w.cluster.set(pod)
		w.wait(100 * time.Millisecond)
		if now := w.actor.Current(pod.UID); now == nil || now.DeletionTimestamp == nil {
			t.Errorf("what acts on failures has the pod %+v, want one that is being deleted", now)
		}
		w.wait(2 * time.Second)
	}, func(w *world) { w.cfg.Policy.Liveness.Modes = []string{"observe", "restart"} })
}

// The end of the agent causes no errors for probes that are being started.
func TestAgentEndsWhileProbesAreStarted(t *testing.T) {
	bubble(t, func(w *world) {
		w.bind = func(string, []byte, probe.Target) (probe.Handler, error) {
			w.stop()
			time.Sleep(time.Millisecond)
			return probetest.NewHandler(success), nil
		}
		w.cluster.set(podNamed("web", `{web: {liveness: {tcpSocket: {port: 1}}, readiness: {tcpSocket: {port: 2}}}}`))
		w.start()
		w.wait(time.Second)
		w.wantEvents()
	})
}

// Conditions of a pod that is being deleted keep their status when its probes stop: a gate that turned Unknown would
// end its connections too early.
func TestConditionsStayWhilePodIsDeleted(t *testing.T) {
	for _, readiness := range []string{"", "readiness: {tcpSocket: {port: 3}, period: 1s}, "} {
		bubble(t, func(w *world) {
			pod := podNamed("web", `{web: {`+readiness+`startup: {tcpSocket: {port: 1}, period: 1s}, liveness: {tcpSocket: {port: 2}, period: 1s}}}`)
			w.cluster.set(pod)
			w.start()
			w.wait(5 * time.Second)
			w.wantDecided("web", "prober.dev/ready=True ProbeSucceeded, prober.dev/live=True ProbeSucceeded")
			publish(pod, conditions.Ready, v1.ConditionTrue, time.Now())
			publish(pod, conditions.Live, v1.ConditionTrue, time.Now())
			pod.DeletionTimestamp = new(metav1.Now())
			w.cluster.set(pod)
			w.wait(5 * time.Second)
			w.wantDecided("web", "")
			w.wantEvents()
		})
	}
}
