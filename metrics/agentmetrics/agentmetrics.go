// Package agentmetrics has the metrics of the agent itself, for package agent. The metrics that any program
// can expose are in package metrics.
package agentmetrics

import (
	"errors"
	"iter"
	"time"

	"github.com/daeace23/prober/metrics/internal/family"
	"github.com/prometheus/client_golang/prometheus"
)

// AgentCounts are counts that an agent keeps. They are read at each scrape, and
// must not block.
type AgentCounts struct {
	// LogLinesDropped counts, by stream ("stdout", "stderr"), the lines that could not be written.
	LogLinesDropped map[string]func() uint64
	// StateSaveFailures counts failed attempts to save the state of a pod.
	StateSaveFailures func() uint64
	// ConnectionsClosed counts connections that were closed or not answered because there were too many.
	ConnectionsClosed func() uint64
}

// RegisterAgent registers the metrics of c.
func RegisterAgent(r prometheus.Registerer, c AgentCounts) error {
	for stream, count := range c.LogLinesDropped {
		if err := registerCount(r, count, prometheus.CounterOpts{
			Name: linesDropped.Name, Help: linesDropped.Help, ConstLabels: prometheus.Labels{"stream": stream},
		}); err != nil {
			return err
		}
	}
	return errors.Join(
		registerCount(r, c.StateSaveFailures, prometheus.CounterOpts{Name: saveFailures.Name, Help: saveFailures.Help}),
		registerCount(r, c.ConnectionsClosed, prometheus.CounterOpts{Name: connectionsClosed.Name, Help: connectionsClosed.Help}))
}

func registerCount(r prometheus.Registerer, count func() uint64, opts prometheus.CounterOpts) error {
	return r.Register(prometheus.NewCounterFunc(opts, func() float64 { return float64(count()) }))
}

// OTLPCounts are counts of an exporter. They are read at each scrape, and must not block.
type OTLPCounts struct {
	Metrics, Traces OTLPRequests
	SpansDropped    func() uint64
}

// OTLPRequests are counts of the requests of one signal.
type OTLPRequests struct{ OK, Errors func() uint64 }

// RegisterOTLP registers the metrics of c.
func RegisterOTLP(r prometheus.Registerer, c OTLPCounts) error {
	for signal, requests := range map[string]OTLPRequests{"metrics": c.Metrics, "traces": c.Traces} {
		for result, count := range map[string]func() uint64{"ok": requests.OK, "error": requests.Errors} {
			if err := registerCount(r, count, prometheus.CounterOpts{
				Name: otlpRequests.Name, Help: otlpRequests.Help, ConstLabels: prometheus.Labels{"signal": signal, "result": result},
			}); err != nil {
				return err
			}
		}
	}
	return registerCount(r, c.SpansDropped, prometheus.CounterOpts{Name: otlpSpansDropped.Name, Help: otlpSpansDropped.Help})
}

// NotificationCounts are counts of a receiver of notifications.
type NotificationCounts struct {
	OK, Errors, Refused uint64 // messages
	Dropped             uint64 // resolved incidents that were never sent
	Pending, Open       int    // probes
}

// RegisterNotifications registers the metrics of receivers of notifications. counts returns them by
// name, at each scrape. It must not block.
func RegisterNotifications(r prometheus.Registerer, counts func() map[string]NotificationCounts) error {
	return r.Register(notificationCollector(counts))
}

// notificationCollector collects the metrics of receivers.
type notificationCollector func() map[string]NotificationCounts

var _ prometheus.Collector = notificationCollector(nil)

// Describe implements [prometheus.Collector].
func (notificationCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{notificationsTotal, notificationsPending, notificationsOpen, notificationsDropped} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c notificationCollector) Collect(ch chan<- prometheus.Metric) {
	for name, n := range c() {
		ch <- notificationsTotal.With(float64(n.OK), name, "ok")
		ch <- notificationsTotal.With(float64(n.Errors), name, "error")
		ch <- notificationsTotal.With(float64(n.Refused), name, "refused")
		ch <- notificationsPending.With(float64(n.Pending), name)
		ch <- notificationsOpen.With(float64(n.Open), name)
		ch <- notificationsDropped.With(float64(n.Dropped), name)
	}
}

// PushCounts are counts of a push of prober.yaml.
type PushCounts struct {
	Reports    map[string]uint64 // by result; "started" counts starts of runs
	LastReport time.Time         // zero: there is none
	Started    time.Time         // of the run under way; zero: there is none
}

// RegisterPushes registers the metrics of pushes. counts returns them by name, at each scrape. It must not
// block.
func RegisterPushes(r prometheus.Registerer, counts func() map[string]PushCounts) error {
	return r.Register(pushCollector(counts))
}

// pushCollector collects the metrics of pushes.
type pushCollector func() map[string]PushCounts

var _ prometheus.Collector = pushCollector(nil)

// Describe implements [prometheus.Collector].
func (pushCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family.Described{pushReports, pushLastReport, pushStarted} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c pushCollector) Collect(ch chan<- prometheus.Metric) {
	for name, n := range c() {
		for _, result := range pushResults {
			ch <- pushReports.With(float64(n.Reports[result]), name, result)
		}
		if !n.LastReport.IsZero() {
			ch <- pushLastReport.With(seconds(n.LastReport), name)
		}
		if !n.Started.IsZero() {
			ch <- pushStarted.With(seconds(n.Started), name)
		}
	}
}

// seconds returns a time as seconds since the epoch.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// EndpointCounts are the numbers of checks of an endpoint of prober.yaml.
type EndpointCounts struct {
	Namespace, Name string
	Checks          map[string]int // by state
}

// RegisterEndpoints registers the metric of endpoints. counts is called at each scrape, and must not block.
func RegisterEndpoints(r prometheus.Registerer, counts func() iter.Seq[EndpointCounts]) error {
	return r.Register(endpointCollector(counts))
}

// endpointCollector collects the metric of endpoints.
type endpointCollector func() iter.Seq[EndpointCounts]

var _ prometheus.Collector = endpointCollector(nil)

// Describe implements [prometheus.Collector].
func (endpointCollector) Describe(ch chan<- *prometheus.Desc) { ch <- endpointChecks.Desc }

// Collect implements [prometheus.Collector].
func (c endpointCollector) Collect(ch chan<- prometheus.Metric) {
	for n := range c() {
		for _, state := range checkStates {
			ch <- endpointChecks.With(float64(n.Checks[state]), n.Namespace, n.Name, state)
		}
	}
}

// HistoryCounts are counts of the agent's history. They are read at each scrape, and must not block.
type HistoryCounts struct {
	Bytes           func() int64
	Errors, Dropped func() uint64
}

// RegisterHistory registers the metrics of c.
func RegisterHistory(r prometheus.Registerer, c HistoryCounts) error {
	return errors.Join(
		r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: historyBytes.Name, Help: historyBytes.Help}, func() float64 { return float64(c.Bytes()) })),
		registerCount(r, c.Errors, prometheus.CounterOpts{Name: historyErrors.Name, Help: historyErrors.Help}),
		registerCount(r, c.Dropped, prometheus.CounterOpts{Name: historyDropped.Name, Help: historyDropped.Help}))
}

// NodeCounts are the counts of the agent of a node of a cluster.
type NodeCounts struct {
	PatchesWritten, PatchesFailed, PatchesDenied uint64
	PatchesPending                               int               // pods whose conditions are not written yet
	Done, Failed                                 map[string]uint64 // actions by mode
	Withheld                                     map[string]uint64 // actions by reason
	BreakerOpen                                  bool
	Followed, Refused                            int // pods; Refused are among the followed ones
	CommandsLeft                                 int // commands of exec probes that still run in containers after their attempts
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
	for _, f := range []*family.Described{nodePatches, nodePatchesPending, nodeActions, nodeWithheld, nodeBreakerOpen, nodePods, nodeCommandsLeft} {
		ch <- f.Desc
	}
}

// Collect implements [prometheus.Collector].
func (c nodeCollector) Collect(ch chan<- prometheus.Metric) {
	n := c()
	ch <- nodePatches.With(float64(n.PatchesWritten), "written")
	ch <- nodePatches.With(float64(n.PatchesFailed), "failed")
	ch <- nodePatches.With(float64(n.PatchesDenied), "denied")
	ch <- nodePatchesPending.With(float64(n.PatchesPending))
	for _, mode := range nodeModes {
		ch <- nodeActions.With(float64(n.Done[mode]), mode, "done")
		ch <- nodeActions.With(float64(n.Failed[mode]), mode, "failed")
	}
	for _, reason := range nodeReasons {
		ch <- nodeWithheld.With(float64(n.Withheld[reason]), reason)
	}
	open := 0.0
	if n.BreakerOpen {
		open = 1
	}
	ch <- nodeBreakerOpen.With(open)
	ch <- nodePods.With(float64(n.Followed-n.Refused), "valid")
	ch <- nodePods.With(float64(n.Refused), "invalid")
	ch <- nodeCommandsLeft.With(float64(n.CommandsLeft))
}
