package wasm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// call is one call of a guest, and all that the guest has told of it. It belongs to
// the goroutine that makes the call.
type call struct {
	ctx      context.Context
	host     *Host
	plugin   *Handler
	req      *probe.Request // nil while an instance starts
	config   []byte
	starting bool // _initialize: there is no request yet
	offline  bool // validate_config: the network is out of reach
	class    sched.Class
	share    uint64 // of the host's memory, while it is admitted
	hasSlot  bool   // it holds one of the slots of guests that compute
	watchdog
	record  record
	waited  time.Duration // for a slot or an instance, all together
	asked   time.Time     // since when it waits for a slot; zero: it does not
	trouble error         // of the agent's own host, which kept a connection from being made; nil: none
	run     run           // of the guest; zero before it runs

	request   []byte // encoded when the guest first asks for it
	lastError string
	message   string
	metrics   []probe.Metric
	result    *abi.Result
	dialFault probe.Reason // why the last dial failed; "" if it did not
	violation error        // the guest broke the contract
	logLines  int
	logBytes  int
	stdio     int
	traced    int
	hits      uint32 // limits that were hit, a bit each
	net       network
	web       network // the answers of HTTP
	dns       lookups
	kv        draft
}

func newCall(ctx context.Context, b *bound, req *probe.Request) *call {
	return &call{ctx: ctx, host: b.plugin.host, plugin: b.plugin, req: req, config: b.config}
}

// acquire takes a slot, and reports false if the context ended first.
func (c *call) acquire() bool {
	if c.hasSlot = c.host.slots.TryAcquire(); c.hasSlot {
		return true
	}
	c.queues(c.host.cfg.Clock.Now())
	c.hasSlot = c.host.slots.Acquire(c.ctx)
	c.queues(time.Time{})
	return c.hasSlot
}

// queues notes that the call waits for others since a time; zero: that it has waited.
func (c *call) queues(since time.Time) {
	waited := c.hasWaited()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited, c.asked = waited, since
}

// hasWaited is how long the call has waited for others, all together.
func (c *call) hasWaited() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.IsZero() {
		return c.waited
	}
	return c.waited + c.host.since(c.asked)
}

// starved reports whether a call that began at start, and came to its deadline, spent
// most of its time waiting for others: a busy host says nothing of the target.
func (c *call) starved(start time.Time) bool {
	deadline, ok := c.ctx.Deadline()
	return ok && c.hasWaited() > deadline.Sub(start)/2
}

// classSince returns the history class of an attempt whose guest began at entered, when the
// call had waited for so long, and which has just ended, with the error of its context. Time
// that it waited for others does not count, unless the deadline came.
func (c *call) classSince(entered time.Time, waited time.Duration, ended error) sched.Class {
	deadline, ok := c.ctx.Deadline()
	switch {
	case !ok:
		return sched.Prompt
	case ended == context.DeadlineExceeded:
		return sched.Slow
	default:
		return sched.ClassOf(c.host.since(entered)-(c.hasWaited()-waited), deadline.Sub(entered))
	}
}

func (c *call) release() {
	if c.hasSlot {
		c.hasSlot = false
		c.host.slots.Release()
	}
}

// ended is the error of the call's context. The clock has a say too: a guest keeps
// the deadline itself, and may be quicker than a timer of a busy host.
func (c *call) ended() error {
	if deadline, ok := c.ctx.Deadline(); ok && c.ctx.Err() == nil && !c.host.cfg.Clock.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return c.ctx.Err()
}

// idle runs wait, during which the guest waits for w, and gives the call's slot to another
// meanwhile.
func (c *call) idle(w waiting, wait func(ctx context.Context)) {
	c.countStack()
	c.suspend(w)
	c.release()
	wait(c.ctx)
	c.acquire()
	c.resume()
}

// finish ends what the call has begun.
func (c *call) finish() {
	c.net.closeAll()
	c.web.closeAll()
	c.dns.net.closeAll()
}

// maxTraced is how many events of a run are traced: a guest can read and write a byte
// at a time.
const maxTraced = 500

func (c *call) trace(e probe.TraceEvent) {
	if c.req == nil || c.req.Trace == nil || c.traced > maxTraced {
		return
	}
	if c.traced++; c.traced > maxTraced {
		e = probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: "further events are dropped"}
	}
	c.req.Trace.Emit(e)
}

// fail notes the text of a host call's error for last_error and returns its number.
func (c *call) fail(errno abi.Errno, format string, args ...any) int32 {
	c.lastError = fmt.Sprintf(format, args...)
	return errno.Code()
}

// violate notes that the guest broke the contract, which makes its verdict void.
func (c *call) violate(errno abi.Errno, err error) int32 {
	if c.violation == nil {
		c.violation = err
	}
	return c.fail(errno, "%v", err)
}

// logEnabled reports whether anyone would see a line.
func (c *call) logEnabled() bool {
	return c.req != nil && c.req.Trace != nil || c.mayLog() && c.host.cfg.Logger.Enabled(c.ctx, slog.LevelDebug)
}

// mayLog reports whether the host's log may be written to: while a config is validated
// nobody says which of it is secret.
func (c *call) mayLog() bool { return !c.offline }

// debug writes to the host's log, without the secrets of the probe.
func (c *call) debug(text, key, value string) {
	if !c.mayLog() || !c.host.cfg.Logger.Enabled(c.ctx, slog.LevelDebug) {
		return
	}
	if c.req != nil {
		text, value = c.req.Redacted(text), c.req.Redacted(value)
	}
	c.host.cfg.Logger.DebugContext(c.ctx, text, "handler", c.plugin.manifest.Name, key, value)
}

// keepsSecrets reports whether the probe's config has secrets.
func (c *call) keepsSecrets() bool { return c.req != nil && c.req.Redact != nil }

// logLine hands on one line, while the limits of the run allow it. name is the level
// or the stream.
func (c *call) logLine(name, line string) {
	if !c.logEnabled() || c.logFull() {
		return
	}
	if room := c.plugin.limits.LogBytes - c.logBytes; len(line) > room {
		c.hit(plugin.LimitLogBytes)
		if c.req != nil {
			line = c.req.Redacted(line) // half a secret would not be found later
		}
		line = line[:min(len(line), room)]
	}
	line = strings.ToValidUTF8(line, "\uFFFD")
	c.logLines++
	c.logBytes += len(line)
	c.trace(probe.TraceEvent{Type: probe.TraceLog, Name: name, Detail: line})
	c.debug(line, "from", name)
}

// logFull reports whether no further line is taken of this run.
func (c *call) logFull() bool {
	if c.logLines >= c.plugin.limits.LogLines {
		c.hit(plugin.LimitLogLines)
		return true
	}
	if c.logBytes >= c.plugin.limits.LogBytes {
		c.hit(plugin.LimitLogBytes)
		return true
	}
	return false
}

// outcome is what the guest's return value and what it said before amount to: for a
// command the exit code and what it printed.
func (c *call) outcome(code int32, in *instance) (probe.Outcome, error) {
	if c.violation != nil {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonProtocol, Err: c.violation}
	}
	if c.plugin.command {
		var err error
		if code, err = c.readCommand(code, in); err != nil {
			return probe.Outcome{}, err
		}
	}
	message, metrics, details := c.message, c.metrics, []byte(nil)
	if c.result != nil {
		message, metrics, details = c.result.Message, c.result.Metrics, c.result.Details
	}
	message, details = c.cut(message), c.fit(details)
	if most := c.plugin.limits.Series; len(metrics) > most {
		c.hit(plugin.LimitSeries)
		metrics = metrics[:most]
	}
	if code < 0 {
		if err := c.hostTrouble(); err != nil {
			return probe.Outcome{}, err
		}
		if message == "" {
			message = fmt.Sprintf("the plugin returned %d", code)
		}
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonGuest, Err: errors.New(message)}
	}
	result, ok := probe.FromExitCode(int(code))
	if !ok {
		return probe.Outcome{}, protocolError("the plugin returned %d; want 0 to 3, or a negative number", code)
	}
	if c.result != nil && c.result.HasResult && c.result.Result != result {
		return probe.Outcome{}, protocolError("the plugin returned %d (%v), but its result says %v", code, result, c.result.Result)
	}
	out := probe.Outcome{Result: result, Output: message, Metrics: metrics, Details: string(details)}
	if result == probe.Failure {
		if err := c.hostTrouble(); err != nil {
			return probe.Outcome{}, err
		}
		out.Reason = c.dialFault
		if c.plugin.command {
			out.Reason = cmp.Or(c.dialFault, probe.ReasonExecExit)
		}
	}
	return out, nil
}

// cut holds a message to its limit.
func (c *call) cut(message string) string {
	most := c.plugin.limits.Message
	if len(message) <= most {
		return message
	}
	c.hit(plugin.LimitMessage)
	message = c.req.Redacted(message) // half a secret would not be found later
	return strings.ToValidUTF8(message[:min(len(message), most)], "")
}

// fit drops details that are longer than a message may be: half an object is none.
func (c *call) fit(details []byte) []byte {
	if len(details) <= c.plugin.limits.Message {
		return details
	}
	c.hit(plugin.LimitMessage)
	return nil
}

func protocolError(format string, args ...any) error {
	return &probe.Error{Reason: probe.ReasonProtocol, Err: fmt.Errorf(format, args...)}
}

// requestDoc is the request document, encoded once a call.
func (c *call) requestDoc() []byte {
	if c.request != nil {
		return c.request
	}
	q, m := c.req, c.plugin.manifest
	doc := abi.Request{
		ABI:    abi.Version,
		Plugin: abi.Plugin{Name: m.Name, Version: m.Version, Digest: c.plugin.digest},
		Probe: abi.Probe{
			Kind:             q.Kind,
			Attempt:          q.Attempt,
			PeriodMs:         q.Spec.Period.Milliseconds(),
			TimeoutMs:        q.Spec.Timeout.Milliseconds(),
			FailureThreshold: q.Spec.FailureThreshold,
			LastResult:       q.LastResult,
		},
		Target:    guestTarget(q.Target),
		Container: abi.Container{ID: q.ContainerID},
		Config:    c.config,
		Host:      abi.Host{Version: c.host.cfg.Version, Features: c.plugin.permissions.Features()},
	}
	if q.Pod != nil {
		doc.Pod = abi.Pod{Namespace: q.Pod.Namespace, Name: q.Pod.Name, UID: q.Pod.UID, Labels: q.Pod.Labels}
	}
	if q.Container != nil {
		doc.Container.Name, doc.Container.Ports = q.Container.Name, q.Container.Ports
	}
	c.request = abi.AppendRequest(make([]byte, 0, 1024), &doc)
	return c.request
}

// guestTarget returns what a guest is told of its target.
func guestTarget(t probe.Target) abi.Target {
	out := abi.Target{Host: t.Host, Port: t.Port, Unix: t.Unix}
	if addr, err := netip.ParseAddr(t.Host); err == nil {
		out.IP = addr.String()
	}
	return out
}
