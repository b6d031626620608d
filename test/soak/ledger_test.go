//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// at returns the time of a tick of a probe with a period of 2 s, which is late by a part of it.
func at(tick int, late float64) int64 {
	return int64((float64(tick) + late) * float64(2*time.Second))
}

func exactAccount() *account {
	return &account{probe: probe{period: 2 * time.Second, exact: true}, begun: true, anchor: at(0, 0.1)}
}

func TestAccountCountsTicks(t *testing.T) {
	for _, test := range []struct {
		name                 string
		seen                 []int64
		lost, doubled, tardy int
	}{
		{"each tick once", []int64{at(1, 0), at(2, 0), at(3, 0)}, 0, 0, 0},
		{"late ticks", []int64{at(1, 0), at(2, 0.6), at(3, 0), at(4, 0.7)}, 0, 0, 0},
		{"a schedule that was taken from a late tick", []int64{at(1, -0.1), at(2, -0.1), at(3, 0.6)}, 0, 0, 0},
		{"a lost tick", []int64{at(1, 0), at(3, 0)}, 1, 0, 0},
		{"three lost ticks", []int64{at(1, 0), at(5, 0)}, 3, 0, 0},
		{"a doubled tick", []int64{at(1, 0), at(1, 0.01), at(2, 0)}, 0, 1, 0},
		{"a tick between two", []int64{at(1, 0), at(1, 0.5), at(2, 0)}, 0, 1, 0},
		{"a tick that is late by nearly a period", []int64{at(1, 0), at(2, 0.9), at(3, 0), at(4, 0)}, 0, 0, 1},
		{"a tick in place of two", []int64{at(1, 0), at(2, 1.1), at(4, 0), at(5, 0)}, 1, 0, 0},
		{"a schedule that drifts", []int64{at(1, 0.2), at(2, 0.4), at(3, 0.6), at(4, 0.8), at(5, 1), at(6, 1.2)}, 1, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := exactAccount()
			for _, e := range test.seen {
				a.add(entry{At: e})
			}
			if a.lost != test.lost || a.doubled != test.doubled || a.tardy != test.tardy || a.count != len(test.seen) {
				t.Errorf("%d lost, %d doubled, %d late by a period of %d, want %d, %d, %d",
					a.lost, a.doubled, a.tardy, a.count, test.lost, test.doubled, test.tardy)
			}
		})
	}
}

func TestTallyCountsTicksThatNeverCame(t *testing.T) {
	l := newLedger(1)
	key := keyOf(0, portDBLive)
	period := l.accounts[key].period
	l.addLocked(entry{At: 0, Key: key})
	l.begin()
	l.addLocked(entry{At: int64(period), Key: key})
	l.addLocked(entry{At: int64(period * 4), Verdict: complete})
	if got := l.lateness(1); got != time.Millisecond {
		t.Errorf("lateness %v of ticks that were not late", got)
	}
	if got := l.tally(time.Second); got.lost != 2 || got.probes != 1 || got.ticks != 1 {
		t.Errorf("%+v, want 2 lost of 1 probe with 1 tick", got)
	}
}

func TestAccountExcusesRepeatedAttempts(t *testing.T) {
	a := exactAccount()
	for _, e := range []int64{at(1, 0), at(1, 0.2), at(1, 0.4), at(2, 0), at(2, 0.3), at(3, 0)} {
		a.add(entry{At: e})
	}
	for range 2 { // shown twice
		a.note(&tick{Time: time.Unix(0, at(1, 0)), Attempts: 3, Error: "stalled"})
		a.note(&tick{Time: time.Unix(0, at(2, 0)), Attempts: 2})
		a.note(&tick{Time: time.Unix(0, at(3, 0)), Attempts: 1})
	}
	if got := a.repeated(); a.doubled != 3 || got != (repeat{more: 3, uncounted: 4}) {
		t.Errorf("%d doubled, %+v, want 3, of which 3 were repeated, and 4 not counted", a.doubled, got)
	}
}

func TestAccountCountsAttemptsAfterARemoval(t *testing.T) {
	a := &account{closed: at(2, 0)}
	a.add(entry{At: at(1, 0)})
	a.add(entry{At: at(3, 0)})
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
	l := newLedger(1)
	l.read(bufio.NewReader(&b))
	if got := l.counts()[keyOf(0, portFaultyHTTP)]; got != (counts{2, 1, 0}) {
		t.Errorf("got %+v, want 2 connections, of which 1 fails", got)
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
		m.add(int64(i), step.attempted, p)
		if m.decided != step.decided {
			t.Errorf("attempt %d: decided %v, want %v", i, m.decided, step.decided)
		}
	}
	got, ok, old := m.at(time.Unix(0, 5), time.Unix(0, 7))
	if !ok || old || got != (moment{7, fails, fails}) {
		t.Errorf("the last attempt from 5 to 7: %+v, %v, %v", got, ok, old)
	}
	for i := range int64(50) {
		m.add(100+i, succeeds, p)
	}
	if _, ok, old := m.at(time.Unix(0, 5), time.Unix(0, 7)); ok || !old {
		t.Errorf("a forgotten attempt: found %v, old %v", ok, old)
	}
}

func TestProxyPlanIsGoodAndBadInTurn(t *testing.T) {
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
