package stream_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/stream"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods"
)

// readView attaches c to the readers of a view.
func (c *client) readView(hub *stream.Hub, view stream.View) (leave func()) {
	reader := hub.Attach(view)
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer reader.Close()
		_ = reader.Serve(ctx, c)
	}()
	return func() { cancel(); <-ended }
}

// Readers of both views end with the present objects, also if one view has no reader for a while.
func TestViewsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		w.add(key("u", "a"))
		full, summary := newClient(t), newClient(t)
		leaveFull := full.readView(w.hub, stream.Full)
		leave := summary.readView(w.hub, stream.Summary)
		check := func(of *client) {
			t.Helper()
			time.Sleep(time.Second)
			want := w.numbers()
			if diff := cmp.Diff(want, of.state()); diff != "" {
				t.Errorf("(-want +got): %s", diff)
			}
		}
		w.add(key("u", "b"))
		w.happen("Reason")
		w.tick(key("u", "a"))
		check(full)
		check(summary)
		leave()
		w.tick(key("u", "b"))
		w.act(key("u", "a"))
		check(full)
		again := newClient(t)
		leave = again.readView(w.hub, stream.Summary)
		w.remove(key("u", "a"))
		check(again)
		check(full)
		leaveFull()
		w.tick(key("u", "b"))
		check(again)
		leave()
	})
}

// summaries returns the newest data of each kind of object in a summary stream of one probe and one pod.
func summaries(t *testing.T, p api.ProbeStatus, pod *v1.Pod) (probeText, podText string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		state := w.state()
		state.Probe = func(manager.Key) (api.ProbeStatus, bool) { return p, true }
		state.Watch = func(ctx context.Context) iter.Seq[pods.Change] {
			return func(yield func(pods.Change) bool) {
				yield(pods.Change{Pod: pod})
				<-ctx.Done()
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.hub.Run(ctx, state) }()
		w.add(key("u", "a"))
		c := newClient(t)
		c.keep = true
		leave := c.readView(w.hub, stream.Summary)
		time.Sleep(time.Second)
		leave()
		cancel()
		<-done
		for _, frame := range c.frames {
			if text, ok := strings.CutPrefix(frame, "event: probe\ndata: "); ok {
				probeText = text
			} else if text, ok := strings.CutPrefix(frame, "event: pod\ndata: "); ok {
				podText = text
			}
		}
	})
	return probeText, podText
}

func TestSummaryOfHostileProbe(t *testing.T) {
	at := time.Unix(7, 0).UTC()
	p := api.ProbeStatus{
		Namespace: "ns", Pod: "pod", UID: "u", Container: "a", Kind: "readiness", Handler: "http", Result: "failure",
		Last:         &api.TickStatus{Result: "failure", Output: "\x1b[31m\u202e" + strings.Repeat("ü", 1<<20), Time: at, DurationSeconds: 0.5},
		CurrentState: api.CurrentState{State: "failure", StateSince: at},
	}
	text, _ := summaries(t, p, podOf("u", 1))
	var got api.ProbeSummary
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	if s := got.Last.Text; len(s) > 200 || !utf8.ValidString(s) || strings.ContainsAny(s, "\x1b\u202e") || !strings.HasSuffix(s, "…") {
		t.Errorf("%d bytes: %q", len(s), s)
	}
	got.Last.Text = ""
	want := api.ProbeSummary{
		Namespace: "ns", Pod: "pod", UID: "u", Container: "a", Kind: "readiness", Handler: "http", Result: "failure",
		CurrentState: api.CurrentState{State: "failure", StateSince: at}, Last: &api.TickSummary{Result: "failure", Time: at, DurationSeconds: 0.5},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got): %s", diff)
	}
}

// A cause is a single line and an output is not. A summary has the same text only once.
func TestSummaryHasOneOfCauseAndOutput(t *testing.T) {
	for output, cause := range map[string]string{
		"no\n": "no", "no" + strings.Repeat(" \n", 300): "no", strings.Repeat("ü", 300) + "\n": strings.Repeat("ü", 300),
		strings.Repeat("é\n", 300): strings.TrimSpace(strings.Repeat("é ", 300)),
	} {
		p := api.ProbeStatus{
			Container: "a", Kind: "readiness", Last: &api.TickStatus{Result: "failure", Output: output}, CurrentState: api.CurrentState{State: "failure", Cause: cause},
		}
		text, _ := summaries(t, p, podOf("u", 1))
		var got api.ProbeSummary
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Cause != "" || got.Last.Text == "" {
			t.Errorf("%.10q: %v in %s", output, err, text)
		}
	}
}

func TestSummaryOfPod(t *testing.T) {
	at := metav1.Unix(7, 0)
	pod := podOf(types.UID("u"), 1)
	pod.Labels = map[string]string{"team": "shop"}
	pod.Spec.Containers = []v1.Container{{Name: "web", Env: []v1.EnvVar{{Name: "PASSWORD", Value: "secret"}}}}
	pod.Status = v1.PodStatus{
		Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
		InitContainerStatuses: []v1.ContainerStatus{{Name: "init", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", FinishedAt: at}}}},
		ContainerStatuses: []v1.ContainerStatus{
			{Name: "web", Ready: true, RestartCount: 2, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at}}, LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 7, FinishedAt: at, Message: "out\nof order"}}},
			{Name: "crash", State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s"}}},
		},
	}
	_, text := summaries(t, api.ProbeStatus{}, pod)
	var got api.PodSummary
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	want := api.PodSummary{
		Namespace: "ns", Name: "pod-u", UID: "u", Labels: map[string]string{"team": "shop"}, Phase: "Running", Ready: true,
		Containers: []api.ContainerSummary{
			{Name: "init", Init: true, State: "terminated", Since: at.UTC(), Reason: "Completed, exit code 0"},
			{Name: "web", Ready: true, Restarts: 2, State: "running", Since: at.UTC(), LastEnd: at.UTC(), LastReason: "Ended, exit code 7: out of order"},
			{Name: "crash", State: "waiting", Reason: "CrashLoopBackOff back-off 10s"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || strings.Contains(text, "secret") {
		t.Errorf("(-want +got): %s", diff)
	}
}
