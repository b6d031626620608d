package agentmetrics

import (
	"slices"

	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/metrics/internal/family"
)

// Families returns all metrics of prober in the order of docs/metrics.md.
func Families() []metrics.Family {
	families := metrics.Families()
	agent := slices.IndexFunc(families, func(f metrics.Family) bool { return f.Group == "Agent" })
	return slices.Concat(
		families[:agent], family.Group("Pushes and endpoints", pushReports, pushLastReport, pushStarted, endpointChecks),
		family.Group("Maintenance", maintenanceActive),
		family.Group("SLOs", sloObjective, sloGood, sloBad),
		family.Group("Node", nodePods, nodePatches, nodePatchesPending, nodeActions, nodeWithheld, nodeBreakerOpen, nodeCommandsLeft),
		families[agent:], family.Group("Agent", linesDropped, saveFailures, connectionsClosed, historyBytes, historyErrors, historyDropped, otlpRequests, otlpSpansDropped, notificationsTotal, notificationsPending, notificationsOpen, notificationsDropped))
}

// The agent.
var (
	receiverLabel = metrics.Label{Name: "receiver", About: "name of the receiver in prober.yaml"}
	linesDropped  = family.New(metrics.Family{
		Name: "prober_log_lines_dropped_total", Type: metrics.Counter, Help: "Log lines dropped because the stream's reader is too slow or gone.",
		Labels: []metrics.Label{{Name: "stream", Values: []string{"stdout", "stderr"}}}, Alert: "It grows: logs are incomplete.",
	})
	saveFailures = family.New(metrics.Family{
		Name: "prober_state_save_failures_total", Type: metrics.Counter, Help: "Failed attempts to save the state of a pod. Each is retried.",
		Alert: "It grows: `--state-dir` is full or not writable, and a restart of the agent would lose results.",
	})
	connectionsClosed = family.New(metrics.Family{
		Name: "prober_http_connections_closed_total", Type: metrics.Counter, Help: "TCP connections closed or answered with status 503, because there were too many: 512, or 256 from one address. Also connections of the client with most requests in flight, if others waited.",
		Alert: "It grows: a client opens connections and leaves them idle, or reads slowly; the log has its address.",
	})
	historyBytes = family.New(metrics.Family{
		Name: "prober_history_bytes", Type: metrics.Gauge, Unit: "bytes", Help: "Space in use in the history below `--state-dir`, within `--history-budget`. The file may be larger by a sixteenth or 8 MiB.",
	})
	historyErrors = family.New(metrics.Family{
		Name: "prober_history_errors_total", Type: metrics.Counter, Help: "Failed attempts to read or write the history, and corruption found in it.",
		Alert: "It grows: `/readyz?verbose` and the log say why. Probing goes on.",
	})
	historyDropped = family.New(metrics.Family{
		Name: "prober_history_dropped_total", Type: metrics.Counter, Help: "Changes and minutes missing in the history, because the disk was full or too slow for long.",
		Alert: "It grows: reports about this time are incomplete.",
	})
	otlpRequests = family.New(metrics.Family{
		Name: "prober_otlp_requests_total", Type: metrics.Counter, Help: "Requests to the collector of `otlp` in prober.yaml, retries included.",
		Labels: []metrics.Label{{Name: "signal", Values: []string{"metrics", "traces"}}, {Name: "result", Values: []string{"ok", "error"}}},
		Alert:  "Errors grow: the collector is unreachable or refuses requests; the log says why.",
	})
	otlpSpansDropped = family.New(metrics.Family{
		Name: "prober_otlp_spans_dropped_total", Type: metrics.Counter, Help: "Spans dropped because the collector was too slow or unreachable, or refused them.",
	})
	notificationsTotal = family.New(metrics.Family{
		Name: "prober_notifications_total", Type: metrics.Counter, Help: "Messages to receivers of `notify` in prober.yaml, retries included.",
		Labels: []metrics.Label{receiverLabel, {Name: "result", Values: []string{"ok", "error", "refused"}}},
		Alert:  "Errors grow: the receiver is unreachable. `refused` grows: its configuration is wrong; `prober get notifications` shows its answer.",
	})
	notificationsPending = family.New(metrics.Family{
		Name: "prober_notifications_pending", Type: metrics.Gauge, Help: "Probes with a state that was not sent to the receiver yet.",
		Labels: []metrics.Label{receiverLabel}, Alert: "Above 0 for longer than `groupInterval` and `for`: the receiver is unreachable.",
	})
	notificationsOpen = family.New(metrics.Family{
		Name: "prober_notifications_open", Type: metrics.Gauge, Help: "Probes that the receiver knows to be failing.", Labels: []metrics.Label{receiverLabel},
	})
	notificationsDropped = family.New(metrics.Family{
		Name: "prober_notifications_dropped_total", Type: metrics.Counter, Help: "Resolved incidents that could not be sent within `retention`.",
		Labels: []metrics.Label{receiverLabel}, Alert: "It grows: nobody was notified of them.",
	})
)

// pushResults are the results of reports to pushes, and checkStates the states of checks of endpoints.
var (
	pushResults = []string{"success", "warning", "failure", "unknown", "started"}
	checkStates = []string{"success", "warning", "failure", "unknown"}
)

// The pushes and endpoints of prober.yaml.
var (
	pushLabel   = metrics.Label{Name: "name", About: "name of the push in prober.yaml"}
	pushReports = family.New(metrics.Family{
		Name: "prober_push_reports_total", Type: metrics.Counter,
		Help:   "Reports to a push since the agent started, by result. `started` counts starts of runs.",
		Labels: []metrics.Label{pushLabel, {Name: "result", Values: pushResults}},
	})
	pushLastReport = family.New(metrics.Family{
		Name: "prober_push_last_report_timestamp_seconds", Type: metrics.Gauge, Unit: "seconds since the epoch",
		Help: "Time of the last report to a push, also before a restart of the agent; no series without a report. A push without a report in time has the state failure in `prober_probe_state`.", Labels: []metrics.Label{pushLabel},
	})
	pushStarted = family.New(metrics.Family{
		Name: "prober_push_started_timestamp_seconds", Type: metrics.Gauge, Unit: "seconds since the epoch",
		Help: "Start of the run of a push that is under way; no series without a run.", Labels: []metrics.Label{pushLabel},
		Alert: "Far in the past: a run hangs, or its end is not reported. With `maxRun` the push fails by itself.",
	})
	endpointChecks = family.New(metrics.Family{
		Name: "prober_endpoint_checks", Type: metrics.Gauge,
		Help:   "Checks of an endpoint of prober.yaml by state. Checks without a probe are unknown. `prober_probe_state` has the state of the endpoint.",
		Labels: []metrics.Label{{Name: "namespace", About: "namespace of the pod"}, {Name: "name", About: "name of the endpoint in prober.yaml"}, {Name: "state", Values: checkStates}},
		Alert:  "`state=\"failure\"` is above 0 while the endpoint succeeds: it has lost redundancy.",
	})
)

// nodeModes are the modes of node actions, and nodeReasons the reasons why an action is withheld.
var (
	nodeModes   = []string{"restart", "evict"}
	nodeReasons = []string{"budget", "breaker", "backoff", "on-failure", "dry-run", "gone", "blocked", "disruption", "unavailable"}
)

// The node.
var (
	nodePods = family.New(metrics.Family{
		Name: "prober_node_pods", Type: metrics.Gauge,
		Help:   "Pods of the node with the annotation `prober.dev/probes`. `invalid` ones ask for something that cannot be done; the event `ProbeInvalid` says what.",
		Labels: []metrics.Label{{Name: "state", Values: []string{"valid", "invalid"}}},
		Alert:  "`invalid` is above 0 for some minutes: an annotation is wrong, or asks for something that this agent lacks or refuses.",
	})
	nodePatches = family.New(metrics.Family{
		Name: "prober_node_patches_total", Type: metrics.Counter,
		Help:   "Patches of pod conditions, by result. `denied` ones are refused by RBAC or an admission policy, and not retried.",
		Labels: []metrics.Label{{Name: "result", Values: []string{"written", "failed", "denied"}}},
		Alert:  "`denied` grows: the permissions of the agent differ from deploy/kubernetes. `written` grows by more than a few a minute for each pod: probes flap.",
	})
	nodePatchesPending = family.New(metrics.Family{
		Name: "prober_node_patches_pending", Type: metrics.Gauge, Help: "Pods whose conditions are not written yet.",
		Alert: "Above 0 for some minutes: the API server cannot be reached, and conditions of pods are old.",
	})
	nodeActions = family.New(metrics.Family{
		Name: "prober_node_actions_total", Type: metrics.Counter,
		Help:   "Restarts and evictions after failures of liveness and startup probes, by result.",
		Labels: []metrics.Label{{Name: "mode", Values: nodeModes}, {Name: "result", Values: []string{"done", "failed"}}},
		Alert:  "`done` grows by more than a few in an hour: containers hang, or their probes are too strict.",
	})
	nodeWithheld = family.New(metrics.Family{
		Name: "prober_node_actions_withheld_total", Type: metrics.Counter,
		Help:   "Restarts and evictions withheld, by reason: `blocked` by a PodDisruptionBudget, `disruption` by another pod of the workload in the cluster, `unavailable` without a container runtime.",
		Labels: []metrics.Label{{Name: "reason", Values: nodeReasons}},
		Alert:  "`budget` grows: more containers fail than may be restarted.",
	})
	nodeBreakerOpen = family.New(metrics.Family{
		Name: "prober_node_breaker_open", Type: metrics.Gauge,
		Help:  "1 while the breaker is open for the node, a namespace or a workload: its pods are not restarted or evicted.",
		Alert: "1 for some minutes: the node is overloaded or has lost its network, or most pods of a namespace or workload fail; the log says which.",
	})
	nodeCommandsLeft = family.New(metrics.Family{
		Name: "prober_node_commands_left", Type: metrics.Gauge,
		Help:  "Commands of exec probes that still run after their attempts have ended, at most eight a container. The runtime ends each at its timeout, rounded up to seconds.",
		Alert: "Above 0 for some minutes: the commands of a probe hang, or its timeout is too short.",
	})
)

// maintenanceActive is the gauge of maintenance windows.
var maintenanceActive = family.New(metrics.Family{
	Name: "prober_maintenance", Type: metrics.Gauge,
	Help:   "Whether a maintenance window has begun and not ended.",
	Labels: []metrics.Label{{Name: "window", About: "name of the maintenance window"}},
})
