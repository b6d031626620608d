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

// told is a tick that the agent tells of, in its stream or in a list.
type told struct {
	at, end  int64
	attempts int
	success  bool
	err      string
	shown    [2]bool // the decided results that were shown with it, by verdict
}

// hostStall begins the error of an attempt that the agent discards, because it did not run itself.
const hostStall = "the agent did not run for "

// matches is what [account.settle] has found.
type matches struct {
	ticks    int
	retries  int // attempts after the first one of a tick
	stalls   int // ticks that ended in an error, because the agent did not run for a time
	results  int // ticks whose result was compared with that of the target
	decided  int // ticks whose decided result was compared with the model
	untold   int // connections of no tick that the agent tells of
	dropped  int // of ticks that the history may not have kept; each counts as a tick
	unseen   int // ticks without a connection, that the agent does not explain
	errors   int // ticks that ended in another error
	wrong    int // ticks whose result is not that of the target
	misjudge int // decided results that are not those of the model
}

func (m *matches) add(o *matches) {
	m.ticks += o.ticks
	m.retries += o.retries
	m.stalls += o.stalls
	m.results += o.results
	m.decided += o.decided
	m.untold += o.untold
	m.dropped += o.dropped
	m.unseen += o.unseen
	m.errors += o.errors
	m.wrong += o.wrong
	m.misjudge += o.misjudge
}

// acceptSlack is how long after the end of a tick its connection may be logged: the kernel completes
// connections that the targets have not accepted yet.
const acceptSlack = 2 * time.Second

// tell adds a tick that the agent tells of, unless it is known. shown is whether the decided result
// that was shown with the tick is success; nil if none was.
func (a *account) tell(t *tick, shown *bool) {
	at := t.Time.UnixNano()
	if at <= a.settled {
		return
	}
	i, known := slices.BinarySearchFunc(a.ticks, at, func(t told, at int64) int {
		switch {
		case t.at < at:
			return -1
		case t.at > at:
			return 1
		}
		return 0
	})
	if !known {
		a.ticks = slices.Insert(a.ticks, i, told{at: at, end: t.end().UnixNano(), attempts: t.Attempts, success: t.Result == "success", err: t.Error})
	}
	if shown != nil && *shown {
		a.ticks[i].shown[succeeds] = true
	} else if shown != nil {
		a.ticks[i].shown[fails] = true
	}
}

// merge adds the ticks of a list that was asked for at a time. It has all ticks that had ended then,
// but for the oldest. A history without room for all drops the successes before the failures.
func (a *account) merge(p *probeView, asked time.Time) {
	a.failure = math.MaxInt64
	for i := range p.History {
		t := &p.History[i]
		a.tell(t, nil)
		if t.Result != "success" {
			a.failure = min(a.failure, t.Time.UnixNano())
		}
	}
	if p.Last == nil {
		return
	}
	var shown *bool
	if p.Last.end().Before(asked) { // otherwise the decided result may be that of the tick before
		shown = new(p.Result == "success")
	}
	a.tell(p.Last, shown)
	a.asked = asked.UnixNano()
}

// settle matches the ticks that the agent has told with the connections that the target has logged:
// each attempt is one connection, in the same order. It goes on as far as it can. complete is the
// time until which all connections are known.
func (a *account) settle(complete int64) {
	a.gap = false
	for len(a.ticks) > 0 {
		t := &a.ticks[0]
		if !a.dropUntold(t.at) {
			return
		}
		if a.unseen && a.slots.after(t.at) > 1 && a.asked <= t.end { // the list may have the ticks between
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
		late := a.conns[0].at + int64(a.longest())
		a.gap = late < complete && a.asked < late
	}
}

// longest is how long after its connection a tick is told at the latest, on a host that is not busy.
func (a *account) longest() time.Duration { return a.timeout + 3*time.Second }

// dropUntold drops the connections before a time, that of the next tick: the agent has told of no tick
// that has made them. A success after a failure of the list may have been dropped from the history; it
// counts as a tick, so that the comparison with the total shows if there was none. It returns false if
// a list must be merged first.
func (a *account) dropUntold(before int64) bool {
	for len(a.conns) > 0 && a.conns[0].at < before {
		if a.asked <= before { // the list of that time may not have had the tick yet
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
			a.sum.untold++
			a.example("untold", "attempt at %s, before the tick of %s; list of %s", clock(c.at), clock(before), clock(a.asked))
		}
		a.slots.add(c.at)
	}
	return true
}

// connsOf returns how many of the first connections are those of t.
func (a *account) connsOf(t *told) (n int) {
	end := t.end + int64(acceptSlack)
	if len(a.ticks) > 1 {
		end = min(end, a.ticks[1].at-1)
	}
	for n < min(t.attempts, len(a.conns)) && a.conns[n].at <= end {
		n++
	}
	return n
}

// mustWait reports whether t may have other connections than the first n: some may not be logged yet.
// If an attempt was in vain it may have none, and those after the end of t may be of the next tick.
func (a *account) mustWait(t *told, n int, complete int64) bool {
	if n < t.attempts && complete < t.end+int64(acceptSlack) {
		return true
	}
	inVain := t.attempts > 1 || t.err != ""
	certain := n == t.attempts && a.conns[n-1].at <= t.end || len(a.ticks) > 1
	return inVain && !certain && complete < t.end+2*int64(a.period)+int64(acceptSlack)
}

func clock(at int64) string { return time.Unix(0, at).Format("15:04:05.000") }

func clocks(conns []conn) (all []string) {
	for _, c := range conns {
		all = append(all, clock(c.at))
	}
	return all
}

// String describes t for people.
func (t *told) String() string {
	return fmt.Sprintf("tick of %s to %s, %d attempts, success: %v", clock(t.at), clock(t.end), t.attempts, t.success)
}

// examples has texts about some of what is wrong, by what it is.
type examples map[string][]string

func (e examples) add(what, text string) {
	if len(e[what]) < 3 {
		e[what] = append(e[what], text)
	}
}

func (a *account) example(what, format string, args ...any) {
	a.examples.add(what, a.name()+": "+fmt.Sprintf(format, args...))
}

// settleTick compares a tick with its connections.
func (a *account) settleTick(t *told, conns []conn) {
	a.sum.ticks++
	a.sum.retries += t.attempts - 1
	at := t.at
	if len(conns) > 0 {
		at = conns[0].at
	}
	if s := &a.slots; s.begun && !a.unseen {
		a.late.note(time.Duration(at - s.anchor - (s.tick+1)*s.period))
	}
	a.slots.add(at)
	switch {
	case strings.HasPrefix(t.err, hostStall): // of the last attempt; none may have reached the target
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
		a.sum.misjudge++
		a.example("misjudged", "%v, shown as success: %v, want %v", t, t.shown[succeeds], a.model.decided == succeeds)
	}
}

// overdue returns how many connections have waited for their tick for longer than all attempts of a tick
// may take.
func (a *account) overdue(complete int64) (n int) {
	before := complete - int64(3*a.timeout+15*time.Second)
	for n < len(a.conns) && a.conns[n].at < before {
		n++
	}
	return n
}

// slots counts the ticks that were lost and doubled, by the schedule of a probe: one tick is due in
// each period.
type slots struct {
	period int64
	begun  bool
	anchor int64 // when tick 0 was due, or a little later
	tick   int64 // number of the last tick
	last   int64 // when it was seen
	gap    bool  // ticks were missing before it

	lost, doubled, tardy int
}

// The first ticks correct a schedule that was taken from a late tick: each may be seen by a part of a
// period, early, before the schedule makes it due. Then the schedule stays as it is.
const (
	learning  = 5 // ticks
	early     = 0.25
	unchanged = 0.05 // the part by which a later tick may be seen before it is due
)

// begin begins the schedule at the last tick that was seen.
func (s *slots) begin() {
	s.begun, s.anchor, s.tick = true, s.last, 0
}

// after returns how many ticks after the last one a time is.
func (s *slots) after(at int64) int64 {
	if !s.begun {
		return 0
	}
	slack := unchanged
	if s.tick < learning {
		slack = early
	}
	return int64(math.Floor(float64(at-s.anchor)/float64(s.period)+slack)) - s.tick
}

// add adds a tick that was seen at a time.
func (s *slots) add(at int64) {
	s.last = at
	if !s.begun {
		return
	}
	n := s.tick + s.after(at)
	if ahead := s.anchor + n*s.period - at; ahead > 0 && s.tick < learning {
		s.anchor -= ahead
	}
	switch {
	case n <= s.tick && s.gap: // the tick before this one was so late that it counted as this one
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

// missing returns how many ticks were due until a time and were not seen.
func (s *slots) missing(until int64) int {
	due := int64(math.Floor(float64(until-s.anchor) / float64(s.period)))
	return int(max(0, due-s.tick))
}

// quiet reports whether all ticks until now are settled. A probe that its target does not see has had
// another tick when the last one is a period ago.
func (a *account) quiet(now int64) bool {
	return len(a.conns) == 0 && len(a.ticks) == 0 && (!a.unseen || now-a.slots.last < int64((1-early)*float64(a.period)))
}

// known returns the time until which all ticks of a are known: slack before the end of the log, or when
// the first connection or tick was that is not settled yet.
func (a *account) known(complete int64, slack time.Duration) int64 {
	until := complete - int64(slack)
	waiting := func(at int64) { until = min(until, at-int64((1-early)*float64(a.period))) }
	if len(a.conns) > 0 {
		waiting(a.conns[0].at)
	}
	if len(a.ticks) > 0 {
		waiting(a.ticks[0].at)
	}
	return until
}

// lateness counts ticks by milliseconds after they were due.
type lateness [10_001]int

func (l *lateness) note(late time.Duration) {
	l[min(len(l)-1, max(0, int(late.Milliseconds())))]++
}

// quantile returns the time after which a part of the ticks was seen at the latest.
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
