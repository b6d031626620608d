package guest

import (
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
	where string // the URL or question, if there is no conn
	conn  *conn
	stage string       // the awaited step
	addr  string       // from which it is awaited
	over  *countedConn // on which it is awaited, if that is not conn itself; nil if it is not counted
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

// bytes says what went over the connection; nil while it is nothing.
func (c *countedConn) bytes() []string {
	sent, received := c.sent.Load(), c.received.Load()
	if sent == 0 && received == 0 {
		return nil
	}
	return []string{explain.Bytes(sent, received)}
}

// record is what a guest did in its call. It belongs to the goroutine of the call, except the
// stage, addr and over, which mu of the call guards.
type record struct {
	waiting
	since time.Time // when the wait, or the computation, began
	last  string    // the host call that it waited for before
	name  string    // the last host call, including the current one
	calls int       // host calls without a wait since the computation began
	total totals    // of all waits that have ended
	row   row
}

// totals are the totals of several waits.
type totals struct {
	waits, sleeps int
	waited, slept time.Duration
}

// row is consecutive waits for the same thing. The Go SDK, for example, polls with growing
// pauses.
type row struct {
	waiting
	begun    time.Time
	waits    int
	before   totals // of all waits before the row
	received int64  // bytes over the connection before the row
}

// continues reports whether a wait for w belongs to the row.
func (r *row) continues(w *waiting) bool {
	return r.call == w.call && r.where == w.where && r.conn == w.conn && (w.conn == nil || w.conn.received.Load() == r.received)
}

// stage records what the current host call waits for, and on which connection. It may be called from any
// goroutine. An exchange of HTTP that has ended, by its ctx, changes nothing.
func (c *Call) stage(ctx context.Context, stage, addr string, over *countedConn) {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	c.mu.Lock()
	defer c.mu.Unlock()
	if x != nil && x.ended {
		return
	}
	c.record.stage, c.record.addr, c.record.over = stage, addr, over
}

// waitsLocked records that the guest begins to wait.
func (c *Call) waitsLocked(w waiting) {
	d := &c.record
	d.waiting, d.since = w, c.host.Clock.Now()
	if !d.row.continues(&w) {
		d.row = row{waiting: w, begun: d.since, before: d.total}
		if w.conn != nil {
			d.row.received = w.conn.received.Load()
		}
	}
	d.row.waits++
}

// goesOnLocked records that the guest continues, if it waited.
func (c *Call) goesOnLocked() {
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

// doing returns what the guest was doing when its call ended.
func (c *Call) doing() *explain.Wait {
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
		d.computes(w)
	} else {
		w.For, before = max(0, now.Sub(d.row.begun)), d.row.before
		d.waitsFor(w)
		d.repeats(w, now)
	}
	if sum := before.sum(); sum != "" {
		w.Saw = append(w.Saw, sum)
	}
	return w
}

// computes describes a guest that does not wait.
func (d *record) computes(w *explain.Wait) {
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

// waitsFor describes a guest that waits.
func (d *record) waitsFor(w *explain.Wait) {
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
		d.sees(d.conn, w)
	} else if d.over != nil {
		w.Saw = append(w.Saw, connected(d.over.connect)...)
		w.Saw = append(w.Saw, d.over.bytes()...)
	}
}

// sees adds the known facts of the connection c of a wait.
func (d *record) sees(c *conn, w *explain.Wait) {
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

// connected says how long a dial took; nil if that is not known.
func connected(after time.Duration) []string {
	if after <= 0 {
		return nil
	}
	return []string{"connected after " + explain.Round(after).String()}
}

// repeats adds that the guest waited several times in a row.
func (d *record) repeats(w *explain.Wait, now time.Time) {
	if d.row.waits < 2 {
		return
	}
	text := fmt.Sprintf("in %d calls", d.row.waits)
	waited := d.total.waited + d.total.slept - d.row.before.waited - d.row.before.slept + max(0, now.Sub(d.since))
	if computed := w.For - waited; computed > w.For/10 {
		text += ", and computed " + explain.Round(computed).String() + " of that"
	}
	w.Saw = append(w.Saw, text)
}

// sum describes the waits before.
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

// place returns network and address of the connection, or the URL of a response.
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

// TraceGuest traces how long a guest that returned at now computed, without its waits, and if the attempt did
// not succeed, or somebody looks at it, also what it has in use: so many bytes of memory, and fuel.
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

// Explain adds what the guest was doing to the outcome of a call that reached its deadline.
func (c *Call) Explain(out *probe.Outcome) {
	if out.Reason == probe.ReasonDeadline && out.Details == "" {
		out.Details = explain.Details{Waiting: c.doing().String()}.String()
	}
}

// TraceEnd traces what the guest was doing when its call ended.
func (c *Call) TraceEnd(ended error) {
	_, real := c.host.Clock.(SystemClock)
	if real && ended != context.DeadlineExceeded { // it was cancelled; a simulated clock has only this error
		return
	}
	if c.req != nil && c.req.Trace != nil {
		c.req.Trace.Emit(c.doing().Event())
	}
}
