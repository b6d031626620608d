package conditions_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
)

// rig is a running writer and a server.
type rig struct {
	*server
	events []string
	*conditions.Writer
	log  bytes.Buffer // read only while all other goroutines block
	stop func()
}

// inBubble runs a test with a running writer in a synctest bubble.
func inBubble(t *testing.T, change func(*conditions.Config), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{server: newServer()}
		cfg := conditions.Config{Patcher: r.server, Logger: slog.New(slog.NewTextHandler(&r.log, nil))}
		cfg.Events = r
		if change != nil {
			change(&cfg)
		}
		r.Writer = conditions.NewWriter(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Run(ctx) }()
		r.stop = func() { cancel(); <-ended }
		defer r.stop()
		test(t, r)
	})
}

// Event implements manager.Recorder.
func (r *rig) Event(object runtime.Object, eventType, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprint(eventType, " ", reason, " ", object.(*v1.ObjectReference).UID, " ", message))
}

// podOf returns a gated pod whose UID is its name and "-uid".
func podOf(name string, probes ...conditions.Probe) conditions.Pod {
	return conditions.Pod{Pod: api.Pod{Namespace: "shop", Name: name, UID: types.UID(name + "-uid")}, Gated: true, Probes: probes}
}

// pod creates a pod on the server, and returns it with its published conditions.
func (r *rig) pod(name string, probes ...conditions.Probe) conditions.Pod {
	p := podOf(name, probes...)
	if r.conditions(p.UID) == nil {
		r.create(name, p.UID)
	}
	p.Published = r.conditions(p.UID)
	return p
}

func (r *rig) ready(name string) string {
	for _, c := range r.conditions(types.UID(name + "-uid")) {
		if c.Type == conditions.Ready {
			return words([]v1.PodCondition{c})
		}
	}
	return ""
}

func TestWriterPatchesAllChangedConditionsAtOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		p := r.pod("web", probeIn("web", states.Success, ""), with(probeIn("web", states.Success, ""), liveness))
		p.PerProbe = true
		r.Set(p)
		synctest.Wait()
		if r.count() != 1 || len(r.patches[0].conditions) != 4 {
			t.Fatalf("%d patches: %v", r.count(), r.patches)
		}
		if got := r.Counts(); got != (conditions.Counts{Written: 1}) {
			t.Errorf("counts %+v", got)
		}
	})
}

func TestWriterKeepsTimeUnlessStatusChanges(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		start := time.Now()
		times := func() (since time.Duration) {
			synctest.Wait()
			for _, c := range r.conditions("web-uid") {
				if c.Type == conditions.Ready {
					since = c.LastTransitionTime.Sub(start)
				}
			}
			return since
		}
		r.Set(r.pod("web", probeIn("web", states.Success, "")))
		if got := times(); got != 0 {
			t.Errorf("first at %v", got)
		}
		time.Sleep(time.Minute)
		r.Set(r.pod("web", probeIn("web", states.Warning, "slow")))
		if got := times(); got != 0 {
			t.Errorf("a new reason set the time to %v", got)
		}
		r.Set(r.pod("web", probeIn("web", states.Failure, "refused")))
		if got := times(); got != time.Minute {
			t.Errorf("a new status set the time to %v", got)
		}
	})
}

// TestPodProbeMarkerDefectsInWriter shows that Writer does not have known defects of OpenKruise's PodProbeMarker.
func TestPodProbeMarkerDefectsInWriter(t *testing.T) {
	t.Run("2 equal states cause no write", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			for range 24 * 60 { // a day, with a state each minute
				r.Set(r.pod("web", probeIn("web", states.Failure, "refused")))
				time.Sleep(time.Minute)
			}
			if r.count() != 1 {
				t.Errorf("%d patches", r.count())
			}
		})
	})
	t.Run("3 retries reach the right pod", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			names := []string{"a", "b", "c"}
			failures := map[string]int{"a": 3, "b": 1, "c": 2}
			r.before = func(_ context.Context, pod api.Pod) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				if failures[pod.Name]--; failures[pod.Name] >= 0 {
					return errors.New("etcd has no leader")
				}
				return nil
			}
			for _, name := range names {
				r.Set(r.pod(name, probeIn(name, states.Failure, "refused by "+name)))
			}
			time.Sleep(time.Minute)
			for _, name := range names {
				if got := r.ready(name); got != fmt.Sprintf("prober.dev/ready=False ProbeFailed %s readiness: refused by %s", name, name) {
					t.Errorf("%s: %s", name, got)
				}
			}
			if got := r.Counts(); got != (conditions.Counts{Written: 3, Failed: 6}) {
				t.Errorf("counts %+v", got)
			}
			r.stop()
			if strings.Count(r.log.String(), "level=WARN") > 3 || !strings.Contains(r.log.String(), "written again") {
				t.Errorf("log:\n%s", &r.log)
			}
		})
	})
	t.Run("13 a patch has our conditions only", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			p := r.pod("web", probeIn("web", states.Success, ""))
			r.Set(p)
			synctest.Wait()
			for _, c := range r.patches[0].conditions {
				if !strings.HasPrefix(string(c.Type), conditions.Prefix) {
					t.Errorf("the patch has %s", c.Type)
				}
			}
			if len(r.conditions(p.UID)) != 2 {
				t.Errorf("the condition of the kubelet is lost: %v", r.conditions(p.UID))
			}
		})
	})
}

func TestWriterDoesNotWriteAgainWhileInformerLags(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		old := r.pod("web", probeIn("web", states.Success, ""))
		set := func(s states.State, published []v1.PodCondition) {
			p := old
			p.Probes, p.Published = []conditions.Probe{probeIn("web", s, "")}, published
			r.Set(p)
			synctest.Wait()
		}
		var history [][]v1.PodCondition
		for _, s := range []states.State{states.Success, states.Failure, states.Success} {
			set(s, old.Published)
			history = append(history, r.conditions(old.UID))
		}
		if r.count() != 3 {
			t.Fatalf("%d patches", r.count())
		}
		for _, published := range history { // the informer catches up
			set(states.Success, published)
		}
		if r.count() != 3 {
			t.Errorf("%d patches after the informer has shown them", r.count())
		}
		// Another client sets the condition.
		other := []v1.PodCondition{condition(conditions.Ready, v1.ConditionFalse, conditions.AgentLost, "")}
		set(states.Success, other)
		if r.count() != 4 {
			t.Errorf("%d patches after another client has set the condition", r.count())
		}
	})
}

func TestWriterFailedPatchMayHaveBeenApplied(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		p := r.pod("web", probeIn("web", states.Success, ""))
		set := func(s states.State) {
			p.Probes = []conditions.Probe{probeIn("web", s, "")}
			r.Set(p) // the informer shows no condition
			synctest.Wait()
		}
		var fails atomic.Bool
		r.after = func(context.Context, api.Pod) error {
			if fails.Load() {
				return errors.New("connection reset")
			}
			return nil
		}
		set(states.Success)
		fails.Store(true)
		set(states.Failure)
		fails.Store(false)
		set(states.Success)
		time.Sleep(time.Minute)
		if got := r.ready("web"); got != "prober.dev/ready=True ProbeSucceeded" || r.count() != 3 {
			t.Errorf("%d patches, at last %s", r.count(), got)
		}
	})
}

func TestWriterResyncComparesWithPublished(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		p := r.pod("web", probeIn("web", states.Success, ""))
		r.Set(p)
		synctest.Wait()
		time.Sleep(9 * time.Minute)
		if r.count() != 1 {
			t.Fatalf("%d patches", r.count())
		}
		time.Sleep(11 * time.Minute) // until the resync; the informer has not shown the write
		if r.count() != 2 {
			t.Errorf("%d patches after the resync", r.count())
		}
	})
}

func TestWriterGonePodIsForgotten(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		p := r.pod("web", probeIn("web", states.Success, ""))
		r.create("web", "another")
		var tries atomic.Int32
		r.before = func(context.Context, api.Pod) error { tries.Add(1); return nil }
		for range 5 {
			r.Set(p)
			synctest.Wait()
			p.Probes = []conditions.Probe{probeIn("web", states.Failure, "")}
		}
		time.Sleep(5 * time.Minute)
		if tries.Load() != 1 || len(r.conditions("another")) != 1 {
			t.Errorf("%d tries, the other pod has %v", tries.Load(), r.conditions("another"))
		}
		if got := r.Counts(); got != (conditions.Counts{}) {
			t.Errorf("counts %+v", got)
		}
		r.Remove(p.UID)
		next := podOf("web", p.Probes...)
		next.UID = "another"
		r.Set(next)
		synctest.Wait()
		if len(r.conditions("another")) != 2 {
			t.Errorf("the pod of the same name has %v", r.conditions("another"))
		}
	})
}

// Reported as ingress-gce 863, 834.
func TestWriterDeniedIsLoggedOnceAndRetriedAfterChange(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var tries atomic.Int32
		var allowed atomic.Bool
		r.before = func(context.Context, api.Pod) error {
			if tries.Add(1); !allowed.Load() {
				return fmt.Errorf("%w: policy", api.ErrDenied)
			}
			return nil
		}
		step := func(what string, want int32) {
			t.Helper()
			synctest.Wait()
			if got := tries.Load(); got != want {
				t.Errorf("%s: %d tries, want %d", what, got, want)
			}
		}
		for range 3 {
			r.Set(r.pod("web", probeIn("web", states.Success, "")))
			step("the same state", 1)
		}
		p := r.pod("web", probeIn("web", states.Failure, ""))
		r.changed = func(_ types.UID, now []v1.PodCondition) { p.Published = now; r.Set(p) } // an informer
		r.Set(p)
		step("another state does not shorten the wait", 1)
		time.Sleep(5 * time.Second)
		step("another state, 5 s later", 2)
		time.Sleep(9 * time.Minute)
		step("after 9 minutes, with waits that are doubled", 7)
		if got := r.Counts(); got != (conditions.Counts{Denied: 7, Pending: 1}) {
			t.Errorf("counts %+v", got)
		}
		allowed.Store(true)
		time.Sleep(2 * time.Minute)
		step("after 11 minutes", 8)
		time.Sleep(time.Minute)
		if want := "Warning ProbeConditionDenied web-uid the API server refuses the conditions of the pod: denied by the API server: policy"; len(r.events) != 1 || r.events[0] != want {
			t.Errorf("events %q, want %q", r.events, want)
		}
		r.stop()
		if got := strings.Count(r.log.String(), "denied by the API server: policy"); got != 1 {
			t.Errorf("%d lines about it:\n%s", got, &r.log)
		}
	})
}

func TestWriterLimitsRateAndConcurrency(t *testing.T) {
	inBubble(t, func(c *conditions.Config) { c.QPS, c.Burst = 10, 5 }, func(t *testing.T, r *rig) {
		inFlight, most := 0, 0
		r.before = func(context.Context, api.Pod) error {
			r.mu.Lock()
			inFlight++
			most = max(most, inFlight)
			r.mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			r.mu.Lock()
			inFlight--
			r.mu.Unlock()
			return nil
		}
		start := time.Now()
		for i := range 45 {
			r.Set(r.pod(fmt.Sprintf("p%d", i), probeIn("web", states.Success, "")))
		}
		time.Sleep(10 * time.Second)
		if r.count() != 45 || most != 4 {
			t.Fatalf("%d patches, at most %d at once", r.count(), most)
		}
		if took := r.patches[44].at.Sub(start); took < 3900*time.Millisecond || took > 4200*time.Millisecond {
			t.Errorf("45 patches took %v, want 4 s", took)
		}
	})
}

func TestWriterNewestStateWinsWhilePatchIsInFlight(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.before = func(context.Context, api.Pod) error { time.Sleep(time.Second); return nil }
		p := r.pod("web", probeIn("web", states.Success, ""))
		for i := range 10 {
			p.Probes = []conditions.Probe{probeIn("web", states.Failure, strings.Repeat("x", i))}
			r.Set(p)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		if got := r.ready("web"); r.count() != 2 || got != "prober.dev/ready=False ProbeFailed web readiness: xxxxxxxxx" {
			t.Errorf("%d patches, at last %s", r.count(), got)
		}
	})
}

func TestWriterPodIsSetAgainWhilePatchIsInFlight(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var later atomic.Bool
		r.before = func(context.Context, api.Pod) error {
			if !later.Swap(true) {
				time.Sleep(10 * time.Second)
			}
			return nil
		}
		p := r.pod("web", probeIn("web", states.Success, ""))
		r.Set(p)
		synctest.Wait()
		r.Remove(p.UID)
		p.Probes = []conditions.Probe{probeIn("web", states.Failure, "refused")}
		r.Set(p)
		time.Sleep(time.Minute)
		if got := r.ready("web"); r.count() != 2 || got != "prober.dev/ready=False ProbeFailed web readiness: refused" {
			t.Errorf("%d patches, at last %s", r.count(), got)
		}
		r.Remove(p.UID)
		if got := r.Counts(); got != (conditions.Counts{Written: 2}) {
			t.Errorf("counts %+v", got)
		}
	})
}

func TestWriterBacksOffDespiteNewStates(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var tries atomic.Int32
		r.before = func(context.Context, api.Pod) error { tries.Add(1); return errors.New("no route to host") }
		for i := range 6000 {
			r.Set(r.pod("web", probeIn("web", states.Failure, fmt.Sprint(i%7))))
			time.Sleep(100 * time.Millisecond)
		}
		if n := tries.Load(); n < 600/30 || n > 600/15+8 {
			t.Errorf("%d tries in ten minutes", n)
		}
	})
}

func TestWriterPendingIsWrittenForFiveSecondsAtEnd(t *testing.T) {
	t.Run("it is written", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			var back atomic.Bool
			r.before = func(context.Context, api.Pod) error {
				if !back.Load() {
					return errors.New("connection refused")
				}
				return nil
			}
			r.Set(r.pod("web", probeIn("web", states.Success, "")))
			time.Sleep(5 * time.Minute) // the pod is in its back-off
			back.Store(true)
			start := time.Now()
			r.stop()
			if r.count() != 1 || time.Since(start) > time.Second {
				t.Errorf("%d patches in %v", r.count(), time.Since(start))
			}
		})
	})
	t.Run("the API server does not answer", func(t *testing.T) {
		inBubble(t, nil, func(t *testing.T, r *rig) {
			r.before = func(ctx context.Context, _ api.Pod) error { <-ctx.Done(); return ctx.Err() }
			r.Set(r.pod("web", probeIn("web", states.Success, "")))
			synctest.Wait()
			start := time.Now()
			r.stop()
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
}

func TestWriterDryRunLogs(t *testing.T) {
	inBubble(t, func(c *conditions.Config) { c.DryRun = true }, func(t *testing.T, r *rig) {
		for range 100 {
			r.Set(r.pod("web", with(probeIn("web", states.Failure, "wedged"), func(p *conditions.Probe) { p.Kind = probe.Readiness })))
			time.Sleep(time.Minute)
		}
		r.stop()
		if r.count() != 0 || strings.Count(r.log.String(), `"dry run: the condition of a pod would be written" namespace=shop pod=web type=prober.dev/ready status=False reason=ProbeFailed message="web readiness: wedged"`) != 1 {
			t.Errorf("%d patches, log:\n%s", r.count(), &r.log)
		}
	})
}

// TestWriterAfterOutage changes the pods of a full node while the API server is unreachable for nine minutes.
func TestWriterAfterOutage(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(r *rig)
	}{
		{"told by the caller", func(r *rig) { r.Retry() }},
		{"by a patch of another pod", func(r *rig) { r.Set(r.pod("another", probeIn("web", states.Success, ""))) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				var away atomic.Bool
				away.Store(true)
				r.before = func(context.Context, api.Pod) error {
					if away.Load() {
						return errors.New("connection refused")
					}
					return nil
				}
				const pods = 110
				for i := range pods {
					r.Set(r.pod(fmt.Sprint("web-", i), probeIn("web", states.Failure, "refused")))
				}
				time.Sleep(9 * time.Minute)
				away.Store(false)
				test.end(r)
				time.Sleep(6 * time.Second) // enough for a burst of 20, and 20 a second
				if got := r.Counts(); got.Pending != 0 || got.Written > pods+1 {
					t.Errorf("counts %+v", got)
				}
				for i := range pods {
					if got := r.ready(fmt.Sprint("web-", i)); !strings.HasPrefix(got, "prober.dev/ready=False") {
						t.Errorf("pod %d: %q", i, got)
					}
				}
			})
		})
	}
}

// A starting API server may deny patches at first.
func TestWriterFirstDenialIsRetriedSoon(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		var tries atomic.Int32
		r.before = func(context.Context, api.Pod) error {
			if tries.Add(1) == 1 {
				return fmt.Errorf("%w: not yet ready to handle request", api.ErrDenied)
			}
			return nil
		}
		r.Set(r.pod("web", probeIn("web", states.Failure, "")))
		time.Sleep(6 * time.Second)
		if got := r.ready("web"); !strings.HasPrefix(got, "prober.dev/ready=False") {
			t.Errorf("after 6 s: %q", got)
		}
		if len(r.events) != 0 {
			t.Errorf("events %q", r.events)
		}
	})
}

// Patches of one namespace that hang, fail or are denied, while its pods change all the time, do not delay another
// namespace. The numbers of tries and log messages stay small.
//
// Reported as aws-load-balancer-controller 4180.
func TestWriterNamespacesAreIndependent(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(context.Context) error
	}{
		{"hang", func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(15 * time.Second):
				return errors.New("failed calling webhook")
			}
		}},
		{"fail", func(context.Context) error { return errors.New("failed calling webhook") }},
		{"are denied", func(context.Context) error { return fmt.Errorf("%w: policy", api.ErrDenied) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				var tries atomic.Int32
				r.before = func(ctx context.Context, pod api.Pod) error {
					if pod.Namespace != "broken" {
						return nil
					}
					tries.Add(1)
					return c.fault(ctx)
				}
				const pods, minutes = 30, 10
				var slowest time.Duration
				state := map[bool]states.State{false: states.Success, true: states.Failure}
				for i := range minutes * 60 { // each second
					for j := range pods {
						p := podOf(fmt.Sprint("broken-", j), probeIn("web", state[i%2 == 1], ""))
						p.Namespace = "broken"
						r.Set(p)
					}
					begun, sick := time.Now(), i%2 == 0
					r.Set(r.pod("victim", probeIn("web", state[sick], "")))
					synctest.Wait()
					for want := map[bool]string{false: "True", true: "False"}[sick]; !strings.HasPrefix(r.ready("victim"), "prober.dev/ready="+want); {
						if time.Since(begun) > time.Minute {
							t.Fatal("the pod of another namespace is not written")
						}
						time.Sleep(100 * time.Millisecond)
					}
					slowest = max(slowest, time.Since(begun))
					time.Sleep(time.Second)
				}
				if slowest > 100*time.Millisecond {
					t.Errorf("a pod of another namespace was written after %v", slowest)
				}
				if most := int32(pods * (8 + minutes*60/15)); tries.Load() > most {
					t.Errorf("%d tries of %d pods in %d minutes, more than %d", tries.Load(), pods, minutes, most)
				}
				r.stop()
				if lines := strings.Count(r.log.String(), "\n"); lines > 2*minutes {
					t.Errorf("%d lines in the log:\n%.2000s", lines, r.log.String())
				}
			})
		})
	}
}

// Pods whose patches fail do not delay other pods of their namespace for long.
func TestWriterFailingPodsShareOneSlot(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.before = func(ctx context.Context, pod api.Pod) error {
			if !strings.HasPrefix(pod.Name, "bad") {
				return nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(15 * time.Second):
			}
			return errors.New("failed calling webhook")
		}
		for i := range 10 {
			r.Set(r.pod(fmt.Sprint("bad", i), probeIn("web", states.Success, "")))
		}
		time.Sleep(time.Minute) // each has failed once
		for i := range 60 {
			name := fmt.Sprint("good", i)
			r.Set(r.pod(name, probeIn("web", states.Success, "")))
			time.Sleep(time.Second)
			if r.ready(name) == "" {
				t.Errorf("%s is not written after a second", name)
			}
		}
	})
}

// Reported as kruise 1479.
func TestWriterCoalescesMessages(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		const minutes = 30
		for i := range minutes * 60 {
			r.Set(r.pod("web", probeIn("web", states.Failure, []string{"refused", "reset", "timed out"}[i%3])))
			time.Sleep(time.Second)
		}
		if got := r.count(); got < minutes/2 || got > minutes+4 {
			t.Errorf("%d patches in %d minutes", got, minutes)
		}
		r.Set(r.pod("web", probeIn("web", states.Failure, "no route to host")))
		time.Sleep(time.Minute)
		if got := r.ready("web"); got != "prober.dev/ready=False ProbeFailed web readiness: no route to host" {
			t.Errorf("the newest message is not written within a minute: %s", got)
		}
		before := r.count()
		r.Set(r.pod("web", probeIn("web", states.Success, "")))
		synctest.Wait()
		if r.count() != before+1 {
			t.Error("another status has waited")
		}
		r.Set(r.pod("web", probeIn("web", states.Failure, "refused")))
		synctest.Wait()
		r.Set(r.pod("web", probeIn("web", states.Failure, "reset")))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := r.ready("web"); got != "prober.dev/ready=False ProbeFailed web readiness: reset" || r.count() != before+3 {
			t.Errorf("10 s after a transition: %s, %d patches", got, r.count()-before)
		}
		r.Set(r.pod("web", probeIn("web", states.Failure, "refused")))
		r.stop()
		if got := r.ready("web"); got != "prober.dev/ready=False ProbeFailed web readiness: refused" {
			t.Errorf("at the end: %s", got)
		}
	})
}

func TestWriterSetsObservedGeneration(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		set := func(generation int64) int64 {
			p := r.pod("web", probeIn("web", states.Success, ""))
			p.Generation = generation
			r.Set(p)
			time.Sleep(2 * time.Minute)
			for _, c := range r.conditions(p.UID) {
				if c.Type == conditions.Ready {
					return c.ObservedGeneration
				}
			}
			return -1
		}
		for i, generation := range []int64{1, 1, 2, 2, 2} {
			if got := set(generation); got != generation {
				t.Errorf("step %d: observedGeneration %d, want %d", i, got, generation)
			}
		}
		if r.count() != 2 {
			t.Errorf("%d patches, want one for each generation", r.count())
		}
	})
}
