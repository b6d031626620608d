package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/daeace23/prober/probe"
)

// Family is one metric: what a scrape shows of it, and what it is good for. docs/metrics.md
// is written from [Families].
type Family struct {
	Group   string // "Probes", "Plugins", "Targets", "Node" or "Agent"
	Name    string
	Type    Type
	Unit    string // "" is a number without a unit
	Help    string // one sentence
	Labels  []Label
	Buckets []float64 // of a histogram, in Unit
	Alert   string    // when to alert, and why; "" where no rule is known
}

// Type is a type of Prometheus metrics.
type Type string

// The types in use.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
)

// Label is one label of a family.
type Label struct {
	Name   string
	Values []string // all that there can be; nil if they are not known beforehand
	About  string   // of values that are not known beforehand
}

// Families returns all metrics of prober in the order of docs/metrics.md.
func Families() (all []Family) {
	for _, g := range groups {
		for _, f := range g.families {
			made := f.Family
			made.Group = g.name
			all = append(all, made)
		}
	}
	return all
}

// groups are all families. The Go and process collectors of client_golang are not among them.
var groups = []struct {
	name     string
	families []*family
}{
	{"Probes", []*family{
		probeState, probeFailures, probeGate, probePaused, podReady, probeTotal, probeDuration, outcomesTotal, attemptErrors, attemptsRetried, stateTransitions, scheduleLag, runsSkipped, workers, probesGated, inflight,
		handlerInflight, handlerLimit, attemptsDeferred, restarts,
	}},
	{"Plugins", []*family{
		pluginInfo, pluginTrust, pluginReload, sourceStale, pluginShadow, pluginInstances, pluginMemory, pluginCalls,
		pluginDenied, pluginLimits, pluginQuarantined, pluginMetric,
	}},
	{"Targets", []*family{targetInfo, targetCount, targetFailures, targetRefreshed}},
	{"Node", []*family{nodePods, nodePatches, nodePatchesPending, nodeActions, nodeWithheld, nodeBreakerOpen, nodeCommandsLeft}},
	{"Agent", []*family{reloadOK, reloadSuccess, reloadProgress, actionsTotal, linesDropped, saveFailures, connectionsClosed, historyBytes, historyErrors, historyDropped, otlpRequests, otlpSpansDropped, notificationsTotal, notificationsPending, notificationsOpen, notificationsDropped, buildInfo}},
}

// family is a [Family] with its descriptor.
type family struct {
	Family
	desc *prometheus.Desc
}

func newFamily(f Family) *family {
	return &family{f, prometheus.NewDesc(f.Name, f.Help, f.labelNames(), nil)}
}

func (f *Family) labelNames() (names []string) {
	for _, l := range f.Labels {
		names = append(names, l.Name)
	}
	return names
}

// with returns the current value of one series.
func (f *family) with(value float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if f.Type == Counter {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(f.desc, kind, value, labels...)
}

func (f *family) counterVec() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: f.Help}, f.labelNames())
}

func (f *family) gaugeVec() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.Name, Help: f.Help}, f.labelNames())
}

func (f *family) gauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: f.Name, Help: f.Help})
}

// Labels that several families have.
var (
	namespaceLabel = Label{Name: "namespace", About: "namespace of the pod"}
	podLabel       = Label{Name: "pod", About: "name of the pod"}
	containerLabel = Label{Name: "container", About: "name of the container"}
	typeLabel      = Label{Name: "probe_type", Values: []string{"Liveness", "Readiness", "Startup"}}
	kindLabel      = Label{Name: "kind", Values: []string{"liveness", "readiness", "startup"}}
	handlerLabel   = Label{Name: "handler", About: "name of a built-in handler, or of a plugin"}
	builtinLabel   = Label{Name: "handler", About: "name of a built-in handler"}
	pluginLabel    = Label{Name: "plugin", About: "name of the plugin"}
)

// The probes.
var (
	probeState = newFamily(Family{
		Name: "prober_probe_state", Type: Gauge,
		Help:   "1 for the state of a probe, 0 for success and failure if it is another one. Warning and unknown have a series only while they are 1.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel, {Name: "state", Values: []string{"success", "warning", "failure", "unknown"}}},
		Alert:  "`state=\"failure\"` is 1 for some minutes: the target is down, or the container does not run. A paused probe keeps its state: see `prober_probe_gate`.",
	})
	probeFailures = newFamily(Family{
		Name: "prober_probe_failures_total", Type: Counter,
		Help:   "Ticks of a probe that failed or ended in an error, by the reason. Reasons without one have no series.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel, {Name: "reason", Values: failureReasons}},
		Alert:  "It grows while `prober_probe_state` is a success: thresholds hide failures.",
	})
	probeGate = newFamily(Family{
		Name: "prober_probe_gate", Type: Gauge,
		Help:   "1 for what keeps the ticks of a probe from making attempts. Probes that make attempts have no series.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel, {Name: "gate", Values: gateWords()}},
		Alert:  "`gate=\"no_status\"` or `gate=\"no_container\"` for some minutes: nobody reports the state of what is probed.",
	})
	probePaused = newFamily(Family{
		Name: "prober_paused", Type: Gauge,
		Help:   "1 for each probe that is paused, also where something else keeps it from making attempts. Others have no series.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel},
		Alert:  "1 for a day: somebody has forgotten to resume a probe.",
	})
	podReady = newFamily(Family{
		Name: "prober_ready", Type: Gauge,
		Help:   "Whether a pod is ready, as its condition Ready says.",
		Labels: []Label{namespaceLabel, podLabel},
		Alert:  "0 for some minutes: a container of the pod is not ready, or does not run.",
	})
	probeTotal = newFamily(Family{
		Name: "prober_probe_total", Type: Counter,
		Help:   "Results of the probes of a container. A warning counts as successful; errors are not counted. The name and labels are the kubelet's.",
		Labels: []Label{typeLabel, {Name: "result", Values: resultWords[:]}, containerLabel, podLabel, namespaceLabel, {Name: "pod_uid", About: "UID of the pod"}},
		Alert:  "`result=\"failed\"` of a liveness probe grows: the container restarts soon, or has a target that is down.",
	})
	probeDuration = newFamily(Family{
		Name: "prober_probe_duration_seconds", Type: Histogram, Unit: "seconds",
		Help:   "Duration of a container's successful probes, including attempts that were retried. The name and labels are the kubelet's.",
		Labels: []Label{typeLabel, containerLabel, podLabel, namespaceLabel}, Buckets: seconds(durationBounds[:]),
	})
	outcomesTotal = newFamily(Family{
		Name: "prober_outcomes_total", Type: Counter,
		Help:   "Ticks by handler and by the result of their last attempt. An error counts as unknown.",
		Labels: []Label{handlerLabel, {Name: "result", Values: outcomeWords()}},
	})
	attemptErrors = newFamily(Family{
		Name: "prober_attempt_errors_total", Type: Counter,
		Help:   "Attempts that ended in an error, or in a failure with a reason. All attempts of a tick count under the reason of the last one.",
		Labels: []Label{handlerLabel, {Name: "reason", Values: reasonWords()}},
		Alert: "`reason=\"host_stall\"`, `host_resources` or `host_network` grows: the host of the agent is in trouble, not the targets. " +
			"`trap`, `memory`, `instantiate`, `protocol` or `guest` grows: the plugin is broken.",
	})
	attemptsRetried = newFamily(Family{
		Name: "prober_attempts_retried_total", Type: Counter,
		Help:   "Attempts that ended in an error, of ticks whose last attempt ended without one. They are not in prober_attempt_errors_total.",
		Labels: []Label{handlerLabel},
		Alert:  "It grows: a handler or the host fails now and then, and no result shows it.",
	})
	stateTransitions = newFamily(Family{
		Name: "prober_state_transitions_total", Type: Counter,
		Help:   "Changes of decided results.",
		Labels: []Label{kindLabel, {Name: "from", Values: decidedWords[:]}, {Name: "to", Values: decidedWords[:]}},
		Alert:  "A high rate: probes flap, and their thresholds are too low.",
	})
	scheduleLag = newFamily(Family{
		Name: "prober_schedule_lag_seconds", Type: Histogram, Unit: "seconds",
		Help: "Time from when a tick was due until it began.", Buckets: seconds(lagBounds[:]),
		Alert: "The 99th percentile is above a tenth of the shortest timeout: the host is too busy, and failures tell more about it than about the targets.",
	})
	runsSkipped = newFamily(Family{
		Name: "prober_runs_skipped_total", Type: Counter,
		Help:   "Due ticks that did not run.",
		Labels: []Label{{Name: "reason", Values: skipWords()}},
		Alert:  "`busy` grows: a probe takes longer than its period. `no_slot` grows: a plugin needs more `instances` or memory, or a handler a higher `maxInFlight`.",
	})
	workers     = newFamily(Family{Name: "prober_workers", Type: Gauge, Help: "Probes that have a worker."})
	probesGated = newFamily(Family{
		Name: "prober_probes_gated", Type: Gauge, Help: "Probes whose ticks make no attempts, by what keeps them from it.",
		Labels: []Label{kindLabel, {Name: "gate", Values: gateWords()}},
		Alert: "`no_status` or `no_container` is above 0 for some minutes: nobody reports the state of what is probed. " +
			"`paused` is above 0 for a day: somebody has forgotten to resume a probe.",
	})
	inflight        = newFamily(Family{Name: "prober_inflight", Type: Gauge, Help: "Attempts in progress."})
	handlerInflight = newFamily(Family{
		Name: "prober_handler_inflight", Type: Gauge,
		Help:   "Attempts in progress of a built-in handler, without those that wait for a slot.",
		Labels: []Label{builtinLabel},
	})
	handlerLimit = newFamily(Family{
		Name: "prober_handler_inflight_limit", Type: Gauge,
		Help:   "The most attempts that a built-in handler may have in progress: `maxInFlight` of prober.yaml. Only handlers with a limit have a series.",
		Labels: []Label{builtinLabel},
	})
	attemptsDeferred = newFamily(Family{
		Name: "prober_attempts_deferred_total", Type: Counter,
		Help:   "Attempts that waited for a slot, since their built-in handler had `maxInFlight` attempts in progress.",
		Labels: []Label{builtinLabel},
		Alert:  "It grows with `prober_runs_skipped_total{reason=\"no_slot\"}`: `maxInFlight` is too low, or targets hang.",
	})
	restarts = newFamily(Family{
		Name: "prober_restarts_total", Type: Counter,
		Help:   "Restarts of containers, by their cause.",
		Labels: []Label{{Name: "kind", Values: []string{"liveness", "startup", "exit"}}, namespaceLabel, podLabel, containerLabel},
		Alert:  "More than a few in an hour: the container crashes, or its probe is too strict.",
	})
)

// The plugins.
var (
	pluginInfo = newFamily(Family{
		Name: "prober_plugin_info", Type: Gauge, Help: "1 for each loaded plugin.",
		Labels: []Label{
			{Name: "name", About: "name of the plugin"}, {Name: "version", About: "version in its manifest"},
			{Name: "digest", About: "SHA-256 of the module or program"}, {Name: "runtime", Values: []string{"wasm", "process", "nagios"}},
		},
	})
	pluginTrust = newFamily(Family{
		Name: "prober_plugin_trust_info", Type: Gauge, Help: "1 for each loaded plugin, by what vouches for it.",
		Labels: []Label{pluginLabel, {Name: "trust", Values: []string{"signed", "unsigned", "unchecked", "dev"}}},
		Alert:  "`trust=\"dev\"` in production: a plugin runs that `--plugin-dev` let past all checks.",
	})
	pluginReload = newFamily(Family{
		Name: "prober_plugin_last_reload_successful", Type: Gauge,
		Help:   "Whether the newest version of a plugin is in use. With 0 an older version goes on, if there is one.",
		Labels: []Label{pluginLabel}, Alert: "0 for some minutes: `GET /api/v1/plugins` says why.",
	})
	sourceStale = newFamily(Family{
		Name: "prober_plugin_source_stale", Type: Gauge,
		Help:   "Whether the last good version of a plugin stands in for what its registry has, because that cannot be fetched or is not accepted.",
		Labels: []Label{pluginLabel}, Alert: "1 for an hour: the registry is away, or a new version is not vouched for.",
	})
	pluginShadow = newFamily(Family{
		Name: "prober_plugin_shadow_total", Type: Counter,
		Help:   "Ticks of a plugin with a shadow version, by whether both gave the same result.",
		Labels: []Label{pluginLabel, {Name: "agreement", Values: []string{"agree", "disagree", "error", "skipped"}}},
		Alert:  "`disagree` or `error` grows: do not promote the shadow.",
	})
	pluginInstances = newFamily(Family{
		Name: "prober_plugin_instances", Type: Gauge, Help: "Instances of a plugin.",
		Labels: []Label{pluginLabel, {Name: "state", Values: []string{"idle", "busy"}}},
	})
	pluginMemory = newFamily(Family{
		Name: "prober_plugin_memory_bytes", Type: Gauge, Unit: "bytes", Help: "Memory of the instances of all plugins, including snapshots.",
		Alert: "Close to `totalMemory` of prober.yaml: ticks will be skipped with `no_slot`.",
	})
	pluginCalls = newFamily(Family{
		Name: "prober_plugin_call_seconds", Type: Histogram, Unit: "seconds", Help: "Duration of the attempts of a plugin's probes.",
		Labels: []Label{pluginLabel}, Buckets: callBuckets,
	})
	pluginDenied = newFamily(Family{
		Name: "prober_plugin_denied_total", Type: Counter, Help: "Requests of a plugin that its grants do not allow.",
		Labels: []Label{pluginLabel, {Name: "capability", Values: []string{"net"}}},
		Alert:  "It grows: a grant is missing, or a plugin tries what it must not do.",
	})
	pluginLimits = newFamily(Family{
		Name: "prober_plugin_limit_hits_total", Type: Counter,
		Help:   "Runs in which a plugin reached a limit. For `calls` and `idle`: instances that were renewed.",
		Labels: []Label{pluginLabel, {Name: "limit", About: "a limit, as `prober plugin inspect` names it"}},
		Alert:  "`memory`, `totalMemory` or `instances` grows: raise the limit, or find what the plugin uses it for.",
	})
	pluginQuarantined = newFamily(Family{
		Name: "prober_plugin_quarantined_probes", Type: Gauge,
		Help:   "Probes of a plugin that pause because several ticks in a row ended in errors.",
		Labels: []Label{pluginLabel}, Alert: "Above 0 for some minutes: `last.error` in `GET /api/v1/probes` says why.",
	})
	pluginMetric = newFamily(Family{
		Name: "prober_plugin_metric", Type: Gauge,
		Help: "A number that a plugin measured in its last attempt. The plugin may add labels.",
		Labels: []Label{
			pluginLabel, {Name: "metric", About: "its name, chosen by the plugin"}, {Name: "unit", About: "its unit, chosen by the plugin; may be empty"},
			kindLabel, containerLabel, podLabel, namespaceLabel,
		},
	})
)

// The agent.
var (
	reloadOK = newFamily(Family{
		Name: "prober_config_last_reload_successful", Type: Gauge, Help: "Whether the last reload of files succeeded.",
		Alert: "0 for some minutes: a manifest or prober.yaml is wrong, and the last good one is in use.",
	})
	reloadSuccess = newFamily(Family{
		Name: "prober_config_last_reload_success_timestamp_seconds", Type: Gauge, Unit: "seconds since the epoch",
		Help: "Time of the last successful reload of files.",
	})
	reloadProgress = newFamily(Family{
		Name: "prober_config_reload_in_progress_seconds", Type: Gauge, Unit: "seconds",
		Help: "Duration so far of the reload in progress; 0 without one.", Alert: "Above 60: a plugin compiles slowly, or hangs.",
	})
	actionsTotal = newFamily(Family{
		Name: "prober_actions_total", Type: Counter, Help: "Actions that users asked the agent for.",
		Labels: []Label{{Name: "action", Values: Actions}, {Name: "result", Values: ActionResults}},
		Alert:  "`result=\"denied\"` grows: somebody tries actions without the token.",
	})
	linesDropped = newFamily(Family{
		Name: "prober_log_lines_dropped_total", Type: Counter, Help: "Log lines that were dropped because the stream's reader is too slow or gone.",
		Labels: []Label{{Name: "stream", Values: []string{"stdout", "stderr"}}}, Alert: "It grows: logs are incomplete.",
	})
	saveFailures = newFamily(Family{
		Name: "prober_state_save_failures_total", Type: Counter, Help: "Failed attempts to save the state of a pod. Each is retried.",
		Alert: "It grows: `--state-dir` is full or not writable, and a restart of the agent would lose results.",
	})
	connectionsClosed = newFamily(Family{
		Name: "prober_http_connections_closed_total", Type: Counter, Help: "Connections over TCP that were closed or got status 503, because there were too many: 512, or 256 of one address. Connections that were closed because other clients waited, and theirs had the most requests under way, count too.",
		Alert: "It grows: a client opens connections and leaves them idle, or reads slowly; the log has its address.",
	})
	historyBytes = newFamily(Family{
		Name: "prober_history_bytes", Type: Gauge, Unit: "bytes", Help: "What is in use of the history below `--state-dir`. It stays below `--history-budget`, and the file a sixteenth or 8 MiB above that.",
	})
	historyErrors = newFamily(Family{
		Name: "prober_history_errors_total", Type: Counter, Help: "Failed attempts to read or write the history, and damage that was found in it.",
		Alert: "It grows: `/readyz?verbose` and the log say why. Probing goes on.",
	})
	historyDropped = newFamily(Family{
		Name: "prober_history_dropped_total", Type: Counter, Help: "Changes and minutes that are not in the history, because the disk was full or too slow for long.",
		Alert: "It grows: reports about this time are incomplete.",
	})
	otlpRequests = newFamily(Family{
		Name: "prober_otlp_requests_total", Type: Counter, Help: "Requests to the collector of `otlp` in prober.yaml, retries included.",
		Labels: []Label{{Name: "signal", Values: []string{"metrics", "traces"}}, {Name: "result", Values: []string{"ok", "error"}}},
		Alert:  "Errors grow: the collector is away or refuses requests; the log says why.",
	})
	otlpSpansDropped = newFamily(Family{
		Name: "prober_otlp_spans_dropped_total", Type: Counter, Help: "Spans that were dropped because the collector was too slow, away, or refused them.",
	})
	receiverLabel      = Label{Name: "receiver", About: "its name in prober.yaml"}
	notificationsTotal = newFamily(Family{
		Name: "prober_notifications_total", Type: Counter, Help: "Messages to receivers of `notify` in prober.yaml, retries included.",
		Labels: []Label{receiverLabel, {Name: "result", Values: []string{"ok", "error", "refused"}}},
		Alert:  "Errors grow: the receiver is away. `refused` grows: its answer says that the configuration is wrong; `prober get notifications` shows it.",
	})
	notificationsPending = newFamily(Family{
		Name: "prober_notifications_pending", Type: Gauge, Help: "Probes with a state that the receiver does not know yet.",
		Labels: []Label{receiverLabel}, Alert: "Above 0 for longer than `groupInterval` and `for`: the receiver is away.",
	})
	notificationsOpen = newFamily(Family{
		Name: "prober_notifications_open", Type: Gauge, Help: "Probes that the receiver knows to be failing.", Labels: []Label{receiverLabel},
	})
	notificationsDropped = newFamily(Family{
		Name: "prober_notifications_dropped_total", Type: Counter, Help: "Incidents that were over, and could not be told within `retention`.",
		Labels: []Label{receiverLabel}, Alert: "It grows: nobody was told of them.",
	})
	buildInfo = newFamily(Family{
		Name: "prober_build_info", Type: Gauge, Help: "1; the labels describe the build.",
		Labels: []Label{{Name: "version", About: "of prober"}, {Name: "revision", About: "commit of the source"}, {Name: "goversion", About: "version of Go"}},
	})
)

// The targets of prober.yaml.
var (
	groupLabel  = Label{Name: "group", About: "name of the group in prober.yaml"}
	sourceLabel = Label{Name: "source", About: "where targets are listed, such as `file sd/*.json`"}
	targetInfo  = newFamily(Family{
		Name: "prober_target_info", Type: Gauge, Help: "1 for each target that is probed; joins the other metrics of its pod with its address.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, groupLabel, {Name: "address", About: "of the target"}},
	})
	targetCount = newFamily(Family{
		Name: "prober_targets", Type: Gauge, Help: "Targets by what became of them.",
		Labels: []Label{groupLabel, sourceLabel, {Name: "state", Values: []string{"dropped", "probed"}}},
		Alert:  "`state=\"probed\"` falls far: discovery has lost targets. `GET /api/v1/targets?state=dropped` says why.",
	})
	targetFailures = newFamily(Family{
		Name: "prober_target_refresh_failures_total", Type: Counter, Help: "Attempts to refresh a list of targets that failed. The last good list is kept.",
		Labels: []Label{groupLabel, sourceLabel}, Alert: "It grows: the list of targets becomes stale.",
	})
	targetRefreshed = newFamily(Family{
		Name: "prober_target_refresh_success_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help: "When a list of targets was last refreshed.", Labels: []Label{groupLabel, sourceLabel},
	})
)

func outcomeWords() (words []string) {
	for r := range len(stripe{}.results) {
		words = append(words, probe.Result(r).String())
	}
	return words
}

func reasonWords() (words []string) {
	for _, r := range reasons {
		words = append(words, string(r))
	}
	return words
}

func skipWords() (words []string) {
	for _, r := range skipReasons {
		words = append(words, string(r))
	}
	return words
}

// nodeModes are the modes in which something is done, and nodeReasons why it may be withheld.
var (
	nodeModes   = []string{"restart", "evict"}
	nodeReasons = []string{"budget", "breaker", "backoff", "on-failure", "dry-run", "gone", "blocked", "disruption", "unavailable"}
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
		Help:   "Restarts and evictions that were withheld, by the reason: `blocked` by a PodDisruptionBudget, `disruption` by another pod of the workload in the cluster, `unavailable` without a container runtime.",
		Labels: []Label{{Name: "reason", Values: nodeReasons}},
		Alert:  "`budget` grows: more containers fail than may be restarted.",
	})
	nodeBreakerOpen = newFamily(Family{
		Name: "prober_node_breaker_open", Type: Gauge,
		Help:  "1 while the breaker is open for the node, a namespace or a workload: nothing of it is restarted or evicted.",
		Alert: "1 for some minutes: the node is overloaded or has lost its network, or most pods of a namespace or workload fail. The log says which.",
	})
	nodeCommandsLeft = newFamily(Family{
		Name: "prober_node_commands_left", Type: Gauge,
		Help:  "Commands of exec probes that still run in their containers after their attempts have ended, at most eight a container. The container runtime ends each at its timeout, rounded up to seconds.",
		Alert: "Above 0 for some minutes: the commands of a probe hang, or its timeout is too short.",
	})
	nodePods = newFamily(Family{
		Name: "prober_node_pods", Type: Gauge,
		Help:   "Pods of the node with the annotation `prober.dev/probes`. Of `invalid` ones some probe could not be started, and an event says why.",
		Labels: []Label{{Name: "state", Values: []string{"valid", "invalid"}}},
		Alert:  "`invalid` is above 0 for some minutes: a rollout has a wrong annotation.",
	})
)
