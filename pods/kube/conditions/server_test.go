package conditions_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods/kube/api"
)

// server simulates an API server for patches of conditions: it merges conditions by type, and refuses a wrong
// UID. It is independent of the writer.
type server struct {
	mu      sync.Mutex
	uids    map[string]types.UID // by the name of the pod
	pods    map[types.UID][]v1.PodCondition
	patches []patched // applied patches
	changed func(uid types.UID, now []v1.PodCondition)
	// before is called without a lock before a patch is applied. If it returns an error, the patch is not applied.
	// after is called afterwards. Its error hides that the patch was applied.
	before, after func(ctx context.Context, pod api.Pod) error
}

type patched struct {
	pod        api.Pod
	conditions []v1.PodCondition
	at         time.Time
}

func newServer() *server {
	none := func(context.Context, api.Pod) error { return nil }
	return &server{uids: map[string]types.UID{}, pods: map[types.UID][]v1.PodCondition{}, changed: func(types.UID, []v1.PodCondition) {}, before: none, after: none}
}

// create adds a pod with a condition of the kubelet.
func (s *server) create(name string, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids[name] = uid
	s.pods[uid] = []v1.PodCondition{condition(v1.PodScheduled, v1.ConditionTrue, "", "")}
}

func (s *server) conditions(uid types.UID) []v1.PodCondition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pods[uid])
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.patches)
}

// PatchConditions implements conditions.Patcher.
func (s *server) PatchConditions(ctx context.Context, pod api.Pod, change []v1.PodCondition) error {
	if err := s.before(ctx, pod); err != nil {
		return err
	}
	if err := s.apply(pod, change); err != nil {
		return err
	}
	return s.after(ctx, pod)
}

func (s *server) apply(pod api.Pod, change []v1.PodCondition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uids[pod.Name] != pod.UID {
		return errors.Join(api.ErrGone, errors.New("UID in precondition"))
	}
	now := slices.Clone(s.pods[pod.UID])
	for _, c := range change {
		i := slices.IndexFunc(now, func(old v1.PodCondition) bool { return old.Type == c.Type })
		if i < 0 {
			now = append(now, c)
			continue
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = now[i].LastTransitionTime
		}
		now[i] = c
	}
	s.pods[pod.UID] = now
	s.patches = append(s.patches, patched{pod, slices.Clone(change), time.Now()})
	s.changed(pod.UID, now)
	return nil
}
