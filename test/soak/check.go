//go:build linux

package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// told is what check has reported as a fault already.
type told struct{ lost, doubled, stale, wrong int }

func processors() int { return runtime.NumCPU() }

// check compares what the agent says with the log of the targets.
func (w *world) check() {
	w.checkResults() // first: it notes repeated attempts
	if _, err := w.checkTotals(); err != nil {
		w.failed("scrape", err)
	}
	w.checkTicks()
}

// skippedLocked returns the ticks that the agent has skipped, by reason.
func (w *world) skippedLocked() string {
	var all []string
	for name, value := range w.scraped.values {
		if strings.HasPrefix(name, "prober_runs_skipped_total{") {
			all = append(all, fmt.Sprintf("%s %.0f", label(name, "reason"), value-w.first.values[name]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// inDoubtLocked returns the number of attempts that the agent has discarded or repeated because its
// host was in trouble. The stream does not show all that were repeated, so as many differences are no
// faults. It is 0 on a host that has time for the agent, or nearly so.
func (w *world) inDoubtLocked() int {
	return int(w.scraped.sum("prober_attempt_errors_total", `reason="host_`)) + w.repeated
}

// checkTicks checks that no tick of an exact probe was lost or doubled, but for those that the agent
// counts as skipped, and for attempts that it has repeated.
func (w *world) checkTicks() {
	t := w.ledger.tally(w.slack())
	w.mu.Lock()
	defer w.mu.Unlock()
	skipped := 0
	for _, reason := range []string{"busy", "no_slot", "panic"} { // exact probes are never in quarantine
		series := `prober_runs_skipped_total{reason="` + reason + `"}`
		skipped += int(w.scraped.values[series] - w.first.values[series])
	}
	if t.lost > max(skipped, w.told.lost) {
		w.report.fault("%d ticks lost, %d counted as skipped, such as %q", t.lost, skipped, t.examples)
		w.told.lost = t.lost
	}
	if t.doubled > max(w.told.doubled, w.inDoubtLocked()) {
		w.report.fault("%d ticks doubled, such as %q", t.doubled, t.examples)
		w.told.doubled = t.doubled
	}
	if t.stale > w.told.stale {
		w.report.fault("%d attempts after a change, a pause or a removal, such as %q", t.stale, t.examples)
		w.told.stale = t.stale
	}
	if t.strays > 0 {
		w.report.fault("%d connections of no probe", t.strays)
	}
}

// checkTotals compares prober_probe_total of every exact probe with the connections that its target
// has seen. It returns the probes whose totals differ by one, perhaps because an attempt is under way.
func (w *world) checkTotals() (off map[uint32]bool, err error) {
	before := w.ledger.counts()
	s, err := w.agent.scrape(true)
	if err != nil {
		return nil, err
	}
	if err := w.ledger.await(time.Now()); err != nil {
		return nil, err
	}
	after := w.ledger.counts()
	off = make(map[uint32]bool)
	wrong, falseFailures, example := 0, 0, ""
	for key, a := range w.ledger.accounts {
		if !a.exact {
			continue
		}
		t, from, to := s.totals[probeSeries{podName(a.pod), a.container, a.kind}], before[key], after[key]
		from.count -= to.uncounted
		from.failed -= to.uncounted
		// An attempt may be under way, which is not in the total yet, or a connection may not have
		// been accepted yet.
		if t.all < from.count-1 || t.all > to.count+1 || a.faulty && (t.failed < from.failed-1 || t.failed > to.failed+1) {
			wrong++
			example = fmt.Sprintf("%s: %d attempts and %d failures, the target saw %d to %d and %d to %d",
				a.name(), t.all, t.failed, from.count, to.count, from.failed, to.failed)
		}
		if !a.faulty && t.failed > 0 {
			falseFailures += t.failed
			example = fmt.Sprintf("%s: %d false failures", a.name(), t.failed)
		}
		if t.all < from.count || t.all > to.count || a.faulty && (t.failed < from.failed || t.failed > to.failed) {
			off[key] = true
		}
	}
	unseen := w.checkUnseen(&s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scraped = s
	w.compared.totals += len(before)
	if wrong+falseFailures > max(w.told.wrong, w.inDoubtLocked()) {
		w.told.wrong = wrong + falseFailures
		w.report.fault("prober_probe_total: %d totals differ from the log of the targets, %d false failures, such as %s", wrong, falseFailures, example)
	}
	if unseen != "" {
		w.report.fault("prober_probe_total: %s", unseen)
	}
	return off, nil
}

// checkUnseen compares the totals of probes without a target with their schedule. It returns a text
// if one differs.
func (w *world) checkUnseen(s *scrape) string {
	elapsed := time.Since(w.firstAt)
	for pod := range w.pods {
		p := auxiliary(pod)
		if !p.unseen || roleOf(pod) != steady {
			continue
		}
		p = probesOf(pod, 0)[podProbes-1]
		key := probeSeries{podName(pod), p.container, p.kind}
		got, want := float64(s.totals[key].all-w.first.totals[key].all), float64(elapsed)/float64(p.period)
		if got < want-2 || got > want+2 {
			return fmt.Sprintf("%v (%s): %.0f ticks in %v, want %.1f", key, p.handler, got, elapsed.Round(time.Second), want)
		}
	}
	return ""
}

// checkEqual compares the totals until each was equal to the connections of its probe once.
func (w *world) checkEqual() {
	var left map[uint32]bool
	for i := 0; i < 8 && (i == 0 || len(left) > 0); i++ {
		off, err := w.checkTotals()
		if err != nil {
			w.failed("scrape", err)
			return
		}
		if i == 0 {
			left = off
		}
		for key := range left {
			if !off[key] {
				delete(left, key)
			}
		}
		time.Sleep(700 * time.Millisecond)
	}
	w.mu.Lock()
	doubt := w.inDoubtLocked()
	w.mu.Unlock()
	for key := range left {
		if len(left) <= doubt {
			return
		}
		w.report.fault("prober_probe_total: %d totals always differ by one from the log of the targets, such as that of %s", len(left), w.ledger.accounts[key].name())
		return
	}
}

// checkResults compares the decided result and the past ticks of every probe with what the model says
// after the log of the targets.
func (w *world) checkResults() {
	begin := time.Now()
	items, err := w.agent.allProbes()
	if err != nil {
		w.failed("list", err)
		return
	}
	got := time.Now()
	if err := w.ledger.await(got); err != nil {
		w.failed("targets", err)
		return
	}
	w.mu.Lock()
	w.lists = append(w.lists, got.Sub(begin))
	w.mu.Unlock()
	closed, since := w.ledger.gateState()
	wrong := make(map[string]int)
	examples := make(map[string]string)
	for i := range items {
		if what, text := w.checkResult(&items[i], begin, closed, begin.Sub(since)); what != "" {
			wrong[what]++
			examples[what] = text
		}
	}
	w.mu.Lock()
	doubt := w.inDoubtLocked()
	w.mu.Unlock()
	for what, n := range wrong {
		if n <= doubt {
			continue
		}
		w.report.fault("%d %s, such as %s", n, what, examples[what])
	}
	w.checkRestarts()
	w.checkStream(items)
}

// checkResult compares one item. It returns what is wrong in general, and an example; "" if nothing
// is. The list was asked for at begin. The gate has been closed or open for so long.
func (w *world) checkResult(p *probeView, begin time.Time, closed bool, stable time.Duration) (what, example string) {
	pod, ok := podNumber(p.Pod)
	if !ok {
		return w.checkOdd(p)
	}
	key, seen := w.keys[p.key()]
	if role := roleOf(pod); role == going || !seen || p.Last == nil {
		return "", ""
	}
	w.ledger.do(key, func(a *account) {
		for _, t := range append(p.History, *p.Last) {
			a.note(&t)
		}
		switch {
		case len(a.repeats) > 0: // the model has counted what the agent has not
		case a.port == portGate:
			if stable < time.Duration(max(a.success, a.fail)+2)*a.period+time.Second {
				return
			}
			if (p.Result == "success") == closed {
				what, example = "results that are not those of the gate", fmt.Sprintf("%s is %s, gate closed: %v for %v", p.key(), p.Result, closed, stable)
			}
		case !a.faulty:
			if p.Result != "success" {
				what, example = "false results of healthy targets", fmt.Sprintf("%s is %s: %+v", p.key(), p.Result, *p.Last)
			}
		default:
			what, example = w.checkModel(a, p, begin)
		}
	})
	return what, example
}

// checkModel compares an item with the model of its account. A result that was decided after begin
// may be missing in the item.
func (w *world) checkModel(a *account, p *probeView, begin time.Time) (what, example string) {
	results, ticks := 0, 0
	for i, t := range append([]tick{*p.Last}, p.History...) {
		end := t.end()
		m, ok, old := a.model.at(t.Time.Add(-10*time.Millisecond), end.Add(300*time.Millisecond))
		if old {
			continue
		}
		if !ok {
			return "ticks that no target has seen", fmt.Sprintf("%s: %+v", p.key(), t)
		}
		if (t.Result == "success") != (m.attempted == succeeds) {
			return "ticks whose result is not that of the target", fmt.Sprintf("%s: %+v, want success: %v", p.key(), t, m.attempted == succeeds)
		}
		ticks++
		if i > 0 || end.After(begin) {
			continue
		}
		if (p.Result == "success") != (m.decided == succeeds) {
			return "decided results that are not those of the model", fmt.Sprintf("%s is %s after %+v, want success: %v", p.key(), p.Result, t, m.decided == succeeds)
		}
		results++
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.compared.results += results
	w.compared.ticks += ticks
	return "", ""
}
