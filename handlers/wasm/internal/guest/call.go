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

// Call is one call of a guest, and the results of the guest. It belongs to the goroutine
// that makes the call.
type Call struct {
	ctx          context.Context
	host         *Host
	plugin       *Plugin
	req          *probe.Request // nil while an instance starts
	config       []byte
	inInitialize bool // _initialize runs: there is no request yet
	offline      bool // validate_config or a trial: the network and kv cannot be used
	hasSlot      bool // it holds a slot of Host.Slots
	watchdog
	record  record
	begun   time.Time     // when the attempt began; zero while an instance starts
	waited  time.Duration // for slots and for an instance, in total
	entered time.Time     // when the guest was entered last
	before  time.Duration // what waited was then
	trouble error         // the host's own error in the last dial; nil if there was none
	run     run           // zero before the guest runs

	request   []byte // the request document; empty until the guest reads it
	lastError text
	message   string
	metrics   []probe.Metric
	result    *abi.Result
	dialFault probe.Reason // why the last dial failed; "" if it did not
	violation error        // how the guest broke the contract; nil if it did not
	logged    attempt.Log
	stdio     int
	traced    int
	hits      attempt.Once
	net       network
	web       network // the HTTP responses
	dns       lookups
	icmp      echoes
	kv        draft
	outlived  bool // a goroutine may use the call after its end
}

// text is an error text, which most guests do not ask for.
type text struct {
	format string // of arg
	arg    string
	short  [32]byte // arg, if it is empty
	n      int      // of the bytes of short
}

func (t *text) String() string {
	if t.format == "" {
		return t.arg
	}
	return fmt.Sprintf(t.format, cmp.Or(t.arg, string(t.short[:t.n])))
}

// Init makes c, which must be zero or cleared, the call of an attempt that began at start. Without
// a store neither the network nor kv can be used.
func (c *Call) Init(ctx context.Context, p *Plugin, req *probe.Request, config []byte, store *attempt.Store, start time.Time) {
	c.ctx, c.host, c.plugin, c.req, c.config, c.begun = ctx, p.Host, p, req, config, start
	c.offline, c.kv.store = store == nil, store
}

// maxKept is the largest request document whose memory a cleared call keeps.
const maxKept = 4 << 10

// Clear clears a call that has ended. It returns false if something may still use the call: wazero,
// where it ends the guest, or a goroutine that was not waited for.
func (c *Call) Clear() bool {
	if c.outlived || c.interrupt != nil {
		return false
	}
	request := c.request[:0]
	if cap(request) > maxKept {
		request = nil
	}
	*c = Call{request: request}
	return true
}

// NewStart returns the call in which an instance starts.
func NewStart(ctx context.Context, p *Plugin) *Call {
	return &Call{ctx: ctx, host: p.Host, plugin: p, inInitialize: true}
}

// Commit stores what the guest has changed in kv.
func (c *Call) Commit() { c.kv.commit() }

// Request returns the request of the attempt.
func (c *Call) Request() *probe.Request { return c.req }

// Context returns the context of the call.
func (c *Call) Context() context.Context { return c.ctx }

// Message returns the message of the guest.
func (c *Call) Message() string { return c.message }

// AddWait adds the time since start to the time that the call waited for the host.
func (c *Call) AddWait(start time.Time) { c.waited += c.host.since(start) }

// Acquire takes a slot. It returns false if the context ended first.
func (c *Call) Acquire() bool {
	if c.hasSlot = c.host.Slots.TryAcquire(); c.hasSlot {
		return true
	}
	start := c.host.Clock.Now()
	c.hasSlot = c.host.Slots.Acquire(c.ctx)
	c.AddWait(start)
	return c.hasSlot
}

// Starved reports whether a call that began at start and reached its deadline waited for the
// host more than half of its time. Such a call tells nothing about the target.
func (c *Call) Starved(start time.Time) bool {
	deadline, ok := c.ctx.Deadline()
	return ok && c.waited > deadline.Sub(start)/2
}

// Class returns the history class of an attempt whose guest returned now. ended is the result of
// [Call.EndedAt].
func (c *Call) Class(ended error, now time.Time) sched.Class {
	deadline, ok := c.ctx.Deadline()
	if !ok {
		return sched.Prompt
	}
	if ended == context.DeadlineExceeded {
		return sched.Slow
	}
	waited := c.waited - c.before // on a busy host a guest waits for a slot after each host call
	return sched.ClassOf(now.Sub(c.entered)-waited, deadline.Sub(c.entered))
}

// Release gives back the slot, if the call holds one.
func (c *Call) Release() {
	if c.hasSlot {
		c.hasSlot = false
		c.host.Slots.Release()
	}
}

// Ended returns the error of the call's context. It compares the deadline with the clock as
// well: a guest that measures the time itself may return before the timer of a busy host fires.
func (c *Call) Ended() error { return c.EndedAt(c.host.Clock.Now()) }

// EndedAt is Ended with the time of the clock.
func (c *Call) EndedAt(now time.Time) error {
	err := c.ctx.Err()
	if deadline, ok := c.ctx.Deadline(); err == nil && ok && !now.Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}

// idle calls wait, in which the guest waits for w. The call releases its slot meanwhile.
func (c *Call) idle(w waiting, wait func(ctx context.Context)) {
	c.countStack()
	c.suspend(w)
	c.Release()
	wait(c.ctx)
	c.Acquire()
	c.resume()
}

// Finish closes the connections of the call.
func (c *Call) Finish() {
	c.net.closeAll()
	c.web.closeAll()
	c.dns.net.closeAll()
}

// maxTraced is the number of traced events of a call: a guest can read and write one byte
// at a time.
const maxTraced = 500

// Trace emits e if the attempt is traced.
func (c *Call) Trace(e probe.TraceEvent) {
	if c.req == nil || c.req.Trace == nil || c.traced > maxTraced {
		return
	}
	if c.traced++; c.traced > maxTraced {
		e = probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: "further events are dropped"}
	}
	c.req.Trace.Emit(e)
}

// fail sets the text that last_error returns, and returns the number of the error.
func (c *Call) fail(errno abi.Errno, format string, args ...any) int32 {
	c.lastError = text{arg: fmt.Sprintf(format, args...)}
	return errno.Code()
}

// missing is fail with ENOENT for a text that is made when the guest asks for it: a guest with a
// default does not.
func (c *Call) missing(format string, key []byte) int32 {
	c.lastError.format, c.lastError.arg = format, ""
	if c.lastError.n = copy(c.lastError.short[:], key); c.lastError.n < len(key) {
		c.lastError.arg = string(key)
	}
	return abi.ENOENT.Code()
}

// violate is fail for an error that breaks the contract: the attempt then has no result.
func (c *Call) violate(errno abi.Errno, err error) int32 {
	if c.violation == nil {
		c.violation = err
	}
	return c.fail(errno, "%v", err)
}

// logEnabled reports whether all log lines of the guest are traced or logged.
func (c *Call) logEnabled() bool {
	return c.debugs() || c.mayLog() && c.host.Logger.Enabled(c.ctx, slog.LevelDebug)
}

// keepsLine reports whether a log line of a level or a stream is traced or logged. Of an attempt
// that nobody looks at, only those that tell of trouble are traced.
func (c *Call) keepsLine(name string) bool {
	trouble := name == "warn" || name == "error" || name == "stderr"
	return trouble && c.req != nil && c.req.Trace != nil || c.logEnabled()
}

// debugs reports whether the attempt is traced for someone who looks at it.
func (c *Call) debugs() bool { return c.req != nil && c.req.Trace != nil && c.req.Debug }

// mayLog reports whether the call may write to the host's log. During validate_config it may
// not, because the secrets of the config are not known then.
func (c *Call) mayLog() bool { return !c.offline }

// debug writes to the host's log, with the secrets of the probe redacted.
func (c *Call) debug(text, key, value string) {
	if !c.mayLog() || !c.host.Logger.Enabled(c.ctx, slog.LevelDebug) {
		return
	}
	if c.req != nil {
		text, value = c.req.Redacted(text), c.req.Redacted(value)
	}
	c.host.Logger.DebugContext(c.ctx, text, "handler", c.plugin.Manifest.Name, key, value)
}

// hasSecrets reports whether the probe's config has secrets.
func (c *Call) hasSecrets() bool { return c.req != nil && c.req.Redact != nil }

// logLine logs and traces one line, within the limits of the call. name is the level or the
// stream.
func (c *Call) logLine(name, line string) {
	if !c.keepsLine(name) || c.logFull() {
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

// logFull reports whether the limits of the log are used up.
func (c *Call) logFull() bool { return c.logged.Full(&c.plugin.Limits, c.Hit) }

// Outcome returns the outcome of a guest that returned code, or of a command with that exit
// code.
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
		out.Reason = cmp.Or(out.Reason, c.dialFault)
		if c.plugin.Command {
			out.Reason = cmp.Or(out.Reason, probe.ReasonExecExit)
		}
	}
	return out, err
}

// requestDoc returns the request document.
func (c *Call) requestDoc() []byte {
	if len(c.request) == 0 {
		p := attempt.Plugin{
			Manifest: c.plugin.Manifest, Digest: c.plugin.Digest, HostVersion: c.host.Version, Features: c.plugin.Features,
		}
		c.request = p.AppendRequest(c.request, c.req, c.config)
	}
	return c.request
}

// Hit counts that the call reached a limit, once a call. which is an index of
// [plugin.LimitNames].
func (c *Call) Hit(which int) {
	if !c.hits.Add(which, &c.plugin.Hits) {
		return
	}
	if c.req != nil && c.req.Trace != nil {
		c.Trace(probe.TraceEvent{Type: probe.TraceLog, Name: "host", Detail: fmt.Sprintf("the limit %s is used up", plugin.LimitNames[which])})
	}
}

// limit is the error of a call that reached a limit.
type limit struct {
	which int // index of [plugin.LimitNames]; 0 for a limit that cannot be configured
	errno abi.Errno
	text  string
}

func (e *limit) Error() string { return e.text }
