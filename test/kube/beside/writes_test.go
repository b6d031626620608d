//go:build linux

package beside

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

var rest = flag.Duration("rest", 10*time.Second, "how long to count writes while nothing changes")

// maxPods is the default limit of pods of a node.
const maxPods = 110

// apps serves the apps of all pods of a node without a kubelet, each at its own address.
type apps struct {
	mu   sync.Mutex
	sick map[string]bool // addresses whose /app fails
}

// startApps serves all addresses of 10.88.75.0/24 until the end of the test.
func startApps(t *testing.T) *apps {
	t.Helper()
	if out, err := exec.Command("ip", "route", "add", "local", "10.88.75.0/24", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "0.0.0.0:8070")
	if err != nil {
		t.Fatal(err)
	}
	a := &apps{sick: make(map[string]bool)}
	server := http.Server{Handler: a}
	ended := make(chan error)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		<-ended
	})
	return a
}

func (a *apps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	a.mu.Lock()
	sick := a.sick[host]
	a.mu.Unlock()
	if sick && r.URL.Path == "/app" {
		http.Error(w, "sick", http.StatusServiceUnavailable)
	}
}

func (a *apps) set(address string, sick bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sick[address] = sick
}

// createRunning creates a pod on a node without a kubelet, and writes the status of a running pod with an
// address.
func createRunning(t *testing.T, c *bed.Cluster, namespace, node, address string) {
	t.Helper()
	pod := bed.Pod("pod-"+address, nil)
	pod.Name = "pod-" + fmt.Sprint(net.ParseIP(address).To4()[3])
	pod.Spec.NodeName = node
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Image: bed.AppImage})
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	pod.Annotations = map[string]string{
		"prober.dev/conditions": "true",
		"prober.dev/probes": `app:
  readiness: {httpGet: {path: /app, port: 8070}, periodSeconds: 1, failureThreshold: 1}
  liveness: {tcpSocket: {port: 8070}, periodSeconds: 1}
side:
  readiness: {httpGet: {path: /side, port: 8070}, periodSeconds: 1}
`,
	}
	pod = c.Create(t, namespace, pod)
	started := metav1.Now()
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}},
		Conditions: []corev1.PodCondition{{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}},
	}
	for _, container := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Ready: true, Started: new(true), ContainerID: "containerd://" + pod.Name + container.Name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		})
	}
	if _, err := c.Client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestWrites counts the agent's writes in the audit log of the API server: none while nothing changes, and
// one patch for each transition of a pod.
func TestWrites(t *testing.T) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	node := c.FakeNode(t, "quiet")
	apps := startApps(t)
	address := func(n int) string { return fmt.Sprint("10.88.75.", n+1) }
	for n := range maxPods {
		createRunning(t, c, ns, node.Name, address(n))
	}
	defer c.Kubectl(t, "-n", ns, "delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false") // no kubelet ends them
	c.StartAgent(t, bed.AgentConfig{Namespace: ns, Node: node, Config: closed})
	user := "system:serviceaccount:" + ns + ":prober"

	pods := func(condition func(*corev1.Pod) bool) (count int) {
		list, err := c.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if condition(&list.Items[i]) {
				count++
			}
		}
		return count
	}
	withStatus := func(status corev1.ConditionStatus, kinds ...corev1.PodConditionType) func(*corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			for _, kind := range kinds {
				if !bed.HasCondition(kind, status)(pod) {
					return false
				}
			}
			return true
		}
	}
	all := []corev1.PodConditionType{gate, "prober.dev/live", "prober.dev/readiness.app", "prober.dev/readiness.side", "prober.dev/liveness.app"}
	bed.Await(t, "all conditions of all pods", func() bool { return pods(withStatus(corev1.ConditionTrue, all...)) == maxPods })
	first := c.Writes(t, user, ns)
	t.Logf("%d writes until the first conditions of %d pods were complete", len(first), maxPods)
	<-time.After(*rest) // nothing changes
	before := c.Writes(t, user, ns)
	if len(before) != len(first) {
		t.Errorf("%d writes in %v while nothing has changed: %+v", len(before)-len(first), *rest, before[len(first):])
	}

	const changing = 30
	for _, to := range []struct {
		sick   bool
		status corev1.ConditionStatus
		want   int
	}{{true, corev1.ConditionFalse, changing}, {false, corev1.ConditionTrue, maxPods}} {
		for n := range changing {
			apps.set(address(n), to.sick)
		}
		bed.Await(t, "the transitions", func() bool { return pods(withStatus(to.status, gate, "prober.dev/readiness.app")) == to.want })
	}
	var after []bed.Write
	bed.Await(t, "the events", func() bool {
		after = c.Writes(t, user, ns)[len(before):]
		return len(after) >= 4*changing
	})
	patches, events := make(map[string]int), 0
	for _, w := range after {
		switch {
		case w.Code >= 300:
			t.Errorf("%+v", w)
		case w.Resource == "events":
			events++
		case w.Verb == "patch" && w.Resource == "pods/status":
			patches[w.Name]++
			checkPatch(t, w)
		default:
			t.Errorf("%+v", w)
		}
	}
	for name, n := range patches {
		if n != 2 {
			t.Errorf("%d patches of %s for two transitions", n, name)
		}
	}
	t.Logf("%d transitions of %d pods: %d patches of pods/status, %d writes of events", 2*changing, changing, len(after)-events, events)
	if len(patches) != changing || events != 2*changing {
		t.Errorf("patches of %d pods and %d events, want %d and %d", len(patches), events, changing, 2*changing)
	}
}

// checkPatch checks that a patch has the two conditions that change together, and nothing else.
func checkPatch(t *testing.T, w bed.Write) {
	t.Helper()
	var body struct {
		Metadata struct{ UID string }
		Status   struct {
			Conditions []struct {
				Type, Status, Reason, Message, LastTransitionTime string
				ObservedGeneration                                int64
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(w.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		t.Errorf("%v in %s", err, w.Body)
	}
	types := make(map[string]bool)
	for _, c := range body.Status.Conditions {
		types[c.Type] = true
		if c.ObservedGeneration < 1 {
			t.Errorf("observedGeneration %d in %s", c.ObservedGeneration, w.Body)
		}
	}
	if len(types) != 2 || !types[gate] || !types["prober.dev/readiness.app"] || body.Metadata.UID == "" {
		t.Errorf("%s", w.Body)
	}
}
