package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// vector is one file of testdata/vectors, whose README explains the fields.
type vector struct {
	Name          string            `json:"name"`
	Items         []int             `json:"items"`
	Profiles      []string          `json:"profiles"`
	Kind          probe.Kind        `json:"kind"`
	Sidecar       bool              `json:"sidecar"`
	RestartPolicy v1.RestartPolicy  `json:"restartPolicy"`
	Deleting      bool              `json:"deleting"`
	AgentAge      *metav1.Duration  `json:"agentAge"`
	PriorID       string            `json:"priorID"`
	Probe         map[string]any    `json:"probe"`
	States        []vectorState     `json:"states"`
	Triggers      []metav1.Duration `json:"triggers"`
	Answers       []vectorAnswer    `json:"answers"`
	Until         *metav1.Duration  `json:"until"`
	Expect        struct {
		Attempts []metav1.Duration `json:"attempts"`
		Timeline []vectorMoment    `json:"timeline"`
	} `json:"expect"`
}

type vectorState struct {
	At        metav1.Duration  `json:"at"`
	ID        string           `json:"id"`
	Is        string           `json:"is"`
	StartedAt *metav1.Duration `json:"startedAt"`
	Started   bool             `json:"started"`
	ExitCode  int32            `json:"exitCode"`
	Phase     v1.PodPhase      `json:"phase"`
}

type vectorMoment struct {
	At     metav1.Duration `json:"at"`
	Result string          `json:"result"`
	Run    int             `json:"run"`
	Hold   bool            `json:"hold"`
	Ended  bool            `json:"ended"`
}

// vectorAnswer is one answer of the handler.
type vectorAnswer struct {
	Answer string          `json:"answer"`
	After  metav1.Duration `json:"after"`
}

// UnmarshalJSON also accepts the short form, a string with the answer.
func (a *vectorAnswer) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &a.Answer) == nil {
		return nil
	}
	type plain vectorAnswer
	return json.Unmarshal(raw, (*plain)(a))
}

func (a vectorAnswer) step() (probetest.Step, error) {
	var s probetest.Step
	switch a.Answer {
	case "error":
		s = probetest.Error(errors.New("could not be determined"))
	case "panic":
		s = probetest.Panic("vector")
	case "hang":
		s = probetest.Hang()
	default:
		if err := s.Outcome.Result.UnmarshalText([]byte(a.Answer)); err != nil {
			return s, err
		}
	}
	return s.After(a.After.Duration), nil
}

func TestVectors(t *testing.T) {
	files, err := filepath.Glob("../../testdata/vectors/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Vectors []vector `json:"vectors"`
		}
		if err := yaml.UnmarshalStrict(raw, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, v := range list.Vectors {
			for profile, c := range map[string]manager.Compat{"default": 0, "kubelet-1.36": manager.KubeletV1_36} {
				if len(v.Profiles) > 0 && !slices.Contains(v.Profiles, profile) {
					continue
				}
				items := strings.Trim(strings.ReplaceAll(fmt.Sprint(v.Items), " ", " #"), "[]")
				name := strings.TrimPrefix(fmt.Sprintf("#%s %s: %s, %s", items, filepath.Base(file), v.Name, profile), "# ")
				bubble(t, name, func(t *testing.T) { v.run(t, c|probe.CompatHerd) })
			}
		}
	}
}

// vectorRun is the execution of a vector.
type vectorRun struct {
	*vector
	r     *rig
	h     *probetest.Handler
	pod   *v1.Pod
	start time.Time

	mu sync.Mutex
	id string // current container ID
}

func (v *vector) run(t *testing.T, c manager.Compat) {
	run := &vectorRun{vector: v, r: newYoungRig(t, compat(c)), h: probetest.NewHandler()}
	var steps []probetest.Step
	for _, a := range v.Answers {
		step, err := a.step()
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	run.h.Then(steps...)
	run.r.always(run.h)
	age := time.Hour
	if v.AgentAge != nil {
		age = v.AgentAge.Duration
	}
	time.Sleep(age)
	run.start = time.Now()
	run.pod = run.makePod()

	end := 10 * time.Second
	if v.Until != nil {
		end = v.Until.Duration
	}
	run.schedule(t.Context())
	synctest.Wait()
	run.r.add(run.pod)
	for _, m := range v.Expect.Timeline {
		run.until(m.At.Duration)
		run.check(t, m)
	}
	run.until(end)
	got := make([]string, 0)
	for _, call := range run.h.Calls() {
		got = append(got, call.Start.Sub(run.start).Round(time.Microsecond).String())
	}
	want := make([]string, 0)
	for _, at := range v.Expect.Attempts {
		want = append(want, at.Duration.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// until waits until at, and until all events that are due then have ended.
func (run *vectorRun) until(at time.Duration) { run.r.wait(time.Until(run.start.Add(at))) }

func (run *vectorRun) makePod() *v1.Pod {
	c := v1.Container{Name: "web"}
	pod := podOf("uid", c)
	if run.Sidecar {
		pod.Spec.InitContainers, pod.Spec.Containers = []v1.Container{sidecar("web")}, []v1.Container{{Name: "main"}}
	}
	if run.RestartPolicy != "" {
		pod.Spec.RestartPolicy = run.RestartPolicy
	}
	if run.Deleting {
		pod.DeletionTimestamp = new(metav1.Now())
	}
	if run.PriorID != "" {
		pod.Status = run.wrap(v1.ContainerStatus{Name: "web", ContainerID: run.PriorID})
	}
	fields := map[string]any{"plugin": map[string]any{"name": "vector"}}
	maps.Copy(fields, run.Probe)
	text, err := json.Marshal(map[string]any{"web": map[string]any{run.Kind.String(): fields}})
	if err != nil {
		run.r.t.Fatal(err)
	}
	pod.Annotations = map[string]string{declared.Annotation: string(text)}
	return pod
}

func (run *vectorRun) wrap(c v1.ContainerStatus) v1.PodStatus {
	if run.Sidecar {
		return v1.PodStatus{Phase: v1.PodRunning, InitContainerStatuses: []v1.ContainerStatus{c}}
	}
	return statusOf(c)
}

// schedule schedules the states and triggers. States and triggers at the time of a tick come before it,
// because they are scheduled first.
func (run *vectorRun) schedule(ctx context.Context) {
	for _, s := range run.States {
		if s.At.Duration == 0 {
			run.become(s)
			continue
		}
		// Slightly earlier, because the clock does not order events at the same time.
		timer := time.AfterFunc(s.At.Duration-2*time.Nanosecond, func() { run.become(s) })
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
	key := manager.Key{PodUID: run.pod.UID, Container: "web", Kind: run.Kind}
	for _, at := range run.Triggers {
		timer := time.AfterFunc(at.Duration, func() {
			if err := run.r.m.Trigger(key); err != nil {
				run.r.t.Error(err)
			}
		})
		context.AfterFunc(ctx, func() { timer.Stop() })
	}
}

func (run *vectorRun) become(s vectorState) {
	run.mu.Lock()
	run.id = s.ID
	run.mu.Unlock()
	if s.ID == "" {
		run.r.store.SetPodStatus(run.pod, v1.PodStatus{Phase: v1.PodRunning})
		return
	}
	c := v1.ContainerStatus{Name: "web", ContainerID: s.ID, Started: new(s.Started)}
	switch s.Is {
	case "running":
		at := run.start.Add(s.At.Duration)
		if s.StartedAt != nil {
			at = run.start.Add(s.StartedAt.Duration)
		}
		c.State.Running = &v1.ContainerStateRunning{StartedAt: metav1.NewTime(at)}
	case "terminated":
		c.State.Terminated = &v1.ContainerStateTerminated{ExitCode: s.ExitCode}
	default:
		c.State.Waiting = &v1.ContainerStateWaiting{}
	}
	status := run.wrap(c)
	if s.Phase != "" {
		status.Phase = s.Phase
	}
	run.r.store.SetPodStatus(run.pod, status)
}

func (run *vectorRun) check(t *testing.T, want vectorMoment) {
	t.Helper()
	run.mu.Lock()
	id := run.id
	run.mu.Unlock()
	got := vectorMoment{At: want.At, Result: "none", Ended: true}
	if result := run.r.cached(run.Kind, id); result != unset {
		got.Result = result.Word()
	}
	for _, p := range run.r.m.Probes() {
		got.Ended, got.Run, got.Hold = false, p.Run, p.OnHold
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
