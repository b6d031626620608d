package guest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// waiting is what a guest waits for in a host call.
type waiting struct {
	call  string // its name, or sleeping; "" while the guest computes
	where string // the URL or question, if conn is nil
	conn  *conn
	stage string       // the awaited step
	addr  string       // the peer that must do the step
	over  *countedConn // the connection below conn, if the step happens there; nil if it is not counted
}

// countedConn counts the bytes of a connection below TLS or HTTP.
type countedConn struct {
	net.Conn
	connect        time.Duration // how long the dial took
	sent, received atomic.Int64
}

// Read implements [net.Conn].
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

// Write implements [net.Conn].
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// sleeping is the call of a guest that sleeps: poll_oneoff of WASI.
const sleeping = "sleep"

// The stages of host calls with several steps.
const (
	stageLookup    = "no answer from the resolver"
	stageDial      = "no answer to the SYN"
	stageHandshake = "the TLS handshake is not finished"
	stageHeaders   = "no response headers"
	stageResponse  = "the response headers are not finished"
	stageBody      = "the body is not finished"
	stageEcho      = "no echo reply"
)

// bytes describes how many bytes were sent and received. It returns nil if there were none.
func (c *countedConn) bytes() []string {
	sent, received := c.sent.Load(), c.received.Load()
	if sent == 0 && received == 0 {
		return nil
	}
	return []string{explain.Bytes(sent, received)}
}

// record describes the activity of a guest in its call. Only the goroutine of the call may use it,
// except stage, addr and over, which are guarded by the call's mu.
type record struct {
	waiting
	since time.Time // when the current wait or computation began
	last  string    // the host call of the last wait
	name  string    // the last host call, including the current one
	calls int       // host calls without a wait since the computation began
	total totals    // all waits that have ended
	run   waitRun
}

// totals counts waits and sleeps, and sums their durations.
type totals struct {
	waits, sleeps int
	waited, slept time.Duration
}

// waitRun is a run of consecutive waits for the same thing. The Go SDK, for example, polls with
// growing pauses.
type waitRun struct {
	waiting
	begun    time.Time
	waits    int
	before   totals // all waits before the run
	received int64  // bytes received over the connection before the run
}

// continues reports whether a wait for w belongs to the run.
func (r *waitRun) continues(w *waiting) bool {
	return r.call == w.call && r.where == w.where && r.conn == w.conn && (w.conn == nil || w.conn.received.Load() == r.received)
}

// stage records the step that the current host call waits for, and the connection. It may be called
// from any goroutine. If ctx belongs to an HTTP exchange that has ended, stage does nothing.
func (c *Call) stage(ctx context.Context, stage, addr string, over *countedConn) {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	c.mu.Lock()
	defer c.mu.Unlock()
	if x != nil && x.ended {
		return
	}
	c.record.stage, c.record.addr, c.record.over = stage, addr, over
}

// beginWaitLocked records that the guest begins to wait.
func (c *Call) beginWaitLocked(w waiting) {
	d := &c.record
	d.waiting, d.since = w, c.host.Clock.Now()
	if !d.run.continues(&w) {
		d.run = waitRun{waiting: w, begun: d.since, before: d.total}
		if w.conn != nil {
			d.run.received = w.conn.received.Load()
		}
	}
	d.run.waits++
}

// endWaitLocked records that the guest continues. It does nothing if the guest did not wait.
func (c *Call) endWaitLocked() {
	d := &c.record
	if d.call == "" {
		return
	}
	now := c.host.Clock.Now()
	if took := now.Sub(d.since); d.call == sleeping {
		d.total.sleeps, d.total.slept = d.total.sleeps+1, d.total.slept+took
	} else {
		d.total.waits, d.total.waited = d.total.waits+1, d.total.waited+took
	}
	d.waiting, d.last, d.calls, d.since = waiting{}, d.call, 0, now
	c.meter.since = now
}

// activity describes what the guest did when its call ended.
func (c *Call) activity() *explain.Wait {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.host.Clock.Now()
	if deadline, ok := c.ctx.Deadline(); ok && deadline.Before(now) {
		now = deadline
	}
	d := &c.record
	w, before := &explain.Wait{}, d.total
	if d.call == "" {
		w.For = max(0, now.Sub(d.since))
		d.describeComputing(w)
	} else {
		w.For, before = max(0, now.Sub(d.run.begun)), d.run.before
		d.describeWait(w)
		d.describeRun(w, now)
	}
	if sum := before.sum(); sum != "" {
		w.Own = append(w.Own, sum)
	}
	return w
}

// describeComputing describes a guest that does not wait.
func (d *record) describeComputing(w *explain.Wait) {
	w.Call, w.Doing = "guest", "computing"
	since := "it began"
	if d.last != "" {
		since = d.last + " returned"
	}
	calls := "no host call"
	switch {
	case d.calls == 1:
		calls = "one host call that did not wait, " + d.name
	case d.calls > 1:
		calls = fmt.Sprintf("%d host calls that did not wait, the last one %s", d.calls, d.name)
	}
	w.Saw = []string{calls + " since " + since}
}

// describeWait describes a guest that waits.
func (d *record) describeWait(w *explain.Wait) {
	w.Call, w.Where = d.call, d.where
	if d.call == sleeping {
		w.Call, w.Doing, w.Saw = "guest", "sleeping", []string{"poll_oneoff of WASI"}
		return
	}
	switch {
	case d.stage == stageLookup && d.addr != "":
		w.Saw = append(w.Saw, "no answer from "+d.addr)
	case d.stage == stageHandshake && d.addr != "" && d.conn == nil:
		w.Saw = append(w.Saw, "the TLS handshake with "+d.addr+" is not finished")
	case d.stage != "" && d.addr != "" && d.conn == nil:
		w.Saw = append(w.Saw, d.stage+" from "+d.addr)
	case d.stage != "":
		w.Saw = append(w.Saw, d.stage)
	}
	if d.conn != nil {
		d.describeConn(d.conn, w)
	} else if d.over != nil {
		w.Saw = append(w.Saw, connected(d.over.connect)...)
		w.Saw = append(w.Saw, d.over.bytes()...)
	}
}

// describeConn adds the state of the connection c to the description of a wait.
func (d *record) describeConn(c *conn, w *explain.Wait) {
	if where := c.place(); where != "" {
		w.Where = where
	}
	sent, received := c.sent.Load(), c.received.Load()
	switch {
	case c.network == "http":
		w.Saw = append(w.Saw, "status "+strconv.Itoa(c.Conn.(*answer).exchange.head.Status), stageBody, count(int(received), "byte")+" of it received")
	case d.stage != stageHandshake:
		w.Saw = append(w.Saw, connected(c.connect)...)
		w.Saw = append(w.Saw, explain.Bytes(sent, received))
	default:
		w.Saw = append(w.Saw, connected(c.connect)...)
		if d.over != nil {
			w.Saw = append(w.Saw, d.over.bytes()...)
		}
		if sent > 0 || received > 0 { // by the guest
			w.Saw = append(w.Saw, explain.Bytes(sent, received)+" before it")
		}
	}
}

// connected describes how long a dial took. It returns nil if the duration is unknown.
func connected(after time.Duration) []string {
	if after <= 0 {
		return nil
	}
	return []string{"connected after " + explain.Round(after).String()}
}

// describeRun adds that the guest waited several times in a row.
func (d *record) describeRun(w *explain.Wait, now time.Time) {
	if d.run.waits < 2 {
		return
	}
	text := fmt.Sprintf("in %d calls", d.run.waits)
	waited := d.total.waited + d.total.slept - d.run.before.waited - d.run.before.slept + max(0, now.Sub(d.since))
	if computed := w.For - waited; computed > w.For/10 {
		text += ", and computed " + explain.Round(computed).String() + " of that"
	}
	w.Own = append(w.Own, text)
}

// sum describes the totals, or returns "" if there were no waits.
func (d *totals) sum() string {
	var parts []string
	if d.slept > 0 {
		parts = append(parts, fmt.Sprintf("slept %v in %s", explain.Round(d.slept), count(d.sleeps, "sleep")))
	}
	if d.waited > 0 {
		parts = append(parts, fmt.Sprintf("waited %v in %s", explain.Round(d.waited), count(d.waits, "host call")))
	}
	if len(parts) == 0 {
		return ""
	}
	return "before: " + strings.Join(parts, ", ")
}

// polled returns what a poll waits for.
func polled(conns []*conn) waiting {
	w := waiting{call: "poll"}
	if len(conns) == 1 {
		w.conn = conns[0]
	} else {
		w.stage = "nothing to read from any of its handles"
	}
	return w
}

// count returns n with noun, in the plural unless n is 1.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// place returns the network and address of the connection, or the URL of a response.
func (c *conn) place() string {
	switch {
	case c.raw == nil:
		return ""
	case c.network == "http":
		return c.host
	case c.raw.RemoteAddr() == nil:
		return c.network
	default:
		return c.network + " " + c.raw.RemoteAddr().String()
	}
}

// TraceGuest traces how long the guest computed, without its waits. The guest returned at now. If the
// attempt failed or is debugged, the event also has the fuel and the memory, in bytes, that it used.
func (c *Call) TraceGuest(now time.Time, failed bool, memory uint64) {
	if c.req == nil || c.req.Trace == nil || c.entered.IsZero() {
		return
	}
	c.mu.Lock()
	d := &c.record
	computed := now.Sub(c.entered) - d.total.waited - d.total.slept
	if d.call != "" { // it waited when the call ended
		computed -= now.Sub(d.since)
	}
	c.mu.Unlock()
	e := probe.TraceEvent{Type: probe.TraceCall, Name: "guest", Duration: max(computed, 1)}
	if failed || c.req.Debug {
		e.Detail = fmt.Sprintf("computed; %d KiB of memory", memory>>10)
		if c.fuel != nil {
			e.Detail += fmt.Sprintf(", %d units of fuel", c.used())
		}
	}
	c.req.Trace.Emit(e)
}

// maxProgress is the greatest length of a message that is shown after the deadline, in bytes.
const maxProgress = 1 << 10

// Explain adds the guest's last activity and its message to the outcome of a call that reached its deadline. took
// is the duration of the call, which is shown if the probe has no timeout.
func (c *Call) Explain(out *probe.Outcome, took time.Duration) {
	if out.Reason != probe.ReasonDeadline {
		return
	}
	told := c.message != "" && len(c.message) <= maxProgress
	if out.Details == "" {
		w := c.activity()
		w.Told = told
		w.Describe(out)
	}
	if told {
		out.Output = fmt.Sprintf("%s; the deadline of %v has passed", c.message, cmp.Or(c.req.Spec.Timeout, took.Round(time.Millisecond)))
	}
}

// TraceEnd traces the guest's activity at the end of its call.
func (c *Call) TraceEnd(ended error) {
	_, real := c.host.Clock.(SystemClock)
	if real && ended != context.DeadlineExceeded { // cancelled, not at its deadline; a simulated clock always cancels
		return
	}
	if c.req != nil && c.req.Trace != nil {
		c.req.Trace.Emit(c.activity().Event())
	}
}
