package metrics

import "github.com/prometheus/client_golang/prometheus"

// AgentCounts are counts that an agent keeps. They are read at each scrape, and
// must not block.
type AgentCounts struct {
	// LogLinesDropped has, by stream ("stdout", "stderr"), the lines that could not be written.
	LogLinesDropped map[string]func() uint64
	// StateSaveFailures are attempts to save the state of a pod that failed.
	StateSaveFailures func() uint64
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
	return registerCount(r, c.StateSaveFailures, prometheus.CounterOpts{
		Name: saveFailures.Name, Help: saveFailures.Help,
	})
}

func registerCount(r prometheus.Registerer, count func() uint64, opts prometheus.CounterOpts) error {
	return r.Register(prometheus.NewCounterFunc(opts, func() float64 { return float64(count()) }))
}
