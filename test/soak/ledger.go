//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"sync"
	"time"
)

// ledger has an account for each probe, by [keyOf]. Its methods are safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	accounts map[uint32]*account
	strays   int // connections that belong to no probe
	gate     []entry
	trouble  int // entries inTrouble
	examples examples
	late     lateness // of the connections of exact probes
	complete int64    // all connections until then are in the accounts; UnixNano
	caughtUp *sync.Cond
	ended    error // why the log has ended
}

// account has the connections of one probe, and its ticks as the agent reports them. Times are UnixNano.
type account struct {
	probe
	pod int

	last int64 // the last connection

	// Connections after closed count as stale, because the probe was paused, changed or removed then. 0 if it
	// was not.
	closed int64
	stale  int

	// For exact probes: connections and ticks that [account.settle] has not matched yet, by time.
	conns []conn
	ticks []reported
	gap   bool  // a tick is missing that a list of the probe may have
	asked int64 // when the list that was merged last was requested

	failure int64 // the oldest failure in the history of that list

	// For exact probes: results of [account.settle].
	settled  int64  // time of the last tick
	total    total  // ticks without an error, which prober_probe_total counts
	base     bounds // ticks before the first one that the ledger knows
	began    int64  // when the schedules began; earlier connections do not count
	sum      matches
	model    model
	slots    slots
	late     *lateness // the ledger's, like examples
	examples examples
}

// model is the kubelet's threshold rule for readiness probes.
type model struct {
	last    verdict
	length  int
	decided verdict
}

func newModel() model { return model{last: succeeds, decided: fails} }

func (m *model) add(v verdict, p *probe) {
	if v != m.last {
		m.last, m.length = v, 0
	}
	m.length++
	if v == succeeds && m.length >= p.success || v == fails && m.length >= p.fail {
		m.decided = v
	}
}

func newLedger(all layout, pods int) *ledger {
	l := &ledger{accounts: make(map[uint32]*account), examples: make(examples)}
	l.caughtUp = sync.NewCond(&l.mu)
	for pod := range pods {
		for generation := range 2 {
			for _, p := range all.probesOf(pod, generation) {
				key := keyOf(pod, p.port)
				if l.accounts[key] == nil {
					l.accounts[key] = l.newAccount(pod, p)
				}
			}
		}
	}
	return l
}

func (l *ledger) newAccount(pod int, p probe) *account {
	a := &account{probe: p, pod: pod, model: newModel(), slots: slots{period: int64(p.period)}, late: &l.late, examples: l.examples}
	if p.unseen { // no connections show how many ticks it had at first
		a.base = bounds{total{math.MinInt, math.MinInt}, total{math.MaxInt, math.MaxInt}}
	}
	return a
}

// read reads the log of the targets until it ends.
func (l *ledger) read(log *bufio.Reader) {
	var b [entrySize]byte
	for {
		_, err := io.ReadFull(log, b[:])
		l.mu.Lock()
		if err != nil {
			l.ended = err
			l.caughtUp.Broadcast()
			l.mu.Unlock()
			return
		}
		l.addLocked(entry{int64(binary.LittleEndian.Uint64(b[:])), binary.LittleEndian.Uint32(b[8:]), verdict(b[12])})
		l.mu.Unlock()
	}
}

func (l *ledger) addLocked(e entry) {
	switch e.Verdict {
	case complete:
		l.complete = e.At
		l.caughtUp.Broadcast()
		return
	case gateOpened, gateClosed:
		l.gate = append(l.gate, e)
		return
	case inTrouble:
		l.trouble++
		return
	}
	a := l.accounts[e.Key]
	if a == nil {
		l.strays++
		return
	}
	a.add(e)
}

func (a *account) add(e entry) {
	if a.closed != 0 && e.At > a.closed {
		a.stale++
	}
	a.last = e.At
	if a.exact {
		a.conns = append(a.conns, conn{e.At, e.Verdict})
	}
}

// begin begins the schedules: from now on each tick of an exact probe is expected, and each attempt
// must belong to a tick. Earlier, while all probes start at once, plugins may have no instance for some
// attempts. begin returns an error if a probe has had no tick yet.
func (l *ledger) begin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if !a.exact {
			continue
		}
		if a.slots.last == 0 {
			return fmt.Errorf("%s: the ledger has no tick", a.name())
		}
		a.slots.begin()
		a.began, a.sum = l.complete, matches{}
	}
	return nil
}

// addTick adds the last tick of an item of the stream.
func (l *ledger) addTick(key uint32, p *probeView) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[key]; a != nil && a.exact {
		a.addTick(p.Last, new(p.Result == "success"))
	}
}

// settle settles the accounts of exact probes, and returns the pods with gaps.
func (l *ledger) settle() (gaps map[int]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gaps = make(map[int]bool)
	for _, a := range l.accounts {
		if !a.exact {
			continue
		}
		a.settle(l.complete)
		if a.gap {
			gaps[a.pod] = true
		}
	}
	return gaps
}

// lateness returns a quantile of the lateness of all ticks.
func (l *ledger) lateness(part float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.late.quantile(part)
}

// await waits until all connections before t are in the accounts. It returns an error if the log ends.
func (l *ledger) await(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.complete <= t.UnixNano() {
		if l.ended != nil {
			return fmt.Errorf("the log of the targets: %w", l.ended)
		}
		l.caughtUp.Wait()
	}
	return nil
}

// tally is the sum of all accounts.
type tally struct {
	probes, ticks        int // exact probes, and the ticks of their schedules
	lost, doubled, tardy int
	stale, strays        int // connections after a change, and connections that belong to no probe
	trouble              int // times that the targets had no descriptors
	matches                  // sums of exact probes
	examples             examples
}

// tally adds up the accounts. A tick without a connection is lost if it was due before the end of the log
// minus slack.
func (l *ledger) tally(slack time.Duration) (t tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.strays, t.trouble, t.examples = l.strays, l.trouble, maps.Clone(l.examples)
	for _, a := range l.accounts {
		t.stale += a.stale
		if a.stale > 0 {
			t.examples.add("stale", fmt.Sprintf("%s: %d", a.name(), a.stale))
		}
		t.matches.add(&a.sum)
		if waits := a.overdue(l.complete); waits > 0 {
			t.unreported += waits
			t.examples.add("unreported", fmt.Sprintf("%s: attempt at %s, and no tick since", a.name(), clock(a.conns[0].at)))
		}
		s := &a.slots
		if !s.begun {
			continue
		}
		lost := s.lost + s.missing(a.settledUntil(l.complete, slack))
		t.probes++
		t.ticks += int(s.tick)
		t.lost += lost
		t.doubled += s.doubled
		t.tardy += s.tardy
		for kind, n := range map[string]int{"lost": lost, "doubled": s.doubled, "tardy": s.tardy} {
			if n != 0 {
				t.examples.add(kind, fmt.Sprintf("%s, period %v: %d lost, %d doubled, %d late by a period", a.name(), a.period, lost, s.doubled, s.tardy))
			}
		}
	}
	return t
}

func (a *account) name() string {
	return fmt.Sprintf("%s/%s/%s (%s)", podName(a.pod), a.container, a.kind, a.handler)
}

// do calls f with the account of key, if there is one. The ledger is locked meanwhile.
func (l *ledger) do(key uint32, f func(*account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[key]; a != nil {
		f(a)
	}
}

// gateState returns whether the gate is closed, and since when it has been in this state.
func (l *ledger) gateState() (closed bool, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gate) == 0 {
		return false, time.Time{}
	}
	e := l.gate[len(l.gate)-1]
	return e.Verdict == gateClosed, time.Unix(0, e.At)
}

// balance is the state of an account at a time.
type balance struct {
	quiet   bool  // all connections and ticks are settled
	ticks   int   // settled ticks
	total   total // settled ticks without an error
	pending int   // at most so many further ticks may be in the agent's total
}

// balances returns the balances of exact probes.
func (l *ledger) balances() map[uint32]balance {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[uint32]balance, len(l.accounts))
	for key, a := range l.accounts {
		if a.exact {
			all[key] = a.balance(l.complete)
		}
	}
	return all
}

func (a *account) balance(now int64) balance {
	return balance{a.quiet(now), a.sum.ticks, a.total, 1 + int(max(0, now-a.slots.last)/int64(a.period))}
}
