package load

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/utils/exec"
)

// kubelet runs the kubelet's manager with its metrics.
type kubelet struct{ manager prober.Manager }

func newKubelet(ctx context.Context, pods []*v1.Pod, run runner) *kubelet {
	klog.SetLogger(klog.Logger{})
	legacyregistry.MustRegister(prober.ProberResults, prober.ProberDuration)
	source := kubeletStatus{statuses: make(map[types.UID]v1.PodStatus, len(pods))}
	for _, pod := range pods {
		source.statuses[pod.UID] = pod.Status
	}
	var caches [3]results.Manager
	for i := range caches {
		caches[i] = results.NewManager()
		go func() { // its workers block without a reader
			for {
				select {
				case <-caches[i].Updates():
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	// A recorder without a channel discards events. A recorder with a channel would block the workers.
	return &kubelet{prober.NewManager(source, caches[0], caches[1], caches[2], kubeletRunner{run: run}, new(record.FakeRecorder))}
}

func (k *kubelet) add(ctx context.Context, pod *v1.Pod, _ int) error {
	k.manager.AddPod(ctx, pod)
	return nil
}

func (k *kubelet) gather() (string, error) {
	return serve(promhttp.HandlerFor(legacyregistry.DefaultGatherer, promhttp.HandlerOpts{}))
}

func (k *kubelet) lags() (*ownLags, error) { return nil, nil }

// kubeletStatus implements the only method of the status manager that the prober calls.
type kubeletStatus struct {
	status.Manager
	statuses map[types.UID]v1.PodStatus // read-only
}

func (s kubeletStatus) GetPodStatus(uid types.UID) (v1.PodStatus, bool) {
	st, ok := s.statuses[uid]
	return st, ok
}

type kubeletRunner struct{ run runner }

func (r kubeletRunner) RunInContainer(ctx context.Context, _ kubecontainer.ContainerID, cmd []string, timeout time.Duration) ([]byte, error) {
	i, err := strconv.Atoi(cmd[0])
	if err != nil {
		return nil, err
	}
	if r.run(ctx, i, timeout) {
		return nil, exitError{}
	}
	return nil, nil
}

// exitError is the error of a command with exit code 1.
type exitError struct{}

var _ exec.ExitError = exitError{}

func (exitError) Error() string   { return "exit status 1" }
func (exitError) String() string  { return "exit status 1" }
func (exitError) Exited() bool    { return true }
func (exitError) ExitStatus() int { return 1 }
