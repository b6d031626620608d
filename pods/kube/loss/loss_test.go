package loss_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/loss"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a fake API server with leases and pods.
type cluster struct {
	mu      sync.Mutex
	away    bool
	late    bool // watches send no events
	leases  map[string]*api.Lease
	pods    []v1.Pod
	watches []*watch.RaceFreeFakeWatcher
	lists   int
	patches []string
	refuse  func(pod api.Pod) error
	takes   time.Duration   // duration of each request
	gone    map[string]bool // deleted nodes
}

var errAway = errors.New("connection refused")

func (c *cluster) Leases(context.Context, string) (*api.LeaseList, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, errAway
	}
	c.lists++
	list := &api.LeaseList{}
	for _, l := range c.leases {
		list.Items = append(list.Items, *l)
	}
	return list, nil
}

func (c *cluster) WatchLeases(context.Context, string, string) (watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, errAway
	}
	w := watch.NewRaceFreeFake()
	c.watches = append(c.watches, w)
	return w, nil
}

func (c *cluster) Lease(_ context.Context, _, name string) (*api.Lease, error) {
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, errAway
	}
	if c.leases[name] == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	l := *c.leases[name]
	return &l, nil
}

func (c *cluster) PodsOf(_ context.Context, node string) (pods []v1.Pod, err error) {
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, errAway
	}
	for _, p := range c.pods {
		if p.Spec.NodeName == node {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

func (c *cluster) NodeUID(_ context.Context, node string) (types.UID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[node] {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, node)
	}
	return "uid", nil
}

func (c *cluster) DeleteLease(_ context.Context, _ string, l *api.Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, l.Name)
	return nil
}

func (c *cluster) PatchConditions(_ context.Context, pod api.Pod, changes []v1.PodCondition) error {
	time.Sleep(c.takes)
	if c.refuse != nil {
		if err := c.refuse(pod); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range changes {
		for i := range c.pods {
			if p := &c.pods[i]; p.UID == pod.UID {
				p.Status.Conditions = []v1.PodCondition{change}
			}
		}
		c.patches = append(c.patches, fmt.Sprintf("%s/%s %s %s=%s %s %s", pod.Namespace, pod.Name, pod.UID, change.Type, change.Status, change.Reason, change.Message))
	}
	return nil
}

// renew renews the lease of a node for 40 s. The clock of its agent is wrong by years.
func (c *cluster) renew(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := api.LeaseName(node)
	event := watch.Modified
	if c.leases[name] == nil {
		event = watch.Added
		c.leases[name] = &api.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.LeaseSpec{HolderIdentity: node, LeaseDurationSeconds: 40, RenewTime: metav1.MicroTime{Time: time.Unix(0, 0)}}}
	}
	l := *c.leases[name]
	l.Spec.RenewTime = metav1.MicroTime{Time: l.Spec.RenewTime.Add(time.Second)}
	c.leases[name] = &l
	c.tell(event, &l)
}

func (c *cluster) tell(event watch.EventType, l *api.Lease) {
	if n := len(c.watches); n > 0 && !c.late {
		c.watches[n-1].Action(event, l)
	}
}

func (c *cluster) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leases[api.LeaseName(node)]
	delete(c.leases, l.Name)
	c.tell(watch.Deleted, l)
}

// set sets away, and if true, ends the watches.
func (c *cluster) set(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away = away; away {
		c.endWatches()
	}
}

func (c *cluster) endWatches() {
	for _, w := range c.watches {
		w.Stop()
	}
	c.watches = nil
}

func (c *cluster) written() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.patches)
}

// pod adds a ready pod of a node with the annotation unready and the gate.
func (c *cluster) pod(node, name string, change func(*v1.Pod)) {
	p := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name + "-uid"), Annotations: map[string]string{loss.Annotation: loss.Unready}},
		Spec:       v1.PodSpec{NodeName: node, ReadinessGates: []v1.PodReadinessGate{{ConditionType: "prober.dev/ready"}}},
		Status:     v1.PodStatus{Conditions: []v1.PodCondition{{Type: "prober.dev/ready", Status: v1.ConditionTrue}}},
	}
	if change != nil {
		change(&p)
	}
	c.pods = append(c.pods, p)
}

// inBubble runs test with a running watcher in a synctest bubble. log may be read after stop.
func inBubble(t *testing.T, dryRun bool, test func(t *testing.T, c *cluster, log *bytes.Buffer, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{leases: map[string]*api.Lease{}}
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		w := loss.New(loss.Config{Cluster: c, Namespace: "prober", Logger: slog.New(slog.NewTextHandler(&log, nil)), DryRun: dryRun})
		go func() { defer close(ended); w.Run(ctx) }()
		stop := func() { cancel(); <-ended }
		defer stop()
		synctest.Wait()
		test(t, c, &log, stop)
	})
}

const lostWeb = "shop/web web-uid prober.dev/ready=False AgentLost the agent of node one has not renewed its lease for 40s"

func TestWatcherLostAgent(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, log *bytes.Buffer, stop func()) {
		c.pod("one", "web", nil)
		c.pod("one", "keeps", func(p *v1.Pod) { p.Annotations[loss.Annotation] = "keep" })
		c.pod("one", "silent", func(p *v1.Pod) { p.Annotations = nil })
		c.pod("one", "ungated", func(p *v1.Pod) { p.Spec.ReadinessGates = nil })
		c.pod("one", "unready", func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionFalse })
		c.pod("one", "new", func(p *v1.Pod) { p.Status.Conditions = nil })
		c.pod("one", "ending", func(p *v1.Pod) { p.DeletionTimestamp = new(metav1.Now()) })
		c.pod("two", "elsewhere", nil)
		for range 10 {
			c.renew("one")
			c.renew("two")
			time.Sleep(10 * time.Second)
		}
		for range 10 { // the agent of node one has ended
			c.renew("two")
			time.Sleep(10 * time.Second)
		}
		if got := c.written(); !slices.Equal(got, []string{lostWeb}) {
			t.Errorf("patches %q", got)
		}
		c.renew("one")
		time.Sleep(20 * time.Second)
		c.renew("two")
		if got := c.written(); len(got) != 1 {
			t.Errorf("patches after the agent is back: %q", got)
		}
		stop()
		for _, line := range []string{"following the leases of agents", "the agent of a node is lost\" node=one", "a pod was made unready\" node=one namespace=shop pod=web", "the agent of a node is back\" node=one"} {
			if strings.Count(log.String(), line) != 1 {
				t.Errorf("not once in the log: %s\n%s", line, log)
			}
		}
	})
}

func TestWatcherDurationCountsFromFirstSight(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, _ *bytes.Buffer, _ func()) {
		c.pod("one", "web", nil)
		c.renew("one") // its clock says 1970
		time.Sleep(39 * time.Second)
		if got := c.written(); len(got) != 0 {
			t.Errorf("after 39 s: %q", got)
		}
		time.Sleep(2 * time.Second)
		if got := c.written(); len(got) != 1 {
			t.Errorf("after 41 s: %q", got)
		}
	})
}

func TestWatcherNoAgentIsLostWithoutAPIServer(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, log *bytes.Buffer, stop func()) {
		c.pod("one", "web", nil)
		c.renew("one")
		time.Sleep(35 * time.Second)
		c.set(true)
		time.Sleep(5 * time.Minute)
		c.set(false)
		time.Sleep(35 * time.Second) // the watcher is back after at most 30 s, and then waits for 40 s again
		c.renew("one")
		time.Sleep(35 * time.Second)
		if got := c.written(); len(got) != 0 {
			t.Errorf("patches %q", got)
		}
		time.Sleep(10 * time.Second)
		if got := c.written(); len(got) != 1 {
			t.Errorf("patches %q", got)
		}
		stop()
		if got := strings.Count(log.String(), "the leases of agents cannot be followed"); got != 1 {
			t.Errorf("%d warnings:\n%s", got, log)
		}
	})
}

func TestWatcherEndOfWatchIsNoInterruption(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, _ *bytes.Buffer, _ func()) {
		c.pod("one", "web", nil)
		c.renew("one")
		time.Sleep(35 * time.Second)
		c.mu.Lock()
		c.endWatches()
		c.mu.Unlock()
		time.Sleep(6 * time.Second)
		if got := c.written(); len(got) != 1 || c.lists != 1 {
			t.Errorf("patches %q, %d lists", got, c.lists)
		}
	})
}

func TestWatcherLateWatchIsNoLoss(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, _ *bytes.Buffer, _ func()) {
		c.pod("one", "web", nil)
		c.renew("one")
		synctest.Wait()
		c.mu.Lock()
		c.late = true
		c.mu.Unlock()
		for range 30 {
			c.renew("one")
			time.Sleep(10 * time.Second)
		}
		if got := c.written(); len(got) != 0 {
			t.Errorf("patches %q", got)
		}
	})
}

func TestWatcherDeletedAndForeignLeases(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, _ *bytes.Buffer, _ func()) {
		c.pod("one", "web", nil)
		c.pod("two", "db", nil)
		c.renew("one")
		time.Sleep(10 * time.Second)
		c.forget("one")
		c.mu.Lock()
		c.leases["prober-three"] = &api.Lease{ObjectMeta: metav1.ObjectMeta{Name: "prober-three"}, Spec: api.LeaseSpec{HolderIdentity: "two", LeaseDurationSeconds: 1}}
		c.tell(watch.Added, c.leases["prober-three"])
		c.mu.Unlock()
		time.Sleep(time.Hour)
		if got := c.written(); len(got) != 0 {
			t.Errorf("patches %q", got)
		}
	})
}

func TestWatcherRetriesPods(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, log *bytes.Buffer, stop func()) {
		c.pod("one", "gone", nil)
		c.pod("one", "denied", nil)
		c.pod("one", "web", nil)
		c.pod("one", "db", nil)
		failures := 2
		var mu sync.Mutex
		c.refuse = func(pod api.Pod) error {
			mu.Lock()
			defer mu.Unlock()
			switch pod.Name {
			case "gone":
				return api.ErrGone
			case "denied":
				return api.ErrDenied
			}
			if failures--; pod.Name == "web" && failures >= 0 {
				return errors.New("etcd has no leader")
			}
			return nil
		}
		c.renew("one")
		time.Sleep(10 * time.Minute)
		lostDB := strings.ReplaceAll(lostWeb, "web", "db")
		if got := c.written(); !slices.Equal(got, []string{lostDB, lostWeb}) {
			t.Errorf("patches %q", got)
		}
		stop()
		if !strings.Contains(log.String(), `"a pod cannot be made unready" node=one namespace=shop pod=denied error="denied by the API server"`) || strings.Contains(log.String(), "pod=gone") {
			t.Errorf("log:\n%s", log)
		}
	})
}

func TestWatcherDryRun(t *testing.T) {
	inBubble(t, true, func(t *testing.T, c *cluster, log *bytes.Buffer, stop func()) {
		c.pod("one", "web", nil)
		c.renew("one")
		time.Sleep(time.Hour)
		stop()
		if got := c.written(); len(got) != 0 || strings.Count(log.String(), "dry run: a pod would be made unready\" node=one namespace=shop pod=web") != 1 {
			t.Errorf("patches %q, log:\n%s", got, log)
		}
	})
}

// All agents are lost while the patches of one namespace hang. Other namespaces are patched, with at most 16 patches in
// flight.
func TestWatcherManyNodes(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, _ *bytes.Buffer, _ func()) {
		c.takes = 20 * time.Millisecond
		var mu sync.Mutex
		var running, most, hung int
		var last time.Time
		c.refuse = func(pod api.Pod) error {
			mu.Lock()
			running++
			most = max(most, running)
			hangs := pod.Namespace == "hangs"
			if hangs {
				hung++
			} else {
				last = time.Now()
			}
			mu.Unlock()
			defer func() { mu.Lock(); running--; mu.Unlock() }()
			if hangs {
				time.Sleep(15 * time.Second)
				return errors.New("context deadline exceeded")
			}
			return nil
		}
		const nodes, pods = 300, 5
		c.set(true)
		for i := range nodes {
			node := fmt.Sprint("n", i)
			c.pod(node, node+"-hangs", func(p *v1.Pod) { p.Namespace = "hangs" })
			for j := range pods {
				c.pod(node, fmt.Sprintf("%s-%d", node, j), func(p *v1.Pod) { p.Namespace = fmt.Sprint("ns", j) })
			}
			c.renew(node)
		}
		c.set(false)
		begun := time.Now().Add(40 * time.Second)
		time.Sleep(5 * time.Minute)
		got := len(c.written())
		mu.Lock()
		if got != nodes*pods || most > 16 || hung > 40 {
			t.Errorf("%d of %d pods were patched, %d at once, %d patches hung", got, nodes*pods, most, hung)
		}
		if took := last.Sub(begun); took > 90*time.Second {
			t.Errorf("the last pod was patched after %v", took)
		}
		mu.Unlock()
	})
}

// The lease of a deleted node is deleted, and the lease of an existing node stays.
//
// Reported as kubernetes 84981; karpenter 4363.
func TestWatcherDeletesLeaseOfDeletedNode(t *testing.T) {
	inBubble(t, false, func(t *testing.T, c *cluster, log *bytes.Buffer, stop func()) {
		c.gone = map[string]bool{}
		c.set(true) // the leases come from the list, not the watch
		for i := range 3000 {
			node := fmt.Sprint("gone", i)
			c.gone[node] = true
			c.renew(node)
		}
		c.renew("exists")
		c.set(false)
		left := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.leases) }
		time.Sleep(10 * time.Minute)
		if n := left(); n != 3001 {
			t.Errorf("%d leases after ten minutes", n)
		}
		time.Sleep(2 * time.Minute)
		if n := left(); n != 1 {
			t.Errorf("%d leases after twelve minutes", n)
		}
		c.mu.Lock()
		c.gone["exists"] = true
		c.mu.Unlock()
		time.Sleep(2 * time.Hour)
		if n := left(); n != 0 {
			t.Errorf("%d leases after the last node has gone", n)
		}
	})
}
