package metrics

import "github.com/prometheus/client_golang/prometheus"

// NodeCounts are the counts of the agent of a node of a cluster.
type NodeCounts struct {
	PatchesWritten, PatchesFailed, PatchesDenied uint64
	PatchesPending                               int               // pods whose conditions are not written yet
	Done, Failed                                 map[string]uint64 // actions by mode
	Withheld                                     map[string]uint64 // actions by reason
	BreakerOpen                                  bool
	Followed, Refused                            int // pods; Refused are among the followed ones
}

// RegisterNode registers the metrics of the agent of a node. counts is called at each scrape, and must
// not block.
func RegisterNode(r prometheus.Registerer, counts func() NodeCounts) error {
	return r.Register(nodeCollector(counts))
}

// nodeCollector collects the metrics of the agent of a node.
type nodeCollector func() NodeCounts

var _ prometheus.Collector = nodeCollector(nil)

// Describe implements [prometheus.Collector].
func (nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family{nodePatches, nodePatchesPending, nodeActions, nodeWithheld, nodeBreakerOpen, nodePods} {
		ch <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c nodeCollector) Collect(ch chan<- prometheus.Metric) {
	n := c()
	ch <- nodePatches.with(float64(n.PatchesWritten), "written")
	ch <- nodePatches.with(float64(n.PatchesFailed), "failed")
	ch <- nodePatches.with(float64(n.PatchesDenied), "denied")
	ch <- nodePatchesPending.with(float64(n.PatchesPending))
	for _, mode := range nodeModes {
		ch <- nodeActions.with(float64(n.Done[mode]), mode, "done")
		ch <- nodeActions.with(float64(n.Failed[mode]), mode, "failed")
	}
	for _, reason := range nodeReasons {
		ch <- nodeWithheld.with(float64(n.Withheld[reason]), reason)
	}
	open := 0.0
	if n.BreakerOpen {
		open = 1
	}
	ch <- nodeBreakerOpen.with(open)
	ch <- nodePods.with(float64(n.Followed-n.Refused), "valid")
	ch <- nodePods.with(float64(n.Refused), "invalid")
}

// nodeModes are the modes in which something is done, and nodeReasons why it may be withheld.
var (
	nodeModes   = []string{"restart", "evict"}
	nodeReasons = []string{"budget", "breaker", "backoff", "on-failure", "dry-run", "gone"}
)

// The agent of a node.
var (
	nodePatches = newFamily(Family{
		Name: "prober_node_patches_total", Type: Counter,
		Help:   "Patches of the conditions of pods, by their result. `denied` ones are refused by RBAC or an admission policy, and not retried.",
		Labels: []Label{{Name: "result", Values: []string{"written", "failed", "denied"}}},
		Alert:  "`denied` grows: the permissions of the agent are not those of deploy/kubernetes. `written` grows by more than a few a minute for each pod: probes flap.",
	})
	nodePatchesPending = newFamily(Family{
		Name: "prober_node_patches_pending", Type: Gauge, Help: "Pods whose conditions are not written yet.",
		Alert: "Above 0 for some minutes: the API server cannot be reached, and the conditions of pods are old.",
	})
	nodeActions = newFamily(Family{
		Name: "prober_node_actions_total", Type: Counter,
		Help:   "Restarts and evictions after failures of liveness and startup probes, by their result.",
		Labels: []Label{{Name: "mode", Values: nodeModes}, {Name: "result", Values: []string{"done", "failed"}}},
		Alert:  "`done` grows by more than a few in an hour: containers hang, or their probes are too strict.",
	})
	nodeWithheld = newFamily(Family{
		Name: "prober_node_actions_withheld_total", Type: Counter,
		Help:   "Restarts and evictions that a guard has withheld, by its reason.",
		Labels: []Label{{Name: "reason", Values: nodeReasons}},
		Alert:  "`budget` grows: more containers fail than may be restarted.",
	})
	nodeBreakerOpen = newFamily(Family{
		Name: "prober_node_breaker_open", Type: Gauge,
		Help:  "1 while the agent distrusts its own probes, and lets no condition become false.",
		Alert: "1 for some minutes: the node is overloaded, or has lost its network.",
	})
	nodePods = newFamily(Family{
		Name: "prober_node_pods", Type: Gauge,
		Help:   "Pods of the node with the annotation `prober.dev/probes`. Of `invalid` ones some probe could not be started, and an event says why.",
		Labels: []Label{{Name: "state", Values: []string{"valid", "invalid"}}},
		Alert:  "`invalid` is above 0 for some minutes: a rollout has a wrong annotation.",
	})
)
