package attempt

import (
	"context"
	"fmt"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// prober makes attempts with prober's built-in handlers. The measurement includes making the context with the
// deadline.
func prober(kind string, port int) (attempt, error) {
	name, config := kind, ""
	switch kind {
	case "http":
		config = fmt.Sprintf(`{"path":"/healthz","port":%d}`, port)
	case "https":
		name, config = "http", fmt.Sprintf(`{"path":"/healthz","port":%d,"scheme":"HTTPS"}`, port)
	case "tcp", "grpc":
		config = fmt.Sprintf(`{"port":%d}`, port)
	case "exec":
		config = fmt.Sprintf(`{"command":[%q]}`, truePath)
	}
	return bindAll(name, config, addresses, func(_, i int) int { return i })
}

// reusing makes attempts of 1,024 probes that keep their connections. A probe makes one attempt at a time.
func reusing(port, c int) (attempt, error) {
	const probes = 1024
	config := fmt.Sprintf(`{"path":"/healthz","port":%d,"connection":"reuse"}`, port)
	return bindAll("http", config, probes, func(slot, i int) int { return slot + c*(i%(probes/c)) })
}

// bindAll binds a handler for each of n probes. which returns the number of the probe of an attempt,
// modulo n.
func bindAll(name, config string, n int, which func(slot, i int) int) (attempt, error) {
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		return nil, err
	}
	bound := make([]probe.Handler, n) // one for each probe, as in a manager
	for i := range bound {
		var err error
		if bound[i], err = registry.Prepare(name, []byte(config), probe.Target{}); err != nil {
			return nil, err
		}
	}
	request := probe.Request{
		Attempt: 1, Pod: &probe.Pod{Name: "web", UID: "1"}, Container: &probe.Container{Name: "app"},
		Spec: probe.Spec{Timeout: timeout, Period: timeout, SuccessThreshold: 1, FailureThreshold: 3},
	}
	ips := make([]string, addresses)
	for i := range ips {
		ips[i] = address(i)
	}
	return func(slot, i int) error {
		i = which(slot, i) % n
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		r := request
		r.PodIP = ips[i%addresses]
		r.Target.Host = r.PodIP
		outcome, err := bound[i].Probe(ctx, r)
		if err != nil || outcome.Result != probe.Success {
			return fmt.Errorf("prober: result %v, output %q, error %v", outcome.Result, outcome.Output, err)
		}
		return nil
	}, nil
}
