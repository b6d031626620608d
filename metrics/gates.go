package metrics

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
	"github.com/prometheus/client_golang/prometheus"
)

// gates lists all gates that can keep a probe from making attempts.
var gates = worker.Gates()

// gateCounts counts the probes of each kind by their gate.
type gateCounts [len(probe.Kinds)][]atomic.Int64 // by the index of gates

func newGateCounts() (c gateCounts) {
	for kind := range c {
		c[kind] = make([]atomic.Int64, len(gates))
	}
	return c
}

// move moves a probe from the count of one gate to another's.
func (c *gateCounts) move(kind probe.Kind, from, to worker.Gate) {
	if i := slices.Index(gates, from); i >= 0 {
		c[kind][i].Add(-1)
	}
	if i := slices.Index(gates, to); i >= 0 {
		c[kind][i].Add(1)
	}
}

func (c *gateCounts) collect(ch chan<- prometheus.Metric) {
	for kind := range c {
		for i, gate := range gates {
			ch <- probesGated.With(float64(c[kind][i].Load()), probe.Kind(kind).String(), gateWord(gate))
		}
	}
}

// gateWord returns the label value of gate.
func gateWord(gate worker.Gate) string { return strings.ReplaceAll(gate.String(), " ", "_") }

func gateWords() (words []string) {
	for _, gate := range gates {
		words = append(words, gateWord(gate))
	}
	return words
}
