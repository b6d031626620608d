//go:build linux

package modes

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/test/kube/bed"
)

// withOther adds the container other to a pod. It only sleeps.
func withOther(pod *corev1.Pod) *corev1.Pod {
	other := pod.Spec.Containers[0]
	other.Name, other.Args, other.Env = "other", []string{"sleep", "1h"}, nil
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	return pod
}

// fourProbes has four probes with different handlers. HOST is a placeholder.
const fourProbes = `
app:
  readiness: {httpGet: {HOST, path: /healthz, port: 8080}, period: 200ms, failureThreshold: 1}
  liveness: {tcpSocket: {HOST, port: 8080}, period: 200ms, failureThreshold: 1}
other:
  readiness: {grpc: {HOST, port: 9090}, period: 200ms, failureThreshold: 1}
  liveness: {plugin: {name: expect, target: {HOST, port: 6379}, config: {queryResponse: [{send: PING}, {expect: '^\+PONG'}]}}, period: 200ms, failureThreshold: 1}
`

// awaitProbes waits until each of the count probes of a pod has had five equal results in a row, and returns
// the probes.
func (r *rig) awaitProbes(t *testing.T, ns, pod string, count int) (all []api.ProbeStatus) {
	t.Helper()
	bed.Await(t, "probes of "+pod, func() bool {
		all = r.agent.Probes(t, ns, pod)
		for _, p := range all {
			if p.Run < 5 {
				return false
			}
		}
		return len(all) == count
	})
	return all
}

// network probes apps that listen on the loopback address, and apps whose packets from the node are dropped.
// Only probes in the network of the pod must succeed.
func (r *rig) network(t *testing.T) {
	ns := r.namespace(t)
	inPod := func(pod *corev1.Pod) *corev1.Pod { pod.Annotations["prober.dev/network"] = "pod"; return pod }
	// gRPC probes have no host.
	onLoopback := map[string]string{"ADDR": "127.0.0.1:8080", "RESP_ADDR": "127.0.0.1:6379"}
	inLoopback := maps.Clone(onLoopback)
	inLoopback["GRPC_ADDR"] = ":9090"
	onAll := map[string]string{"RESP_ADDR": ":6379", "GRPC_ADDR": ":9090"}
	loopback := strings.ReplaceAll(strings.Replace(fourProbes, "grpc: {HOST, ", "grpc: {", 1), "HOST", "host: 127.0.0.1")
	own := strings.ReplaceAll(fourProbes, "HOST, ", "")
	for _, pod := range []*corev1.Pod{
		inPod(probed("loopback-in", loopback, "observe", inLoopback)), probed("loopback-out", own, "observe", onLoopback),
		inPod(probed("dropped-in", own, "observe", onAll)), probed("dropped-out", own, "observe", onAll),
	} {
		r.Create(t, ns, withOther(pod))
	}
	check := func(pod, result string) {
		t.Helper()
		for _, p := range r.awaitProbes(t, ns, pod, 4) {
			if p.Result != result {
				t.Errorf("%s: %s probe of %s (%s): %s: %+v", pod, p.Kind, p.Container, p.Handler, p.Result, p.Last)
			}
		}
	}
	check("loopback-in", "success")
	check("loopback-out", "failure")
	check("dropped-in", "success")
	check("dropped-out", "success")
	for _, name := range []string{"dropped-in", "dropped-out"} {
		pod := r.AwaitPod(t, ns, name, "an address", func(pod *corev1.Pod) bool { return pod.Status.PodIP != "" })
		bed.Drop(t, "ip daddr "+pod.Status.PodIP)
	}
	bed.Await(t, "all probes from the node to fail", func() bool {
		for _, p := range r.agent.Probes(t, ns, "dropped-out") {
			if p.Result != "failure" {
				return false
			}
		}
		return true
	})
	check("dropped-out", "failure")
	check("dropped-in", "success")
}

// exec runs commands that exit with 0 and 3, one that times out, and a missing one, whose result is unknown.
func (r *rig) exec(t *testing.T) {
	ns := r.namespace(t)
	r.run(t, ns, withOther(probed("web", `
app:
  readiness: {exec: {command: [/app, check, "0"]}, period: 500ms, timeout: 20s, failureThreshold: 1}
  liveness: {exec: {command: [/app, check, "3"]}, period: 500ms, timeout: 20s, failureThreshold: 1}
other:
  readiness: {exec: {command: [/app, sleep, 1h]}, period: 500ms, timeout: 1s, failureThreshold: 1}
  liveness: {exec: {command: [/app-that-is-not-there]}, period: 500ms, timeout: 20s, failureThreshold: 1}
`, "observe", nil)))
	for _, want := range []struct{ container, kind, result, output, err string }{
		{"app", "readiness", "success", "check 0", ""},
		{"app", "liveness", "failure", "check 3", ""},
		{"other", "readiness", "failure", "timed out after 1s", ""},
		{"other", "liveness", "unknown", "", "/app-that-is-not-there"},
	} {
		var got api.TickStatus
		bed.Await(t, "the "+want.kind+" probe of "+want.container, func() bool {
			p := r.probe(t, ns, "web", want.container, want.kind)
			if p.Last != nil {
				got = *p.Last
			}
			// The agent lists containers once a second. A slow runtime may end commands late, so that further
			// ones are refused.
			return p.Last != nil && !strings.Contains(got.Error, "not known to the runtime yet") && !strings.Contains(got.Error, "still run in it")
		})
		if got.Result != want.result || !strings.Contains(got.Output, want.output) || !strings.Contains(got.Error, want.err) || (got.Error != "") != (want.err != "") {
			t.Errorf("%s of %s: %+v, want %+v", want.kind, want.container, got, want)
		}
	}
	pod := r.AwaitPod(t, ns, "web", "not live", bed.HasCondition(live, corev1.ConditionFalse))
	if c := condition(pod, live); c.Message != "app liveness: check 3" {
		t.Errorf("condition: %+v, want the message of only the command with exit code 3", c)
	}
}
