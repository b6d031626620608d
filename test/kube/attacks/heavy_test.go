//go:build linux

package attacks

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

const heavyNode = "node-heavy"

// bomb returns YAML that would be large if its aliases were expanded.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	return b.String() + "app: {readiness: {tcpSocket: {port: 7777}, command: *a12}}\n"
}

// heavy returns annotations that are large, deeply nested or costly. The API server accepts 256 KiB of
// annotations.
func heavy() map[string]string {
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "c%d: {readiness: {tcpSocket: {port: 7777}, period: 100ms}, liveness: {tcpSocket: {port: 7777}, period: 100ms}}\n", i)
	}
	return map[string]string{
		"aliases":   bomb(),
		"alias":     "app: &a {readiness: *a}",
		"deep":      `{"app": {"readiness": ` + strings.Repeat(`{"a":`, 40000) + `1` + strings.Repeat("}", 40000) + `}}`,
		"deep yaml": "app: " + strings.Repeat("[", 100000),
		"flow":      strings.Repeat("{a: ", 50000),
		"quarter":   `{"app": {"readiness": {"plugin": {"name": "` + strings.Repeat("x", 250_000) + `"}}}}`,
		"config":    `{"app": {"readiness": {"plugin": {"name": "expect", "config": {"queryResponse": [` + strings.TrimSuffix(strings.Repeat(`{"expect":"(a|b)*"},`, 11000), ",") + `]}}}}}`,
		"regexp":    `{"app": {"readiness": {"plugin": {"name": "expect", "config": {"queryResponse": [{"expect": "` + strings.Repeat("(a{1,1000}){1,1000}", 1000) + `"}]}}}}}`,
		"keys":      "{" + strings.TrimSuffix(strings.Repeat(`"\u001b[2J\u202e": {}, `, 1), ", ") + "}",
		"many":      many.String(),
		"timeout":   `{"app": {"readiness": {"tcpSocket": {"port": 7774}, "timeout": "1h", "period": "100ms", "failureThreshold": 2147483647, "successThreshold": 1}}}`,
		"delay":     `{"app": {"readiness": {"tcpSocket": {"port": 7777}, "initialDelay": "2562047h47m16s", "period": "2562047h47m16s"}}}`,
		"empty":     "", "null": "null", "list": "[]", "number": "1", "tab": "\t", "documents": "---\n---\n", "merge": "app: {<<: {readiness: {tcpSocket: {port: 7777}}}}",
		"tag": "app: !!binary aGVsbG8=", "nan": "app: {readiness: {tcpSocket: {port: .nan}}}", "bom": "\ufeffapp: {}",
	}
}

// TestHeavyAnnotations creates pods with costly annotations. The agent must keep probing the other pod of
// the node, use at most 512 MiB more memory, and write few, short events.
func TestHeavyAnnotations(t *testing.T) {
	y := newYard(t, heavyNode, "")
	serve(t, appIP+":7777", closeIt)
	serve(t, appIP+":7774", func(conn net.Conn) { t.Cleanup(func() { _ = conn.Close() }) }) // never answers
	y.awaitBenign(t, heavyNode)
	before := resident(t, y.agent.PID())
	n := 0
	for name, text := range heavy() {
		for range 3 {
			pod := bed.Pod(fmt.Sprint("a", n), nil)
			pod.Labels = map[string]string{"attack": strings.ReplaceAll(name, " ", "-")}
			pod.Spec.NodeName, pod.Annotations = heavyNode, map[string]string{"prober.dev/probes": text}
			pod, err := y.owner.CoreV1().Pods(y.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			y.status(t, pod, running(pod.Name, appIP))
			n++
		}
	}
	y.awaitTicks(t, "benign", 100)
	for name, events := range y.events(t) {
		if len(events) > 4 {
			t.Errorf("%s: %d events", name, len(events))
		}
		for _, e := range events {
			checkPlain(t, name, e.Message)
			if e.Reason == "ProbeInvalid" && !strings.HasPrefix(e.Message, "metadata.annotations[prober.dev/probes]") {
				t.Errorf("%s: the event does not name the annotation: %s", name, e.Message)
			}
		}
	}
	after := resident(t, y.agent.PID())
	t.Logf("%d pods, resident memory of the agent %d MB before, %d MB after", n, before>>20, after>>20)
	if after > before+512<<20 {
		t.Errorf("the agent has grown from %d to %d MB", before>>20, after>>20)
	}
	y.nothingReached(t)
}

// TestManyProbes creates a pod with 500 containers and 1000 probes with a period of 1 s.
func TestManyProbes(t *testing.T) {
	y := newYard(t, "node-many", "")
	serve(t, appIP+":7777", closeIt)
	y.awaitBenign(t, "node-many")
	pod := bed.Pod("a0", nil)
	pod.Spec.NodeName = "node-many"
	var probes strings.Builder
	var statuses []any
	for i := range 500 {
		name := fmt.Sprint("c", i)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "x"})
		fmt.Fprintf(&probes, "%s: {readiness: {tcpSocket: {port: 7777}, period: 1s}, liveness: {tcpSocket: {port: 7777}, period: 1s}}\n", name)
		statuses = append(statuses, map[string]any{
			"name": name, "image": "x", "imageID": "x", "containerID": "containerd://" + name, "started": true, "ready": true, "restartCount": 0,
			"state": map[string]any{"running": map[string]any{"startedAt": metav1.Now()}},
		})
	}
	pod.Annotations = map[string]string{"prober.dev/probes": probes.String(), "prober.dev/conditions": "true"}
	pod, err := y.owner.CoreV1().Pods(y.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := running("a0", appIP)
	status["containerStatuses"] = statuses
	y.status(t, pod, status)
	y.awaitTicks(t, "a0", 2000)
	y.awaitTicks(t, "benign", 20)
	if events := y.events(t)["a0"]; len(events) > 25 {
		t.Errorf("%d events", len(events))
	}
}

// resident returns the resident memory of a process in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(status))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
