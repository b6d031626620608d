package metrics

import "github.com/prometheus/client_golang/prometheus"

// HandlerStats is the state of a handler whose attempts are limited, such as that of a limit of
// package handlers/limit.
type HandlerStats struct {
	InFlight    int    // attempts
	MaxInFlight int    // 0: any number
	Deferred    uint64 // attempts that have waited for a slot, so far
}

// RegisterHandlers registers the metrics of handlers whose attempts are limited. stats returns them
// by name, at each scrape. It must not block.
func RegisterHandlers(r prometheus.Registerer, stats func() map[string]HandlerStats) error {
	return r.Register(limitCollector(stats))
}

// limitCollector collects the metrics of limited handlers.
type limitCollector func() map[string]HandlerStats

var _ prometheus.Collector = limitCollector(nil)

// Describe implements [prometheus.Collector].
func (limitCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []*family{handlerInflight, handlerLimit, attemptsDeferred} {
		ch <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c limitCollector) Collect(ch chan<- prometheus.Metric) {
	for name, s := range c() {
		ch <- handlerInflight.with(float64(s.InFlight), name)
		if s.MaxInFlight > 0 {
			ch <- handlerLimit.with(float64(s.MaxInFlight), name)
		}
		ch <- attemptsDeferred.with(float64(s.Deferred), name)
	}
}
