package manager_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// rest reads seq until no update has come for a millisecond of fake time.
func rest(cancel context.CancelFunc, seq iter.Seq[results.Update]) (all []results.Update) {
	timer := time.AfterFunc(ms, cancel)
	for u := range seq {
		all = append(all, u)
		timer.Reset(ms)
	}
	return all
}

// crowd adds n pods with one readiness probe each.
func (r *rig) crowd(n int) {
	r.t.Helper()
	for i := range n {
		pod := podOf(fmt.Sprint(i), container("web", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("web", fmt.Sprint("c", i))))
		if err := r.m.AddPod(r.t.Context(), pod); err != nil {
			r.t.Fatal(err)
		}
	}
	synctest.Wait()
}

func TestSubscribe(t *testing.T) {
	const workers = 1000
	bubble(t, "#232 a reader that sleeps blocks none of 1,000 workers, and gets the newest state of each", func(t *testing.T) {
		r := newRig(t, herd)
		h := r.always(probetest.NewHandler())
		ctx, cancel := context.WithCancel(t.Context())
		seq := r.m.Subscribe(ctx)
		r.crowd(workers)
		for range 2 {
			h.Then(failure)
			r.wait(time.Second)
			h.Then(success)
			r.wait(time.Second)
		}
		if got := h.Count(); got != 5*workers {
			t.Errorf("%d attempts, want %d", got, 5*workers)
		}
		h.Then(failure)
		r.wait(time.Second)
		seen := make(map[string]results.Result)
		for _, u := range rest(cancel, seq) {
			if _, twice := seen[u.ContainerID]; twice {
				t.Fatalf("%s was told twice", u.ContainerID)
			}
			seen[u.ContainerID] = u.Result
			if u.Result != results.Failure || u.Kind != probe.Readiness {
				t.Fatalf("got %+v", u)
			}
		}
		if len(seen) != workers {
			t.Errorf("%d containers were told, want %d", len(seen), workers)
		}
	})
	bubble(t, "several readers get all kinds", func(t *testing.T) {
		r := newRig(t)
		pod := podOf("u", container("a", probe.Liveness), container("b", probe.Readiness), container("c", probe.Startup))
		r.store.SetPodStatus(pod, statusOf(running("a", "1"), running("b", "2"), starting("c", "3")))
		var seqs []iter.Seq[results.Update]
		var cancels []context.CancelFunc
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			seqs, cancels = append(seqs, r.m.Subscribe(ctx)), append(cancels, cancel)
		}
		r.add(pod)
		about := func(name string) results.Subject {
			return results.Subject{Namespace: "ns", Pod: "pod-u", PodUID: "u", Container: name}
		}
		want := map[results.Update]bool{
			{Kind: probe.Liveness, ContainerID: "1", Result: results.Success, Cause: results.Cause{Reason: results.Initial}, Subject: about("a")}: true,
			{Kind: probe.Readiness, ContainerID: "2", Result: results.Success, Subject: about("b")}:                                               true,
			{Kind: probe.Startup, ContainerID: "3", Result: results.Success, Subject: about("c")}:                                                 true,
		}
		for i := range seqs {
			got := make(map[results.Update]bool)
			for _, u := range rest(cancels[i], seqs[i]) {
				u.Time = time.Time{}
				got[u] = true
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("reader %d: %s", i, diff)
			}
		}
	})
	bubble(t, "reader gets the last result and the removal of a removed pod", func(t *testing.T) {
		r := newRig(t)
		ctx, cancel := context.WithCancel(t.Context())
		seq := r.m.Subscribe(ctx)
		r.crowd(3)
		r.m.RemovePod(podOf("1", container("web")))
		var got []string
		for _, u := range rest(cancel, seq) {
			if u.PodUID == "1" {
				got = append(got, fmt.Sprintf("%v removed=%v", u.Result, u.Removed))
			}
		}
		if diff := cmp.Diff([]string{"Success removed=false", "Success removed=true"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func eachProbe(pod *v1.Pod, f func(*v1.Probe)) {
	for _, c := range pod.Spec.Containers {
		for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if p != nil {
				f(p)
			}
		}
	}
}

// A reader of the updates must not consider a container ready that is not restarted: its worker decides
// Failure and ends within one tick.
func TestUpdatesOfContainerThatIsNotRestarted(t *testing.T) {
	terminated := v1.ContainerStatus{Name: "web", ContainerID: "c1", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1}}}
	for kind, want := range map[probe.Kind][]string{
		probe.Liveness:  {"Success initial", "Failure not_running", "removed"},
		probe.Readiness: {"Failure initial", "Success ", "Failure not_running", "removed"},
		probe.Startup:   {"UNKNOWN initial", "Success ", "removed"}, // on hold until the pod is removed
	} {
		bubble(t, kind.String(), func(t *testing.T) {
			r := newRig(t)
			updates := r.m.Results(kind).Updates()
			var got []string
			read := func() {
				synctest.Wait()
				for {
					select {
					case u := <-updates:
						word := fmt.Sprintf("%v %s", u.Result, u.Reason)
						if u.Removed {
							word = "removed"
						}
						got = append(got, word)
						synctest.Wait()
					default:
						return
					}
				}
			}
			pod := podOf("u", container("web", kind))
			pod.Spec.RestartPolicy = v1.RestartPolicyNever
			eachProbe(pod, func(p *v1.Probe) { p.InitialDelaySeconds = 5 }) // the initial result is read
			status := running("web", "c1")
			if kind == probe.Startup {
				status = starting("web", "c1")
			}
			status.State.Running.StartedAt = metav1.Now()
			r.store.SetPodStatus(pod, statusOf(status))
			r.add(pod)
			read()
			time.Sleep(20 * time.Second)
			read()
			r.store.SetPodStatus(pod, statusOf(terminated))
			time.Sleep(20 * time.Second)
			read()
			r.m.RemovePod(pod)
			read()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManagerCaches(t *testing.T) {
	bubble(t, "Close does not close shared caches", func(t *testing.T) {
		liveness := results.New(probe.Liveness)
		updates := liveness.Updates()
		r := newRig(t, func(cfg *manager.Config) { cfg.Liveness = liveness })
		pod := podOf("u", container("web", probe.Liveness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		if u := <-updates; u.ContainerID != "c1" || u.Result != results.Success {
			t.Errorf("got %+v", u)
		}
		if err := r.m.Close(); err != nil {
			t.Error(err)
		}
		if u := <-updates; u.ContainerID != "c1" || !u.Removed {
			t.Errorf("got %+v", u)
		}
		liveness.Set("other", results.Failure, &results.Subject{PodUID: "v"}, results.Cause{})
		if u := <-updates; u.ContainerID != "other" {
			t.Errorf("got %+v", u)
		}
		liveness.Close()
	})
	bubble(t, "Close closes the channels of the manager's own caches", func(t *testing.T) {
		r := newRig(t)
		updates := r.m.Results(probe.Startup).Updates()
		if err := r.m.Close(); err != nil {
			t.Error(err)
		}
		if _, open := <-updates; open {
			t.Error("the channel is open")
		}
	})
}

func TestRecorder(t *testing.T) {
	bubble(t, "#222 event refers to the field path of the container", func(t *testing.T) {
		r := newRig(t)
		r.always(probetest.NewHandler(failure))
		pod := podOf("u", container("web", probe.Liveness))
		pod.Spec.InitContainers = []v1.Container{sidecar("side", probe.Readiness)}
		status := statusOf(running("web", "c1"))
		status.InitContainerStatuses = []v1.ContainerStatus{running("side", "c2")}
		r.store.SetPodStatus(pod, status)
		r.add(pod)
		got := strings.Join(r.sent(), "\n")
		for _, want := range []string{
			"ns/pod-u spec.containers{web} Warning Unhealthy: Liveness probe failed: bad",
			"ns/pod-u spec.initContainers{side} Warning Unhealthy: Readiness probe failed: bad",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in:\n%s", want, got)
			}
		}
	})
	t.Run("object of an event", func(t *testing.T) {
		got := manager.ContainerReference("ns", "pod", "uid", "web", false)
		if got.Kind != "Pod" || got.APIVersion != "v1" || got.UID != "uid" || got.FieldPath != "spec.containers{web}" {
			t.Errorf("got %+v", got)
		}
	})
	bubble(t, "recorder that blocks delays no probe", func(t *testing.T) {
		blocked := make(chan struct{})
		r := newRig(t, herd, func(cfg *manager.Config) { cfg.Recorder = blockingRecorder(blocked) })
		h := r.always(probetest.NewHandler(failure))
		r.crowd(500)
		r.wait(20 * time.Second)
		if got := h.Count(); got != 21*500 {
			t.Errorf("%d attempts, want %d", got, 21*500)
		}
		close(blocked) // so that Close can end
	})
}

// blockingRecorder blocks until the channel is closed.
type blockingRecorder chan struct{}

func (b blockingRecorder) Event(runtime.Object, string, string, string) { <-b }

func TestSpread(t *testing.T) {
	bubble(t, "#224 first ticks are spread over a period after the start of the manager", func(t *testing.T) {
		r := newYoungRig(t)
		h := r.always(probetest.NewHandler())
		for i := range 200 {
			pod := podOf(fmt.Sprint(i), container("web", probe.Readiness))
			pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 10
			r.store.SetPodStatus(pod, statusOf(running("web", fmt.Sprint("c", i))))
			r.add(pod)
		}
		if got := h.Count(); got > 5 {
			t.Errorf("%d first ticks at once", got)
		}
		r.wait(5 * time.Second)
		if got := h.Count(); got < 50 || got > 150 {
			t.Errorf("%d first ticks after half a period", got)
		}
		r.wait(5 * time.Second)
		if got := h.Count(); got < 200 {
			t.Errorf("%d first ticks after a period", got)
		}
	})
	bubble(t, "#224 first tick is immediate a period after the start of the manager", func(t *testing.T) {
		r := newYoungRig(t)
		h := r.always(probetest.NewHandler())
		r.wait(time.Second)
		r.crowd(50) // period 1 s
		if got := h.Count(); got != 50 {
			t.Errorf("%d first ticks at once, want 50", got)
		}
	})
	for name, c := range map[string]manager.Compat{"": 0, ", kubelet": manager.KubeletV1_36} {
		bubble(t, "#224 RemovePod cancels the delay of the first tick"+name, func(t *testing.T) {
			r := newYoungRig(t, compat(c))
			h := r.always(probetest.NewHandler())
			pod := podOf("u", container("web", probe.Readiness))
			pod.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 1 << 20
			r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
			r.add(pod)
			r.m.RemovePod(pod)
			r.wantKeys()
			r.wait(1 << 21 * time.Second)
			if got := h.Count(); got != 0 {
				t.Errorf("%d attempts", got)
			}
		})
	}
	seconds := func(t *testing.T, c manager.Compat) (inFirstHalf, distinct int) {
		r := newRig(t, compat(c))
		h := r.always(probetest.NewHandler())
		start := time.Now()
		r.crowd(400)
		r.wait(time.Second)
		at := make(map[time.Duration]bool)
		for _, call := range h.Calls()[400:800] {
			at[call.Start.Sub(start)] = true
			if call.Start.Sub(start) < 500*ms {
				inFirstHalf++
			}
		}
		return inFirstHalf, len(at)
	}
	bubble(t, "second ticks of probes added together are spread", func(t *testing.T) {
		if half, distinct := seconds(t, probe.CompatExactTimer); half < 120 || half > 280 || distinct < 300 {
			t.Errorf("%d of 400 in the first half of the period, %d distinct times", half, distinct)
		}
	})
	bubble(t, "second ticks of probes added together coincide, kubelet", func(t *testing.T) {
		if half, distinct := seconds(t, manager.KubeletV1_36); half != 0 || distinct != 1 {
			t.Errorf("%d of 400 in the first half of the period, %d distinct times", half, distinct)
		}
	})
}

func TestObservers(t *testing.T) {
	bubble(t, "skipped ticks are reported: busy, no slot, panic of a kubelet", func(t *testing.T) {
		skips := &skipCounter{counts: make(map[worker.SkipReason]int)}
		r := newRig(t, herd, func(cfg *manager.Config) {
			cfg.Compat |= probe.CompatPanicSkips
			cfg.Observers = []worker.Observer{skips}
		})
		slow := success.After(2500 * ms)
		slow.Deaf = true
		r.always(probetest.NewHandler(slow, probetest.Error(fmt.Errorf("x: %w", probe.ErrNoSlot)), probetest.Panic("x"), success))
		pod := podOf("u", container("web", probe.Readiness))
		r.store.SetPodStatus(pod, statusOf(running("web", "c1")))
		r.add(pod)
		r.wait(5 * time.Second)
		want := map[worker.SkipReason]int{worker.SkipBusy: 1, worker.SkipNoSlot: 1, worker.SkipPanic: 1}
		if diff := cmp.Diff(want, skips.seen()); diff != "" {
			t.Error(diff)
		}
		r.wantCached(probe.Readiness, "c1", results.Success)
	})
	bubble(t, "observer is closed when its probe ends", func(t *testing.T) {
		skips := &skipCounter{counts: make(map[worker.SkipReason]int)}
		r := newRig(t, func(cfg *manager.Config) { cfg.Observers = []worker.Observer{skips} })
		r.add(probedPod("u"))
		r.m.CleanupPods(nil)
		if skips.made != 3 || skips.closed != 3 {
			t.Errorf("%d made, %d closed", skips.made, skips.closed)
		}
	})
}

// skipCounter counts skipped ticks and Close.
type skipCounter struct {
	mu           sync.Mutex
	counts       map[worker.SkipReason]int
	made, closed int
}

func (s *skipCounter) Observe(worker.Info) worker.ProbeObserver {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return s
}

func (s *skipCounter) Tick(*worker.Tick) {}

func (s *skipCounter) Skipped(reason worker.SkipReason, ticks int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[reason] += ticks
}

func (s *skipCounter) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
}

func (s *skipCounter) seen() map[worker.SkipReason]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
