//go:build linux

package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// The addresses of the yard.
const (
	appIP    = "10.66.0.7" // the pods of the owner
	victimIP = "10.66.0.8" // a pod of somebody else
	dnsIP    = "10.96.0.10"
	agentAt  = "127.0.0.1:9876" // the agent's own listener
)

// forbidden are the addresses with listeners that count connections. For the ports of the kubelet, only the
// kernel counts.
var forbidden = []string{
	"127.0.0.1:8080", "[::1]:8080", "127.9.9.9:8080", bed.NodeIP + ":8080", "127.0.0.1:10250",
	"169.254.169.254:80", "169.254.169.254:8080", "[fd00:ec2::254]:80", "[fd00:ec2::254]:8080", "[fe80::77]:8080",
	victimIP + ":8080", dnsIP + ":53", dnsIP + ":8080", "10.96.0.1:8080",
}

// packets is the nft table that counts packets from processes of the node to forbidden addresses. Only
// attacks send packets there: etcd and the API server use other ports.
const packets = `table inet yard {
	counter forbidden {}
	chain output {
		type filter hook output priority 0;
		tcp flags & (syn | ack) == syn ip daddr 127.0.0.0/8 tcp dport { 80, 8080, 9876, 10250 } counter name forbidden
		tcp flags & (syn | ack) == syn ip6 daddr ::1 tcp dport { 80, 8080, 9876, 10250 } counter name forbidden
		tcp flags & (syn | ack) == syn ip daddr { 10.88.76.1, 10.96.0.1 } tcp dport { 80, 8080, 10250 } counter name forbidden
		tcp flags & (syn | ack) == syn ip daddr { 10.66.0.8, 10.96.0.10, 169.254.0.0/16 } counter name forbidden
		tcp flags & (syn | ack) == syn ip6 daddr { fd00:ec2::254, fe80::77 } counter name forbidden
		ip daddr { 10.66.0.8, 10.96.0.10, 169.254.0.0/16 } meta l4proto { udp, icmp } counter name forbidden
		ip6 daddr { fd00:ec2::254 } meta l4proto udp counter name forbidden
		ip daddr 127.0.0.0/8 udp dport { 53, 8080 } counter name forbidden
		ip daddr 127.0.0.0/8 icmp type echo-request counter name forbidden
	}
}
`

// hosts is /etc/hosts. Its names resolve to forbidden addresses, except app.test.
const hosts = "127.0.0.1 localhost loop.test\n169.254.169.254 metadata.google.internal meta.test\n" + victimIP + " victim.test\n" + appIP + " app.test\n"

// yard is a node with a running agent, and a namespace with an owner. Only newNode has a kubelet.
type yard struct {
	*bed.Cluster
	namespace string
	owner     kubernetes.Interface // may create and patch pods of the namespace
	agent     *bed.Agent
	accepted  atomic.Int64 // connections to forbidden addresses
}

// newYard starts an agent with a policy for a node without a kubelet. The tests write the statuses of pods.
func newYard(t *testing.T, node, policy string, flags ...string) *yard {
	t.Helper()
	y := &yard{Cluster: bed.Up(t, bed.API)}
	y.namespace = y.Namespace(t)
	y.network(t)
	y.owner = y.newOwner(t)
	y.agent = y.StartAgent(t, bed.AgentConfig{
		Namespace: y.Namespace(t), Node: y.FakeNode(t, node), Config: bed.AgentYAML + policy,
		Flags: append([]string{"--listen=" + agentAt}, flags...),
	})
	return y
}

var network struct {
	once sync.Once
	err  error
}

// network adds the addresses once for all tests, and starts listeners and counters for this test.
func (y *yard) network(t *testing.T) {
	t.Helper()
	network.once.Do(func() {
		for _, addr := range []string{appIP + "/32", victimIP + "/32", dnsIP + "/32", "10.96.0.1/32", "169.254.169.254/32", "fd00:ec2::254/128", "fe80::77/128"} {
			if out, err := exec.Command("ip", "address", "add", addr, "dev", "lo", "nodad").CombinedOutput(); err != nil {
				network.err = errors.Join(network.err, fmt.Errorf("%s: %w: %s", addr, err, out))
			}
		}
		file := bed.Dir + "/hosts"
		network.err = errors.Join(network.err, os.WriteFile(file, []byte(hosts), 0o644), syscall.Mount(file, "/etc/hosts", "", syscall.MS_BIND, ""))
	})
	if network.err != nil {
		t.Fatal(network.err)
	}
	for _, address := range forbidden {
		if address == "[fe80::77]:8080" {
			address = "[fe80::77%lo]:8080"
		}
		serve(t, address, func(conn net.Conn) {
			y.accepted.Add(1)
			_ = conn.Close()
		})
	}
	nft(t, packets, "-f", "-")
	t.Cleanup(func() { nft(t, "", "delete", "table", "inet", "yard") })
	if n := y.reached(t); n != 0 {
		t.Fatalf("%d packets before the test", n)
	}
	y.checkCounters(t)
}

// checkCounters fails the test if a connection to a forbidden address would not be counted.
func (y *yard) checkCounters(t *testing.T) {
	t.Helper()
	for _, address := range forbidden {
		before := y.reached(t)
		conn, err := net.Dial("tcp", strings.Replace(address, "fe80::77", "fe80::77%lo", 1))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, conn) // until the listener closes it
		_ = conn.Close()
		if n := y.reached(t) - before; n != 2 {
			t.Fatalf("a connection to %s counts %d, want 2: one by the listener and one packet", address, n)
		}
	}
	nft(t, "", "reset", "counters", "table", "inet", "yard")
	y.accepted.Store(0)
}

// serve calls do for each connection to an address, until the end of the test. do must close it.
func serve(t *testing.T, address string, do func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			do(conn)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
}

func nft(t *testing.T, input string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("nft", args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	if path, err := exec.LookPath("/usr/sbin/nft"); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("nft %q: %v", args, err)
	}
	return out
}

// reached returns the number of connections that forbidden listeners have accepted, plus the packets to
// forbidden addresses.
func (y *yard) reached(t *testing.T) int64 {
	t.Helper()
	var answer struct {
		NFTables []struct{ Counter struct{ Packets int64 } }
	}
	if err := json.Unmarshal(nft(t, "", "-j", "list", "counters", "table", "inet", "yard"), &answer); err != nil {
		t.Fatal(err)
	}
	n := y.accepted.Load()
	for _, o := range answer.NFTables {
		n += o.Counter.Packets
	}
	return n
}

// nothingReached fails the test if a forbidden address was contacted.
func (y *yard) nothingReached(t *testing.T) {
	t.Helper()
	if n := y.reached(t); n != 0 {
		t.Errorf("%d connections or packets to forbidden addresses, %d of them were accepted", n, y.accepted.Load())
	}
}

// newOwner returns a client that may only create and patch pods, in the namespace of y.
func (y *yard) newOwner(t *testing.T) kubernetes.Interface {
	t.Helper()
	rbac, meta := y.Client.RbacV1(), metav1.ObjectMeta{Name: "owner", Namespace: y.namespace}
	_, err := rbac.Roles(y.namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "patch"}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rbac.RoleBindings(y.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "owner"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: y.namespace, Name: "owner"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner, err := kubernetes.NewForConfig(y.ServiceAccount(t, y.namespace, "owner", nil))
	if err != nil {
		t.Fatal(err)
	}
	bed.Await(t, "the rights of the owner", func() bool {
		_, err := owner.CoreV1().Pods(y.namespace).Create(t.Context(), bed.Pod("try", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
	_, err = owner.CoreV1().Pods(y.namespace).Patch(t.Context(), "try", types.MergePatchType, []byte(`{"status":{}}`), metav1.PatchOptions{}, "status")
	if !apierrors.IsForbidden(err) {
		t.Fatalf("the owner may write statuses: %v", err)
	}
	return owner
}

// pod creates a pod as the owner, and writes the status that a kubelet would write.
func (y *yard) pod(t *testing.T, node, name string, annotations map[string]string) *corev1.Pod {
	t.Helper()
	pod := bed.Pod(name, nil)
	pod.Spec.NodeName, pod.Annotations = node, annotations
	pod, err := y.owner.CoreV1().Pods(y.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	y.status(t, pod, running(name, appIP))
	return pod
}

// running returns the status of a running pod with the container app.
func running(name string, ip string) map[string]any {
	now := metav1.Now()
	status := map[string]any{
		"phase": "Running", "podIP": nil, "podIPs": nil,
		"containerStatuses": []any{map[string]any{
			"name": "app", "image": "app", "imageID": "app", "containerID": "containerd://" + name, "started": true, "ready": true, "restartCount": 0,
			"state": map[string]any{"running": map[string]any{"startedAt": now}},
		}},
	}
	if ip != "" {
		status["podIP"], status["podIPs"] = ip, []any{map[string]any{"ip": ip}}
	}
	return status
}

// status writes the status of a pod, as an administrator.
func (y *yard) status(t *testing.T, pod *corev1.Pod, status map[string]any) {
	t.Helper()
	if err := y.writeStatus(t, pod, status); err != nil {
		t.Fatal(err)
	}
}

func (y *yard) writeStatus(t *testing.T, pod *corev1.Pod, status map[string]any) error {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	_, err = y.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// forge writes a status with an address. It returns false if the API server refuses the address.
func (y *yard) forge(t *testing.T, pod *corev1.Pod, ip string) bool {
	t.Helper()
	err := y.writeStatus(t, pod, running(pod.Name, ip))
	if err != nil && !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	return err == nil
}

// events returns the events of the namespace, by the name of the pod.
func (y *yard) events(t *testing.T) map[string][]corev1.Event {
	t.Helper()
	list, err := y.Client.CoreV1().Events(y.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]corev1.Event)
	for _, e := range list.Items {
		all[e.InvolvedObject.Name] = append(all[e.InvolvedObject.Name], e)
	}
	return all
}

// awaitBenign waits for 20 further attempts at the pod "benign", which it creates if there is none. By then
// the agent has handled earlier changes too.
func (y *yard) awaitBenign(t *testing.T, node string) {
	t.Helper()
	const name = "benign"
	if _, err := y.Client.CoreV1().Pods(y.namespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
		y.pod(t, node, name, map[string]string{"prober.dev/probes": `{"app": {"readiness": {"tcpSocket": {"port": 7777}, "period": "100ms"}}}`})
	}
	y.awaitTicks(t, name, 20)
}

// awaitTicks waits until the probes of a pod have had n further ticks.
func (y *yard) awaitTicks(t *testing.T, pod string, n uint64) {
	t.Helper()
	var first uint64
	known := false
	bed.Await(t, "attempts at the pod "+pod, func() bool {
		probes := y.agent.Probes(t, y.namespace, pod)
		if len(probes) == 0 {
			return false
		}
		ticks := y.ticks(t, pod)
		if !known {
			first, known = ticks, true
		}
		return ticks >= first+n
	})
}

// ticks returns how many ticks of a pod the metrics of the agent count.
func (y *yard) ticks(t *testing.T, pod string) uint64 {
	t.Helper()
	return tickCount(y.metrics(t), pod)
}

// tickCount returns how many ticks of a pod the text of metrics counts.
func tickCount(text, pod string) (n uint64) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "prober_probe_total{") && strings.Contains(line, `pod="`+pod+`"`) {
			var value float64
			_, _ = fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value)
			n += uint64(value)
		}
	}
	return n
}

// metrics returns the metrics of the agent over its Unix socket, because its TCP listener is forbidden.
func (y *yard) metrics(t *testing.T) string {
	t.Helper()
	socket := y.agent.Socket
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}, Timeout: 30 * time.Second}
	resp, err := client.Get("http://localhost/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
