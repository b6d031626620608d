package guest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/handlers/internal/attempt"
	"github.com/daeace23/prober/handlers/wasm/internal/sched"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Call is one call of a guest with the guest's results. Only the goroutine that makes the call may
// use it.
type Call struct {
	ctx          context.Context
	host         *Host
	plugin       *Plugin
	req          *probe.Request // nil while an instance starts
	config       []byte
	inInitialize bool // _initialize runs, without a request
	offline      bool // validate_config or a trial: network and kv are unavailable
	hasSlot      bool // it holds a slot of Host.Slots
	watchdog
	record  record
	begun   time.Time     // when the attempt began; zero while an instance starts
	waited  time.Duration // for slots and for an instance, in total
	entered time.Time     // when the guest was last entered
	before  time.Duration // the value of waited at that time
	trouble error         // the fault of this host that failed the last dial; nil if there was none
	run     run           // zero before the guest runs

	request   []byte // the request document; empty until the guest reads it
	lastError text
	message   string
	metrics   []probe.Metric
	result    *abi.Result
	dialFault probe.Reason // why the last dial failed; "" if it succeeded
	violation error        // how the guest violated the contract; nil if it did not
	logged    attempt.Log
	errorLine string // the last error that the guest logged
	stdio     int
	traced    int
	hits      attempt.Once
	net       network
	web       network // the HTTP responses
	dns       lookups
	icmp      echoes
	files     fileUse
	kv        draft
	shown     shownCerts
	outlived  bool // a goroutine may use the call after its end

	// Unanswered is whether no datagram came in the last attempt of the probe. The next one looks for datagrams of
	// other addresses, so that good answers cost nothing. It is nil while an instance starts.
	Unanswered *atomic.Bool
	// Told is whether malformed performance data of the probe was logged. It is nil while an instance starts.
	Told *atomic.Bool
}

// text is an error text. It is formatted only when a guest asks for it, as most guests do not.
type text struct {
	format string // applied to arg or short
	arg    string
	short  [32]byte // used if arg is empty
	n      int      // length of short
}

func (t *text) String() string {
	if t.format == "" {
		return t.arg
	}
	return fmt.Sprintf(t.format, cmp.Or(t.arg, string(t.short[:t.n])))
}

// Init initializes c as the call of an attempt that began at start. c must be zero or cleared. If
// store is nil, network and kv are unavailable.
func (c *Call) Init(ctx context.Context, p *Plugin, req *probe.Request, config []byte, store *attempt.Store, start time.Time) {
	c.ctx, c.host, c.plugin, c.req, c.config, c.begun = ctx, p.Host, p, req, config, start
	c.offline, c.kv.store = store == nil, store
}

// maxKept is the largest request document whose memory a cleared call keeps.
const maxKept = 4 << 10

// Clear clears a call that has ended, so that Init can reuse it. It returns false if wazero or a
// goroutine may still use the call.
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

// Starved reports whether a call waited for the host more than half of its time. The call began at
// start and reached its deadline. Such a call says nothing about the target.
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
	waited := c.waited - c.before // includes the waits for a slot after each host call
	return sched.ClassOf(now.Sub(c.entered)-waited, deadline.Sub(c.entered))
}

// Release releases the slot, if the call holds one.
func (c *Call) Release() {
	if c.hasSlot {
		c.hasSlot = false
		c.host.Slots.Release()
	}
}

// Ended returns the error of the call's context. It also compares the deadline with the clock: a
// guest that measures the time itself may return before the timer of a busy host fires.
func (c *Call) Ended() error { return c.EndedAt(c.host.Clock.Now()) }

// EndedAt is like Ended at the time now.
func (c *Call) EndedAt(now time.Time) error {
	err := c.ctx.Err()
	if deadline, ok := c.ctx.Deadline(); err == nil && ok && !now.Before(deadline) {
		return context.DeadlineExceeded
	}
	return err
}

// idle calls wait, and records that the guest waits for w. The call releases its slot meanwhile.
func (c *Call) idle(w waiting, wait func(ctx context.Context)) {
	c.countStack()
	c.suspend(w)
	c.Release()
	wait(c.ctx)
	c.Acquire()
	c.resume()
}

// Finish closes the connections of the call, and reports the certificates of its TLS handshakes.
func (c *Call) Finish() {
	c.shown.report(c.ctx)
	c.net.closeAll()
	c.web.closeAll()
	c.dns.net.closeAll()
}

// maxTraced limits the traced events of a call, because a guest can read and write single bytes.
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

// missing is like fail with ENOENT. The text is formatted only when the guest asks for it: a guest
// with a default value does not.
func (c *Call) missing(format string, key []byte) int32 {
	c.lastError.format, c.lastError.arg = format, ""
	if c.lastError.n = copy(c.lastError.short[:], key); c.lastError.n < len(key) {
		c.lastError.arg = string(key)
	}
	return abi.ENOENT.Code()
}

// violate is like fail for a violation of the contract. The attempt then has no result.
func (c *Call) violate(errno abi.Errno, err error) int32 {
	if c.violation == nil {
		c.violation = err
	}
	return c.fail(errno, "%v", err)
}

// logEnabled reports whether log lines of every level are traced or logged.
func (c *Call) logEnabled() bool {
	return c.debugs() || c.mayLog() && c.host.Logger.Enabled(c.ctx, slog.LevelDebug)
}

// keepsLine reports whether a log line is traced or logged. name is its level or stream. Without
// debugging, only warnings, errors and lines of stderr are traced.
func (c *Call) keepsLine(name string) bool {
	trouble := name == "warn" || name == "error" || name == "stderr"
	return trouble && c.req != nil && c.req.Trace != nil || c.logEnabled()
}

// debugs reports whether the attempt is traced for debugging.
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

// logFull reports whether the call has reached a limit of the log.
func (c *Call) logFull() bool { return c.logged.Full(&c.plugin.Limits, c.Hit) }

// Outcome returns the outcome of the call. code is the guest's return value or the command's exit
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
		if trouble := c.HostTrouble(); trouble != nil && (err == nil || probe.ReasonOf(trouble) != probe.ReasonDenied) {
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

// Hit counts that the call reached a limit, once per call and limit. which is an index into
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
	which int // index into [plugin.LimitNames]; 0 for a limit that cannot be configured
	errno abi.Errno
	text  string
}

func (e *limit) Error() string { return e.text }
