package metrics

import (
	"slices"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics/internal/exposition"
	"github.com/daeace23/prober/metrics/internal/family"
)

// probeFamily is a family with series for each probe, each pod or each target.
// See RATIONALE.md, "Why does /metrics not go through client_golang?"
type probeFamily struct {
	*family.Described
	write func(*exposition.Writer, *Metrics) // writes its samples
}

// probeFamilies are sorted by name.
var probeFamilies = []probeFamily{
	{pluginMetric, writeMeasurements},
	{probeDuration, writeDurations},
	{probeFailures, writeFailures},
	{probeGate, writeGates},
	{probeState, writeStates},
	{probeTotal, writeTotals},
	{podReady, writeReady},
	{targetInfo, writeTargets},
}

func isProbeFamily(name string) bool {
	return slices.ContainsFunc(probeFamilies, func(f probeFamily) bool { return f.Name == name })
}

// writeTo writes the family if it is selected.
func (f *probeFamily) writeTo(w *exposition.Writer, m *Metrics, selected func(name string) bool) {
	if w.Err() != nil || !selected(f.Name) {
		return
	}
	kind := f.Type
	if kind == Histogram && m.buckets == NoBuckets {
		kind = Summary
	}
	w.Begin(exposition.Family{Name: f.Name, Help: f.Help, Type: exposition.Type(kind), Bounds: f.Buckets})
	f.write(w, m)
	w.End()
}

// labelProbe adds the labels of a probe in prober's own metrics. The kubelet's metrics have other labels.
func labelProbe(w *exposition.Writer, s *series) {
	w.Label("container", s.subject.container)
	w.Label("kind", s.kind().String())
	w.Label("namespace", s.subject.namespace)
	w.Label("pod", s.subject.pod)
}

func writeTotals(w *exposition.Writer, m *Metrics) {
	for s := range m.series.all() {
		for _, result := range sortedResults {
			n := s.totals[result].Load()
			if n == 0 {
				continue
			}
			if !w.Series() {
				return
			}
			w.Label("container", s.subject.container)
			w.Label("namespace", s.subject.namespace)
			w.Label("pod", s.subject.pod)
			w.Label("pod_uid", s.subject.podUID)
			w.Label("probe_type", titles[s.kind()])
			w.Label("result", resultWords[result])
			w.Value(float64(n))
		}
	}
}

func writeDurations(w *exposition.Writer, m *Metrics) {
	d := newDurations(m.buckets)
	for s := range m.series.sums(d) {
		if !w.Series() {
			return
		}
		w.Label("container", s.subject.container)
		w.Label("namespace", s.subject.namespace)
		w.Label("pod", s.subject.pod)
		w.Label("probe_type", titles[s.kind()])
		w.Durations(d.exposed())
	}
}

func writeStates(w *exposition.Writer, m *Metrics) {
	for s := range m.series.shown() {
		if !w.Series() {
			return
		}
		labelProbe(w, s.series)
		mark := w.Mark()
		for state, value := range s.values {
			w.Cut(mark)
			w.Label("state", state)
			w.Value(value)
		}
	}
}

func writeGates(w *exposition.Writer, m *Metrics) {
	for s := range m.series.shown() {
		if s.gate == worker.Open {
			continue
		}
		if !w.Series() {
			return
		}
		w.Label("container", s.subject.container)
		w.Label("gate", gateWord(s.gate))
		w.Label("kind", s.kind().String())
		w.Label("namespace", s.subject.namespace)
		w.Label("pod", s.subject.pod)
		w.Value(1)
	}
}

func writeFailures(w *exposition.Writer, m *Metrics) {
	var sums failureSums
	for s := range m.series.sums(&sums) {
		if !w.Series() {
			return
		}
		labelProbe(w, s)
		mark := w.Mark()
		for _, reason := range sortedFailures {
			if sums[reason] == 0 {
				continue
			}
			w.Cut(mark)
			w.Label("reason", failureReasons[reason])
			w.Value(float64(sums[reason]))
		}
	}
}

func writeReady(w *exposition.Writer, m *Metrics) {
	for p := range m.ready.allPods() {
		if !w.Series() {
			return
		}
		w.Label("namespace", p.namespace)
		w.Label("pod", p.pod)
		w.Value(oneIf(p.ready))
	}
}

func writeTargets(w *exposition.Writer, m *Metrics) {
	for t := range m.probedTargets() {
		if !w.Series() {
			return
		}
		w.Label("address", valid(t.Address))
		w.Label("container", valid(t.Container))
		w.Label("group", valid(t.Group))
		for _, l := range t.Labels {
			w.Label(l.Name, valid(l.Value))
		}
		w.Label("namespace", valid(t.Namespace))
		w.Label("pod", valid(t.Pod))
		w.Value(1)
	}
}

func writeMeasurements(w *exposition.Writer, m *Metrics) {
	for measured := range m.series.measurements() {
		if !w.Series() {
			return
		}
		for _, l := range measured.labels {
			w.Label(l.name, l.value)
		}
		w.Value(measured.value)
	}
}
