//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// tickTime returns the time of a tick of a probe with a period of 2 s, which is late by a fraction of the
// period.
func tickTime(tick int, late float64) int64 {
	return int64((float64(tick) + late) * float64(2*time.Second))
}

func TestSlotsCountTicks(t *testing.T) {
	for _, test := range []struct {
		name                 string
		seen                 []int64
		lost, doubled, tardy int
	}{
		{"each tick once", []int64{tickTime(1, 0), tickTime(2, 0), tickTime(3, 0)}, 0, 0, 0},
		{"late ticks", []int64{tickTime(1, 0), tickTime(2, 0.6), tickTime(3, 0), tickTime(4, 0.7)}, 0, 0, 0},
		{"a schedule that was taken from a late tick", []int64{tickTime(1, -0.1), tickTime(2, -0.1), tickTime(3, 0.6)}, 0, 0, 0},
		{"a lost tick", []int64{tickTime(1, 0), tickTime(3, 0)}, 1, 0, 0},
		{"three lost ticks", []int64{tickTime(1, 0), tickTime(5, 0)}, 3, 0, 0},
		{"a doubled tick", []int64{tickTime(1, 0), tickTime(1, 0.01), tickTime(2, 0)}, 0, 1, 0},
		{"a tick between two", []int64{tickTime(1, 0), tickTime(1, 0.5), tickTime(2, 0)}, 0, 1, 0},
		{"a tick that is late by nearly a period", []int64{tickTime(1, 0), tickTime(2, 0.9), tickTime(3, 0), tickTime(4, 0)}, 0, 0, 1},
		{"a tick in place of two", []int64{tickTime(1, 0), tickTime(2, 1.1), tickTime(4, 0), tickTime(5, 0)}, 1, 0, 0},
		{"ticks that are late again and again", []int64{tickTime(1, 0), tickTime(2, 0), tickTime(3, 0), tickTime(4, 0), tickTime(5, 0), tickTime(6, 0.9), tickTime(7, 0.8), tickTime(8, 0.9), tickTime(9, 0), tickTime(10, 0)}, 0, 0, 0},
		{"a tick in place of two, later", []int64{tickTime(1, 0), tickTime(2, 0), tickTime(3, 0), tickTime(4, 0), tickTime(5, 0), tickTime(7, 0), tickTime(7, 0.5), tickTime(8, 0), tickTime(8, 0.1)}, 0, 1, 1},
		{"a schedule that drifts", []int64{tickTime(1, 0.2), tickTime(2, 0.4), tickTime(3, 0.6), tickTime(4, 0.8), tickTime(5, 1), tickTime(6, 1.2)}, 1, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := slots{period: int64(2 * time.Second), begun: true, anchor: tickTime(0, 0.1)}
			for _, seen := range test.seen {
				s.add(seen)
			}
			if s.lost != test.lost || s.doubled != test.doubled || s.tardy != test.tardy {
				t.Errorf("%d lost, %d doubled, %d late by a period, want %d, %d, %d",
					s.lost, s.doubled, s.tardy, test.lost, test.doubled, test.tardy)
			}
		})
	}
}

func TestTallyCountsMissingTicks(t *testing.T) {
	l := newLedger(layout{1}, 1)
	key := keyOf(0, portDBLive)
	a := l.accounts[key]
	for i := range int64(2) {
		due := (i + 1) * int64(a.period)
		l.addLocked(entry{At: due, Key: key})
		a.addTick(&tick{Time: time.Unix(0, due), Result: "success", Attempts: 1}, nil)
		a.settle(due)
		if i == 0 {
			a.slots.begin()
		}
	}
	l.addLocked(entry{At: int64(a.period * 5), Verdict: complete})
	if got := l.lateness(1); got != time.Millisecond {
		t.Errorf("lateness %v of ticks that were not late", got)
	}
	if got := l.tally(time.Second); got.lost != 2 || got.probes != 1 || got.ticks != 1 || got.unreported != 0 {
		t.Errorf("%+v, want 2 lost of 1 probe with 1 tick", got)
	}
	l.addLocked(entry{At: int64(a.period * 5), Key: key}) // the agent has not reported of it yet
	if got := l.tally(0); got.lost != 2 {
		t.Errorf("%d lost, want 2", got.lost)
	}
}

func TestAccountCountsAttemptsAfterRemoval(t *testing.T) {
	a := &account{closed: tickTime(2, 0)}
	a.add(entry{At: tickTime(1, 0)})
	a.add(entry{At: tickTime(3, 0)})
	if a.stale != 1 {
		t.Errorf("%d stale attempts, want 1", a.stale)
	}
}

func TestLedgerReadsTheLog(t *testing.T) {
	var b bytes.Buffer
	for _, e := range []entry{
		{1, keyOf(0, portFaultyHTTP), succeeds},
		{2, keyOf(0, portFaultyHTTP), fails},
		{3, keyOf(999, portLive), succeeds},
		{4, 0, gateClosed},
		{5, 0, complete},
	} {
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(e.At)))
		b.Write(binary.LittleEndian.AppendUint32(nil, e.Key))
		b.WriteByte(byte(e.Verdict))
	}
	l := newLedger(layout{1}, 1)
	l.read(bufio.NewReader(&b))
	if a := l.accounts[keyOf(0, portFaultyHTTP)]; len(a.conns) != 2 || a.conns[0].verdict != succeeds || a.conns[1].verdict != fails {
		t.Errorf("got %+v, want 2 connections, of which 1 fails", a)
	}
	if closed, since := l.gateState(); !closed || since.UnixNano() != 4 {
		t.Errorf("the gate is closed: %v, since %v", closed, since)
	}
	if l.strays != 1 {
		t.Errorf("%d strays, want 1", l.strays)
	}
	if err := l.await(time.Unix(0, 4)); err != nil {
		t.Error(err)
	}
	if err := l.await(time.Unix(0, 5)); err == nil {
		t.Error("await after the end of the log returned no error")
	}
}

func TestModelAppliesThresholds(t *testing.T) {
	m, p := newModel(), &probe{success: 2, fail: 3}
	for i, step := range []struct{ attempted, decided verdict }{
		{succeeds, fails}, {succeeds, succeeds}, // ready after two
		{fails, succeeds}, {fails, succeeds}, {succeeds, succeeds},
		{fails, succeeds}, {fails, succeeds}, {fails, fails},
		{succeeds, fails}, {fails, fails}, {succeeds, fails}, {succeeds, succeeds},
	} {
		m.add(step.attempted, p)
		if m.decided != step.decided {
			t.Errorf("attempt %d: decided %v, want %v", i, m.decided, step.decided)
		}
	}
}

func TestProxyPlanAlternatesSuccessAndFailure(t *testing.T) {
	p := newProxy(nil, httpFaults)
	seen := map[fault]int{}
	for n := range 1200 {
		f, v := p.plan(7, n)
		seen[f]++
		if bad := n%12 >= goodConns; bad != (v == fails) {
			t.Fatalf("connection %d: %v", n, v)
		}
	}
	for _, f := range append([]fault{pass, delayed, dripping}, httpFaults...) {
		if seen[f] == 0 {
			t.Errorf("fault %d never happens", f)
		}
	}
}
