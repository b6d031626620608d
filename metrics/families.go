package metrics

import (
	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/daeace23/prober/probe"
)

// The description of a metric. docs/metrics.md is generated from [Families].
type (
	Family = family.Family
	Type   = family.Type
	Label  = family.Label
)

// The types in use.
const (
	Counter   = family.Counter
	Gauge     = family.Gauge
	Histogram = family.Histogram
	Summary   = family.Summary
)

// Families returns the metrics of this package in the order of docs/metrics.md.
func Families() (all []Family) {
	for _, g := range groups {
		all = append(all, family.Group(g.name, g.families...)...)
	}
	return all
}

// groups lists all families. It leaves out the Go and process collectors of client_golang.
var groups = []struct {
	name     string
	families []*family.Described
}{
	{"Probes", []*family.Described{
		probeState, probeFailures, probeGate, probePaused, probeMaintenance, podReady, probeTotal, probeDuration, outcomesTotal, attemptErrors, attemptsRetried, stateTransitions, scheduleLag, runsSkipped, workers, probesGated, inflight,
		handlerInflight, handlerLimit, attemptsDeferred, restarts, certificateNotAfter, certificateNotBefore,
	}},
	{"Plugins", []*family.Described{
		pluginInfo, pluginTrust, pluginReload, sourceStale, pluginShadow, pluginInstances, pluginMemory, pluginCalls,
		pluginDenied, pluginLimits, pluginQuarantined, pluginMetric,
	}},
	{"Targets", []*family.Described{targetInfo, targetCount, targetFailures, targetRefreshed}},
	{"Agent", []*family.Described{reloadOK, reloadSuccess, reloadProgress, actionsTotal, buildInfo}},
}

// Labels shared by several families.
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
	probeState = family.New(Family{
		Name: "prober_probe_state", Type: Gauge,
		Help:   "1 for the current state of a probe. success and failure always have a series, warning and unknown only at 1.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel, {Name: "state", Values: []string{"success", "warning", "failure", "unknown"}}},
		Alert:  "`state=\"failure\"` is 1 for some minutes: the target is down, or the container does not run. A paused probe keeps its state, and a forced one has the forced state: see `prober_probe_gate`.",
	})
	probeFailures = family.New(Family{
		Name: "prober_probe_failures_total", Type: Counter,
		Help:   "Ticks of a probe that failed or ended in an error, by reasons that have occurred.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel, {Name: "reason", Values: failureReasons}},
		Alert:  "It grows while the state in `prober_probe_state` is success: thresholds hide failures.",
	})
	probeGate = family.New(Family{
		Name: "prober_probe_gate", Type: Gauge,
		Help:   "1 for the gate that keeps a probe from making attempts; no series without a gate.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel, {Name: "gate", Values: gateWords()}},
		Alert:  "`gate=\"no_status\"` or `gate=\"no_container\"` for some minutes: nobody reports the status of the pod.",
	})
	probePaused = family.New(Family{
		Name: "prober_paused", Type: Gauge,
		Help:   "1 for each probe that a command or the API has paused or forced into a state, also behind another gate. Other probes, and probes that a manifest pauses, have no series.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel},
		Alert:  "1 for a day: somebody has forgotten to resume a probe.",
	})
	probeMaintenance = family.New(Family{
		Name: "prober_probe_maintenance", Type: Gauge,
		Help:   "1 for each probe that is in a maintenance window now. Other probes have no series.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel},
	})
	certificateNotAfter = family.New(Family{
		Name: "prober_certificate_not_after_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "End of the first certificate to end of those that the servers of a probe show, in seconds since 1970. Probes without TLS, and process plugins, have no series.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel},
		Alert:  "It is less than 14 days ahead, and less than a third of the time since `prober_certificate_not_before_timestamp_seconds` is left: nobody has renewed the certificate.",
	})
	certificateNotBefore = family.New(Family{
		Name: "prober_certificate_not_before_timestamp_seconds", Type: Gauge, Unit: "seconds",
		Help:   "Begin of the certificate in prober_certificate_not_after_timestamp_seconds, in seconds since 1970.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, kindLabel},
	})
	podReady = family.New(Family{
		Name: "prober_ready", Type: Gauge,
		Help:   "Whether the Ready condition of a pod is true.",
		Labels: []Label{namespaceLabel, podLabel},
		Alert:  "0 for some minutes: a container of the pod is not ready, or does not run.",
	})
	probeTotal = family.New(Family{
		Name: "prober_probe_total", Type: Counter,
		Help:   "Results of the probes of a container. A warning counts as successful; errors are not counted. The name and labels are the kubelet's.",
		Labels: []Label{typeLabel, {Name: "result", Values: resultWords[:]}, containerLabel, podLabel, namespaceLabel, {Name: "pod_uid", About: "UID of the pod"}},
		Alert:  "`result=\"failed\"` of a liveness probe grows: the container restarts soon, or has a target that is down.",
	})
	probeDuration = family.New(Family{
		Name: "prober_probe_duration_seconds", Type: Histogram, Unit: "seconds",
		Help:   "Duration of a container's successful probes, with retried attempts. The name and labels are the kubelet's.",
		Labels: []Label{typeLabel, containerLabel, podLabel, namespaceLabel}, Buckets: seconds(durationBounds[:]),
	})
	outcomesTotal = family.New(Family{
		Name: "prober_outcomes_total", Type: Counter,
		Help:   "Ticks by handler and by the result of their last attempt. An error counts as unknown.",
		Labels: []Label{handlerLabel, {Name: "result", Values: outcomeWords()}},
	})
	attemptErrors = family.New(Family{
		Name: "prober_attempt_errors_total", Type: Counter,
		Help:   "Attempts with an error, or a failure with a reason. All attempts of a tick count under its last reason.",
		Labels: []Label{handlerLabel, {Name: "reason", Values: reasonWords()}},
		Alert: "`reason=\"host_stall\"`, `host_resources` or `host_network` grows: the host of the agent is in trouble, not the targets. " +
			"`trap`, `memory`, `instantiate`, `protocol` or `guest` grows: the plugin is broken.",
	})
	attemptsRetried = family.New(Family{
		Name: "prober_attempts_retried_total", Type: Counter,
		Help:   "Attempts with an error, of ticks whose last attempt had none. They are not in prober_attempt_errors_total.",
		Labels: []Label{handlerLabel},
		Alert:  "It grows: a handler or the host fails now and then, and no result shows it.",
	})
	stateTransitions = family.New(Family{
		Name: "prober_state_transitions_total", Type: Counter,
		Help:   "Changes of decided results.",
		Labels: []Label{kindLabel, {Name: "from", Values: decidedWords[:]}, {Name: "to", Values: decidedWords[:]}},
		Alert:  "A high rate: probes flap, and their thresholds are too low.",
	})
	scheduleLag = family.New(Family{
		Name: "prober_schedule_lag_seconds", Type: Histogram, Unit: "seconds",
		Help: "Time from a tick's due time to its start. Grouping delays a tick by at most a hundredth of its period, and at most 10 ms.", Buckets: seconds(lagBounds[:]),
		Alert: "The 99th percentile is above a tenth of the shortest timeout: the host is too busy, and may cause failures.",
	})
	runsSkipped = family.New(Family{
		Name: "prober_runs_skipped_total", Type: Counter,
		Help:   "Due ticks that did not run.",
		Labels: []Label{{Name: "reason", Values: skipWords()}},
		Alert:  "`busy` grows: a probe takes longer than its period. `no_slot` grows: a plugin needs more `instances` or memory, or a handler a higher `maxInFlight`.",
	})
	workers     = family.New(Family{Name: "prober_workers", Type: Gauge, Help: "Probes that have a worker."})
	probesGated = family.New(Family{
		Name: "prober_probes_gated", Type: Gauge, Help: "Probes whose ticks make no attempts, by gate.",
		Labels: []Label{kindLabel, {Name: "gate", Values: gateWords()}},
		Alert: "`no_status` or `no_container` is above 0 for some minutes: nobody reports the status of the pods. " +
			"`paused` is above 0 for a day: somebody has forgotten to resume a probe.",
	})
	inflight        = family.New(Family{Name: "prober_inflight", Type: Gauge, Help: "Attempts in progress."})
	handlerInflight = family.New(Family{
		Name: "prober_handler_inflight", Type: Gauge,
		Help:   "Attempts in progress of a built-in handler, without those that wait for a slot.",
		Labels: []Label{builtinLabel},
	})
	handlerLimit = family.New(Family{
		Name: "prober_handler_inflight_limit", Type: Gauge,
		Help:   "`maxInFlight` of a built-in handler; no series without a limit.",
		Labels: []Label{builtinLabel},
	})
	attemptsDeferred = family.New(Family{
		Name: "prober_attempts_deferred_total", Type: Counter,
		Help:   "Attempts of a built-in handler that waited for a slot below `maxInFlight`.",
		Labels: []Label{builtinLabel},
		Alert:  "It grows with `prober_runs_skipped_total{reason=\"no_slot\"}`: `maxInFlight` is too low, or targets hang.",
	})
	restarts = family.New(Family{
		Name: "prober_restarts_total", Type: Counter,
		Help:   "Restarts of containers, by their cause.",
		Labels: []Label{{Name: "kind", Values: []string{"liveness", "startup", "exit"}}, namespaceLabel, podLabel, containerLabel},
		Alert:  "More than a few in an hour: the container crashes, or its probe is too strict.",
	})
)

// The plugins.
var (
	pluginInfo = family.New(Family{
		Name: "prober_plugin_info", Type: Gauge, Help: "1 for each loaded plugin.",
		Labels: []Label{
			{Name: "name", About: "name of the plugin"}, {Name: "version", About: "version in its manifest"},
			{Name: "digest", About: "SHA-256 of the module or program"}, {Name: "runtime", Values: []string{"wasm", "process", "nagios"}},
		},
	})
	pluginTrust = family.New(Family{
		Name: "prober_plugin_trust_info", Type: Gauge, Help: "1 for each loaded plugin, by how its code was verified.",
		Labels: []Label{pluginLabel, {Name: "trust", Values: []string{"signed", "unsigned", "unchecked", "dev"}}},
		Alert:  "`trust=\"dev\"` in production: `--plugin-dev` runs a plugin without any check.",
	})
	pluginReload = family.New(Family{
		Name: "prober_plugin_last_reload_successful", Type: Gauge,
		Help:   "Whether the newest version of a plugin is in use. At 0 an older version stays, if there is one.",
		Labels: []Label{pluginLabel}, Alert: "0 for some minutes: `GET /api/v1/plugins` says why.",
	})
	sourceStale = family.New(Family{
		Name: "prober_plugin_source_stale", Type: Gauge,
		Help:   "Whether a plugin stays at its last good version, because the registry's cannot be fetched or is not accepted.",
		Labels: []Label{pluginLabel}, Alert: "1 for an hour: the registry is unreachable, or a new version is not trusted.",
	})
	pluginShadow = family.New(Family{
		Name: "prober_plugin_shadow_total", Type: Counter,
		Help:   "Ticks of a plugin with a shadow version, by whether both gave the same result.",
		Labels: []Label{pluginLabel, {Name: "agreement", Values: []string{"agree", "disagree", "error", "skipped"}}},
		Alert:  "`disagree` or `error` grows: do not promote the shadow.",
	})
	pluginInstances = family.New(Family{
		Name: "prober_plugin_instances", Type: Gauge, Help: "Instances of a plugin.",
		Labels: []Label{pluginLabel, {Name: "state", Values: []string{"idle", "busy"}}},
	})
	pluginMemory = family.New(Family{
		Name: "prober_plugin_memory_bytes", Type: Gauge, Unit: "bytes", Help: "Memory of the instances of all plugins, including snapshots.",
		Alert: "Close to `totalMemory` of prober.yaml: ticks will be skipped with `no_slot`.",
	})
	pluginCalls = family.New(Family{
		Name: "prober_plugin_call_seconds", Type: Histogram, Unit: "seconds", Help: "Duration of the attempts of a plugin's probes.",
		Labels: []Label{pluginLabel}, Buckets: callBuckets,
	})
	pluginDenied = family.New(Family{
		Name: "prober_plugin_denied_total", Type: Counter, Help: "Requests of a plugin that its grants do not allow.",
		Labels: []Label{pluginLabel, {Name: "capability", Values: []string{"net"}}},
		Alert:  "It grows: a grant is missing, or a plugin attempts a forbidden connection.",
	})
	pluginLimits = family.New(Family{
		Name: "prober_plugin_limit_hits_total", Type: Counter,
		Help:   "Runs in which a plugin reached a limit. For `calls`: instances that were replaced. For `idle`: instances that were closed.",
		Labels: []Label{pluginLabel, {Name: "limit", About: "a limit, as `prober plugin inspect` names it"}},
		Alert:  "`memory`, `totalMemory` or `instances` grows: raise the limit, or find what the plugin uses it for.",
	})
	pluginQuarantined = family.New(Family{
		Name: "prober_plugin_quarantined_probes", Type: Gauge,
		Help:   "Probes of a plugin that pause because several ticks in a row ended in errors.",
		Labels: []Label{pluginLabel}, Alert: "Above 0 for some minutes: `last.error` in `GET /api/v1/probes` says why.",
	})
	pluginMetric = family.New(Family{
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
	reloadOK = family.New(Family{
		Name: "prober_config_last_reload_successful", Type: Gauge, Help: "Whether the last reload of files succeeded.",
		Alert: "0 for some minutes: a manifest or prober.yaml is wrong, and the last good one is in use.",
	})
	reloadSuccess = family.New(Family{
		Name: "prober_config_last_reload_success_timestamp_seconds", Type: Gauge, Unit: "seconds since the epoch",
		Help: "Time of the last successful reload of files.",
	})
	reloadProgress = family.New(Family{
		Name: "prober_config_reload_in_progress_seconds", Type: Gauge, Unit: "seconds",
		Help: "Duration so far of the reload in progress; 0 without one.", Alert: "Above 60: a plugin compiles slowly, or hangs.",
	})
	actionsTotal = family.New(Family{
		Name: "prober_actions_total", Type: Counter, Help: "Actions that users asked the agent for.",
		Labels: []Label{{Name: "action", Values: Actions}, {Name: "result", Values: ActionResults}},
		Alert:  "`result=\"denied\"` grows: somebody tries actions without the token.",
	})
	buildInfo = family.New(Family{
		Name: "prober_build_info", Type: Gauge, Help: "1; the labels describe the build.",
		Labels: []Label{{Name: "version", About: "of prober"}, {Name: "revision", About: "commit of the source"}, {Name: "goversion", About: "version of Go"}},
	})
)

// The targets of prober.yaml.
var (
	groupLabel  = Label{Name: "group", About: "name of the group in prober.yaml"}
	sourceLabel = Label{Name: "source", About: "where targets are listed, such as `file sd/*.json`"}
	targetInfo  = family.New(Family{
		Name: "prober_target_info", Type: Gauge, Help: "1 for each probed target; joins the metrics of its pod with its address, and with label_NAME for each name in metrics.targetLabels of prober.yaml.",
		Labels: []Label{namespaceLabel, podLabel, containerLabel, groupLabel, {Name: "address", About: "of the target"}},
	})
	targetCount = family.New(Family{
		Name: "prober_targets", Type: Gauge, Help: "Targets by state.",
		Labels: []Label{groupLabel, sourceLabel, {Name: "state", Values: []string{"dropped", "probed"}}},
		Alert:  "`state=\"probed\"` falls far: discovery has lost targets. `GET /api/v1/targets?state=dropped` says why.",
	})
	targetFailures = family.New(Family{
		Name: "prober_target_refresh_failures_total", Type: Counter, Help: "Attempts to refresh a list of targets that failed. The last good list is kept.",
		Labels: []Label{groupLabel, sourceLabel}, Alert: "It grows: the list of targets becomes stale.",
	})
	targetRefreshed = family.New(Family{
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
