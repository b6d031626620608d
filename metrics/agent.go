package metrics

import "github.com/prometheus/client_golang/prometheus"

// AgentCounts are numbers that an agent keeps by itself. They are read at each scrape, and
// must not block.
type AgentCounts struct {
	// LogLinesDropped has, by stream ("stdout", "stderr"), the lines that could not be written.
	LogLinesDropped map[string]func() uint64
	// StateSaveFailures are attempts to save the state of a pod that failed.
	StateSaveFailures func() uint64
}

// RegisterAgent shows c on r.
func RegisterAgent(r prometheus.Registerer, c AgentCounts) error {
	for stream, count := range c.LogLinesDropped {
		if err := register(r, count, prometheus.CounterOpts{
			Name: "prober_log_lines_dropped_total", ConstLabels: prometheus.Labels{"stream": stream},
			Help: "Lines for a stream of the agent that were dropped, since nobody read them or not fast enough.",
		}); err != nil {
			return err
		}
	}
	return register(r, c.StateSaveFailures, prometheus.CounterOpts{
		Name: "prober_state_save_failures_total",
		Help: "Attempts to save the state of a pod that failed; each is made again.",
	})
}

func register(r prometheus.Registerer, count func() uint64, opts prometheus.CounterOpts) error {
	return r.Register(prometheus.NewCounterFunc(opts, func() float64 { return float64(count()) }))
}
