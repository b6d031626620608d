//go:build linux

// Package surface tests the interfaces of a node's agent: its API through the client, its notifications and
// its history. The node has no kubelet: the tests write the statuses of pods.
package surface

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// app is an HTTP server in place of the app of the pods. The pods have the address of the node, because the
// agent refuses loopback addresses.
type app struct {
	sick atomic.Bool
	port int
}

func startApp(t *testing.T) *app {
	t.Helper()
	a := new(app)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if a.sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	var err error
	_ = s.Listener.Close()
	if s.Listener, err = net.Listen("tcp", bed.NodeIP+":0"); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	a.port = s.Listener.Addr().(*net.TCPAddr).Port
	return a
}

// run writes the status of a running pod, as a kubelet does. number is part of the container ID.
func run(t *testing.T, c *bed.Cluster, pod *corev1.Pod, number string) {
	t.Helper()
	now := metav1.Now()
	pod, err := c.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.PodIP, pod.Status.PodIPs = bed.NodeIP, []corev1.PodIP{{IP: bed.NodeIP}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Image: "app", ImageID: "app", ContainerID: "containerd://" + pod.Namespace + "-" + pod.Name + number, Ready: true, Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}}
	if _, err := c.Client.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// prober runs the prober command as a client of an agent, and returns its output and exit code.
func prober(t *testing.T, agent *bed.Agent, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bed.Dir+"/prober", append(args, "--server", agent.Client.Name())...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// receiver is a webhook that records the requests it gets.
type receiver struct {
	mu     sync.Mutex
	bodies []string
	file   string // contains its URL
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := new(receiver)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies = append(r.bodies, body.String())
	}))
	t.Cleanup(s.Close)
	r.file = filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(r.file, []byte(s.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// received returns the bodies of all requests.
func (r *receiver) received() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.bodies, "\n")
}

// startAgent starts an agent with a history, and with notifications for the pods web* of the namespace.
func startAgent(t *testing.T, c *bed.Cluster, ns string, hook *receiver) *bed.Agent {
	t.Helper()
	return c.StartAgent(t, bed.AgentConfig{Namespace: ns, Node: c.FakeNode(t, bed.NodeName), Config: bed.AgentYAML + `
notify:
  receivers:
  - name: hook
    webhook: {format: json, urlFile: "` + hook.file + `"}
    match: [{namespace: "` + ns + `*", pod: "web*"}]
    groupWait: 0s
`, Flags: []string{"--state-dir=" + t.TempDir()}})
}

// probed returns a pod with probes and the readiness gate.
func probed(name, probes string) *corev1.Pod {
	pod := bed.Pod(name, nil)
	pod.Annotations = map[string]string{"prober.dev/probes": probes}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	return pod
}

const gate = "prober.dev/ready"

// TestClientOfNodeAgent queries an agent about a sick pod, and about two pods with invalid annotations.
func TestClientOfNodeAgent(t *testing.T) {
	c := bed.Up(t, bed.API)
	ns := c.Namespace(t)
	hook, web := startReceiver(t), startApp(t)
	agent := startAgent(t, c, ns, hook)
	pod := c.Create(t, ns, probed("web", fmt.Sprintf(`app: {readiness: {httpGet: {port: %d}, period: 100ms}, liveness: {tcpSocket: {port: %[1]d}}}`, web.port)))
	c.Create(t, ns, probed("typo", `app: {readiness: {plugin: {name: redsi}}}`))
	c.Create(t, ns, probed("far", `app: {readiness: {tcpSocket: {host: 192.0.2.1, port: 80}}}`))
	run(t, c, pod, "1")
	c.AwaitPod(t, ns, "web", "ready", bed.HasCondition(gate, corev1.ConditionTrue))
	web.sick.Store(true)
	c.AwaitPod(t, ns, "web", "not ready", bed.HasCondition(gate, corev1.ConditionFalse))
	bed.Await(t, "a notification", func() bool { return strings.Contains(hook.received(), `"status":"failing"`) })

	refused := "kubernetes.targets of the agent does not allow it"
	for _, ask := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"get", "pods", "-n", ns, "-o", "wide"}, 0, []string{"web", "0/1", "Running", bed.NodeIP, "typo", "far"}},
		{[]string{"get", "probes", "-o", "wide"}, 0, []string{"readiness", "liveness", "HTTP probe failed with statuscode: 503"}},
		{[]string{"get", "probes", "-n", ns, "--result", "failure", "-o", "json"}, 0, []string{`"pod": "web"`, `"state": "failure"`}},
		{[]string{"get", "events"}, 0, []string{"ProbeInvalid", "redsi", refused, "Unhealthy"}},
		{[]string{"describe", ns + "/web/app", "readiness"}, 0, []string{"statuscode: 503"}},
		{[]string{"explain", ns + "/web/app", "readiness"}, 0, []string{"statuscode: 503", "reload: applied in part at ", "redsi"}},
		{[]string{"explain", ns + "/typo/app", "readiness"}, 1, []string{"no probe of typo/app readiness", `unknown handler "redsi"`}},
		{[]string{"explain", ns + "/far/app", "readiness"}, 1, []string{"no probe of far/app readiness", refused}},
		{[]string{"describe", ns + "/far/app", "readiness"}, 1, []string{"no probe of far/app readiness", refused}},
		{[]string{"status"}, 1, []string{ns + "/web/app readiness fails"}},
		{[]string{"get", "targets"}, 0, []string{"no targets found"}},
		{[]string{"reload"}, 1, []string{ns + "/typo", "redsi"}},
	} {
		out, code := prober(t, agent, ask.args...)
		for _, want := range ask.want {
			if code != ask.code || !strings.Contains(out, want) {
				t.Errorf("prober %s: exit code %d, want %d and %q:\n%s", strings.Join(ask.args, " "), code, ask.code, want, out)
			}
		}
		if strings.Contains(out, "manifest") || strings.Contains(out, "restarted") {
			t.Errorf("prober %s: the output has terms of prober run:\n%s", strings.Join(ask.args, " "), out)
		}
	}
	for _, name := range []string{"typo", "far"} {
		if err := c.Client.CoreV1().Pods(ns).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
			t.Fatal(err)
		}
	}
	bed.Await(t, "the pods to be gone", func() bool {
		out, _ := prober(t, agent, "get", "pods")
		return !strings.Contains(out, "typo") && !strings.Contains(out, "far")
	})
	if out, code := prober(t, agent, "reload"); code != 0 {
		t.Errorf("reload: exit code %d: %s", code, out)
	}
}

// TestHistoryAndNotificationsOfNodeAgent restarts an agent while a pod is sick, and then deletes the pod.
func TestHistoryAndNotificationsOfNodeAgent(t *testing.T) {
	c := bed.Up(t, bed.API)
	ns := c.Namespace(t)
	hook, web := startReceiver(t), startApp(t)
	agent := startAgent(t, c, ns, hook)
	probes := fmt.Sprintf(`app: {readiness: {httpGet: {port: %d}, period: 100ms}}`, web.port)
	for _, name := range []string{"web", "other"} {
		run(t, c, c.Create(t, ns, probed(name, probes)), "1")
		c.AwaitPod(t, ns, name, "ready", bed.HasCondition(gate, corev1.ConditionTrue))
	}
	web.sick.Store(true)
	for _, name := range []string{"web", "other"} {
		c.AwaitPod(t, ns, name, "not ready", bed.HasCondition(gate, corev1.ConditionFalse))
	}
	bed.Await(t, "a notification", func() bool { return strings.Contains(hook.received(), `"status":"failing"`) })
	agent.Stop(t)
	agent.Start(t)
	bed.Await(t, "the history from before the restart", func() bool {
		out, _ := prober(t, agent, "report", "-n", ns)
		return strings.Contains(out, "web") && strings.Contains(out, "other")
	})
	bed.Await(t, "the probes to fail again", func() bool {
		all := agent.Probes(t, ns, "web")
		return len(all) == 1 && all[0].State == "failure"
	})
	if err := c.Client.CoreV1().Pods(ns).Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, "a notification about the end of the pod", func() bool { return strings.Contains(hook.received(), `"removed":1`) })
	if len(agent.Probes(t, ns, "web")) != 0 || len(agent.Probes(t, ns, "other")) != 1 {
		t.Error("the removed pod has probes, or the other has none")
	}
	if out, code := prober(t, agent, "report", "-n", ns); code != 0 || !strings.Contains(out, "web") {
		t.Errorf("report without the deleted pod: exit code %d:\n%s", code, out)
	}
	all := hook.received()
	if n := strings.Count(all, `"status":"failing","title"`); n != 1 || strings.Contains(all, `"pod":"other"`) {
		t.Errorf("%d notifications of the failure, want one, about web only:\n%s", n, all)
	}
}
