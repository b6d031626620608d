//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// conn is a connection that a target has logged.
type conn struct {
	at      int64
	verdict verdict
}

// reported is a tick that the agent reports, in its stream or in a list. Times are UnixNano.
type reported struct {
	at, end  int64
	attempts int
	success  bool
	err      string
	shown    [2]bool // which decided results were shown with it, by verdict
}

// hostStall begins the error of an attempt that the agent discards, because the agent itself was paused.
const hostStall = "the agent did not run for "

// matches counts the results of [account.settle].
type matches struct {
	ticks      int
	retries    int // attempts after the first one of a tick
	stalls     int // ticks that ended in an error, because the agent did not run for a time
	results    int // ticks whose result was compared with the target's
	decided    int // ticks whose decided result was compared with the model's
	unreported int // connections without a tick that the agent reports
	dropped    int // connections whose tick the history may have dropped; each counts as a tick
	unseen     int // ticks without a connection, and without an error that explains it
	errors     int // ticks that ended in another error
	wrong      int // ticks whose result differs from the target's
	misjudged  int // decided results that differ from the model's
}

func (m *matches) add(o *matches) {
	m.ticks += o.ticks
	m.retries += o.retries
	m.stalls += o.stalls
	m.results += o.results
	m.decided += o.decided
	m.unreported += o.unreported
	m.dropped += o.dropped
	m.unseen += o.unseen
	m.errors += o.errors
	m.wrong += o.wrong
	m.misjudged += o.misjudged
}

// acceptSlack is how long after the end of a tick its connection may be logged. The kernel completes
// connections before the targets accept them.
const acceptSlack = 2 * time.Second

// addTick adds a tick that the agent reports, unless the account has it. shown says whether the decided
// result shown with the tick is success; nil if none was shown.
func (a *account) addTick(t *tick, shown *bool) {
	at := t.Time.UnixNano()
	if at <= a.settled {
		return
	}
	i, found := slices.BinarySearchFunc(a.ticks, at, func(t reported, at int64) int {
		switch {
		case t.at < at:
			return -1
		case t.at > at:
			return 1
		}
		return 0
	})
	if !found {
		a.ticks = slices.Insert(a.ticks, i, reported{at: at, end: t.end().UnixNano(), attempts: t.Attempts, success: t.Result == "success", err: t.Error})
	}
	if shown != nil && *shown {
		a.ticks[i].shown[succeeds] = true
	} else if shown != nil {
		a.ticks[i].shown[fails] = true
	}
}

// merge adds the ticks of a list that was requested at the time asked. The list has all ticks that had
// ended then, except the oldest. A full history drops successes first.
func (a *account) merge(p *probeView, asked time.Time) {
	a.failure = math.MaxInt64
	for i := range p.History {
		t := &p.History[i]
		a.addTick(t, nil)
		if t.Result != "success" {
			a.failure = min(a.failure, t.Time.UnixNano())
		}
	}
	if p.Last == nil {
		return
	}
	var shown *bool
	if p.Last.end().Before(asked) { // otherwise the decided result may be the previous tick's
		shown = new(p.Result == "success")
	}
	a.addTick(p.Last, shown)
	a.asked = asked.UnixNano()
}

// settle matches the ticks that the agent has reported with the connections that the target has logged:
// each attempt is one connection, in the same order. It stops at the first tick that cannot be matched
// yet. All connections until complete are known.
func (a *account) settle(complete int64) {
	a.gap = false
	for len(a.ticks) > 0 {
		t := &a.ticks[0]
		if !a.dropUnreported(t.at) {
			return
		}
		if a.unseen && a.slots.ticksSince(t.at) > 1 && a.asked <= t.end { // a list may have the ticks in between
			a.gap = true
			return
		}
		n := a.connsOf(t)
		if !a.unseen && a.mustWait(t, n, complete) {
			return
		}
		a.settleTick(t, a.conns[:n])
		a.conns = slices.Delete(a.conns, 0, n)
		a.settled = t.at
		a.ticks = slices.Delete(a.ticks, 0, 1)
	}
	if len(a.conns) > 0 {
		late := a.conns[0].at + int64(a.maxDelay())
		a.gap = late < complete && a.asked < late
	}
}

// maxDelay is the longest time from a connection until its tick is reported, on a host that is not busy.
func (a *account) maxDelay() time.Duration { return a.timeout + 3*time.Second }

// dropUnreported drops the connections before the next tick, which is at the time before: the agent has
// reported no tick that made them. The history may have dropped a success that is newer than a failure of
// the list. So a successful connection counts as a tick then, and the comparison with the total detects
// if there was none. dropUnreported returns false if a list must be merged first.
func (a *account) dropUnreported(before int64) bool {
	for len(a.conns) > 0 && a.conns[0].at < before {
		if a.asked <= before { // the list may be older than the missing tick
			a.gap = true
			return false
		}
		c := a.conns[0]
		a.conns = slices.Delete(a.conns, 0, 1)
		switch {
		case c.at < a.began:
			continue
		case c.verdict == succeeds && a.failure < c.at:
			a.sum.dropped++
			a.sum.ticks++
			a.total.all++
			a.model.add(succeeds, &a.probe)
		default:
			a.sum.unreported++
			a.example("unreported", "attempt at %s, before the tick at %s; list at %s", clock(c.at), clock(before), clock(a.asked))
		}
		a.slots.add(c.at)
	}
	return true
}

// connsOf returns how many of the first connections belong to t.
func (a *account) connsOf(t *reported) (n int) {
	end := t.end + int64(acceptSlack)
	if len(a.ticks) > 1 {
		end = min(end, a.ticks[1].at-1)
	}
	for n < min(t.attempts, len(a.conns)) && a.conns[n].at <= end {
		n++
	}
	return n
}

// mustWait reports whether t may have more or fewer connections than the first n. Some may not be logged
// yet. An attempt that failed with an error may have made no connection, so a connection after the end of
// t may belong to the next tick.
func (a *account) mustWait(t *reported, n int, complete int64) bool {
	if n < t.attempts && complete < t.end+int64(acceptSlack) {
		return true
	}
	failed := t.attempts > 1 || t.err != ""
	certain := n == t.attempts && a.conns[n-1].at <= t.end || len(a.ticks) > 1
	return failed && !certain && complete < t.end+2*int64(a.period)+int64(acceptSlack)
}

func clock(at int64) string { return time.Unix(0, at).Format("15:04:05.000") }

func clocks(conns []conn) (all []string) {
	for _, c := range conns {
		all = append(all, clock(c.at))
	}
	return all
}

// String describes t.
func (t *reported) String() string {
	return fmt.Sprintf("tick from %s to %s, %d attempts, success: %v", clock(t.at), clock(t.end), t.attempts, t.success)
}

// examples describes up to three faults of each kind.
type examples map[string][]string

func (e examples) add(kind, text string) {
	if len(e[kind]) < 3 {
		e[kind] = append(e[kind], text)
	}
}

func (a *account) example(kind, format string, args ...any) {
	a.examples.add(kind, a.name()+": "+fmt.Sprintf(format, args...))
}

// settleTick compares a tick with its connections.
func (a *account) settleTick(t *reported, conns []conn) {
	a.sum.ticks++
	a.sum.retries += t.attempts - 1
	at := t.at
	if len(conns) > 0 {
		at = conns[0].at
	}
	if s := &a.slots; s.begun && !a.unseen {
		a.late.record(time.Duration(at - s.anchor - (s.tick+1)*s.period))
	}
	a.slots.add(at)
	switch {
	case strings.HasPrefix(t.err, hostStall): // the last attempt's error; it may not have reached the target
		a.sum.stalls++
		return
	case t.err != "":
		a.sum.errors++
		a.example("errors", "%v: %s", t, t.err)
		return
	}
	a.total.all++
	if !t.success {
		a.total.failed++
	}
	verdict := succeeds
	if !a.unseen {
		if len(conns) == 0 {
			a.sum.unseen++
			a.example("unseen", "%v", t)
			return
		}
		verdict = conns[len(conns)-1].verdict
	}
	a.sum.results++
	if t.success != (verdict == succeeds) {
		a.sum.wrong++
		a.example("wrong", "%v, want success: %v, attempts seen at %v", t, verdict == succeeds, clocks(conns))
	}
	a.model.add(verdict, &a.probe)
	if t.shown == [2]bool{} {
		return
	}
	a.sum.decided++
	if !t.shown[a.model.decided] {
		a.sum.misjudged++
		a.example("misjudged", "%v, shown as success: %v, want %v", t, t.shown[succeeds], a.model.decided == succeeds)
	}
}

// overdue returns how many connections have no tick, although more time has passed than all attempts of a
// tick may take.
func (a *account) overdue(complete int64) (n int) {
	before := complete - int64(3*a.timeout+15*time.Second)
	for n < len(a.conns) && a.conns[n].at < before {
		n++
	}
	return n
}

// slots counts lost and doubled ticks by the schedule of a probe: one tick is due in each period. Times
// are UnixNano.
type slots struct {
	period int64
	begun  bool
	anchor int64 // when tick 0 was due, or a little later
	tick   int64 // number of the last tick
	last   int64 // time of the last tick
	gap    bool  // ticks are missing before the last one

	lost, doubled, tardy int
}

// The anchor of a schedule may come from a late tick. The first ticks correct it: each may come earlier
// than the schedule says, by a fraction of a period. After them the schedule is fixed.
const (
	learning  = 5    // number of the first ticks
	early     = 0.25 // fraction for the first ticks
	unchanged = 0.05 // fraction for later ticks
)

// begin begins the schedule at the last tick.
func (s *slots) begin() {
	s.begun, s.anchor, s.tick = true, s.last, 0
}

// ticksSince returns how many ticks after the last one the tick at a time is. It is 0 before begin.
func (s *slots) ticksSince(at int64) int64 {
	if !s.begun {
		return 0
	}
	slack := unchanged
	if s.tick < learning {
		slack = early
	}
	return int64(math.Floor(float64(at-s.anchor)/float64(s.period)+slack)) - s.tick
}

// add adds a tick that was observed at a time.
func (s *slots) add(at int64) {
	s.last = at
	if !s.begun {
		return
	}
	n := s.tick + s.ticksSince(at)
	if ahead := s.anchor + n*s.period - at; ahead > 0 && s.tick < learning {
		s.anchor -= ahead
	}
	switch {
	case n <= s.tick && s.gap: // the previous tick was so late that it was counted as this one
		s.lost--
		s.tardy++
		s.gap = false
	case n <= s.tick:
		s.doubled++
	default:
		s.lost += int(n - s.tick - 1)
		s.gap = n > s.tick+1
		s.tick = n
	}
}

// missing returns how many ticks were due until a time and were not observed.
func (s *slots) missing(until int64) int {
	due := int64(math.Floor(float64(until-s.anchor) / float64(s.period)))
	return int(max(0, due-s.tick))
}

// quiet reports whether all ticks until now are settled. A probe without connections may have had another
// tick if the last one was almost a period ago.
func (a *account) quiet(now int64) bool {
	return len(a.conns) == 0 && len(a.ticks) == 0 && (!a.unseen || now-a.slots.last < int64((1-early)*float64(a.period)))
}

// settledUntil returns the time until which all ticks of a are settled: slack before the end of the log,
// or earlier, almost a period before the first connection or tick that is not settled.
func (a *account) settledUntil(complete int64, slack time.Duration) int64 {
	until := complete - int64(slack)
	unsettled := func(at int64) { until = min(until, at-int64((1-early)*float64(a.period))) }
	if len(a.conns) > 0 {
		unsettled(a.conns[0].at)
	}
	if len(a.ticks) > 0 {
		unsettled(a.ticks[0].at)
	}
	return until
}

// lateness counts ticks by the milliseconds from their due time to their connection.
type lateness [10_001]int

func (l *lateness) record(late time.Duration) {
	l[min(len(l)-1, max(0, int(late.Milliseconds())))]++
}

// quantile returns the lateness that the given fraction of the ticks does not exceed.
func (l *lateness) quantile(part float64) time.Duration {
	total, sum := 0, 0
	for _, n := range l {
		total += n
	}
	for ms, n := range l {
		if sum += n; sum > 0 && float64(sum) >= part*float64(total) {
			return time.Duration(ms+1) * time.Millisecond
		}
	}
	return 0
}
