//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"sync"
	"time"
)

// ledger has an account for each probe that the targets see. Its methods are safe for concurrent use.
type ledger struct {
	mu       sync.Mutex
	accounts map[uint32]*account
	strays   int // connections of no probe
	gate     []entry
	late     [maxLate + 1]int // ticks of exact probes whose targets never fail, by milliseconds after they were due
	complete int64            // all connections until then are in the accounts; UnixNano
	caught   *sync.Cond
	ended    error // of the log
}

// account has the connections of one probe.
type account struct {
	probe
	pod int

	count  int // connections, since the agent started
	failed int // of them, those that the proxy made fail
	last   int64
	// repeats has the ticks with more than one attempt, or with an error, by their times. The agent
	// repeats attempts and discards results when its host is in trouble.
	repeats map[int64]repeat

	// The schedule of an exact probe, from begin on.
	begun                bool
	anchor               int64 // when tick 0 was due, or a little later
	tick                 int64 // number of the last tick that was seen
	gap                  bool  // ticks were missing before it
	lost, doubled, tardy int

	// Connections after closed are strays of a probe that was changed or removed; 0: it is neither.
	closed int64
	stale  int

	model model // of a faulty probe
}

// repeat is the attempts of a tick: those after the first one, and those that prober_probe_total does
// not count.
type repeat struct{ more, uncounted int }

// note notes a tick that the agent has shown, if it has more than one attempt or an error.
func (a *account) note(t *tick) {
	if t.Attempts < 2 && t.Error == "" {
		return
	}
	counted := 1
	if t.Error != "" {
		counted = 0
	}
	if a.repeats == nil {
		a.repeats = make(map[int64]repeat)
	}
	a.repeats[t.Time.UnixNano()] = repeat{t.Attempts - 1, t.Attempts - counted}
}

// repeated returns the sum of all repeats.
func (a *account) repeated() (sum repeat) {
	for _, r := range a.repeats {
		sum.more += r.more
		sum.uncounted += r.uncounted
	}
	return sum
}

// model is the threshold rule of the kubelet, in the few lines that readiness probes need.
type model struct {
	last    verdict
	length  int
	decided verdict
	recent  [32]moment
	n       int
}

// moment is one attempt and what was decided after it.
type moment struct {
	at                 int64
	attempted, decided verdict
}

func newModel() model { return model{last: succeeds, decided: fails} }

func (m *model) add(at int64, v verdict, p *probe) {
	if v != m.last {
		m.last, m.length = v, 0
	}
	m.length++
	if v == succeeds && m.length >= p.success || v == fails && m.length >= p.fail {
		m.decided = v
	}
	m.recent[m.n%len(m.recent)] = moment{at, v, m.decided}
	m.n++
}

// at returns the last attempt that was seen in a time; false if there is none. old reports whether it
// could be too long ago to be known.
func (m *model) at(from, to time.Time) (found moment, ok, old bool) {
	first := max(0, m.n-len(m.recent))
	for i := m.n - 1; i >= first; i-- {
		if e := m.recent[i%len(m.recent)]; e.at < from.UnixNano() {
			return moment{}, false, false
		} else if e.at <= to.UnixNano() {
			return e, true, false
		}
	}
	return moment{}, false, first > 0
}

func newLedger(pods int) *ledger {
	l := &ledger{accounts: make(map[uint32]*account)}
	l.caught = sync.NewCond(&l.mu)
	for pod := range pods {
		for generation := range 2 {
			for _, p := range probesOf(pod, generation) {
				key := keyOf(pod, p.port)
				if !p.unseen && l.accounts[key] == nil {
					l.accounts[key] = &account{probe: p, pod: pod, model: newModel()}
				}
			}
		}
	}
	return l
}

// read reads the log of the targets until it ends.
func (l *ledger) read(log *bufio.Reader) {
	var b [entrySize]byte
	for {
		_, err := io.ReadFull(log, b[:])
		l.mu.Lock()
		if err != nil {
			l.ended = err
			l.caught.Broadcast()
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
		l.caught.Broadcast()
		return
	case gateOpened, gateClosed:
		l.gate = append(l.gate, e)
		return
	}
	a := l.accounts[e.Key]
	if a == nil {
		l.strays++
		return
	}
	a.add(e)
	if a.begun && !a.faulty {
		due := a.anchor + a.tick*int64(a.period)
		l.late[min(maxLate, max(0, time.Duration(e.At-due).Milliseconds()))]++
	}
}

// maxLate is the largest number of milliseconds that is told apart.
const maxLate = 10_000

// lateness returns the time after which a part of the ticks was seen at the latest.
func (l *ledger) lateness(part float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	total, sum := 0, 0
	for _, n := range l.late {
		total += n
	}
	for ms, n := range l.late {
		if sum += n; sum > 0 && float64(sum) >= part*float64(total) {
			return time.Duration(ms+1) * time.Millisecond
		}
	}
	return 0
}

// early is the part of a period by which a tick may be seen before the time that the schedule so far
// makes it due: the tick that the schedule was taken from was late itself.
const early = 0.25

func (a *account) add(e entry) {
	a.count++
	if e.Verdict == fails {
		a.failed++
	}
	if a.closed != 0 && e.At > a.closed {
		a.stale++
	}
	if a.faulty {
		a.model.add(e.At, e.Verdict, &a.probe)
	}
	a.last = e.At
	if !a.begun {
		return
	}
	since := float64(e.At-a.anchor) / float64(a.period)
	n := int64(math.Floor(since + early))
	if ahead := float64(n) - since; ahead > 0 {
		a.anchor -= int64(ahead * float64(a.period))
	}
	switch {
	case n <= a.tick && a.gap: // the tick before this one was so late that it counted as this one
		a.lost--
		a.tardy++
		a.gap = false
	case n <= a.tick:
		a.doubled++
	default:
		a.lost += int(n - a.tick - 1)
		a.gap = n > a.tick+1
		a.tick = n
	}
}

// begin begins the schedules: from now on each tick of an exact probe is expected.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		if a.exact && a.count > 0 {
			a.begun, a.anchor, a.tick = true, a.last, 0
		}
	}
}

// await waits until all connections before t are in the accounts.
func (l *ledger) await(t time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.complete <= t.UnixNano() {
		if l.ended != nil {
			return fmt.Errorf("the log of the targets: %w", l.ended)
		}
		l.caught.Wait()
	}
	return nil
}

// tally is the sum of all accounts of exact probes.
type tally struct {
	probes, ticks               int
	lost, doubled, tardy, stale int
	repeated                    int      // attempts; see account
	strays                      int      // connections of no probe
	examples                    []string // of probes with what is wrong
}

// tally adds up the accounts. A tick that was due slack before the end of the log, or earlier, and
// was not seen is lost.
func (l *ledger) tally(slack time.Duration) (t tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.strays = l.strays
	for _, a := range l.accounts {
		t.stale += a.stale
		if a.stale > 0 {
			t.example("%s: %d stale", a.name(), a.stale)
		}
		if !a.begun {
			continue
		}
		lost := a.lost
		if due := int64(math.Floor(float64(l.complete-int64(slack)-a.anchor) / float64(a.period))); due > a.tick {
			lost += int(due - a.tick)
		}
		t.probes++
		t.ticks += int(a.tick)
		t.lost += lost
		repeated := a.repeated().more
		t.repeated += repeated
		doubled := max(0, a.doubled-repeated)
		t.doubled += doubled
		t.tardy += a.tardy
		if lost != 0 || doubled != 0 {
			t.example("%s, period %v: %d lost, %d doubled", a.name(), a.period, lost, doubled)
		}
	}
	return t
}

func (t *tally) example(format string, args ...any) {
	if len(t.examples) < 5 {
		t.examples = append(t.examples, fmt.Sprintf(format, args...))
	}
}

func (a *account) name() string {
	return fmt.Sprintf("%s/%s/%s (%s)", podName(a.pod), a.container, a.kind, a.handler)
}

// counts are the connections of a probe, and those that prober_probe_total does not count.
type counts struct{ count, failed, uncounted int }

// counts returns the connections of all probes until now.
func (l *ledger) counts() map[uint32]counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[uint32]counts, len(l.accounts))
	for key, a := range l.accounts {
		all[key] = counts{a.count, a.failed, a.repeated().uncounted}
	}
	return all
}

// do calls f with an account, if there is one.
func (l *ledger) do(key uint32, f func(*account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[key]; a != nil {
		f(a)
	}
}

// gateState returns since when the gate has been open or closed.
func (l *ledger) gateState() (closed bool, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.gate) == 0 {
		return false, time.Time{}
	}
	e := l.gate[len(l.gate)-1]
	return e.Verdict == gateClosed, time.Unix(0, e.At)
}
