//go:build linux

package bed

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/client"
)

// AgentConfig configures an [Agent].
type AgentConfig struct {
	Namespace string              // namespace of its service account prober
	Rules     []rbacv1.PolicyRule // permissions of the service account; nil: AgentRules
	Node      *corev1.Node        // node of the agent and of its token; nil: the kubelet's
	Config    string              // prober.yaml; "": AgentYAML
	Flags     []string            // additional flags, such as --cri-socket
}

// AgentRules are the permissions that prober node needs without modes that restart or evict pods.
var AgentRules = []rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update", "patch", "delete"}},
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}},
}

// AgentYAML is a prober.yaml whose breaker does not open when the machine of the tests is busy. An open
// breaker keeps conditions from changing.
const AgentYAML = `apiVersion: prober.dev/v1
kind: AgentConfig
kubernetes:
  breaker: {lag: 1m, pressure: {cpu: 100, memory: 100, io: 100}}
`

// Agent is a prober node that runs outside of pods. Tests may stop, kill and start its process.
// [Cluster.RebootNode] does not end it.
type Agent struct {
	*Daemon
	Client     *client.Client // connects to Socket
	Kubeconfig string         // path
	Socket     string         // path
}

// StartAgent starts a prober node, and stops it at the end of the test. Each agent has its own paths and
// ports, but two agents of one node would both act on its pods.
func (c *Cluster) StartAgent(t testing.TB, cfg AgentConfig) *Agent {
	t.Helper()
	if cfg.Rules == nil {
		cfg.Rules = AgentRules
	}
	if cfg.Node == nil {
		node, err := c.Client.CoreV1().Nodes().Get(t.Context(), NodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Node = node
	}
	c.Allow(t, cfg.Namespace, "prober", cfg.Rules...)
	a := &Agent{Kubeconfig: c.Kubeconfig(t, c.ServiceAccount(t, cfg.Namespace, "prober", cfg.Node))}
	dir, err := os.MkdirTemp(Dir, "agent-") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	a.Socket = dir + "/socket"
	flags := []string{"node", "--node-name=" + cfg.Node.Name, "--kubeconfig=" + a.Kubeconfig, "--config=" + dir + "/prober.yaml", "--socket=" + dir + "/socket", "--listen=127.0.0.1:0"}
	if err := os.WriteFile(dir+"/prober.yaml", []byte(cmp.Or(cfg.Config, AgentYAML)), 0o600); err != nil {
		t.Fatal(err)
	}
	if a.Client, err = client.New(client.Config{Server: "unix:" + a.Socket}); err != nil {
		t.Fatal(err)
	}
	a.Daemon = &Daemon{name: filepath.Base(dir), path: prober(t), args: append(flags, cfg.Flags...)}
	a.ready = func(ctx context.Context) error {
		_, err := a.Client.Probes(ctx, client.Filter{})
		return err
	}
	t.Cleanup(func() {
		a.Stop(t)
		if t.Failed() {
			t.Logf("end of %s:\n%s", a.log(), a.tail())
		}
	})
	a.Start(t)
	return a
}

// Probes returns the probes of a pod as the agent reports them. It returns none while the agent does not
// know the pod, or does not run.
func (a *Agent) Probes(t testing.TB, namespace, pod string) []api.ProbeStatus {
	t.Helper()
	probes, err := a.Client.Probes(t.Context(), client.Filter{Namespace: namespace, Pod: pod})
	if err != nil {
		return nil
	}
	return probes
}

// build is the build of prober, which all tests share.
var build struct {
	once sync.Once
	err  error
}

// prober builds cmd/prober, and returns the path of the program.
func prober(t testing.TB) string {
	t.Helper()
	const file = Dir + "/prober"
	build.once.Do(func() { build.err = goBuild(file, "../../cmd/prober") })
	if build.err != nil {
		t.Fatal(build.err)
	}
	return file
}
