package oracle

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // without the API's types no event gets its reference
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/status"
)

// kubelet is the kubelet's own manager.
type kubelet struct {
	prober.Manager
	caches map[string]results.Manager
	done   chan struct{}
}

var _ Side = (*kubelet)(nil)

// Kubelet makes the side that is right by definition.
func Kubelet(o Outside) Side {
	k := &kubelet{caches: make(map[string]results.Manager), done: make(chan struct{})}
	for _, kind := range []string{"liveness", "readiness", "startup"} {
		cache := results.NewManager()
		k.caches[kind] = cache
		go k.drain(cache.Updates())
	}
	k.Manager = prober.NewManager(statusSource{podStatus: o.PodStatus},
		k.caches["liveness"], k.caches["readiness"], k.caches["startup"], commandRunner(o.Run), eventRecorder(o.Event))
	return k
}

// SilenceKubelet throws its log away. It speaks of every panic.
func SilenceKubelet() { klog.SetLogger(klog.Logger{}) }

// drain reads updates, since the kubelet's workers block when no one does.
func (k *kubelet) drain(updates <-chan results.Update) {
	for {
		select {
		case <-updates:
		case <-k.done:
			return
		}
	}
}

// Cached implements [Side].
func (k *kubelet) Cached(kind, id string) string {
	if r, ok := k.caches[kind].Get(kubecontainer.ParseContainerID(id)); ok {
		return r.String()
	}
	return ""
}

// Close implements [Side]. Workers end when their attempts do.
func (k *kubelet) Close() {
	k.CleanupPods(nil)
	time.Sleep(time.Hour)
	close(k.done)
}

// statusSource is the one method of the status manager that the prober calls.
type statusSource struct {
	status.Manager
	podStatus func(types.UID) (v1.PodStatus, bool)
}

func (s statusSource) GetPodStatus(uid types.UID) (v1.PodStatus, bool) { return s.podStatus(uid) }

type commandRunner func(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error)

func (r commandRunner) RunInContainer(ctx context.Context, id kubecontainer.ContainerID, cmd []string, timeout time.Duration) ([]byte, error) {
	return r(ctx, id.String(), cmd, timeout)
}

// eventRecorder is client-go's recorder for both sides.
type eventRecorder func(fieldPath, eventType, reason, message string)

var _ record.EventRecorderLogger = eventRecorder(nil)

func (r eventRecorder) Event(object runtime.Object, eventType, reason, message string) {
	ref, ok := object.(*v1.ObjectReference)
	if !ok {
		r(fmt.Sprintf("a %T", object), eventType, reason, message)
		return
	}
	where := fmt.Sprintf("%s %s %s/%s %s %s", ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID, ref.FieldPath)
	r(where, eventType, reason, message)
}

func (r eventRecorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

func (r eventRecorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

func (r eventRecorder) WithLogger(klog.Logger) record.EventRecorderLogger { return r }
