// Package healthcheck carries out traefik's health checks of servers with core/endpoint, for traefik's own
// tests. Package main of test/peers adds it to traefik's package, and it does not compile elsewhere.
package healthcheck

import (
	"context"
	"time"

	"github.com/traefik/traefik/v3/pkg/config/runtime"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

// Launch checks the servers of an HTTP service until ctx ends.
func (shc *ServiceHealthChecker) Launch(ctx context.Context) {
	servers := make(servers)
	for range len(shc.healthyTargets) {
		t := <-shc.healthyTargets
		address := t.targetURL.String()
		gauge := shc.metrics.ServiceServerUpGauge().With("service", shc.serviceName, "url", address)
		servers[t.name] = &server{
			attempt: func(ctx context.Context) error { return shc.executeHealthCheck(ctx, shc.config, t.targetURL) },
			result: func(up bool) {
				shc.balancer.SetStatus(ctx, t.name, up)
				shc.info.UpdateServerStatus(address, word(up))
				gauge.Set(map[bool]float64{true: 1}[up])
			},
		}
	}
	servers.check(ctx, shc.interval, shc.unhealthyInterval, shc.timeout)
}

// Launch checks the servers of a TCP service until ctx ends.
func (thc *ServiceTCPHealthChecker) Launch(ctx context.Context) {
	servers := make(servers)
	for range len(thc.healthyTargets) {
		t := <-thc.healthyTargets
		servers[t.Address] = &server{
			attempt: func(ctx context.Context) error { return thc.executeHealthCheck(ctx, thc.config, t) },
			result: func(up bool) {
				thc.balancer.SetStatus(ctx, t.Address, up)
				thc.info.UpdateServerStatus(t.Address, word(up))
			},
		}
	}
	servers.check(ctx, thc.interval, thc.unhealthyInterval, thc.timeout)
}

func word(up bool) string {
	if up {
		return runtime.StatusUp
	}
	return runtime.StatusDown
}

// servers are the servers of a service by name. It observes their probes.
type servers map[string]*server

// check carries out the checks of all servers until ctx ends. The first check of a server begins after an
// interval, as in traefik.
func (s servers) check(ctx context.Context, interval, unhealthy, timeout time.Duration) {
	set, err := endpoint.New[string](endpoint.Config{Group: group.Config{ContainerScoped: true, Observers: []worker.Observer{s}}})
	if err != nil {
		panic(err)
	}
	spec := probe.Spec{InitialDelay: interval, Period: interval, Timeout: timeout, SuccessThreshold: 1, FailureThreshold: 1}
	for name, server := range s {
		server.ended = ctx.Err
		check := endpoint.Check{Name: "server", Probe: &group.Probe{Handler: server, Spec: spec}, Unhealthy: unhealthy}
		if err := set.Put(name, endpoint.Endpoint[string]{Checks: []endpoint.Check{check}}); err != nil {
			panic(err)
		}
	}
	<-ctx.Done()
	_ = set.Shutdown(context.Background())
}

// Observe implements [worker.Observer].
func (s servers) Observe(i worker.Info) worker.ProbeObserver { return s[i.Pod] }

// server is the handler and the observer of the probe of a server.
type server struct {
	attempt func(context.Context) error
	result  func(up bool)
	ended   func() error // not nil after the end of the service's context
}

// Probe implements [probe.Handler]. An attempt during which the service has ended has no verdict.
func (s *server) Probe(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
	err := s.attempt(ctx)
	if ended := s.ended(); ended != nil {
		return probe.Outcome{}, ended
	}
	if err != nil {
		return probe.Outcome{Result: probe.Failure, Output: err.Error()}, nil
	}
	return probe.Outcome{Result: probe.Success}, nil
}

// Tick implements [worker.ProbeObserver]. The balancer gets every result, not only changes.
func (s *server) Tick(t *worker.Tick) {
	if t.Counted {
		s.result(t.Result == results.Success)
	}
}

// Skipped implements [worker.ProbeObserver].
func (s *server) Skipped(worker.SkipReason, int) {}

// Close implements [worker.ProbeObserver].
func (s *server) Close() {}
