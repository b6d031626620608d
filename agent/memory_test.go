package agent

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods"
)

// Memory is a minimal source of pods. The pods are in memory, and their containers are always running.
type Memory struct {
	host    pods.Host
	manager *manager.Manager // set by Start
	store   manager.StatusStore
	start   sync.WaitGroup
	since   time.Time // start time of all containers

	mu      sync.Mutex
	desired []*v1.Pod
	applied map[types.UID]*v1.Pod
	changed chan struct{} // closed and replaced at each change
}

// NewMemory returns a source of the pods.
func NewMemory(desired ...*v1.Pod) *Memory {
	return &Memory{since: time.Now(), desired: desired, applied: make(map[types.UID]*v1.Pod), changed: make(chan struct{})}
}

// Open is [Config].Source.
func (m *Memory) Open(_ context.Context, host pods.Host) (pods.Source, error) {
	m.host = host
	return pods.Source{Status: &m.store, Start: m.Start, Stop: m.Stop, Pods: m.Pods, Watch: m.Watch, Reload: m.Reload}, nil
}

// With is Open for a source with more functions.
func (m *Memory) With(more func(*pods.Source)) func(context.Context, pods.Host) (pods.Source, error) {
	return func(ctx context.Context, host pods.Host) (pods.Source, error) {
		s, err := m.Open(ctx, host)
		more(&s)
		return s, err
	}
}

// Set sets the desired pods for the next reload.
func (m *Memory) Set(desired ...*v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.desired = desired
}

func (m *Memory) Start(ctx context.Context, to *manager.Manager) {
	m.manager = to
	m.start.Go(func() { _ = m.Reload(ctx, pods.Reload{Cause: "start"}) })
}

func (m *Memory) Reload(ctx context.Context, r pods.Reload) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.host.Begin()
	var errs []error
	for _, pod := range m.desired {
		errs = append(errs, m.host.Check(ctx, declared.Parse(pod))...)
	}
	if err := errors.Join(errs...); err != nil {
		return m.host.Refused(ctx, r, err)
	}
	gone := m.applied
	m.applied = make(map[types.UID]*v1.Pod)
	for _, pod := range m.desired {
		errs = append(errs, m.applyLocked(ctx, pod))
		delete(gone, pod.UID)
		m.applied[pod.UID] = pod
	}
	for _, pod := range gone {
		m.manager.RemovePod(pod)
		m.store.RemovePod(pod.UID)
	}
	close(m.changed)
	m.changed = make(chan struct{})
	pods := make([]*declared.Pod, len(m.desired))
	for i, pod := range m.desired {
		pods[i] = declared.Parse(pod)
	}
	return m.host.Applied(ctx, r, pods, errors.Join(errs...))
}

func (m *Memory) applyLocked(ctx context.Context, pod *v1.Pod) error {
	status := v1.PodStatus{Phase: v1.PodRunning, PodIP: "127.0.0.1"}
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, ContainerID: "memory://" + string(pod.UID) + "/" + c.Name,
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(m.since)}},
		})
	}
	err := m.manager.UpdatePod(ctx, pod)
	m.manager.UpdatePodStatus(pod, &status) // sets whether its containers have started
	m.store.SetPodStatus(pod, status)
	return err
}

func (m *Memory) Stop(context.Context) error {
	m.start.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pod := range m.applied {
		m.manager.RemovePod(pod)
	}
	return nil
}

func (m *Memory) Pods() []v1.Pod {
	all, _ := m.pods()
	return all
}

// pods returns the pods, and a channel that is closed at their next change.
func (m *Memory) pods() (all []v1.Pod, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for uid, pod := range m.applied {
		pod = pod.DeepCopy()
		pod.Status, _ = m.store.PodStatus(uid)
		all = append(all, *pod)
	}
	slices.SortFunc(all, func(a, b v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, m.changed
}

func (m *Memory) Watch(ctx context.Context) iter.Seq[pods.Change] {
	return func(yield func(pods.Change) bool) {
		shown := make(map[types.UID]*v1.Pod)
		for ctx.Err() == nil {
			all, changed := m.pods()
			gone := maps.Clone(shown)
			for i := range all {
				pod := &all[i]
				delete(gone, pod.UID)
				if reflect.DeepEqual(shown[pod.UID], pod) {
					continue
				}
				shown[pod.UID] = pod
				if !yield(pods.Change{Pod: pod.DeepCopy()}) {
					return
				}
			}
			for uid, pod := range gone {
				delete(shown, uid)
				if !yield(pods.Change{Pod: pod, Removed: true}) {
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}
