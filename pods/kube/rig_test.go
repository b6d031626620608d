package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/kube"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a fake API server with the pods of one node. Its list and watch behave like the real ones, with
// and without an initial list in a watch.
type cluster struct {
	mu       sync.Mutex
	version  int
	pods     map[string]*v1.Pod
	watchers map[*watch.RaceFreeFakeWatcher]bool
	down     error
}

func newCluster() *cluster {
	return &cluster{version: 1, pods: make(map[string]*v1.Pod), watchers: make(map[*watch.RaceFreeFakeWatcher]bool)}
}

func (c *cluster) List(metav1.ListOptions) (runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return nil, c.down
	}
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(c.version)}}
	for _, pod := range c.pods {
		list.Items = append(list.Items, *pod.DeepCopy())
	}
	return list, nil
}

func (c *cluster) Watch(o metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return nil, c.down
	}
	w := watch.NewRaceFreeFake()
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		for _, pod := range c.pods {
			w.Add(pod.DeepCopy())
		}
		w.Action(watch.Bookmark, &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(c.version), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	c.watchers[w] = true
	return w, nil
}

// set creates or updates a pod.
func (c *cluster) set(pod *v1.Pod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	_, known := c.pods[pod.Name]
	pod = pod.DeepCopy()
	pod.ResourceVersion = strconv.Itoa(c.version)
	c.pods[pod.Name] = pod
	for w := range c.watchers {
		if w.IsStopped() {
			delete(c.watchers, w)
		} else if known {
			w.Modify(pod.DeepCopy())
		} else {
			w.Add(pod.DeepCopy())
		}
	}
}

func (c *cluster) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	pod := c.pods[name]
	pod.ResourceVersion = strconv.Itoa(c.version)
	delete(c.pods, name)
	for w := range c.watchers {
		if !w.IsStopped() {
			w.Delete(pod.DeepCopy())
		}
	}
}

// fail ends all watches. Requests return err until fail is called with nil.
func (c *cluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = err
	for w := range c.watchers {
		w.Stop()
		delete(c.watchers, w)
	}
}

// checkedPod is the context key under which prepare finds the name of the pod.
type checkedPod struct{}

// world is a source with a manager, and fakes of everything else.
type world struct {
	t       *testing.T
	cluster *cluster
	cfg     kube.Config
	source  *kube.Source
	manager *manager.Manager
	tracker *states.Tracker // the states shown by the API
	stop    context.CancelFunc

	mu       sync.Mutex
	log      strings.Builder
	handlers map[string]*probetest.Handler                                                // by path or port in the config
	custom   probe.Handler                                                                // for all probes; nil: handlers
	bind     func(name string, config []byte, target probe.Target) (probe.Handler, error) // nil: custom or handlers
	prepare  func(ctx context.Context, name string) error
	set      map[string]conditions.Pod // by name of the pod
	seen     func(*conditions.Pod)     // called by each Set
	sets     int
	removed  []types.UID
	retries  []string // calls of Retry
	pending  int
	final    []string // states of the pod web at the end of the writer
	events   []string
	own      []string // events recorded by the agent itself
	failures []liveness.Failure
	open     string
	doubted  liveness.Scope
	applied  []error // of each attempt
	actor    liveness.Config
	network  map[types.UID]string
	owners   map[string]types.UID
	overlay  func(*v1.Pod, *v1.PodStatus)
	changed  func(types.UID)
	trouble  error

	runtimeClosed bool
}

var _ io.Writer = (*world)(nil)

func newWorld(t *testing.T, edit ...func(*world)) *world {
	t.Helper()
	w := &world{
		t: t, cluster: newCluster(), handlers: make(map[string]*probetest.Handler), set: make(map[string]conditions.Pod),
		network: make(map[types.UID]string), owners: make(map[string]types.UID),
	}
	w.cfg = kube.Config{
		Node: "worker-1", Pods: w.cluster, Policy: config.DefaultKubernetes(), Conditions: fakeConditions{w}, Events: fakeEvents{w},
		Act: func(c liveness.Config) kube.Actor { w.actor = c; return fakeActor{w} },
	}
	for _, e := range edit {
		e(w)
	}
	source, err := kube.New(w.cfg, pods.Host{
		Logger: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo})), Begin: func() {},
		Recorder: agentEvents{w},
		Check: func(ctx context.Context, pod *declared.Pod) []error {
			errs := pod.Errors()
			for _, p := range pod.Probes() {
				if err := w.prepared(context.WithValue(ctx, checkedPod{}, pod.Pod().Name), p.Handler); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", p.Path, err))
				}
			}
			return errs
		},
		Applied: func(_ context.Context, r pods.Reload, _ []*declared.Pod, err error) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.applied = append(w.applied, err)
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.source = source
	return w
}

// start runs the source.
func (w *world) start() {
	w.t.Helper()
	w.tracker = states.New(w.source)
	var err error
	w.manager, err = manager.New(manager.Config{
		Status: w.source, Handlers: w, RestartGrace: w.source.ForAgent().RestartGrace, Logger: slog.New(slog.DiscardHandler),
		Observers: []worker.Observer{w.tracker},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Hour) // so that the first ticks are not delayed
	ctx, stop := context.WithCancel(w.t.Context())
	w.stop = stop
	w.source.Start(ctx, w.manager)
	synctest.Wait()
}

// end stops the source. No goroutine may be left in the bubble.
func (w *world) end() {
	w.t.Helper()
	w.stop()
	if err := w.source.Stop(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	if w.cfg.Runtime != nil && (!w.runtimeClosed || w.source.NodeCounts().CommandsLeft != 3) {
		w.t.Error("the source has ended, and not waited for the commands in containers")
	}
	if probes := w.manager.Probes(); len(probes) > 0 {
		w.t.Errorf("%d probes are left", len(probes))
	}
	if err := w.manager.Close(); err != nil {
		w.t.Error(err)
	}
}

// Write implements [io.Writer], for the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

func (w *world) prepared(ctx context.Context, name string) error {
	w.mu.Lock()
	prepare := w.prepare
	w.mu.Unlock()
	if prepare == nil {
		return nil
	}
	return prepare(ctx, name)
}

// Prepare implements [manager.Handlers]. It returns the scripted handler whose key is in the config.
func (w *world) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	if w.bind != nil {
		return w.bind(name, config, target)
	}
	if err := w.prepared(context.Background(), name); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.custom != nil {
		return w.custom, nil
	}
	for key, h := range w.handlers {
		if strings.Contains(string(config), key) {
			return h, nil
		}
	}
	return probetest.NewHandler(success), nil
}

var (
	success = probetest.Answer(probe.Success, "ok")
	failure = probetest.Answer(probe.Failure, "bad")
	warning = probetest.Answer(probe.Warning, "slow")
)

// script sets the handler for probes with key in their config.
func (w *world) script(key string, steps ...probetest.Step) *probetest.Handler {
	h := probetest.NewHandler(steps...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[key] = h
	return h
}

// conditionsOf returns the newest states of a pod as "KIND.CONTAINER=STATE", followed by ? if undecided,
// ! if failed, and p if paused.
func (w *world) conditionsOf(name string) (words []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.set[name].Probes {
		word := p.Kind.String() + "." + p.Container + "=" + p.State.String()
		if !p.Decided {
			word += "?"
		}
		if p.Failed {
			word += "!"
		}
		if p.Paused {
			word += "p"
		}
		words = append(words, word)
	}
	return words
}

func (w *world) wantConditions(name string, want ...string) {
	w.t.Helper()
	if got := w.conditionsOf(name); !slices.Equal(got, want) {
		w.t.Errorf("conditions of %s: got %q, want %q", name, got, want)
	}
}

// takeEvents returns the events since the last call, as "TYPE REASON MESSAGE TARGET".
func (w *world) takeEvents() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.events
	w.events = nil
	return all
}

func (w *world) wantEvents(want ...string) {
	w.t.Helper()
	got := w.takeEvents()
	if len(got) != len(want) {
		w.t.Errorf("events:\n%s\nwant %d", strings.Join(got, "\n"), len(want))
		return
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			w.t.Errorf("event %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

// wait advances the fake time, and waits until all goroutines block.
func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

type fakeConditions struct{ w *world }

func (f fakeConditions) Set(pod conditions.Pod) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.set[pod.Name] = pod
	f.w.sets++
	if f.w.seen != nil {
		f.w.seen(&pod)
	}
}

func (f fakeConditions) Remove(uid types.UID) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.removed = append(f.w.removed, uid)
}

func (f fakeConditions) Retry() { f.w.retry("conditions") }

func (f fakeConditions) Run(ctx context.Context) {
	<-ctx.Done()
	f.w.final = f.w.conditionsOf("web")
}

func (f fakeConditions) Counts() conditions.Counts {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return conditions.Counts{Written: 7, Pending: f.w.pending}
}

func (w *world) retry(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retries = append(w.retries, what)
}

type fakeEvents struct{ w *world }

func (f fakeEvents) Event(object runtime.Object, eventType, reason, message string) {
	f.TargetEvent(object, "", eventType, reason, message)
}

func (f fakeEvents) TargetEvent(_ runtime.Object, target, eventType, reason, message string) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.events = append(f.w.events, strings.TrimSpace(eventType+" "+reason+" "+message+" "+target))
}

func (f fakeEvents) Retry() { f.w.retry("events") }

func (f fakeEvents) Run(ctx context.Context) { <-ctx.Done() }

// agentEvents is the recorder for the agent's own list of events.
type agentEvents struct{ w *world }

func (a agentEvents) Event(_ runtime.Object, eventType, reason, message string) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.own = append(a.w.own, eventType+" "+reason+" "+message)
}

type fakeActor struct{ w *world }

func (f fakeActor) Changed(*states.Change) {}

func (f fakeActor) Failed(failure liveness.Failure) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.failures = append(f.w.failures, failure)
}

func (f fakeActor) Doubts() liveness.Doubts {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.w.open == "" {
		return nil
	}
	return liveness.Doubts{f.w.doubted: {Blind: f.w.open, Open: f.w.open}}
}

func (f fakeActor) Run(ctx context.Context) { <-ctx.Done() }

func (f fakeActor) Counts() liveness.Counts {
	return liveness.Counts{Done: map[liveness.Mode]uint64{liveness.Restart: 2}, Withheld: map[string]uint64{"budget": 1}}
}

// fakeRuntime is a container runtime.
type fakeRuntime struct{ w *world }

func (f fakeRuntime) Run(ctx context.Context, changed func(types.UID)) {
	f.w.mu.Lock()
	f.w.changed = changed
	f.w.mu.Unlock()
	<-ctx.Done()
}

func (f fakeRuntime) Overlay(pod *v1.Pod, status *v1.PodStatus) {
	f.w.mu.Lock()
	overlay := f.w.overlay
	f.w.mu.Unlock()
	if overlay != nil {
		overlay(pod, status)
	}
}

func (f fakeRuntime) Owner(id string) (types.UID, bool) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	uid, ok := f.w.owners[id]
	return uid, ok
}

func (f fakeRuntime) RunInContainer(_ context.Context, id string, cmd []string, _ time.Duration) ([]byte, error) {
	return []byte(id + ": " + strings.Join(cmd, " ")), nil
}

func (f fakeRuntime) Left() int { return 3 }

func (f fakeRuntime) Close() error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.runtimeClosed = true
	return nil
}

func (f fakeRuntime) NetworkNamespace(_ context.Context, uid types.UID) (string, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if path := f.w.network[uid]; path != "" {
		return path, nil
	}
	return "", errors.New("there is no sandbox")
}

func (f fakeRuntime) Trouble() error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.trouble
}

func withRuntime(w *world) { w.cfg.Runtime = fakeRuntime{w} }

// podNamed returns a pod that has just started, with probes in its annotation.
func podNamed(name, probes string, annotations ...string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{declared.Annotation: probes, "other": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: v1.PodSpec{
			NodeName: "worker-1", RestartPolicy: v1.RestartPolicyAlways,
			ReadinessGates: []v1.PodReadinessGate{{ConditionType: conditions.Ready}},
			Containers:     []v1.Container{{Name: "web", Image: "web:1", Ports: []v1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
		},
		Status: v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.1.0.7", PodIPs: []v1.PodIP{{IP: "10.1.0.7"}, {IP: "fd00:1::7"}}},
	}
	for i := 0; i+1 < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	run(pod, "c1", time.Now())
	return pod
}

// run sets the status of the container web to running since a time.
func run(pod *v1.Pod, id string, since time.Time) {
	pod.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "web", ContainerID: "containerd://" + pod.Name + "-" + id, Ready: true, Started: new(true),
		State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(since)}},
	}}
}

// publish adds a condition written by an earlier agent.
func publish(pod *v1.Pod, t v1.PodConditionType, status v1.ConditionStatus, at time.Time) {
	pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: t, Status: status, Reason: "ProbeSucceeded", LastTransitionTime: metav1.NewTime(at)})
}

// ready returns Started and Ready of the container web in the source's status.
func (w *world) ready(pod *v1.Pod) (started, ready bool) {
	w.t.Helper()
	status, ok := w.source.PodStatus(pod.UID)
	if !ok || len(status.ContainerStatuses) == 0 {
		w.t.Fatalf("pod %s has no status", pod.Name)
	}
	c := status.ContainerStatuses[0]
	return c.Started != nil && *c.Started, c.Ready
}

func locked[T any](w *world, value *T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *value
}

func (w *world) setOf(name string) conditions.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set[name]
}

func (w *world) failed() []liveness.Failure { return slices.Clone(locked(w, &w.failures)) }
func (w *world) attempts() []error          { return slices.Clone(locked(w, &w.applied)) }
