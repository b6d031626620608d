//go:build linux

package faults

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

const (
	gate   = corev1.PodConditionType("prober.dev/ready")
	period = 500 * time.Millisecond

	yes, no = corev1.ConditionTrue, corev1.ConditionFalse
)

// soon is how long the agent may take to write a condition after the API server is back. It is enough on a
// busy machine, and too short for a back-off of 30 s or more.
const soon = 15 * time.Second

const (
	httpProbe = "{httpGet: {path: /healthz, port: 8080}, period: 500ms, timeout: 2s, failureThreshold: 2}"
	execProbe = "{exec: {command: [/app, check]}, period: 1s, timeout: 5s, failureThreshold: 2}"
	loopProbe = "{httpGet: {host: 127.0.0.1, path: /healthz, port: 8080}, period: 500ms, timeout: 2s, failureThreshold: 2}"
)

// agentYAML allows the modes and networks that the pods request.
const agentYAML = bed.AgentYAML + `  liveness: {modes: [observe, restart]}
  podNetwork: true
`

// healthy are the pods that no test makes sick.
var healthy = []string{"well", "started", "exec", "inside", "quiet"}

// fleet is a node with an agent and pods.
type fleet struct {
	*bed.Cluster
	t     *testing.T
	ns    string
	agent *bed.Agent
	*recorder
	state string // folder of the node that is mounted in the pod "breaks"
}

// podWith returns a pod with a readiness gate, probes of the container app, and further annotations as pairs
// of key and value.
func podWith(name, probes string, environment map[string]string, annotations ...string) *corev1.Pod {
	pod := bed.Pod(name, environment)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: gate}}
	pod.Annotations = map[string]string{"prober.dev/probes": "app: {" + probes + "}"}
	for i := 0; i+1 < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	return pod
}

// newFleet starts the agent and the pods, and waits until each pod has its expected conditions.
func newFleet(t *testing.T) *fleet {
	f := &fleet{Cluster: bed.Up(t, bed.Node), t: t, state: filepath.Join(bed.Dir, "breaks")}
	f.ns = f.Namespace(t)
	f.recorder = record(t, f.Cluster, f.ns)
	f.agent = f.StartAgent(t, bed.AgentConfig{Namespace: f.ns, Config: agentYAML, Flags: []string{"--cri-socket=" + bed.CRISocket}})
	if err := os.MkdirAll(f.state, 0o755); err != nil {
		t.Fatal(err)
	}
	const readiness = "readiness: " + httpProbe
	breaks := podWith("breaks", readiness, map[string]string{"SICK_FILE": "/state/sick"})
	breaks.Spec.Volumes = []corev1.Volume{{Name: "state", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: f.state}}}}
	breaks.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "state", MountPath: "/state"}}
	for _, pod := range []*corev1.Pod{
		podWith("well", readiness+", liveness: "+httpProbe, nil, "prober.dev/conditions", "true"),
		podWith("started", "startup: "+httpProbe+", "+readiness+", liveness: "+httpProbe, nil),
		podWith("exec", "readiness: "+execProbe, nil),
		podWith("inside", "readiness: "+loopProbe, nil, "prober.dev/network", "pod"),
		podWith("quiet", readiness, nil),
		podWith("failing", readiness+", liveness: "+httpProbe, map[string]string{"SICK_AFTER": "1ns"}),
		podWith("turns", readiness, nil),
		podWith("recovers", readiness, nil),
		podWith("blinks", readiness, nil),
		podWith("restarted", readiness+", liveness: "+httpProbe, nil, "prober.dev/liveness", "restart"),
		podWith("deleted", readiness, nil),
		podWith("replaced", readiness, nil),
		breaks,
	} {
		f.Create(t, f.ns, pod)
	}
	for _, name := range append(slices.Clone(healthy), "turns", "recovers", "blinks", "restarted", "deleted", "replaced", "breaks") {
		f.AwaitPod(t, f.ns, name, "ready", bed.HasCondition(corev1.PodReady, yes))
	}
	f.awaitFailing()
	f.setApp("recovers", "sick")
	f.await("recovers", gate, no)
	f.await("restarted", "prober.dev/live", yes)
	return f
}

// awaitFailing waits until both conditions of the pod "failing" have the message of a sick app.
func (f *fleet) awaitFailing() {
	for _, kind := range []corev1.PodConditionType{gate, "prober.dev/live"} {
		f.AwaitPod(f.t, f.ns, "failing", "failing by "+string(kind), bed.HasMessage(kind, "statuscode: 503"))
	}
}

// withT returns f for a subtest.
func (f *fleet) withT(t *testing.T) *fleet {
	next := *f
	next.t = t
	return &next
}

// ask sends a GET request to the app of a pod, and returns the status code; 0 if it does not answer.
func (f *fleet) ask(pod, path string) int {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + f.pod(pod).Status.PodIP + ":8080/" + path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// setApp makes the app of a pod "sick" or "well".
func (f *fleet) setApp(pod, state string) {
	f.t.Helper()
	bed.Await(f.t, "the app of "+pod+" to answer", func() bool { return f.ask(pod, state) == http.StatusOK })
}

// await waits until a condition has a status in etcd.
func (f *fleet) await(pod string, kind corev1.PodConditionType, status corev1.ConditionStatus) {
	f.t.Helper()
	bed.Await(f.t, fmt.Sprintf("%s of %s to be %s", kind, pod, status), func() bool { return conditionOf(f.pod(pod), kind).Status == status })
}

// probe returns a probe of a pod as the agent reports it; the zero value if there is none.
func (f *fleet) probe(pod, kind string) api.ProbeStatus {
	f.t.Helper()
	for _, p := range f.agent.Probes(f.t, f.ns, pod) {
		if p.Kind == kind {
			return p
		}
	}
	return api.ProbeStatus{}
}

// awaitTicks waits until the agent has made an attempt of the readiness probe of each pod since a time.
func (f *fleet) awaitTicks(since time.Time, pods ...string) {
	f.t.Helper()
	for _, pod := range pods {
		bed.Await(f.t, "attempts of the readiness probe of "+pod, func() bool {
			p := f.probe(pod, "readiness")
			return p.Last != nil && p.Last.Attempts > 0 && p.Last.Time.After(since)
		})
	}
}

// wantUnchanged fails the test if Ready or a condition of prober has changed since mark, or if prober has
// written something about the pods.
func (f *fleet) wantUnchanged(mark time.Time, pods ...string) {
	f.t.Helper()
	for _, c := range f.changesSince(mark, pods...) {
		if c.Type == corev1.PodReady {
			f.t.Errorf("an unaffected pod has changed: %s", c)
		}
	}
	f.wantNoWrites(mark, pods...)
}

// wantNoWrites fails the test if prober has written conditions or events of pods since mark. It ignores
// Ready: while the API server is away the lease of the node expires, and the node controller may change
// Ready.
func (f *fleet) wantNoWrites(mark time.Time, pods ...string) {
	f.t.Helper()
	for _, c := range f.changesSince(mark, pods...) {
		if c.Type != corev1.PodReady {
			f.t.Errorf("prober has changed an unaffected pod: %s", c)
		}
	}
	for _, w := range f.writes(mark, pods...) {
		f.t.Errorf("prober has written an unaffected pod: %s %s of %s: %d", w.Verb, w.Resource, w.Name, w.Code)
	}
	if events := f.eventsSince(mark, pods...); len(events) > 0 {
		f.t.Errorf("events of unaffected pods: %v", events)
	}
}

// wantReasons fails the test unless prober's events about a pod since mark have exactly these reasons.
func (f *fleet) wantReasons(mark time.Time, pod string, want ...string) {
	f.t.Helper()
	got := f.reasons(mark, pod)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		f.t.Errorf("events of %s: %v, want %q", pod, f.eventsSince(mark, pod), want)
	}
}

// writes returns the writes of service accounts to pods since mark, from the audit log.
func (f *fleet) writes(mark time.Time, pods ...string) (some []bed.Write) {
	f.t.Helper()
	for _, w := range f.Writes(f.t, "", f.ns) {
		own := strings.HasPrefix(w.User, "system:serviceaccount:") && w.Received.After(mark)
		if own && strings.HasPrefix(w.Resource, "pods/") && (len(pods) == 0 || slices.Contains(pods, w.Name)) {
			some = append(some, w)
		}
	}
	return some
}

// memory returns the anonymous resident memory of the agent in KiB.
func (f *fleet) memory() (kib int) {
	f.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.agent.PID()))
	if err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	return kib
}

// pause waits for a time in which something must not happen.
func pause(d time.Duration) { time.Sleep(d) }
