// Package reverseproxy carries out caddy's passive health checks with core/endpoint, for caddy's own tests.
// Package main of test/peers adds it to caddy's package, and it does not compile elsewhere.
package reverseproxy

import (
	"context"
	"time"

	"github.com/daeace23/prober/core/endpoint"
)

// passive has the hosts with failures.
var passive = func() *endpoint.Set[*Host] {
	set, err := endpoint.New[*Host](endpoint.Config{})
	if err != nil {
		panic(err)
	}
	return set
}()

// countFailure observes a failed request. MaxFails failures within FailDuration eject the host for
// FailDuration. The end of the handler forgets them.
func (h *Handler) countFailure(upstream *Upstream) {
	if h.HealthChecks == nil || h.HealthChecks.Passive == nil || h.HealthChecks.Passive.FailDuration == 0 {
		return
	}
	host, duration := upstream.Host, time.Duration(h.HealthChecks.Passive.FailDuration)
	if _, ok := passive.Status(host); !ok {
		check := endpoint.Check{Name: "requests", Passive: &endpoint.Passive{
			Ratio: 1, Least: h.HealthChecks.Passive.MaxFails, Window: duration, Base: duration, Longest: duration,
		}}
		if err := passive.Put(host, endpoint.Endpoint[*Host]{Checks: []endpoint.Check{check}}); err != nil {
			panic(err)
		}
		context.AfterFunc(h.ctx, func() { _ = passive.Remove(host) })
	}
	_ = passive.Observe(host, "requests", false)
}

// Fails returns the number of recent failures.
func (h *Host) Fails() int {
	status, ok := passive.Status(h)
	if !ok {
		return 0
	}
	return status.Checks[0].Failures
}

// Healthy reports whether the active checks of the upstream pass, its host is not ejected, and its circuit
// breaker is closed.
func (u *Upstream) Healthy() bool {
	healthy := u.healthy()
	if healthy && u.healthCheckPolicy != nil {
		status, ok := passive.Status(u.Host)
		healthy = !ok || status.Usable
	}
	return healthy && (u.cb == nil || u.cb.OK())
}
