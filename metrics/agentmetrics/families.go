package agentmetrics

import (
	"slices"

	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/internal/family"
)

// Families returns all metrics of prober in the order of docs/metrics.md.
func Families() []metrics.Family {
	of := metrics.Families()
	agent := slices.IndexFunc(of, func(f metrics.Family) bool { return f.Group == "Agent" })
	return slices.Concat(
		of[:agent], family.Group("Node", nodePods, nodePatches, nodePatchesPending, nodeActions, nodeWithheld, nodeBreakerOpen, nodeCommandsLeft),
		of[agent:], family.Group("Agent", linesDropped, saveFailures, connectionsClosed, historyBytes, historyErrors, historyDropped, otlpRequests, otlpSpansDropped, notificationsTotal, notificationsPending, notificationsOpen, notificationsDropped))
}

// The agent.
var (
	receiverLabel = metrics.Label{Name: "receiver", About: "its name in prober.yaml"}
	linesDropped  = family.New(metrics.Family{
		Name: "prober_log_lines_dropped_total", Type: metrics.Counter, Help: "Log lines that were dropped because the stream's reader is too slow or gone.",
		Labels: []metrics.Label{{Name: "stream", Values: []string{"stdout", "stderr"}}}, Alert: "It grows: logs are incomplete.",
	})
	saveFailures = family.New(metrics.Family{
		Name: "prober_state_save_failures_total", Type: metrics.Counter, Help: "Failed attempts to save the state of a pod. Each is retried.",
		Alert: "It grows: `--state-dir` is full or not writable, and a restart of the agent would lose results.",
	})
	connectionsClosed = family.New(metrics.Family{
		Name: "prober_http_connections_closed_total", Type: metrics.Counter, Help: "Connections over TCP that were closed or got status 503, because there were too many: 512, or 256 of one address. Connections that were closed because other clients waited, and theirs had the most requests under way, count too.",
		Alert: "It grows: a client opens connections and leaves them idle, or reads slowly; the log has its address.",
	})
	historyBytes = family.New(metrics.Family{
		Name: "prober_history_bytes", Type: metrics.Gauge, Unit: "bytes", Help: "What is in use of the history below `--state-dir`. It stays below `--history-budget`, and the file a sixteenth or 8 MiB above that.",
	})
	historyErrors = family.New(metrics.Family{
		Name: "prober_history_errors_total", Type: metrics.Counter, Help: "Failed attempts to read or write the history, and damage that was found in it.",
		Alert: "It grows: `/readyz?verbose` and the log say why. Probing goes on.",
	})
	historyDropped = family.New(metrics.Family{
		Name: "prober_history_dropped_total", Type: metrics.Counter, Help: "Changes and minutes that are not in the history, because the disk was full or too slow for long.",
		Alert: "It grows: reports about this time are incomplete.",
	})
	otlpRequests = family.New(metrics.Family{
		Name: "prober_otlp_requests_total", Type: metrics.Counter, Help: "Requests to the collector of `otlp` in prober.yaml, retries included.",
		Labels: []metrics.Label{{Name: "signal", Values: []string{"metrics", "traces"}}, {Name: "result", Values: []string{"ok", "error"}}},
		Alert:  "Errors grow: the collector is away or refuses requests; the log says why.",
	})
	otlpSpansDropped = family.New(metrics.Family{
		Name: "prober_otlp_spans_dropped_total", Type: metrics.Counter, Help: "Spans that were dropped because the collector was too slow, away, or refused them.",
	})
	notificationsTotal = family.New(metrics.Family{
		Name: "prober_notifications_total", Type: metrics.Counter, Help: "Messages to receivers of `notify` in prober.yaml, retries included.",
		Labels: []metrics.Label{receiverLabel, {Name: "result", Values: []string{"ok", "error", "refused"}}},
		Alert:  "Errors grow: the receiver is away. `refused` grows: its answer says that the configuration is wrong; `prober get notifications` shows it.",
	})
	notificationsPending = family.New(metrics.Family{
		Name: "prober_notifications_pending", Type: metrics.Gauge, Help: "Probes with a state that the receiver does not know yet.",
		Labels: []metrics.Label{receiverLabel}, Alert: "Above 0 for longer than `groupInterval` and `for`: the receiver is away.",
	})
	notificationsOpen = family.New(metrics.Family{
		Name: "prober_notifications_open", Type: metrics.Gauge, Help: "Probes that the receiver knows to be failing.", Labels: []metrics.Label{receiverLabel},
	})
	notificationsDropped = family.New(metrics.Family{
		Name: "prober_notifications_dropped_total", Type: metrics.Counter, Help: "Incidents that were over, and could not be told within `retention`.",
		Labels: []metrics.Label{receiverLabel}, Alert: "It grows: nobody was told of them.",
	})
)

// nodeModes are the modes in which something is done, and nodeReasons why it may be withheld.
var (
	nodeModes   = []string{"restart", "evict"}
	nodeReasons = []string{"budget", "breaker", "backoff", "on-failure", "dry-run", "gone", "blocked", "disruption", "unavailable"}
)

// The node.
var (
	nodePods = family.New(metrics.Family{
		Name: "prober_node_pods", Type: metrics.Gauge,
		Help:   "Pods of the node with the annotation `prober.dev/probes`. Of `invalid` ones some probe could not be started, and an event says why.",
		Labels: []metrics.Label{{Name: "state", Values: []string{"valid", "invalid"}}},
		Alert:  "`invalid` is above 0 for some minutes: a rollout has a wrong annotation.",
	})
	nodePatches = family.New(metrics.Family{
		Name: "prober_node_patches_total", Type: metrics.Counter,
		Help:   "Patches of the conditions of pods, by their result. `denied` ones are refused by RBAC or an admission policy, and not retried.",
		Labels: []metrics.Label{{Name: "result", Values: []string{"written", "failed", "denied"}}},
		Alert:  "`denied` grows: the permissions of the agent are not those of deploy/kubernetes. `written` grows by more than a few a minute for each pod: probes flap.",
	})
	nodePatchesPending = family.New(metrics.Family{
		Name: "prober_node_patches_pending", Type: metrics.Gauge, Help: "Pods whose conditions are not written yet.",
		Alert: "Above 0 for some minutes: the API server cannot be reached, and the conditions of pods are old.",
	})
	nodeActions = family.New(metrics.Family{
		Name: "prober_node_actions_total", Type: metrics.Counter,
		Help:   "Restarts and evictions after failures of liveness and startup probes, by their result.",
		Labels: []metrics.Label{{Name: "mode", Values: nodeModes}, {Name: "result", Values: []string{"done", "failed"}}},
		Alert:  "`done` grows by more than a few in an hour: containers hang, or their probes are too strict.",
	})
	nodeWithheld = family.New(metrics.Family{
		Name: "prober_node_actions_withheld_total", Type: metrics.Counter,
		Help:   "Restarts and evictions that were withheld, by the reason: `blocked` by a PodDisruptionBudget, `disruption` by another pod of the workload in the cluster, `unavailable` without a container runtime.",
		Labels: []metrics.Label{{Name: "reason", Values: nodeReasons}},
		Alert:  "`budget` grows: more containers fail than may be restarted.",
	})
	nodeBreakerOpen = family.New(metrics.Family{
		Name: "prober_node_breaker_open", Type: metrics.Gauge,
		Help:  "1 while the breaker is open for the node, a namespace or a workload: nothing of it is restarted or evicted.",
		Alert: "1 for some minutes: the node is overloaded or has lost its network, or most pods of a namespace or workload fail. The log says which.",
	})
	nodeCommandsLeft = family.New(metrics.Family{
		Name: "prober_node_commands_left", Type: metrics.Gauge,
		Help:  "Commands of exec probes that still run in their containers after their attempts have ended, at most eight a container. The container runtime ends each at its timeout, rounded up to seconds.",
		Alert: "Above 0 for some minutes: the commands of a probe hang, or its timeout is too short.",
	})
)
