package controller_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/internal/pace"
	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/controller"
	"github.com/daeace23/prober/pods/kube/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is what a table has.
type object interface {
	metav1.Object
	runtime.Object
}

// table is a resource of the fake API server. The server's lock guards it.
type table[T object] struct {
	server  *server
	objects map[string]T // by namespace/name
	events  []watch.Event
	first   int // resource version before events
	watches map[*stream]bool
	away    bool          // requests to list and watch fail
	slow    time.Duration // of a list
	late    bool          // events are not sent
	streams bool          // it can stream a list, as v1.34 and later
	empty   func() T
	list    func([]T, metav1.ListMeta) runtime.Object
}

type stream struct {
	*watch.ProxyWatcher
	events chan watch.Event
}

func newTable[T object](s *server, streams bool, empty func() T, list func([]T, metav1.ListMeta) runtime.Object) *table[T] {
	return &table[T]{server: s, objects: make(map[string]T), watches: make(map[*stream]bool), streams: streams, empty: empty, list: list}
}

func keyOf(namespace, name string) string { return namespace + "/" + name }

// put stores a copy of an object, with the next resource version.
func (t *table[T]) put(o T) T {
	t.server.version++
	next := o.DeepCopyObject().(T)
	next.SetResourceVersion(strconv.Itoa(t.server.version))
	key := keyOf(o.GetNamespace(), o.GetName())
	event := watch.Modified
	if _, exists := t.objects[key]; !exists {
		event = watch.Added
	}
	t.objects[key] = next
	t.tell(event, next)
	return next
}

func (t *table[T]) remove(namespace, name string) {
	key := keyOf(namespace, name)
	last, exists := t.objects[key]
	if !exists {
		return
	}
	t.server.version++
	last = last.DeepCopyObject().(T)
	last.SetResourceVersion(strconv.Itoa(t.server.version))
	delete(t.objects, key)
	t.tell(watch.Deleted, last)
}

func (t *table[T]) tell(event watch.EventType, o T) {
	e := watch.Event{Type: event, Object: o}
	t.events = append(t.events, e)
	for s := range t.watches {
		if !t.late {
			t.send(s, e)
		}
	}
}

// release sends the events that were late.
func (t *table[T]) release() {
	t.late = false
	t.endAll() // the next watch begins with them
}

// send sends an event to a stream, and ends a stream that is stopped or too slow.
func (t *table[T]) send(s *stream, e watch.Event) {
	select {
	case s.events <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}:
	default:
		t.end(s)
	}
}

func (t *table[T]) end(s *stream) {
	close(s.events)
	delete(t.watches, s)
}

func (t *table[T]) endAll() {
	for s := range t.watches {
		t.end(s)
	}
}

// follow lists and watches the table, for a replica.
func (t *table[T]) follow(r *replica) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			pace.Wait(ctx, nil, t.slow)
			t.server.mu.Lock()
			defer t.server.mu.Unlock()
			if err := r.fault(t.away); err != nil {
				return nil, err
			}
			var all []T
			for _, o := range t.objects {
				all = append(all, o.DeepCopyObject().(T))
			}
			return t.list(all, metav1.ListMeta{ResourceVersion: strconv.Itoa(t.server.version)}), nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil {
				pace.Wait(ctx, nil, t.slow)
			}
			t.server.mu.Lock()
			defer t.server.mu.Unlock()
			if err := r.fault(t.away); err != nil {
				return nil, err
			}
			if o.SendInitialEvents != nil && t.streams {
				return t.stream(), nil
			} else if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
			}
			from, _ := strconv.Atoi(o.ResourceVersion)
			if from < t.first {
				return nil, apierrors.NewResourceExpired("too old")
			}
			events := make(chan watch.Event, 1000)
			s := &stream{watch.NewProxyWatcher(events), events}
			t.watches[s] = true
			for _, e := range t.events {
				if version, _ := strconv.Atoi(e.Object.(T).GetResourceVersion()); version > from && t.watches[s] {
					t.send(s, e)
				}
			}
			return s, nil
		},
	}
}

// stream begins a watch with all objects.
func (t *table[T]) stream() *stream {
	events := make(chan watch.Event, 1000)
	s := &stream{watch.NewProxyWatcher(events), events}
	t.watches[s] = true
	for _, o := range t.objects {
		t.send(s, watch.Event{Type: watch.Added, Object: o})
	}
	end := t.empty()
	end.SetResourceVersion(strconv.Itoa(t.server.version))
	end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	t.send(s, watch.Event{Type: watch.Bookmark, Object: end})
	return s
}

// server is a fake API server.
type server struct {
	mu       sync.Mutex
	version  int
	pods     *table[*v1.Pod]
	policies *table[*policy.ProbePolicy]
	nodes    *table[*policy.NodeProbes]
	leases   *table[*api.Lease]
	faults   float64 // probability of a failed request
	random   *rand.Rand
	writes   []written
	attempts int           // to write
	takes    time.Duration // of a write
}

// written is a write that the server has accepted.
type written struct {
	by, what string
	at       time.Time
}

func newServer(seed uint64) *server {
	streams := seed%2 == 1
	s := &server{random: rand.New(rand.NewPCG(seed, 1)), takes: 5 * time.Millisecond}
	s.pods = newTable(s, streams, func() *v1.Pod { return new(v1.Pod) }, func(all []*v1.Pod, m metav1.ListMeta) runtime.Object {
		return &v1.PodList{ListMeta: m, Items: values(all)}
	})
	s.policies = newTable(s, streams, func() *policy.ProbePolicy { return new(policy.ProbePolicy) }, func(all []*policy.ProbePolicy, m metav1.ListMeta) runtime.Object {
		return &policy.ProbePolicyList{ListMeta: m, Items: values(all)}
	})
	s.nodes = newTable(s, streams, func() *policy.NodeProbes { return new(policy.NodeProbes) }, func(all []*policy.NodeProbes, m metav1.ListMeta) runtime.Object {
		return &policy.NodeProbesList{ListMeta: m, Items: values(all)}
	})
	s.leases = newTable[*api.Lease](s, false, nil, nil)
	return s
}

func values[T any](all []*T) []T {
	next := make([]T, len(all))
	for i := range all {
		next[i] = *all[i]
	}
	return next
}

// set changes the server.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// tried returns the number of attempts to write.
func (s *server) tried() (n int) {
	s.set(func() { n = s.attempts })
	return n
}

// written returns the accepted writes.
func (s *server) written() (all []written) {
	s.set(func() { all = slices.Clone(s.writes) })
	return all
}

// taken returns the accepted writes, and forgets them.
func (s *server) taken() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.writes {
		all = append(all, w.what)
	}
	s.writes, s.attempts = nil, 0
	slices.Sort(all)
	return all
}

// replica is the server as one controller sees it.
type replica struct {
	*server
	name string
	cut  bool // its requests for the lease fail
}

var errAway = errors.New("connection refused")

// fault returns an error if a part of the server is away, and at random.
func (r *replica) fault(away bool) error {
	if away || r.random.Float64() < r.faults {
		return errAway
	}
	return nil
}

// do carries out a write, which the log shows as what.
func (r *replica) do(ctx context.Context, what string, apply func() (version string, err error)) (string, error) {
	var takes time.Duration
	r.set(func() { r.attempts++; takes = r.takes })
	if pace.Wait(ctx, nil, takes); ctx.Err() != nil {
		return "", ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fault(false); err != nil {
		return "", err
	}
	version, err := apply()
	if err != nil {
		return "", err
	}
	r.writes = append(r.writes, written{r.name, what, time.Now()})
	return version, r.fault(false) // it may have had an effect
}

func (r *replica) AllPods() cache.ListerWatcher       { return r.pods.follow(r) }
func (r *replica) Policies() cache.ListerWatcher      { return r.policies.follow(r) }
func (r *replica) AllNodeProbes() cache.ListerWatcher { return r.nodes.follow(r) }

// normal returns what the server stores of an object that a client has sent.
func normal(n *policy.NodeProbes) *policy.NodeProbes {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	next := new(policy.NodeProbes)
	if err := json.Unmarshal(text, next); err != nil {
		panic(err)
	}
	return next
}

func (r *replica) CreateNodeProbes(ctx context.Context, n *policy.NodeProbes) (string, error) {
	return r.do(ctx, "create "+n.Name, func() (string, error) {
		if r.nodes.objects[keyOf("", n.Name)] != nil {
			return "", apierrors.NewAlreadyExists(schema.GroupResource{}, n.Name)
		}
		next := normal(n)
		next.UID = types.UID(fmt.Sprint("uid-", r.version))
		return r.nodes.put(next).ResourceVersion, nil
	})
}

func (r *replica) UpdateNodeProbes(ctx context.Context, n *policy.NodeProbes) (string, error) {
	return r.do(ctx, "update "+n.Name, func() (string, error) {
		if err := r.unchanged(n); err != nil {
			return "", err
		}
		return r.nodes.put(normal(n)).ResourceVersion, nil
	})
}

func (r *replica) DeleteNodeProbes(ctx context.Context, n *policy.NodeProbes) error {
	_, err := r.do(ctx, "delete "+n.Name, func() (string, error) {
		if err := r.unchanged(n); err != nil {
			return "", err
		}
		r.nodes.remove("", n.Name)
		return "", nil
	})
	return err
}

func (r *replica) unchanged(n *policy.NodeProbes) error {
	old := r.nodes.objects[keyOf("", n.Name)]
	switch {
	case old == nil:
		return apierrors.NewNotFound(schema.GroupResource{}, n.Name)
	case old.UID != n.UID || old.ResourceVersion != n.ResourceVersion:
		return apierrors.NewConflict(schema.GroupResource{}, n.Name, errors.New("changed"))
	}
	return nil
}

func (r *replica) PatchPolicyStatus(ctx context.Context, p *policy.ProbePolicy) (string, error) {
	return r.do(ctx, "status "+p.Name, func() (string, error) {
		old := r.policies.objects[keyOf(p.Namespace, p.Name)]
		if old == nil || old.UID != p.UID {
			return "", api.ErrGone
		}
		next := *old
		next.Status = p.Status
		return r.policies.put(&next).ResourceVersion, nil
	})
}

func (r *replica) Lease(_ context.Context, namespace, name string) (*api.Lease, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fault(r.cut); err != nil {
		return nil, err
	}
	l := r.leases.objects[keyOf(namespace, name)]
	if l == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return l.DeepCopyObject().(*api.Lease), nil
}

func (r *replica) CreateLease(_ context.Context, namespace string, l *api.Lease) error {
	return r.putLease(namespace, l, func(old *api.Lease) bool { return old == nil })
}

func (r *replica) UpdateLease(_ context.Context, namespace string, l *api.Lease) error {
	return r.putLease(namespace, l, func(old *api.Lease) bool { return old != nil && old.ResourceVersion == l.ResourceVersion })
}

func (r *replica) putLease(namespace string, l *api.Lease, may func(old *api.Lease) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fault(r.cut); err != nil {
		return err
	}
	if !may(r.leases.objects[keyOf(namespace, l.Name)]) {
		return apierrors.NewConflict(schema.GroupResource{}, l.Name, errors.New("changed"))
	}
	l.Namespace = namespace
	r.leases.put(l)
	return r.fault(r.cut)
}

// start runs a controller until stop is called.
func (s *server) start(name string, change func(*controller.Config)) (r *replica, stop func()) {
	r = &replica{server: s, name: name}
	cfg := controller.Config{Cluster: r, Namespace: "prober-system", Identity: name}
	if change != nil {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { controller.New(cfg).Run(ctx) })
	return r, func() { cancel(); running.Wait() }
}

// newPolicy returns a policy with a readiness probe of the container app, for pods with the label app.
func newPolicy(namespace, name, app string, change func(*policy.ProbePolicy)) *policy.ProbePolicy {
	p := &policy.ProbePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Generation: 1, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))},
		Spec: policy.Spec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Probes:   []policy.Probe{{Name: "web", Container: "app", Kind: "Readiness", Text: json.RawMessage(`{"tcpSocket":{"port":80}}`)}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// mood is the conditions of a pod, and their meaning.
type mood struct {
	gated      bool
	conditions []v1.PodCondition
	counts     policy.Pods
}

func condition(name string, status v1.ConditionStatus, reason string) v1.PodCondition {
	return v1.PodCondition{Type: v1.PodConditionType(name), Status: status, Reason: reason}
}

var (
	readyTrue  = condition("prober.dev/ready", "True", "ProbeSucceeded")
	readyFalse = condition("prober.dev/ready", "False", "ProbeFailed")
	agentLost  = condition("prober.dev/ready", "False", "AgentLost")
	notProbed  = condition("prober.dev/ready", "Unknown", "NotProbed")
	liveTrue   = condition("prober.dev/live", "True", "ProbeWarning")
	liveFalse  = condition("prober.dev/live", "False", "ProbeFailed")
	liveGone   = condition("prober.dev/live", "Unknown", "NotProbed")
	kubelet    = condition("Ready", "False", "ContainersNotReady")
	other      = condition("prober.dev/readiness.app", "False", "ProbeFailed")
)

var moods = []mood{
	{true, nil, policy.Pods{Matched: 1, Gated: 1, Unknown: 1}},
	{false, nil, policy.Pods{Matched: 1, Unknown: 1}},
	{true, []v1.PodCondition{kubelet}, policy.Pods{Matched: 1, Gated: 1, Unknown: 1}},
	{true, []v1.PodCondition{kubelet, readyTrue}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Healthy: 1}},
	{true, []v1.PodCondition{readyFalse}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Failing: 1}},
	{true, []v1.PodCondition{agentLost}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Unknown: 1}},
	{true, []v1.PodCondition{agentLost, liveFalse}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Failing: 1}},
	{true, []v1.PodCondition{notProbed}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Unknown: 1}},
	{true, []v1.PodCondition{notProbed, liveTrue}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Unknown: 1}},
	{true, []v1.PodCondition{liveTrue}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Unknown: 1}},
	{true, []v1.PodCondition{readyTrue, liveGone}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Healthy: 1}},
	{true, []v1.PodCondition{readyTrue, other}, policy.Pods{Matched: 1, Gated: 1, Reporting: 1, Failing: 1}},
	{false, []v1.PodCondition{liveTrue}, policy.Pods{Matched: 1, Reporting: 1, Healthy: 1}},
	{false, []v1.PodCondition{liveFalse}, policy.Pods{Matched: 1, Reporting: 1, Failing: 1}},
	{false, []v1.PodCondition{liveGone}, policy.Pods{Matched: 1, Reporting: 1, Unknown: 1}},
	{false, []v1.PodCondition{liveTrue, condition("prober.dev/ready", "Unknown", "ProbeUnknown")}, policy.Pods{Matched: 1, Reporting: 1, Unknown: 1}},
}

// newPod returns a pod with the label app and the conditions of a mood.
func newPod(namespace, name, node, app string, m mood) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Labels: map[string]string{"app": app, "tier": "x"}},
		Spec:       v1.PodSpec{NodeName: node},
		Status:     v1.PodStatus{Phase: v1.PodRunning, Conditions: m.conditions},
	}
	if m.gated {
		p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "prober.dev/ready"}}
	}
	return p
}

// sorted returns the keys of policies by namespace and name.
func sorted(all []policy.NodePolicy) []policy.NodePolicy {
	slices.SortFunc(all, func(a, b policy.NodePolicy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
