//go:build linux

package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

// rig is a cluster with an agent. It counts the agent's calls of the container runtime.
type rig struct {
	*bed.Cluster
	namespace string
	agent     *bed.Agent
	calls     atomic.Int64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Cluster: bed.Up(t, bed.Node)}
	r.namespace = r.Namespace(t)
	socket := bed.Dir + "/counted.sock"
	r.countCalls(t, socket)
	r.agent = r.StartAgent(t, bed.AgentConfig{
		Namespace: r.Namespace(t), Config: agentYAML, Flags: []string{"--cri-socket=" + socket},
	})
	return r
}

// raw is a codec that does not decode messages.
type raw struct{}

func (raw) Name() string { return "proto" }
func (raw) Marshal(v any) ([]byte, error) {
	return *v.(*[]byte), nil
}
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

var _ encoding.Codec = raw{}

// countCalls starts a proxy of the container runtime at another socket. It counts the calls.
func (r *rig) countCalls(t *testing.T, socket string) {
	t.Helper()
	to, err := grpc.NewClient("unix://"+bed.CRISocket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		r.calls.Add(1)
		var in, out []byte
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		if err := to.Invoke(stream.Context(), method, &in, &out); err != nil {
			return err
		}
		return stream.SendMsg(&out)
	}))
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
		_ = to.Close()
	})
}

// run creates a pod with probes, waits until it has an address, and returns it.
func (r *rig) run(t *testing.T, name, probes string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := bed.Pod(name, nil)
	pod.Annotations = map[string]string{"prober.dev/probes": probes, "prober.dev/conditions": "true"}
	if change != nil {
		change(pod)
	}
	r.Create(t, r.namespace, pod)
	return r.AwaitPod(t, r.namespace, name, "runs", func(p *corev1.Pod) bool { return p.Status.PodIP != "" })
}

// awaitCondition waits until a condition of a pod has a status and a reason.
func (r *rig) awaitCondition(t *testing.T, pod, kind string, status corev1.ConditionStatus, reason string) *corev1.Pod {
	t.Helper()
	return r.AwaitPod(t, r.namespace, pod, kind+" "+string(status)+" "+reason, func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if string(c.Type) == kind && c.Status == status && c.Reason == reason {
				return true
			}
		}
		return false
	})
}

// events returns the events of prober about a pod.
func (r *rig) events(t *testing.T, pod string) (all []corev1.Event) {
	t.Helper()
	list, err := r.Client.CoreV1().Events(r.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Source.Component == "prober" {
			all = append(all, e)
		}
	}
	return all
}

// metrics returns the metrics of the agent, in text format.
func (r *rig) metrics(t *testing.T) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", r.agent.Socket)
	}}, Timeout: 30 * time.Second}
	resp, err := client.Get("http://localhost/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ticks returns the number of ticks of a pod in the agent's metrics, of the series that have all labels.
func (r *rig) ticks(t *testing.T, pod string, labels ...string) (n int) {
	t.Helper()
lines:
	for line := range strings.Lines(r.metrics(t)) {
		if !strings.HasPrefix(line, "prober_probe_total{") {
			continue
		}
		for _, label := range append(labels, `pod="`+pod+`"`, `namespace="`+r.namespace+`"`) {
			if !strings.Contains(line, label) {
				continue lines
			}
		}
		var value float64
		_, _ = fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value)
		n += int(value)
	}
	return n
}

// awaitTicks waits for n further ticks of a pod.
func (r *rig) awaitTicks(t *testing.T, pod string, n int, labels ...string) {
	t.Helper()
	first := r.ticks(t, pod, labels...)
	bed.Await(t, "ticks of "+pod, func() bool { return r.ticks(t, pod, labels...) >= first+n })
}

// agentYAML is a prober.yaml whose breaker does not open, although most liveness probes of these tests fail.
const agentYAML = `apiVersion: prober.dev/v1
kind: AgentConfig
kubernetes:
  breaker: {least: 1000, lag: 1m, pressure: {cpu: 100, memory: 100, io: 100}}
  liveness: {modes: [observe, sidecar, restart]}
`
