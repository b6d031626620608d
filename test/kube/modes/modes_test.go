//go:build linux

// Package modes tests the actions of prober node on pods: it gates rollouts, restarts containers, evicts
// pods, and does none of these where it must not.
//
// Read modes_test.go first: the tests share a node, and each of them runs one agent. Subtests that share an
// agent run in parallel, each in its own namespace. rig_test.go has helpers for pods.
package modes

import (
	"flag"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "6") // tests wait more than they compute
	bed.Main(m)
}

// rules are the permissions that an agent needs for all modes.
var rules = append([]rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods/eviction", "pods/exec"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get"}},
}, bed.AgentRules...)

// configHead is the beginning of prober.yaml. Tests append keys of kubernetes.
const configHead = `apiVersion: prober.dev/v1
kind: AgentConfig
kubernetes:
  liveness:
    modes: [observe, sidecar, restart, evict]
`

// closed keeps the breaker from opening, although the machine is busy and many probes fail.
const closed = `  breaker: {share: 1, least: 1000, lag: 1m, pressure: {cpu: 100, memory: 100, io: 100}}
`

// newRig starts an agent, and stops it at the end of the test.
func newRig(t *testing.T, config string, flags ...string) *rig {
	t.Helper()
	c := bed.Up(t, bed.Node)
	return &rig{Cluster: c, agent: c.StartAgent(t, bed.AgentConfig{Namespace: c.Namespace(t), Rules: rules, Config: configHead + config, Flags: flags})}
}

const criSocket = "--cri-socket=" + bed.CRISocket

// TestModes runs the subtests that need an agent with all modes.
func TestModes(t *testing.T) {
	r := newRig(t, closed+`
  budgets: {workload: {burst: 3, every: 1h}, node: {burst: 1000, every: 1s}, backoff: 1s}
  podNetwork: true
`, criSocket)
	r.parallel(t, map[string]func(*testing.T){
		"a plugin gates a rollout":                 r.rollout,
		"restart waits for the hook and SIGTERM":   r.restartPolite,
		"restart kills after the grace of a probe": r.restartStubborn,
		"sidecar": r.sidecar,
		"evict":   r.evict,
		"observe": r.observe,
		"restart refuses containers that would stay down": r.refuse,
		"a workload uses up its budget":                   r.budget,
		"startup":                                         r.startup,
		"startup of the kubelet":                          r.kubeletStartup,
		"network of the pod":                              r.network,
		"exec":                                            r.exec,
	})
}

// TestKillAndBreaker runs an agent with onFailure: kill, and a breaker that opens.
func TestKillAndBreaker(t *testing.T) {
	r := newRig(t, `    onFailure: kill
  budgets: {backoff: 1s}
  breaker: {lag: 1m, pressure: {cpu: 100, memory: 100, io: 100}}
`, criSocket)
	t.Run("containers that would complete are killed", r.kill)
	t.Run("a bad probe restarts no container", r.badProbe)
}

// TestDryRun runs an agent that only reports the actions that it would take.
func TestDryRun(t *testing.T) {
	newRig(t, closed+"  dryRun: true\n", criSocket).dryRun(t)
}

// TestWithoutRuntime runs an agent without the socket of the runtime.
func TestWithoutRuntime(t *testing.T) {
	r := newRig(t, closed+"  apiExec: true\n")
	r.parallel(t, map[string]func(*testing.T){"exec": r.exec, "restart is refused": r.noRuntime})
}
