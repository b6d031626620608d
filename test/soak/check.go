//go:build linux

package main

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

func processors() int { return runtime.NumCPU() }

// check compares what the agent tells with the log of the targets. It compares a total with the log
// in so many scrapes at most, until there is one between two ticks.
func (w *world) check(scrapes int) {
	w.checkResults() // first: the lists have ticks that the stream has not
	w.settle()
	w.compareTotals(scrapes)
	w.checkTicks()
}

const (
	fewGaps   = 20               // pods with gaps that are asked for one by one
	listEvery = 10 * time.Second // between two lists of all probes, if there are more
)

// settle settles the ledger, and asks for the lists of pods whose ticks the stream has not told.
func (w *world) settle() {
	gaps := w.ledger.settle()
	var queries []string
	switch {
	case len(gaps) <= fewGaps:
		for pod := range gaps {
			queries = append(queries, "?pod="+podName(pod))
		}
	case w.mayList():
		queries = append(queries, "")
	}
	for _, query := range queries {
		begin := time.Now()
		items, err := w.agent.list(query)
		if err != nil {
			w.failed("list", err)
			return
		}
		for i := range items {
			w.merge(&items[i], begin)
		}
		w.asked.Add(1)
	}
	if len(queries) > 0 {
		w.ledger.settle()
	}
}

// mayList reports whether the last list of all probes that filled gaps is old enough.
func (w *world) mayList() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.listed) < listEvery {
		return false
	}
	w.listed = time.Now()
	return true
}

// merge adds the ticks of an item of a list to the ledger.
func (w *world) merge(p *probeView, asked time.Time) {
	if key, ok := w.keys[p.key()]; ok {
		w.ledger.do(key, func(a *account) {
			if a.exact {
				a.merge(p, asked)
			}
		})
	}
}

// skippedLocked returns the ticks that the agent has skipped, by reason.
func (w *world) skippedLocked() string {
	var all []string
	for name, value := range w.scraped.values {
		if n := value - w.first.values[name]; n > 0 && strings.HasPrefix(name, "prober_runs_skipped_total{") {
			all = append(all, fmt.Sprintf("%s %.0f", label(name, "reason"), n))
		}
	}
	slices.Sort(all)
	return cmp.Or(strings.Join(all, ", "), "none")
}

// maxStalls is the part of all ticks that may be repeated, or end without a result, because the agent
// did not run. A run with more of them shows nothing: the host is too busy for its load.
const maxStalls = 0.001

// checkTicks checks that no tick was lost or doubled, and that each is what its target has seen.
func (w *world) checkTicks() {
	t := w.ledger.tally(w.slack())
	w.mu.Lock()
	skipped := w.skippedLocked()
	w.mu.Unlock()
	such := func(what string) string { return "such as " + strings.Join(t.examples[what], "; ") }
	count := w.report.count
	count(t.lost, "ticks lost", "skipped by the agent: "+skipped+"; "+such("lost"))
	count(t.doubled, "ticks doubled", such("doubled"))
	count(t.tardy, "ticks a period late", such("tardy"))
	count(t.stale, "attempts after a change, a pause or a removal", such("stale"))
	count(t.untold, "attempts of ticks that the agent does not tell", "skipped by the agent: "+skipped+"; "+such("untold"))
	count(t.unseen, "ticks that no target has seen", such("unseen"))
	count(t.errors, "ticks with an error", such("errors"))
	count(t.wrong, "ticks whose result is not that of the target", such("wrong"))
	count(t.misjudge, "decided results that are not those of the model", such("misjudged"))
	count(t.strays, "connections of no probe", "of an unknown address or port")
	count(t.trouble, "times that the targets had no descriptors", "their limit is that of this program")
	if n := t.stalls + t.retries; n > int(maxStalls*float64(t.matches.ticks)) {
		count(n, "attempts in vain because the agent did not run", "the host is too busy for this load")
	}
}

// compareTotals compares prober_probe_total of every exact probe with the ticks that the ledger has
// settled: in a scrape between two ticks, while no attempt is under way, both must be equal. In any
// other scrape the total must lie between the counts of the ledger before and after it. It makes so
// many scrapes at most until each probe had one between two ticks.
func (w *world) compareTotals(scrapes int) {
	left := w.ledger.balances()
	all, wrong, example := len(left), 0, ""
	for i := 0; i < scrapes && len(left) > 0; i++ {
		w.settle()
		before := w.ledger.balances()
		s, err := w.agent.scrape(true)
		if err == nil {
			err = w.ledger.await(time.Now())
		}
		if err != nil {
			w.failed("scrape", err)
			return
		}
		w.settle()
		after := w.ledger.balances()
		for key := range left {
			w.ledger.do(key, func(a *account) {
				equal, text := a.compare(s.totals[probeSeries{podName(a.pod), a.container, a.kind}], before[key], after[key])
				if text != "" {
					wrong++
					example = text
				}
				if equal || text != "" {
					delete(left, key)
				}
			})
		}
		w.mu.Lock()
		w.scraped = s
		w.mu.Unlock()
		time.Sleep(300 * time.Millisecond)
	}
	w.mu.Lock()
	w.compared += all - len(left)
	w.bounded = len(left)
	w.mu.Unlock()
	w.report.count(wrong, "totals of prober_probe_total that are not the ticks of the probe", "such as "+example)
}

// compare compares the total of a metric with the balances before and after it was scraped, and
// returns a text if it is wrong. equal reports whether the scrape was between two ticks, so that only
// one total is right.
func (a *account) compare(got total, before, after balance) (equal bool, wrong string) {
	least, most := before.total, after.total
	if equal = before.quiet && after.quiet && before.ticks == after.ticks; !equal {
		most = most.plus(total{after.more, after.more})
	}
	base := bounds{a.base.least.atLeast(got.minus(most)), a.base.most.atMost(got.minus(least))}
	if base.least.all > base.most.all || base.least.failed > base.most.failed {
		return equal, fmt.Sprintf("%s: %+v, want %+v to %+v", a.name(), got, a.base.least.plus(least), a.base.most.plus(most))
	}
	a.base = base
	return equal, ""
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
	for what, n := range wrong {
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
		switch {
		case a.exact: // settle compares each tick
			a.merge(p, begin)
		case a.port == portGate:
			if stable < time.Duration(max(a.success, a.fail)+2)*a.period+time.Second || stalled(p) {
				return
			}
			if (p.Result == "success") == closed {
				what, example = "results that are not those of the gate", fmt.Sprintf("%s is %s, gate closed: %v for %v", p.key(), p.Result, closed, stable)
			}
		case p.Result != "success":
			what, example = "false results of healthy targets", fmt.Sprintf("%s is %s: %+v", p.key(), p.Result, *p.Last)
		}
	})
	return what, example
}

// stalled reports whether one of the last ticks of a probe decided nothing, because the agent did not
// run.
func stalled(p *probeView) bool {
	return slices.ContainsFunc(p.History, func(t tick) bool { return strings.HasPrefix(t.Error, hostStall) })
}
