// Package load runs a whole manager, prober's or the kubelet's, with many probes, and measures its
// memory, its processor time and how late probes are.
package load

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/bench/internal/record"
)

// The subjects.
const (
	Prober = "prober"       // its manager of pods
	Group  = "prober group" // without Kubernetes; only with bare handlers
	// Unobserved is the group without metrics.
	Unobserved = "prober group without metrics"
	Kubelet    = "kubelet"
)

// Request is the first request to the child: it makes the probes.
type Request struct {
	Subject string
	Probes  int
	Period  int // seconds
	// OneProbe makes pods of one container with one liveness probe. Else a pod has two containers
	// with probes of all three kinds. Their startup probes make no attempts, since the containers
	// have started.
	OneProbe bool
	// Port is that of an HTTP target, at as many addresses as there are probes. 0 means exec probes
	// whose commands do nothing.
	Port int
	// Bare replaces the exec handler of prober by one that does nothing at all. The group always
	// has that.
	Bare bool
	// Late adds the probes when the manager is older than a period.
	Late bool
	// Hanging probes, the first ones, hang until their deadline of one second.
	Hanging int
	// Scraped serves the metrics.
	Scraped bool
	// MaxSeconds is the longest measurement.
	MaxSeconds int
	// Profiles is the folder for a processor profile of the measurements, and a heap profile; "": none.
	Profiles string
}

// Ready is the answer to it, when all probes have had their first tick.
type Ready struct {
	Metrics string // URL of the metrics; "" if they are not served
	Figures map[string]record.Number
}

// Measure is each further request. The answer is a map of figures.
type Measure struct{ Seconds int }

// manager is what the subjects have in common.
type manager interface {
	// add adds the probes of a pod. The numbers of its probes begin at first.
	add(ctx context.Context, pod *v1.Pod, first int) error
	// gather serves the metrics.
	gather() (string, error)
	// lags returns how late ticks began by the manager's own schedule, which includes what the
	// times of calls do not show: a delay that all ticks of a probe share. Nil: it does not say.
	lags() (*ownLags, error)
}

// runner is called for every attempt of an exec probe, with the number of the probe.
type runner func(ctx context.Context, probe int, timeout time.Duration) (failed bool)
