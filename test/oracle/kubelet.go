package oracle

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/apis/core/install" // events need the API's types for their references
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/status"

	"github.com/daeace23/prober/test/oracle/prober"
)

// kubelet is the kubelet's manager.
type kubelet struct {
	prober.Manager
	caches map[string]results.Manager
	update func(key, text string)
	done   chan struct{}

	mu   sync.Mutex
	last map[string]string
}

var _ Side = (*kubelet)(nil)

// Kubelet makes the kubelet's side, which is correct by definition.
func Kubelet(o Outside) Side {
	k := &kubelet{
		caches: make(map[string]results.Manager), update: o.Update, done: make(chan struct{}), last: make(map[string]string),
	}
	for _, kind := range kinds {
		cache := results.NewManager()
		k.caches[kind] = cache
		go k.read(kind, cache.Updates())
	}
	k.Manager = prober.NewManager(statusSource{podStatus: o.PodStatus},
		k.caches["liveness"], k.caches["readiness"], k.caches["startup"], commandRunner(o.Run), eventRecorder(o.Event))
	return k
}

// SilenceKubelet discards the kubelet's log, which would have every panic of a scenario.
func SilenceKubelet() { klog.SetLogger(klog.Logger{}) }

// read reads the updates of a kind without delay: the kubelet's workers block without a reader.
func (k *kubelet) read(kind string, updates <-chan results.Update) {
	for {
		select {
		case u := <-updates:
			key, text := kind+" "+u.ContainerID.String(), fmt.Sprintf("%v of %s", u.Result, u.PodUID)
			k.update(key, text)
			k.mu.Lock()
			k.last[key] = text
			k.mu.Unlock()
		case <-k.done:
			return
		}
	}
}

// LastUpdates implements [Side].
func (k *kubelet) LastUpdates() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.last)
}

// Cached implements [Side].
func (k *kubelet) Cached(kind, id string) string {
	if r, ok := k.caches[kind].Get(kubecontainer.ParseContainerID(id)); ok {
		return r.String()
	}
	return ""
}

// Close implements [Side]. It waits for an hour of fake time, in which all attempts and workers end.
func (k *kubelet) Close() {
	k.CleanupPods(nil)
	time.Sleep(time.Hour)
	close(k.done)
}

// statusSource implements the only method of the status manager that the prober calls.
type statusSource struct {
	status.Manager
	podStatus func(types.UID) (v1.PodStatus, bool)
}

func (s statusSource) GetPodStatus(uid types.UID) (v1.PodStatus, bool) { return s.podStatus(uid) }

type commandRunner func(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error)

func (r commandRunner) RunInContainer(ctx context.Context, id kubecontainer.ContainerID, cmd []string, timeout time.Duration) ([]byte, error) {
	return r(ctx, id.String(), cmd, timeout)
}

// eventRecorder implements client-go's recorder for both sides.
type eventRecorder func(ref *v1.ObjectReference, eventType, reason, message string)

var _ record.EventRecorderLogger = eventRecorder(nil)

func (r eventRecorder) Event(object runtime.Object, eventType, reason, message string) {
	r(object.(*v1.ObjectReference), eventType, reason, message)
}

func (r eventRecorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

func (r eventRecorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

func (r eventRecorder) WithLogger(klog.Logger) record.EventRecorderLogger { return r }
