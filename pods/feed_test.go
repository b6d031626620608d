package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Two goroutines that change the status of a pod may send their changes in reverse order.
func TestLateChangeHasPresentStatus(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	present, known := v1.PodStatus{Phase: v1.PodRunning}, true
	status := func(types.UID) (v1.PodStatus, bool) { return present, known }
	var f Feed
	q := f.attach()
	f.Changed(pod, status)
	present.Phase = v1.PodSucceeded
	f.Changed(pod, status)
	if c, ok := q.take(); !ok || c.Pod.Status.Phase != v1.PodSucceeded || c.Removed {
		t.Errorf("got %+v, %v", c, ok)
	}
	f.Removed(pod)
	known = false
	f.Changed(pod, status)
	if c, ok := q.take(); !ok || !c.Removed {
		t.Errorf("got %+v, %v, want the end of the pod and nothing after it", c, ok)
	}
	if c, ok := q.take(); ok {
		t.Errorf("got %+v after the end of the pod", c)
	}
}
