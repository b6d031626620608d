//go:build linux

// Package modes tests what prober node does to pods: it gates rollouts, restarts containers, evicts pods, and
// leaves them alone where it must.
//
// Read modes_test.go first: the tests share a node, and each of them runs one agent. What does not depend on
// the agent's configuration runs at the same time, in a namespace for each. rig_test.go has what they need of pods.
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

// rules let an agent use all modes.
var rules = append([]rbacv1.PolicyRule{
	{APIGroups: []string{""}, Resources: []string{"pods/eviction", "pods/exec"}, Verbs: []string{"create"}},
	{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get"}},
}, bed.AgentRules...)

// prober.yaml, to which tests add keys of kubernetes.
const configHead = `apiVersion: prober.dev/v1
kind: AgentConfig
kubernetes:
  liveness:
    modes: [observe, sidecar, restart, evict]
`

// trusting is for agents whose breaker must not open, since the machine is busy and tests fail many probes.
const trusting = `  breaker: {share: 1, least: 1000, lag: 1m, pressure: {cpu: 100, memory: 100, io: 100}}
`

// newRig starts an agent, up to the end of the test.
func newRig(t *testing.T, config string, flags ...string) *rig {
	t.Helper()
	c := bed.Up(t, bed.Node)
	return &rig{Cluster: c, agent: c.StartAgent(t, bed.AgentConfig{Namespace: c.Namespace(t), Rules: rules, Config: configHead + config, Flags: flags})}
}

const criSocket = "--cri-socket=" + bed.CRISocket

// TestModes has an agent that may do everything.
func TestModes(t *testing.T) {
	r := newRig(t, trusting+`
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
		"restart refuses what would not come back": r.refuse,
		"a workload uses up its budget":            r.budget,
		"startup":                                  r.startup,
		"startup of the kubelet":                   r.kubeletStartup,
		"network of the pod":                       r.network,
		"exec":                                     r.exec,
	})
}

// TestKillAndBreaker has an agent that kills what would complete otherwise, and a breaker that opens.
func TestKillAndBreaker(t *testing.T) {
	r := newRig(t, `    onFailure: kill
  budgets: {backoff: 1s}
  breaker: {lag: 1m, pressure: {cpu: 100, memory: 100, io: 100}}
`, criSocket)
	t.Run("containers that would complete are killed", r.kill)
	t.Run("a bad probe restarts nobody", r.badProbe)
}

// TestDryRun has an agent that only tells what it would do.
func TestDryRun(t *testing.T) {
	newRig(t, trusting+"  dryRun: true\n", criSocket).dryRun(t)
}

// TestWithoutRuntime has an agent without the socket of the runtime.
func TestWithoutRuntime(t *testing.T) {
	r := newRig(t, trusting+"  apiExec: true\n")
	r.parallel(t, map[string]func(*testing.T){"exec": r.exec, "restart is refused": r.noRuntime})
}
