package disruption_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/disruption"
	"github.com/daeace23/prober/pods/kube/liveness"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

// cluster is a fake API server with pods and leases. Its writes check the same preconditions as the real one.
type cluster struct {
	mu       sync.Mutex
	version  int
	leases   map[string]*api.Lease
	pods     map[types.UID]*v1.Pod
	denied   error // returned by all requests for leases
	evicted  []string
	replaces time.Duration // from an eviction until the replacement of the pod is ready
}

func newCluster() *cluster {
	return &cluster{leases: map[string]*api.Lease{}, pods: map[types.UID]*v1.Pod{}, replaces: time.Minute}
}

func (c *cluster) Lease(_ context.Context, _, name string) (*api.Lease, error) {
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied != nil {
		return nil, c.denied
	}
	if c.leases[name] == nil {
		return nil, apierrors.NewNotFound(leases, name)
	}
	return c.leases[name].DeepCopyObject().(*api.Lease), nil
}

func (c *cluster) CreateLease(_ context.Context, _ string, l *api.Lease) error {
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases[l.Name] != nil {
		return apierrors.NewAlreadyExists(leases, l.Name)
	}
	c.storeLocked(l)
	return nil
}

func (c *cluster) UpdateLease(_ context.Context, _ string, l *api.Lease) error {
	time.Sleep(time.Millisecond)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases[l.Name] == nil || c.leases[l.Name].ResourceVersion != l.ResourceVersion {
		return apierrors.NewConflict(leases, l.Name, errors.New("it has changed"))
	}
	c.storeLocked(l)
	return nil
}

func (c *cluster) storeLocked(l *api.Lease) {
	stored := l.DeepCopyObject().(*api.Lease)
	c.version++
	stored.ResourceVersion = fmt.Sprint(c.version)
	c.leases[l.Name] = stored
}

func (c *cluster) DeleteLease(_ context.Context, _ string, l *api.Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.denied != nil {
		return c.denied
	}
	if c.leases[l.Name] == nil || c.leases[l.Name].ResourceVersion != l.ResourceVersion {
		return apierrors.NewConflict(leases, l.Name, errors.New("it has changed"))
	}
	delete(c.leases, l.Name)
	return nil
}

func (c *cluster) PodsLike(_ context.Context, namespace string, labels map[string]string) (all []v1.Pod, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pods {
		if p.Namespace == namespace && !slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(l string) bool { return p.Labels[l] != labels[l] }) {
			all = append(all, *p.DeepCopy())
		}
	}
	return all, nil
}

// add adds a ready pod of a workload.
func (c *cluster) add(namespace, name string, workload types.UID) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "-" + name), CreationTimestamp: metav1.Now(), Labels: map[string]string{"app": "api", "statefulset.kubernetes.io/pod-name": name}},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(1)), Containers: []v1.Container{{Name: "app"}}},
		Status: v1.PodStatus{
			Conditions:        []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "app", ContainerID: "x://" + name + "-0", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}},
		},
	}
	if workload != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "api", UID: workload, Controller: new(true)}}
	}
	c.pods[p.UID] = p
	return p
}

// restart restarts the container of a pod, and sets the pod's condition Ready.
func (c *cluster) restart(uid types.UID, ready v1.ConditionStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.pods[uid].DeepCopy()
	p.Status.Conditions[0].Status = ready
	p.Status.ContainerStatuses[0].RestartCount++
	p.Status.ContainerStatuses[0].ContainerID = fmt.Sprintf("x://%s-%d", p.Name, p.Status.ContainerStatuses[0].RestartCount)
	c.pods[uid] = p
}

func (c *cluster) pod(uid types.UID) *v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[uid]
}

// evict deletes a pod. A ready replacement appears after c.replaces.
func (c *cluster) evict(_ context.Context, pod api.Pod, _ *int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.pods[pod.UID]
	delete(c.pods, pod.UID)
	c.evicted = append(c.evicted, pod.Name)
	if n := len(c.evicted); c.replaces > 0 {
		time.AfterFunc(c.replaces, func() { c.add(old.Namespace, fmt.Sprint("next-", n), old.OwnerReferences[0].UID) })
	}
	return nil
}

func (c *cluster) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.leases)
}

// agent runs the Claims of a node.
func (c *cluster) agent(t *testing.T, node string) *disruption.Claims {
	t.Helper()
	claims := disruption.New(disruption.Config{Cluster: c, Namespace: "prober-system", Node: node, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { claims.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return claims
}

// A workload has one replica on each of six nodes, and all probes fail, as after a bad rollout. In each mode, one
// replica at a time is disrupted, and the next one only after the previous one is ready again.
//
// Reported as kubernetes 66230, 123204.
func TestClaimsOneReplicaOfWorkloadAtATime(t *testing.T) {
	for _, mode := range []liveness.Mode{liveness.Evict, liveness.Restart} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster()
				var mu sync.Mutex
				var at []time.Time
				stop := func(_ context.Context, id string, _ time.Duration) error {
					mu.Lock()
					at = append(at, time.Now())
					mu.Unlock()
					name, _, _ := strings.Cut(strings.TrimPrefix(id, "x://"), "-")
					c.restart(types.UID("shop-"+name), v1.ConditionFalse)
					time.AfterFunc(time.Minute, func() { c.restart(types.UID("shop-"+name), v1.ConditionTrue) })
					return nil
				}
				evict := func(ctx context.Context, pod api.Pod, grace *int64) error {
					mu.Lock()
					at = append(at, time.Now())
					mu.Unlock()
					return c.evict(ctx, pod, grace)
				}
				for i := range 6 {
					pod := c.add("shop", fmt.Sprint("api", i), "rs")
					first := pod.Status.ContainerStatuses[0].ContainerID
					failing := func(uid types.UID, _ string, _ probe.Kind) bool {
						p := c.pod(uid)
						return p != nil && p.Status.ContainerStatuses[0].ContainerID == first
					}
					a := liveness.New(liveness.Config{
						Stop: stop, Evict: evict, Current: c.pod, Failing: failing,
						Party:  func(types.UID) (liveness.Party, bool) { return liveness.Party{}, false },
						Claim:  c.agent(t, fmt.Sprint("n", i)).Claim,
						Logger: slog.New(slog.DiscardHandler), PressureDir: t.TempDir(), Breaker: liveness.Breaker{Least: 1000},
					})
					ctx, cancel := context.WithCancel(t.Context())
					var running sync.WaitGroup
					running.Go(func() { a.Run(ctx) })
					t.Cleanup(func() { cancel(); running.Wait() })
					a.Failed(liveness.Failure{Pod: pod, Container: "app", ContainerID: first, Kind: probe.Liveness, Mode: mode, Period: time.Second})
				}
				time.Sleep(55 * time.Second)
				mu.Lock()
				if len(at) != 1 {
					t.Errorf("%d replicas were disrupted at once", len(at))
				}
				mu.Unlock()
				time.Sleep(2 * time.Hour)
				mu.Lock()
				defer mu.Unlock()
				if len(at) != 6 {
					t.Errorf("%d replicas were disrupted in two hours", len(at))
				}
				for i := 1; i < len(at); i++ {
					if gap := at[i].Sub(at[i-1]); gap < time.Minute {
						t.Errorf("disruption %d came %v after the one before, which was not ready", i, gap)
					}
				}
				if left := c.held(); left != 0 {
					t.Errorf("%d leases are left", left)
				}
			})
		})
	}
}

func TestClaims(t *testing.T) {
	const other = "is not ready again"
	for _, test := range []struct {
		name string
		run  func(t *testing.T, c *cluster)
	}{
		{"another pod of another node", func(t *testing.T, c *cluster) {
			mustClaim(t, c.agent(t, "n1"), c.add("shop", "a", "rs"))
			refused(t, c.agent(t, "n2"), c.add("shop", "b", "rs"), other)
		}},
		{"another pod of the same node", func(t *testing.T, c *cluster) {
			one := c.agent(t, "n1")
			mustClaim(t, one, c.add("shop", "a", "rs"))(true)
			refused(t, one, c.add("shop", "b", "rs"), other)
		}},
		{"another workload", func(t *testing.T, c *cluster) {
			mustClaim(t, c.agent(t, "n1"), c.add("shop", "a", "rs"))
			mustClaim(t, c.agent(t, "n2"), c.add("shop", "b", "rs-2"))
		}},
		{"controller of the same UID in another namespace", func(t *testing.T, c *cluster) {
			mustClaim(t, c.agent(t, "n1"), c.add("evil", "a", "rs"))
			mustClaim(t, c.agent(t, "n2"), c.add("shop", "b", "rs"))
		}},
		{"pods without controllers", func(t *testing.T, c *cluster) {
			one := c.agent(t, "n1")
			mustClaim(t, one, c.add("shop", "a", ""))
			mustClaim(t, one, c.add("shop", "b", ""))
			if n := c.held(); n != 0 {
				t.Errorf("%d leases", n)
			}
		}},
		{"two at the same moment", func(t *testing.T, c *cluster) {
			a, b, one, two := c.add("shop", "a", "rs"), c.add("shop", "b", "rs"), c.agent(t, "n1"), c.agent(t, "n2")
			errs := make(chan error, 2)
			go func() { _, err := one.Claim(t.Context(), a); errs <- err }()
			go func() { _, err := two.Claim(t.Context(), b); errs <- err }()
			if first, second := <-errs, <-errs; (first == nil) == (second == nil) {
				t.Errorf("errors %v and %v", first, second)
			}
		}},
		{"nothing was done", func(t *testing.T, c *cluster) {
			mustClaim(t, c.agent(t, "n1"), c.add("shop", "a", "rs"))(false)
			mustClaim(t, c.agent(t, "n2"), c.add("shop", "b", "rs"))
		}},
		{"the same pod fails again", func(t *testing.T, c *cluster) {
			one, a := c.agent(t, "n1"), c.add("shop", "a", "rs")
			mustClaim(t, one, a)(true)
			mustClaim(t, one, a)(true)
			mustClaim(t, c.agent(t, "n1"), a) // a new agent of the node
		}},
		{"restarted and ready", func(t *testing.T, c *cluster) {
			a := c.add("shop", "a", "rs")
			two, b := c.agent(t, "n2"), c.add("shop", "b", "rs")
			mustClaim(t, c.agent(t, "n1"), a)(true)
			time.Sleep(time.Minute) // the pod is still ready, with its first container
			refused(t, two, b, other)
			c.restart(a.UID, v1.ConditionFalse)
			time.Sleep(time.Minute)
			refused(t, two, b, other)
			c.restart(a.UID, v1.ConditionTrue)
			time.Sleep(11 * time.Second)
			mustClaim(t, two, b)
		}},
		{"another container of the same pod, of which nothing was done", func(t *testing.T, c *cluster) {
			a, one := c.add("shop", "a", "rs"), c.agent(t, "n1")
			two, b := c.agent(t, "n2"), c.add("shop", "b", "rs")
			mustClaim(t, one, a)(true)
			c.restart(a.UID, v1.ConditionFalse)
			mustClaim(t, one, a)(false)
			time.Sleep(time.Minute)
			refused(t, two, b, other)
			c.restart(a.UID, v1.ConditionTrue)
			time.Sleep(11 * time.Second)
			mustClaim(t, two, b)
		}},
		{"the same pod fails again while leases cannot be read", func(t *testing.T, c *cluster) {
			a, one := c.add("shop", "a", "rs"), c.agent(t, "n1")
			mustClaim(t, one, a)(true)
			c.mu.Lock()
			c.denied = errors.New("away")
			c.mu.Unlock()
			refused(t, one, a, "away")
			c.mu.Lock()
			c.denied = nil
			c.mu.Unlock()
			c.restart(a.UID, v1.ConditionTrue)
			time.Sleep(11 * time.Second)
			mustClaim(t, c.agent(t, "n2"), c.add("shop", "b", "rs"))
		}},
		{"another pod becomes the primary", func(t *testing.T, c *cluster) {
			a, b := c.add("shop", "a", "rs"), c.add("shop", "b", "rs")
			a.Labels["role"], b.Labels["role"] = "primary", "replica"
			time.Sleep(time.Hour)
			done, two := mustClaim(t, c.agent(t, "n1"), a), c.agent(t, "n2")
			_ = c.evict(t.Context(), api.Pod{UID: a.UID}, nil) // replaced after a minute
			c.mu.Lock()
			b = b.DeepCopy()
			b.Labels["role"] = "primary"
			c.pods[b.UID] = b
			c.mu.Unlock()
			done(true)
			time.Sleep(55 * time.Second)
			refused(t, two, b, other)
		}},
		{"more replicas while one is restarted", func(t *testing.T, c *cluster) {
			a := c.add("shop", "a", "rs")
			two, b := c.agent(t, "n2"), c.add("shop", "b", "rs")
			mustClaim(t, c.agent(t, "n1"), a)(true)
			c.restart(a.UID, v1.ConditionFalse)
			c.add("shop", "c", "rs")
			time.Sleep(time.Minute)
			refused(t, two, b, other)
		}},
		{"stale gate", func(t *testing.T, c *cluster) { // the pod stays Ready until the agent has written the gate
			a, b := c.add("shop", "a", "rs"), c.add("shop", "b", "rs")
			mustClaim(t, c.agent(t, "n1"), a)(true)
			time.Sleep(4500 * time.Millisecond)
			c.restart(a.UID, v1.ConditionTrue)
			time.Sleep(time.Second)
			c.restart(a.UID, v1.ConditionFalse)
			time.Sleep(time.Minute)
			refused(t, c.agent(t, "n2"), b, other)
		}},
		{"never ready", func(t *testing.T, c *cluster) {
			a, b, two := c.add("shop", "a", "rs"), c.add("shop", "b", "rs"), c.agent(t, "n2")
			mustClaim(t, c.agent(t, "n1"), a)(true)
			c.restart(a.UID, v1.ConditionFalse)
			time.Sleep(disruption.Longest - time.Second)
			refused(t, two, b, other)
			time.Sleep(10 * time.Second)
			mustClaim(t, two, b)
		}},
		{"agent that is gone", func(t *testing.T, c *cluster) {
			gone := disruption.New(disruption.Config{Cluster: c, Namespace: "prober-system", Node: "n1"})
			mustClaim(t, gone, c.add("shop", "a", "rs"))(true)
			two, b := c.agent(t, "n2"), c.add("shop", "b", "rs")
			time.Sleep(time.Hour) // the renew time does not matter
			refused(t, two, b, other)
			time.Sleep(disruption.Longest - time.Second)
			refused(t, two, b, other)
			time.Sleep(2 * time.Second)
			mustClaim(t, two, b)
		}},
		{"leases cannot be written", func(t *testing.T, c *cluster) {
			c.denied = apierrors.NewForbidden(leases, "x", errors.New("no right"))
			one, a := c.agent(t, "n1"), c.add("shop", "a", "rs")
			refused(t, one, a, "no pod is restarted or evicted without the lease ")
			c.denied = nil
			mustClaim(t, one, a)
		}},
		{"lease that cannot be deleted", func(t *testing.T, c *cluster) {
			done := mustClaim(t, c.agent(t, "n1"), c.add("shop", "a", "rs"))
			c.denied = errors.New("away")
			done(false)
			c.mu.Lock()
			c.denied = nil
			c.mu.Unlock()
			time.Sleep(disruption.Longest + 10*time.Second)
			if n := c.held(); n != 0 {
				t.Errorf("%d leases", n)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test.run(t, newCluster()) })
		})
	}
}

func mustClaim(t *testing.T, c *disruption.Claims, pod *v1.Pod) (done func(bool)) {
	t.Helper()
	done, err := c.Claim(t.Context(), pod)
	if err != nil {
		t.Fatalf("claim for %s: %v", pod.Name, err)
	}
	return done
}

// refused checks that a claim is refused with an error that contains want.
func refused(t *testing.T, c *disruption.Claims, pod *v1.Pod, want string) {
	t.Helper()
	if _, err := c.Claim(t.Context(), pod); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("claim for %s: error %v, want one with %q", pod.Name, err, want)
	}
}
