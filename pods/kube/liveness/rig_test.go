package liveness_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a fake node. Its methods implement the functions of [liveness.Config].
type node struct {
	mu     sync.Mutex
	pods   map[types.UID]*v1.Pod // with one container, "app"
	sick   map[types.UID]bool
	events []string
	stops  []stop
	evicts []time.Time
	asked  map[types.UID]int // calls of Current

	running *liveness.Actor

	observed map[string]bool // namespaces of pods without a gate and actions
	log      bytes.Buffer
	lag      time.Duration

	onStop  func(id string, grace time.Duration) error // before the container ends
	onEvict func(api.Pod) error
	onExec  func(ctx context.Context, cmd []string) error
	heals   bool // restarted containers do not fail
	dead    bool // stopped containers are not restarted
}

type stop struct {
	id    string
	grace time.Duration
	at    time.Time
}

func newNode() *node {
	return &node{pods: map[types.UID]*v1.Pod{}, sick: map[types.UID]bool{}, asked: map[types.UID]int{}, observed: map[string]bool{}, heals: true}
}

// add adds a pod of a workload, and returns it.
func (n *node) add(uid types.UID, workload types.UID, change ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: uid, Name: "p-" + string(uid), Namespace: "default"},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
			Containers: []v1.Container{{Name: "app"}}},
		Status: v1.PodStatus{PodIP: "127.0.0.1", ContainerStatuses: []v1.ContainerStatus{{
			Name: "app", ContainerID: fmt.Sprintf("x://%s-0", uid), State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}},
	}
	if workload != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{UID: workload, Controller: new(true)}}
	}
	for _, f := range change {
		f(pod)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[uid] = pod
	return pod
}

// change replaces a pod by a changed copy.
func (n *node) change(uid types.UID, f func(*v1.Pod)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changeLocked(uid, f)
}

func (n *node) changeLocked(uid types.UID, f func(*v1.Pod)) {
	pod := n.pods[uid].DeepCopy()
	f(pod)
	n.pods[uid] = pod
}

func (n *node) remove(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pods, uid)
}

func (n *node) setSick(uid types.UID, sick bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sick[uid] = sick
}

func (n *node) Current(uid types.UID) *v1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[uid]++
	return n.pods[uid]
}

// Party implements liveness.Config.Party: the probes of all pods count, except in observed namespaces.
func (n *node) Party(uid types.UID) (liveness.Party, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pod := n.pods[uid]
	if pod == nil {
		return liveness.Party{}, false
	}
	return liveness.PartyOf(pod, !n.observed[pod.Namespace], !n.observed[pod.Namespace]), true
}

func (n *node) Failing(uid types.UID, _ string, _ probe.Kind) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sick[uid]
}

// Stop restarts a running container.
func (n *node) Stop(_ context.Context, id string, grace time.Duration) error {
	n.mu.Lock()
	n.stops = append(n.stops, stop{id, grace, time.Now()})
	n.mu.Unlock()
	if n.onStop != nil {
		if err := n.onStop(id, grace); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, pod := range n.pods {
		if pod.Status.ContainerStatuses[0].ContainerID == id && !n.dead {
			n.restartLocked(uid)
		}
	}
	return nil
}

func (n *node) restartLocked(uid types.UID) {
	n.changeLocked(uid, func(p *v1.Pod) {
		s := &p.Status.ContainerStatuses[0]
		s.RestartCount++
		s.ContainerID = fmt.Sprintf("x://%s-%d", uid, s.RestartCount)
	})
	n.sick[uid] = n.sick[uid] && !n.heals
}

func (n *node) Evict(_ context.Context, pod api.Pod, _ *int64) error {
	n.mu.Lock()
	n.evicts = append(n.evicts, time.Now())
	n.mu.Unlock()
	if n.onEvict != nil {
		if err := n.onEvict(pod); err != nil {
			return err
		}
	}
	n.remove(pod.UID)
	return nil
}

func (n *node) Exec(ctx context.Context, _ string, cmd []string, _ time.Duration) ([]byte, error) {
	return nil, n.onExec(ctx, cmd)
}

func (n *node) Stalled() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lag
}

func (n *node) setLag(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lag = d
}

// Event implements manager.Recorder.
func (n *node) Event(object runtime.Object, eventType, reason, message string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ref := object.(*v1.ObjectReference)
	n.events = append(n.events, fmt.Sprintf("%s %s %s %s: %s", ref.UID, ref.FieldPath, eventType, reason, message))
}

// Write implements [io.Writer], for the log.
func (n *node) Write(line []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.Write(line)
}

func (n *node) logged() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.log.String()
}

func (n *node) stopped() []stop {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.stops)
}

// stoppedAfter returns how long after begun the container of a pod was stopped.
func (n *node) stoppedAfter(uid types.UID, begun time.Time) (time.Duration, bool) {
	for _, s := range n.stopped() {
		if strings.HasPrefix(s.id, "x://"+string(uid)+"-") {
			return s.at.Sub(begun), true
		}
	}
	return 0, false
}

// told returns the events with a reason.
func (n *node) told(reason string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(n.events), func(e string) bool { return !strings.Contains(e, " "+reason+": ") })
}

// actor runs an actor on n. Most limits are too high to matter, unless change sets them.
func (n *node) actor(t *testing.T, change func(*liveness.Config)) *liveness.Actor {
	t.Helper()
	cfg := liveness.Config{
		Stop: n.Stop, Exec: n.Exec, Evict: n.Evict, Current: n.Current, Party: n.Party, Failing: n.Failing, Stalled: n.Stalled,
		Recorder: n, Logger: slog.New(slog.NewTextHandler(n, nil)), PressureDir: t.TempDir(),
		Workload: liveness.Bucket{Burst: 1000, Every: time.Second}, Node: liveness.Bucket{Burst: 1000, Every: time.Second},
		Breaker: liveness.Breaker{Least: 1000},
	}
	if change != nil {
		change(&cfg)
	}
	a := liveness.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return a
}

// fail makes the container of a pod fail, and calls Failed.
func (n *node) fail(a *liveness.Actor, uid types.UID, change ...func(*liveness.Failure)) {
	n.setSick(uid, true)
	n.mu.Lock()
	pod := n.pods[uid]
	n.mu.Unlock()
	f := liveness.Failure{
		Pod: pod, Container: "app", ContainerID: pod.Status.ContainerStatuses[0].ContainerID, Kind: probe.Liveness, Mode: liveness.Restart,
	}
	for _, c := range change {
		c(&f)
	}
	a.Failed(f)
}

// flip passes a change of the state of a pod's liveness probe to the actor.
func flip(a *liveness.Actor, uid types.UID, from, to states.State) {
	a.Changed(&states.Change{
		Info: worker.Info{Subject: results.Subject{PodUID: string(uid), Container: "app"}, Kind: probe.Liveness}, From: from, To: to, Time: time.Now(),
	})
}

func evict(f *liveness.Failure) { f.Mode = liveness.Evict }

// counted compares the counts with want, such as "done restart 1, withheld budget 2".
func counted(t *testing.T, a *liveness.Actor, want string) {
	t.Helper()
	c := a.Counts()
	var got []string
	for _, m := range slices.Sorted(maps.Keys(c.Done)) {
		got = append(got, fmt.Sprintf("done %s %d", m, c.Done[m]))
	}
	for _, m := range slices.Sorted(maps.Keys(c.Failed)) {
		got = append(got, fmt.Sprintf("failed %s %d", m, c.Failed[m]))
	}
	for _, r := range slices.Sorted(maps.Keys(c.Withheld)) {
		got = append(got, fmt.Sprintf("withheld %s %d", r, c.Withheld[r]))
	}
	if all := strings.Join(got, ", "); all != want {
		t.Errorf("counts: %q, want %q", all, want)
	}
}

// openFor returns why the breaker is open for the namespace default; "" if it is closed.
func openFor(a *liveness.Actor) string { return about(a, "default").Open }

// blindFor returns why the probes of the namespace default are not trusted; "" if they are.
func blindFor(a *liveness.Actor) string { return about(a, "default").Blind }

func about(a *liveness.Actor, namespace string) liveness.Doubt {
	return a.Doubts().About(liveness.Scope{Namespace: namespace, Workload: "none"})
}
