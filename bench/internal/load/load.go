// Package load runs a whole manager, prober's or the kubelet's, with many probes. It measures memory,
// processor time and the lateness of probes.
package load

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/bench/internal/record"
)

// The subjects.
const (
	Prober = "prober"       // the manager of pods
	Group  = "prober group" // without Kubernetes; only with bare handlers
	// Unobserved is the group without metrics.
	Unobserved = "prober group without metrics"
	Kubelet    = "kubelet"
)

// Request is the first request to the child, which then makes the probes.
type Request struct {
	Subject string
	Probes  int
	Period  int // seconds
	// OneProbe makes pods with one container and one liveness probe. Otherwise a pod has two containers with
	// probes of all three kinds. Their startup probes make no attempts, because the containers have started.
	OneProbe bool
	// Port is the port of an HTTP target, at a different address for each probe. 0 means exec probes whose
	// commands do nothing.
	Port int
	// Bare replaces prober's exec handler by one that does nothing. The group always uses that one.
	Bare bool
	// Late adds the probes after the manager has run for a period.
	Late bool
	// Hanging is the number of probes, the first ones, that hang until their timeout of one second.
	Hanging int
	// Scraped serves the metrics by HTTP.
	Scraped bool
	// MaxSeconds is the longest measurement.
	MaxSeconds int
	// Profiles is the folder for a processor profile of the measurements, and a heap profile; "": none.
	Profiles string
}

// Ready is the answer to Request, after all probes have had their first tick.
type Ready struct {
	Metrics string // URL of the metrics; "" if they are not served
	Figures map[string]record.Number
}

// Measure is each further request. The answer is a map of figures.
type Measure struct{ Seconds int }

// manager is the interface of all subjects.
type manager interface {
	// add adds the probes of a pod, which are numbered from first.
	add(ctx context.Context, pod *v1.Pod, first int) error
	// gather collects the metrics.
	gather() (string, error)
	// lags returns the lateness of ticks relative to the manager's own schedule. Unlike lateness derived from
	// the times of calls, it includes a delay that all ticks of a probe share. Nil if unknown.
	lags() (*ownLags, error)
}

// runner is called for every attempt of an exec probe, with the number of the probe.
type runner func(ctx context.Context, probe int, timeout time.Duration) (failed bool)
