//go:build go1.26

// Package checks carries out the checks of consul's agent with core/endpoint, for consul's own tests. Package
// main of test/peers adds it to consul's package, and it does not compile elsewhere. The build constraint
// sets the language version, which is 1.19 in consul's go.mod.
package checks

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/agent/structs"
	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/daeace23/prober/core/endpoint"
	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// newSet returns a set with one endpoint, "check".
func newSet(checks ...endpoint.Check) *endpoint.Set[string] {
	set, err := endpoint.New[string](endpoint.Config{})
	if err == nil {
		err = set.Put("check", endpoint.Endpoint[string]{Checks: checks})
	}
	if err != nil {
		panic(err)
	}
	return set
}

func (c *CheckMonitor) run() { repeat(c.check, c.Interval, c.stopCh) }
func (c *CheckTCP) run()     { repeat(c.check, c.Interval, c.stopCh) }
func (c *CheckUDP) run()     { repeat(c.check, c.Interval, c.stopCh) }
func (c *CheckGRPC) run()    { repeat(c.check, c.Interval, c.stopCh) }

func (c *CheckHTTP) run() {
	defer c.stopWg.Done()
	repeat(c.check, c.Interval, c.stopCh)
}

func (c *CheckH2PING) run() {
	defer c.stopWg.Done()
	repeat(c.check, c.Interval, c.stopCh)
}

func (c *CheckOSService) run() {
	defer c.stopWg.Done()
	repeat(c.check, c.Interval, c.stopCh)
}

func (c *CheckDocker) run() {
	defer c.Client.Close()
	repeat(c.check, c.Interval, c.stop)
}

// repeat carries out check until stop is closed, and waits for its end. The check reports its results to a
// [StatusHandler] by itself, and has a timeout of its own.
func repeat(check func(), interval time.Duration, stop <-chan struct{}) {
	set := newSet(endpoint.Check{Name: "repeat", Probe: &group.Probe{
		Handler: probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) {
			check()
			return probe.Outcome{Result: probe.Success}, nil
		}),
		Spec: probe.Spec{Period: interval, Timeout: -1},
	}})
	<-stop
	_ = set.Shutdown(context.Background())
}

// StatusHandler decides the status of a check by consecutive results. Each of its thresholds is one of two
// pushed checks, which get the same reports.
type StatusHandler struct {
	inner                         CheckNotifier
	set                           *endpoint.Set[string]
	passing, toWarn, toBeCritical int // thresholds
	started                       bool
}

// NewStatusHandler returns a handler without results.
func NewStatusHandler(inner CheckNotifier, _ hclog.Logger, successBeforePassing, failuresBeforeWarning, failuresBeforeCritical int) *StatusHandler {
	push := func(name string, failures int) endpoint.Check {
		return endpoint.Check{Name: name, Push: &endpoint.Push{
			Thresholds: endpoint.Thresholds{Successes: successBeforePassing, Failures: failures}, TTL: math.MaxInt64,
		}}
	}
	return &StatusHandler{
		inner: inner, set: newSet(push("critical", failuresBeforeCritical), push("warning", failuresBeforeWarning)),
		passing: successBeforePassing, toWarn: failuresBeforeWarning, toBeCritical: failuresBeforeCritical,
	}
}

// updateCheck reports a result. The notifier gets each result whose run has reached a threshold. The first
// result reaches its threshold at once.
func (s *StatusHandler) updateCheck(id structs.CheckID, status, output string) {
	times := 1
	if !s.started {
		s.started, times = true, max(1, s.passing, s.toBeCritical)
	}
	for range times {
		for _, name := range []string{"critical", "warning"} {
			_ = s.set.Report("check", name, outcome(status, output))
		}
	}
	now, _ := s.set.Status("check")
	critical, warning := now.Checks[0], now.Checks[1]
	threshold := s.passing
	if status == api.HealthCritical {
		threshold = s.toWarn
		switch {
		case critical.State == states.Failure:
			threshold = s.toBeCritical
		case warning.State == states.Failure:
			status = api.HealthWarning
		}
	}
	if critical.Run >= threshold {
		s.inner.UpdateCheck(id, status, output)
	}
}

func outcome(status, output string) probe.Outcome {
	o := probe.Outcome{Result: probe.Failure, Output: output}
	switch status {
	case api.HealthPassing:
		o.Result = probe.Success
	case api.HealthWarning:
		o.Result = probe.Warning
	}
	return o
}

// CheckTTL is a check to which clients report, and which is critical when no report comes in time.
type CheckTTL struct {
	Notify        CheckNotifier
	CheckID       structs.CheckID
	ServiceID     structs.ServiceID
	TTL           time.Duration
	Logger        hclog.Logger
	OutputMaxSize int

	set  *endpoint.Set[string]
	mu   sync.Mutex
	last string // output of the last report
}

// Start starts the check.
func (c *CheckTTL) Start() {
	c.OutputMaxSize = cmp.Or(c.OutputMaxSize, DefaultBufSize)
	c.set = newSet(endpoint.Check{Name: "ttl", Push: &endpoint.Push{TTL: c.TTL}})
	go func() {
		for change := range c.set.Subscribe(context.Background()) {
			now, _ := c.set.Status("check")
			if change.To == states.Failure && !change.Time.Before(now.Checks[0].Push.Report.Add(c.TTL)) {
				c.Notify.UpdateCheck(c.CheckID, api.HealthCritical, c.expired())
			}
		}
	}()
}

// Stop ends the check.
func (c *CheckTTL) Stop() { _ = c.set.Shutdown(context.Background()) }

func (c *CheckTTL) expired() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == "" {
		return "TTL expired"
	}
	return "TTL expired (last output before timeout follows): " + c.last
}

// SetStatus reports a status. It returns the output as it is kept.
func (c *CheckTTL) SetStatus(status, output string) string {
	if n := len(output); n > c.OutputMaxSize {
		output = fmt.Sprintf("%s ... (captured %d of %d bytes)", output[:c.OutputMaxSize], c.OutputMaxSize, n)
	}
	c.Notify.UpdateCheck(c.CheckID, status, output)
	c.mu.Lock()
	c.last = output
	c.mu.Unlock()
	_ = c.set.Report("check", "ttl", outcome(status, output))
	return output
}

// processChecks combines the checks of a service, and of its node, with the rule that needs every check.
func (c *CheckAlias) processChecks(all []*structs.HealthCheck, exists CheckIfServiceIDExists) {
	found := false
	var parts []endpoint.Part
	texts := make(map[states.State]string)
	for _, chk := range all {
		matches := c.ServiceID.Matches(chk.CompoundServiceID())
		if c.Node != "" && !strings.EqualFold(c.Node, chk.Node) || chk.ServiceID != "" && !matches {
			continue
		}
		found = found || matches
		state := map[string]states.State{api.HealthCritical: states.Failure, api.HealthWarning: states.Warning}[chk.Status]
		state = cmp.Or(state, states.Success)
		parts = append(parts, endpoint.Part{Name: chk.Name, State: state})
		texts[state] = fmt.Sprintf("Aliased check %q failing: %s", chk.Name, chk.Output)
	}
	if !found && !exists(&c.ServiceID) {
		c.Notify.UpdateCheck(c.CheckID, api.HealthCritical, fmt.Sprintf("Service %s could not be found on node %s", c.ServiceID.ID, c.Node))
		return
	}
	switch state := (endpoint.Rule{}).Decide(parts).State; state {
	case states.Failure:
		c.Notify.UpdateCheck(c.CheckID, api.HealthCritical, texts[state])
	case states.Warning:
		c.Notify.UpdateCheck(c.CheckID, api.HealthWarning, texts[state])
	case states.Success:
		c.Notify.UpdateCheck(c.CheckID, api.HealthPassing, "All checks passing.")
	default:
		c.Notify.UpdateCheck(c.CheckID, api.HealthPassing, "No checks found.")
	}
}
