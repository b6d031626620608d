package attempt

import (
	"context"
	"fmt"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// prober makes attempts with prober's built-in handlers. The context of each, with its deadline, is
// part of what is measured.
func prober(kind string, port int) (attempt, error) {
	var registry handlers.Registry
	if err := builtin.Register(&registry, builtin.Config{Runner: &builtin.HostRunner{}}); err != nil {
		return nil, err
	}
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
	bound := make([]probe.Handler, addresses) // one a probe, as a manager has them
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
	return func(_, i int) error {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		r := request
		r.PodIP = ips[i%addresses]
		r.Target.Host = r.PodIP
		outcome, err := bound[i%addresses].Probe(ctx, r)
		if err != nil || outcome.Result != probe.Success {
			return fmt.Errorf("prober: result %v, output %q, error %v", outcome.Result, outcome.Output, err)
		}
		return nil
	}, nil
}
