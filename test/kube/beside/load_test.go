//go:build linux

package beside

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/test/kube/bed"
)

var (
	pods     = flag.Int("pods", maxPods, "number of pods of the load")
	measured = flag.Duration("measured", time.Minute, "how long each load is measured")
	profiles = flag.String("profiles", "", "folder for profiles of the agent")
)

// The annotations of the load: three probes in each pod, with a period of 1 s.
const (
	builtins = `app:
  readiness: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 5}
  liveness: {tcpSocket: {port: 8080}, periodSeconds: 1, timeoutSeconds: 5}
side:
  readiness: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 5}
`
	withPlugin = `app:
  readiness: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, timeoutSeconds: 5}
  liveness: {tcpSocket: {port: 8080}, periodSeconds: 1, timeoutSeconds: 5}
side:
  readiness: {plugin: {name: httpcheck, target: {port: 8080}, config: {url: /healthz}}, periodSeconds: 1, timeoutSeconds: 5}
`
)

// BenchmarkLoad measures the kubelet with pods that it does not probe, the agent with probes of the same
// pods, and the kubelet with probes of equal pods. It takes ten minutes: use -benchtime 1x.
func BenchmarkLoad(t *testing.B) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	m := &meter{cluster: c}

	createLoad(t, c, ns, false)
	rest := m.measure(t, "the kubelet, no probes", nil)
	agent := c.StartAgent(t, bed.AgentConfig{Namespace: ns, Flags: []string{"--pprof"}})
	m.measure(t, "prober node, built-in probes", agent)
	for n := range *pods {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"prober.dev/probes":%q}}}`, withPlugin)
		if _, err := c.Client.CoreV1().Pods(ns).Patch(t.Context(), fmt.Sprint("load-", n), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m.measure(t, "prober node, one of three probes is a plugin", agent)
	agent.Stop(t)
	if writes := c.Writes(t, "system:serviceaccount:"+ns+":prober", ns); len(writes) > 0 {
		kinds := make(map[string]int)
		for _, w := range writes {
			kinds[w.Verb+" "+w.Resource]++
		}
		fmt.Printf("all writes of the agent: %v, the last %v before its end\n", kinds, time.Since(writes[len(writes)-1].Received).Round(time.Second))
	}

	c.Kubectl(t, "-n", ns, "delete", "pods", "--all", "--timeout=5m")
	createLoad(t, c, ns, true)
	probed := m.measure(t, "the kubelet, with probes", nil)
	fmt.Printf("the kubelet's probes: %.3f cores in the kubelet\n", probed-rest)
}

// BenchmarkMemory prints the memory of an agent with probes of pods that do not change. With -profiles it also prints
// where the memory is; this loads more pages of the program. It takes two minutes: use -benchtime 1x.
func BenchmarkMemory(t *testing.B) {
	c := bed.Up(t, bed.Node)
	ns := c.Namespace(t)
	createLoad(t, c, ns, false)
	var flags []string
	if *profiles != "" {
		flags = []string{"--pprof"}
	}
	agent := c.StartAgent(t, bed.AgentConfig{Namespace: ns, Flags: flags})
	for _, after := range []time.Duration{5 * time.Second, 20 * time.Second, *measured} { // before and after footprint.Settle
		<-time.After(after)
		fmt.Printf("agent, %v later: %s\n", after, memory(t, agent.PID()))
		if *profiles != "" {
			fmt.Println(heap(t, agent))
		}
	}
	if *profiles != "" {
		fetchProfile(t, agent, "memory", time.Second)
	}
}

// heap returns the lines of the agent's runtime.MemStats that add up to its anonymous memory.
func heap(t testing.TB, agent *bed.Agent) string {
	t.Helper()
	resp, err := socketClient(agent).Get("http://localhost/debug/pprof/heap?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "# "), " = ")
		if slices.Contains([]string{"Sys", "HeapAlloc", "HeapInuse", "HeapIdle", "HeapReleased", "HeapObjects", "Stack", "MSpan", "MCache", "BuckHashSys", "GCSys", "OtherSys", "NextGC"}, name) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// createLoad creates the pods, and waits until they are ready. If kubelet is set, the kubelet probes them;
// otherwise the agent does.
func createLoad(t testing.TB, c *bed.Cluster, ns string, kubelet bool) {
	t.Helper()
	start := time.Now()
	for n := range *pods {
		pod := bed.Pod(fmt.Sprint("load-", n), nil)
		app := &pod.Spec.Containers[0]
		side := corev1.Container{Name: "side", Image: bed.AppImage, ImagePullPolicy: corev1.PullNever, Args: []string{"sleep", "24h"}}
		if kubelet {
			http := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}
			app.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, ProbeHandler: http}
			app.LivenessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
			side.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, ProbeHandler: http}
		} else {
			pod.Annotations = map[string]string{"prober.dev/probes": builtins}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, side)
		c.Create(t, ns, pod)
	}
	for n := range *pods {
		c.AwaitPod(t, ns, fmt.Sprint("load-", n), "ready", bed.HasCondition(corev1.ContainersReady, corev1.ConditionTrue))
	}
	fmt.Printf("%d pods were ready after %v\n", *pods, time.Since(start).Round(time.Second))
}

// meter measures processes.
type meter struct {
	cluster *bed.Cluster
}

// measure prints the processor time and memory of the processes while nothing changes. It returns the number
// of cores that the kubelet used.
func (m *meter) measure(t testing.TB, load string, agent *bed.Agent) (kubelet float64) {
	t.Helper()
	<-time.After(20 * time.Second) // until nothing changes
	names, pids := []string{"kubelet", "containerd", "kube-apiserver"}, []int{m.cluster.Kubelet.PID(), m.cluster.Containerd.PID(), m.cluster.APIServer.PID()}
	if agent != nil {
		names, pids = append(names, "agent"), append(pids, agent.PID())
	}
	probers := []*bed.Agent{nil} // nil is the kubelet
	if agent != nil {
		probers = append(probers, agent)
	}
	var counts []attempts
	for _, p := range probers {
		counts = append(counts, attemptsOf(t, p))
	}
	before := m.cores(t, pids)
	start := time.Now()
	if agent != nil && *profiles != "" {
		fetchProfile(t, agent, strings.ReplaceAll(load, " ", "-"), *measured-5*time.Second)
	}
	<-time.After(time.Until(start.Add(*measured)))
	after, seconds := m.cores(t, pids), time.Since(start).Seconds()
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %d pods, %.0f s:", load, *pods, seconds)
	for i, name := range names {
		cores := (after[i] - before[i]).Seconds() / seconds
		if name == "kubelet" {
			kubelet = cores
		}
		fmt.Fprintf(&text, "\n\t%-15s %.4f cores, %s", name, cores, memory(t, pids[i]))
	}
	for i, p := range probers {
		n := attemptsOf(t, p)
		fmt.Fprintf(&text, "\n\t%s: %.1f attempts a second, %.0f failed", []string{"kubelet", "agent"}[i], (n.all-counts[i].all)/seconds, n.failed-counts[i].failed)
	}
	fmt.Println(text.String()) // go test truncates the log of a benchmark
	return kubelet
}

// cores returns the processor time of processes since their start.
func (m *meter) cores(t testing.TB, pids []int) (all []time.Duration) {
	t.Helper()
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(data), ") ")
		f, sum := strings.Fields(text), 0
		for _, field := range f[11:13] { // utime and stime, in hundredths of a second
			n, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		all = append(all, time.Duration(sum)*10*time.Millisecond)
	}
	return all
}

// memory describes the resident memory of a process.
func memory(t testing.TB, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 3 && slices.Contains([]string{"Rss:", "Anonymous:"}, f[0]) {
			kb, _ := strconv.Atoi(f[1])
			parts = append(parts, fmt.Sprintf("%s %.1f MB", f[0], float64(kb)*1024/1e6))
		}
	}
	return strings.Join(parts, ", ")
}

// socketClient returns a client for the Unix socket of an agent.
func socketClient(agent *bed.Agent) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", agent.Socket)
	}}}
}

// attempts counts the attempts of an agent or of the kubelet.
type attempts struct{ all, failed float64 }

// attemptsOf returns the number of attempts of an agent since its start, or of the kubelet if agent is nil.
// Both have the same metric.
func attemptsOf(t testing.TB, agent *bed.Agent) (n attempts) {
	t.Helper()
	c, url := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}, "https://"+bed.NodeIP+":10250/metrics/probes"
	if agent != nil {
		c, url = socketClient(agent), "http://localhost/metrics"
	}
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) != 2 || !strings.HasPrefix(line, "prober_probe_total{") {
			continue
		}
		count, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		n.all += count
		if !strings.Contains(line, `result="successful"`) {
			n.failed += count
		}
	}
	return n
}

// fetchProfile writes profiles of the agent's processor time, memory and goroutines.
func fetchProfile(t testing.TB, agent *bed.Agent, name string, during time.Duration) {
	t.Helper()
	for kind, query := range map[string]string{"heap": "heap?gc=1", "allocs": "allocs", "goroutine": "goroutine", "cpu": fmt.Sprintf("profile?seconds=%.0f", during.Seconds())} {
		resp, err := socketClient(agent).Get("http://localhost/debug/pprof/" + query)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err == nil {
			err = os.WriteFile(filepath.Join(*profiles, name+"."+kind), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
