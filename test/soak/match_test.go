//go:build linux

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// second converts seconds to the times of connections and ticks.
func second(s float64) int64 { return int64(s * float64(time.Second)) }

func newAccount(p probe) *account { return newLedger(layout{1}, 0).newAccount(0, p) }

// script has the connections and ticks of one probe with a period of 10 s. Times are in seconds.
type script struct {
	conns  []float64
	failed []float64 // connections that the proxy makes fail
	ticks  []tick
	listed []tick // the history of a list that is merged if there is a gap
}

func tickAt(s float64, attempts int, result, err string) tick {
	return tick{Time: time.Unix(0, second(s)), DurationSeconds: 0.1, Attempts: attempts, Result: result, Error: err}
}

func (s *script) play() *account {
	a := newAccount(probe{period: 10 * time.Second, timeout: time.Second, exact: true, success: 1, fail: 1})
	a.slots.last = second(10)
	a.slots.begin()
	var log []entry
	for _, at := range s.conns {
		log = append(log, entry{At: second(at), Verdict: succeeds})
	}
	for _, at := range s.failed {
		log = append(log, entry{At: second(at), Verdict: fails})
	}
	slices.SortFunc(log, func(a, b entry) int { return int(a.At - b.At) })
	for _, e := range log {
		a.add(e)
	}
	for i := range s.ticks {
		a.addTick(&s.ticks[i], new(s.ticks[i].Result == "success"))
	}
	a.settle(second(1000))
	if a.gap {
		a.merge(&probeView{History: s.listed, Last: &tick{Time: time.Unix(0, second(900))}}, time.Unix(0, second(950)))
		a.ticks = a.ticks[:len(a.ticks)-1] // remove the tick that only marks the list as newer
		a.settle(second(1000))
	}
	return a
}

func TestSettleMatchesTicksWithConnections(t *testing.T) {
	const stalled = hostStall + "2s of an attempt"
	good := func(s float64) tick { return tickAt(s, 1, "success", "") }
	for _, test := range []struct {
		name    string
		script  script
		want    matches
		doubled int
		lost    int
	}{
		{"each tick once", script{conns: []float64{20, 30}, ticks: []tick{good(20), good(30)}},
			matches{ticks: 2, results: 2, decided: 2}, 0, 0},
		{"accepted late", script{conns: []float64{21.5, 30}, ticks: []tick{good(20), good(30)}},
			matches{ticks: 2, results: 2, decided: 2}, 0, 0},
		{"a failure", script{failed: []float64{20}, ticks: []tick{tickAt(20, 1, "failure", "")}},
			matches{ticks: 1, results: 1, decided: 1}, 0, 0},
		{"a tick that only the list has", script{conns: []float64{20, 30, 40}, ticks: []tick{good(20), good(40)}, listed: []tick{good(30)}},
			matches{ticks: 3, results: 3, decided: 2}, 0, 0},
		{"repeated attempts", script{conns: []float64{20, 20.05, 20.1}, ticks: []tick{tickAt(20, 3, "success", "")}},
			matches{ticks: 1, retries: 2, results: 1, decided: 1}, 0, 0},
		{"the agent did not run", script{conns: []float64{20, 20.05, 20.1}, ticks: []tick{tickAt(20, 3, "unknown", stalled)}},
			matches{ticks: 1, retries: 2, stalls: 1}, 0, 0},
		{"the agent did not run, and did not connect", script{ticks: []tick{tickAt(20, 1, "unknown", stalled)}},
			matches{ticks: 1, stalls: 1}, 0, 0},

		{"a lost tick", script{conns: []float64{20, 40}, ticks: []tick{good(20), good(40)}},
			matches{ticks: 2, results: 2, decided: 2}, 0, 1},
		{"a doubled tick", script{conns: []float64{20, 20.3}, ticks: []tick{good(20), good(20.3)}},
			matches{ticks: 2, results: 2, decided: 2}, 1, 0},
		{"a doubled attempt", script{conns: []float64{20, 20.05, 30}, ticks: []tick{good(20), good(30)}},
			matches{ticks: 2, results: 2, decided: 2, unreported: 1}, 1, 0},
		{"an attempt more than were repeated", script{conns: []float64{20, 20.03, 20.06, 30}, ticks: []tick{tickAt(20, 2, "success", ""), good(30)}},
			matches{ticks: 2, retries: 1, results: 2, decided: 2, unreported: 1}, 1, 0},
		{"a repeated attempt excuses no other tick", script{conns: []float64{20, 20.05, 30, 30.05, 40}, ticks: []tick{tickAt(20, 2, "success", ""), good(30), good(40)}},
			matches{ticks: 3, retries: 1, results: 3, decided: 3, unreported: 1}, 1, 0},
		{"a stalled tick excuses no lost one", script{conns: []float64{40}, ticks: []tick{tickAt(20, 1, "unknown", stalled), good(40)}},
			matches{ticks: 2, stalls: 1, results: 1, decided: 1}, 0, 1},
		{"a tick that is not reported", script{conns: []float64{20, 30, 40}, ticks: []tick{good(20), good(40)}},
			matches{ticks: 2, results: 2, decided: 2, unreported: 1}, 0, 0},
		{"a success that the history has dropped", script{conns: []float64{30, 40}, failed: []float64{20}, ticks: []tick{good(40)}, listed: []tick{tickAt(20, 1, "failure", "")}},
			matches{ticks: 3, results: 2, decided: 1, dropped: 1}, 0, 0},
		{"a failure that is not reported", script{conns: []float64{40}, failed: []float64{20, 30}, ticks: []tick{good(40)}, listed: []tick{tickAt(20, 1, "failure", "")}},
			matches{ticks: 2, results: 2, decided: 1, unreported: 1}, 0, 0},
		{"a success that is not reported, before all failures", script{conns: []float64{20, 40}, failed: []float64{30}, ticks: []tick{good(40)}, listed: []tick{tickAt(30, 1, "failure", "")}},
			matches{ticks: 2, results: 2, decided: 1, unreported: 1}, 0, 0},
		{"a tick without a connection", script{conns: []float64{20}, ticks: []tick{good(20), good(30)}},
			matches{ticks: 2, results: 1, decided: 1, unseen: 1}, 0, 0},
		{"an error", script{conns: []float64{20}, ticks: []tick{tickAt(20, 1, "unknown", "trap")}},
			matches{ticks: 1, errors: 1}, 0, 0},
		{"a false failure", script{conns: []float64{20}, ticks: []tick{tickAt(20, 1, "failure", "")}},
			matches{ticks: 1, results: 1, decided: 1, wrong: 1, misjudged: 1}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := test.script.play()
			if diff := cmp.Diff(test.want, a.sum, cmp.AllowUnexported(matches{})); diff != "" {
				t.Errorf("%s\n%s", diff, a.examples)
			}
			if a.slots.doubled != test.doubled || a.slots.lost != test.lost {
				t.Errorf("%d doubled, %d lost, want %d, %d", a.slots.doubled, a.slots.lost, test.doubled, test.lost)
			}
			if len(a.ticks)+len(a.conns) > 0 {
				t.Errorf("not settled: %+v, %+v", a.ticks, a.conns)
			}
		})
	}
}

func TestSettleWaitsForPendingTicks(t *testing.T) {
	a := newAccount(probe{period: 10 * time.Second, timeout: time.Second, exact: true})
	a.add(entry{At: second(20)})
	if a.settle(second(21)); a.gap || a.sum.ticks != 0 {
		t.Errorf("gap %v, %+v: the tick may not have ended", a.gap, a.sum)
	}
	if a.settle(second(25)); !a.gap {
		t.Error("no gap, and the tick has ended long ago")
	}
	if n, later := a.overdue(second(25)), a.overdue(second(60)); n != 0 || later != 1 {
		t.Errorf("%d overdue, then %d, want 0 and 1", n, later)
	}
	a.addTick(new(tickAt(20, 1, "success", "")), nil)
	a.addTick(new(tickAt(30, 1, "success", "")), nil)
	if a.settle(second(31)); a.sum != (matches{ticks: 1, results: 1}) || len(a.ticks) != 1 {
		t.Errorf("%+v with %d ticks left, want 1: its connection may not have been logged", a.sum, len(a.ticks))
	}
}

func TestSettleLeavesConnectionsForNextTick(t *testing.T) {
	a := newAccount(probe{period: 2 * time.Second, timeout: time.Second, exact: true})
	a.addTick(new(tickAt(20, 1, "unknown", hostStall+"1s")), nil) // it has not connected
	a.add(entry{At: second(21)})
	if a.settle(second(23)); a.sum.ticks != 0 {
		t.Errorf("%+v: the connection may belong to a tick that is not reported yet", a.sum)
	}
	a.addTick(new(tickAt(21, 1, "success", "")), nil)
	if a.settle(second(24)); a.sum != (matches{ticks: 2, stalls: 1, results: 1}) {
		t.Errorf("%+v, want a tick without and one with a connection", a.sum)
	}
}

func TestSettleIgnoresAttemptsBeforeSchedule(t *testing.T) {
	l := newLedger(layout{1}, 1)
	for key := range l.accounts {
		if key != keyOf(0, portDBLive) {
			delete(l.accounts, key)
		}
	}
	a := l.accounts[keyOf(0, portDBLive)]
	a.slots.last = second(10)
	l.addLocked(entry{At: second(20), Key: keyOf(0, portDBLive)})
	l.addLocked(entry{At: second(21), Verdict: complete})
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	l.addLocked(entry{At: second(30), Key: keyOf(0, portDBLive)})
	last := tickAt(40, 1, "success", "")
	a.merge(&probeView{Last: &last}, time.Unix(0, second(50)))
	a.settle(second(50))
	if a.sum.unreported != 1 || a.slots.doubled != 0 {
		t.Errorf("%d unreported, %d doubled, want only the attempt after the beginning", a.sum.unreported, a.slots.doubled)
	}
}

func TestSettleReportsGapBetweenTicks(t *testing.T) {
	a := newAccount(probe{period: 10 * time.Second, exact: true, unseen: true})
	a.slots.last = second(10)
	a.slots.begin()
	a.addTick(new(tickAt(30, 1, "success", "")), nil)
	if a.settle(second(40)); !a.gap {
		t.Error("no gap, although a tick without a connection is missing")
	}
	last := tickAt(30, 1, "success", "")
	a.merge(&probeView{History: []tick{tickAt(20, 1, "success", "")}, Last: &last}, time.Unix(0, second(31)))
	if a.settle(second(40)); a.gap || a.slots.lost != 0 || a.sum.ticks != 2 {
		t.Errorf("gap %v, %d lost, %+v, want 2 ticks", a.gap, a.slots.lost, a.sum)
	}
}

func TestUnseenProbeIsQuietAfterTick(t *testing.T) {
	a := newAccount(probe{period: 10 * time.Second, exact: true, unseen: true})
	a.slots.last = second(10)
	if !a.quiet(second(15)) || a.quiet(second(19)) {
		t.Errorf("quiet %v after 5 s, %v after 9 s", a.quiet(second(15)), a.quiet(second(19)))
	}
}

func TestCompareTotals(t *testing.T) {
	quiet := func(all, failed int) balance { return balance{quiet: true, ticks: all, total: total{all, failed}} }
	busy := func(all, failed, more int) balance {
		return balance{ticks: all, total: total{all, failed}, pending: more}
	}
	for _, test := range []struct {
		name          string
		before, after balance
		got           total
		equal, wrong  bool
	}{
		{"equal", quiet(10, 2), quiet(10, 2), total{10, 2}, true, false},
		{"a tick too many", quiet(10, 2), quiet(10, 2), total{11, 2}, true, true},
		{"a tick too few", quiet(10, 2), quiet(10, 2), total{9, 2}, true, true},
		{"a failure too many", quiet(10, 2), quiet(10, 2), total{10, 3}, true, true},
		{"a failure too few", quiet(10, 2), quiet(10, 2), total{10, 1}, true, true},

		{"a tick during the scrape, not counted yet", quiet(10, 2), quiet(11, 2), total{10, 2}, false, false},
		{"a tick during the scrape", quiet(10, 2), quiet(11, 2), total{11, 2}, false, false},
		{"a pending tick", busy(10, 2, 1), busy(12, 3, 1), total{13, 4}, false, false},
		{"below the bounds", busy(10, 2, 1), busy(12, 3, 1), total{9, 2}, false, true},
		{"above the bounds", busy(10, 2, 1), busy(12, 3, 1), total{14, 4}, false, true},
		{"failures below the bounds", busy(10, 2, 1), busy(12, 3, 1), total{12, 1}, false, true},
		{"failures above the bounds", busy(10, 2, 1), busy(12, 3, 1), total{12, 5}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAccount(probe{exact: true})
			equal, wrong := a.compare(test.got, test.before, test.after)
			if equal != test.equal || (wrong != "") != test.wrong {
				t.Errorf("equal %v, %q, want %v, wrong %v", equal, wrong, test.equal, test.wrong)
			}
		})
	}
}

// The ledger may not know the first ticks of a probe without connections. Each scrape narrows the bounds of
// their number.
func TestCompareTotalsWithUnknownFirstTicks(t *testing.T) {
	a := newAccount(probe{exact: true, unseen: true})
	for i, step := range []struct {
		from, to, got int
		wrong         bool
	}{
		{from: 0, to: 2, got: 7},  // 5 to 7 were unknown
		{from: 4, to: 5, got: 10}, // 5 or 6
		{from: 6, to: 6, got: 13, wrong: true},
		{from: 6, to: 6, got: 10, wrong: true},
		{from: 6, to: 6, got: 11},
		{from: 8, to: 8, got: 14, wrong: true},
	} {
		before, after := balance{total: total{all: step.from}}, balance{total: total{all: step.to}}
		if _, wrong := a.compare(total{all: step.got}, before, after); (wrong != "") != step.wrong {
			t.Errorf("step %d: %q, want wrong %v", i, wrong, step.wrong)
		}
	}
}

func TestBalanceCountsPendingTicks(t *testing.T) {
	a := newAccount(probe{period: 10 * time.Second, exact: true})
	a.slots.last = second(10)
	for now, more := range map[float64]int{9: 1, 10: 1, 19: 1, 21: 2, 45: 4} {
		if got := a.balance(second(now)).pending; got != more {
			t.Errorf("%d ticks at most after %v s, want %d", got, now, more)
		}
	}
}
