package guest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// call is one call of a guest, and all that the guest has told of it. It belongs to
// the goroutine that makes the call.
type Call struct {
	ctx      context.Context
	host     *Host
	plugin   *Plugin
	req      *probe.Request // nil while an instance starts
	config   []byte
	starting bool // _initialize: there is no request yet
	offline  bool // validate_config: the network is out of reach
	hasSlot  bool // it holds one of the slots of guests that compute
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
	logged    attempt.Log
	stdio     int
	traced    int
	hits      attempt.Once
	net       network
	web       network // the answers of HTTP
	dns       lookups
	kv        draft
}

// New returns a call for an attempt. What it keeps goes to store, which is nil where the
// network and kv are out of reach.
func New(ctx context.Context, p *Plugin, req *probe.Request, config []byte, store *attempt.Store) *Call {
	return &Call{ctx: ctx, host: p.Host, plugin: p, req: req, config: config, offline: store == nil, kv: draft{store: store}}
}

// NewStart returns the call in which an instance starts.
func NewStart(ctx context.Context, p *Plugin) *Call {
	return &Call{ctx: ctx, host: p.Host, plugin: p, starting: true}
}

// Commit keeps what the guest has changed in kv.
func (c *Call) Commit() { c.kv.commit() }

// Request returns what the guest is asked.
func (c *Call) Request() *probe.Request { return c.req }

// Context returns the context of the call.
func (c *Call) Context() context.Context { return c.ctx }

// Message returns what the guest said.
func (c *Call) Message() string { return c.message }

// Waited returns how long the call has waited for others, and AddWait adds to it.
func (c *Call) Waited() time.Duration { return c.hasWaited() }

// AddWait notes that the call has waited for an instance.
func (c *Call) AddWait(d time.Duration) { c.waited += d }

// Acquire takes a slot, and reports false if the context ended first.
func (c *Call) Acquire() bool {
	if c.hasSlot = c.host.Slots.TryAcquire(); c.hasSlot {
		return true
	}
	c.queues(c.host.Clock.Now())
	c.hasSlot = c.host.Slots.Acquire(c.ctx)
	c.queues(time.Time{})
	return c.hasSlot
}

// queues notes that the call waits for others since a time; zero: that it has waited.
func (c *Call) queues(since time.Time) {
	waited := c.hasWaited()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited, c.asked = waited, since
}

// hasWaited is how long the call has waited for others, all together.
func (c *Call) hasWaited() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.IsZero() {
		return c.waited
	}
	return c.waited + c.host.since(c.asked)
}

// Starved reports whether a call that began at start, and came to its deadline, spent
// most of its time waiting for others: a busy host says nothing of the target.
func (c *Call) Starved(start time.Time) bool {
	deadline, ok := c.ctx.Deadline()
	return ok && c.hasWaited() > deadline.Sub(start)/2
}

// ClassSince returns the history class of an attempt whose guest began at entered, when the
// call had waited for so long, and which has just ended, with the error of its context. Time
// that it waited for others does not count, unless the deadline came.
func (c *Call) ClassSince(entered time.Time, waited time.Duration, ended error) sched.Class {
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

func (c *Call) Release() {
	if c.hasSlot {
		c.hasSlot = false
		c.host.Slots.Release()
	}
}

// Ended is the error of the call's context. The clock has a say too: a guest keeps
// the deadline itself, and may be quicker than a timer of a busy host.
func (c *Call) Ended() error {
	if deadline, ok := c.ctx.Deadline(); ok && c.ctx.Err() == nil && !c.host.Clock.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return c.ctx.Err()
}

// idle runs wait, during which the guest waits for w, and gives the call's slot to another
// meanwhile.
func (c *Call) idle(w waiting, wait func(ctx context.Context)) {
	c.countStack()
	c.suspend(w)
	c.Release()
	wait(c.ctx)
	c.Acquire()
	c.resume()
}

// Finish ends what the call has begun.
func (c *Call) Finish() {
	c.net.closeAll()
	c.web.closeAll()
	c.dns.net.closeAll()
}

// maxTraced is how many events of a run are traced: a guest can read and write a byte
// at a time.
const maxTraced = 500

func (c *Call) Trace(e probe.TraceEvent) {
	if c.req == nil || c.req.Trace == nil || c.traced > maxTraced {
		return
	}
	if c.traced++; c.traced > maxTraced {
		e = probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: "further events are dropped"}
	}
	c.req.Trace.Emit(e)
}

// fail notes the text of a host call's error for last_error and returns its number.
func (c *Call) fail(errno abi.Errno, format string, args ...any) int32 {
	c.lastError = fmt.Sprintf(format, args...)
	return errno.Code()
}

// violate notes that the guest broke the contract, which makes its verdict void.
func (c *Call) violate(errno abi.Errno, err error) int32 {
	if c.violation == nil {
		c.violation = err
	}
	return c.fail(errno, "%v", err)
}

// logEnabled reports whether anyone would see a line.
func (c *Call) logEnabled() bool {
	return c.req != nil && c.req.Trace != nil || c.mayLog() && c.host.Logger.Enabled(c.ctx, slog.LevelDebug)
}

// mayLog reports whether the host's log may be written to: while a config is validated
// nobody says which of it is secret.
func (c *Call) mayLog() bool { return !c.offline }

// debug writes to the host's log, without the secrets of the probe.
func (c *Call) debug(text, key, value string) {
	if !c.mayLog() || !c.host.Logger.Enabled(c.ctx, slog.LevelDebug) {
		return
	}
	if c.req != nil {
		text, value = c.req.Redacted(text), c.req.Redacted(value)
	}
	c.host.Logger.DebugContext(c.ctx, text, "handler", c.plugin.Manifest.Name, key, value)
}

// keepsSecrets reports whether the probe's config has secrets.
func (c *Call) keepsSecrets() bool { return c.req != nil && c.req.Redact != nil }

// logLine hands on one line, while the limits of the run allow it. name is the level
// or the stream.
func (c *Call) logLine(name, line string) {
	if !c.logEnabled() || c.logFull() {
		return
	}
	redact := func(text string) string { return text }
	if c.req != nil {
		redact = c.req.Redacted
	}
	line = c.logged.Add(line, &c.plugin.Limits, redact, c.Hit)
	c.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: name, Detail: line})
	c.debug(line, "from", name)
}

// logFull reports whether no further line is taken of this run.
func (c *Call) logFull() bool { return c.logged.Full(&c.plugin.Limits, c.Hit) }

// Outcome is what the guest's return value and what it said before amount to: for a
// command the exit code and what it printed.
func (c *Call) Outcome(code int32, w *World) (probe.Outcome, error) {
	if c.violation != nil {
		return probe.Outcome{}, &probe.Error{Reason: probe.ReasonProtocol, Err: c.violation}
	}
	if c.plugin.Command {
		var err error
		if code, err = c.readCommand(code, w); err != nil {
			return probe.Outcome{}, err
		}
	}
	answer := abi.Result{Message: c.message, Metrics: c.metrics}
	if c.result != nil {
		answer = *c.result
	}
	out, err := attempt.Outcome(c.req, int(code), &answer, &c.plugin.Limits, c.Hit)
	if err == nil && out.Result == probe.Failure || probe.ReasonOf(err) == probe.ReasonGuest {
		if trouble := c.HostTrouble(); trouble != nil {
			return probe.Outcome{}, trouble
		}
	}
	if err == nil && out.Result == probe.Failure {
		out.Reason = c.dialFault
		if c.plugin.Command {
			out.Reason = cmp.Or(c.dialFault, probe.ReasonExecExit)
		}
	}
	return out, err
}

// requestDoc returns the request document, encoded once a call.
func (c *Call) requestDoc() []byte {
	if c.request == nil {
		p := attempt.Plugin{
			Manifest: c.plugin.Manifest, Digest: c.plugin.Digest, HostVersion: c.host.Version, Features: c.plugin.Permissions.Features(),
		}
		c.request = p.Request(c.req, c.config)
	}
	return c.request
}

// Hit notes that the call has come to a limit, which counts once a call: a guest may
// try as often as it likes. which is an index of [plugin.LimitNames].
func (c *Call) Hit(which int) {
	if !c.hits.Add(which, &c.plugin.Hits) {
		return
	}
	if c.req != nil && c.req.Trace != nil {
		c.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: fmt.Sprintf("the limit %s is used up", plugin.LimitNames[which])})
	}
}

// limit is the error of a run that has used up what it may have, or that does what no
// run may.
type limit struct {
	which int // index of [plugin.LimitNames]; 0: of what nobody can set
	errno abi.Errno
	text  string
}

func (e *limit) Error() string { return e.text }
