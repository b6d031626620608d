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

// check compares the agent's answers with the log of the targets. It compares the total of each probe in
// at most the given number of scrapes, until one lies between two ticks of the probe.
func (w *world) check(scrapes int) {
	w.checkResults() // first: the lists have ticks that the stream has omitted
	w.settle()
	w.compareTotals(scrapes)
	w.checkTicks()
}

const (
	fewGaps   = 20               // up to so many pods with gaps are listed one by one
	listEvery = 10 * time.Second // the least time between two lists of all probes that fill gaps
)

// settle settles the ledger, and lists the probes of pods whose ticks the stream has omitted.
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
		w.gapLists.Add(1)
	}
	if len(queries) > 0 {
		w.ledger.settle()
	}
}

// mayList reports whether the last list of all probes that filled gaps is older than listEvery. If so, it
// records a new one.
func (w *world) mayList() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.listed) < listEvery {
		return false
	}
	w.listed = time.Now()
	return true
}

// merge adds the ticks of an item of a list to the ledger. The list was requested at asked.
func (w *world) merge(p *probeView, asked time.Time) {
	if key, ok := w.keys[p.key()]; ok {
		w.ledger.do(key, func(a *account) {
			if a.exact {
				a.merge(p, asked)
			}
		})
	}
}

// skippedLocked returns the number of ticks that the agent has skipped, by reason.
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

// maxStalls is the fraction of all ticks that may be repeated, or end without a result, because the agent
// did not run. A soak with more of them proves nothing: the host is too busy for the load.
const maxStalls = 0.001

// checkTicks checks that no tick was lost or doubled, and that each has the result of its target.
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
	count(t.unreported, "attempts of ticks that the agent does not report", "skipped by the agent: "+skipped+"; "+such("unreported"))
	count(t.unseen, "ticks that no target has seen", such("unseen"))
	count(t.errors, "ticks with an error", such("errors"))
	count(t.wrong, "ticks whose result differs from the target's", such("wrong"))
	count(t.misjudged, "decided results that differ from the model's", such("misjudged"))
	count(t.strays, "connections of no probe", "of an unknown address or port")
	count(t.trouble, "times that the targets had no descriptors", "they have the limit of this program")
	if n := t.stalls + t.retries; n > int(maxStalls*float64(t.matches.ticks)) {
		count(n, "failed attempts because the agent did not run", "the host is too busy for this load")
	}
}

// compareTotals compares prober_probe_total of every exact probe with the ticks that the ledger has
// settled. In a scrape between two ticks, while no attempt is running, both must be equal. In any
// other scrape the total must lie between the counts of the ledger before and after it. compareTotals
// scrapes until each probe had a scrape between two ticks, at most the given number of times.
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
	w.report.count(wrong, "totals of prober_probe_total that differ from the ticks of the probe", "such as "+example)
}

// compare compares the total of a metric with the balances before and after the scrape. wrong describes
// the difference; it is "" if the total is right. equal reports whether the scrape was between two
// ticks, so that only one total is right.
func (a *account) compare(got total, before, after balance) (equal bool, wrong string) {
	least, most := before.total, after.total
	if equal = before.quiet && after.quiet && before.ticks == after.ticks; !equal {
		most = most.plus(total{after.pending, after.pending})
	}
	base := bounds{a.base.least.atLeast(got.minus(most)), a.base.most.atMost(got.minus(least))}
	if base.least.all > base.most.all || base.least.failed > base.most.failed {
		return equal, fmt.Sprintf("%s: %+v, want %+v to %+v", a.name(), got, a.base.least.plus(least), a.base.most.plus(most))
	}
	a.base = base
	return equal, ""
}

// checkResults lists all probes, adds their past ticks to the ledger, and compares their decided results
// with the state of their targets. settle compares exact probes tick by tick.
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

// checkResult compares one item of a list that was requested at begin. It returns the kind of fault and an
// example, or "" if there is no fault. The gate has been closed, or else open, for the time stable.
func (w *world) checkResult(p *probeView, begin time.Time, closed bool, stable time.Duration) (what, example string) {
	pod, ok := podNumber(p.Pod)
	if !ok {
		return w.checkOdd(p)
	}
	key, seen := w.keys[p.key()]
	if role := roleOf(pod); role == recreated || !seen || p.Last == nil {
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
				what, example = "results that do not match the gate", fmt.Sprintf("%s is %s, gate closed: %v for %v", p.key(), p.Result, closed, stable)
			}
		case p.Result != "success":
			what, example = "false results of healthy targets", fmt.Sprintf("%s is %s: %+v", p.key(), p.Result, *p.Last)
		}
	})
	return what, example
}

// stalled reports whether a tick in the history of a probe ended without a result, because the agent did
// not run.
func stalled(p *probeView) bool {
	return slices.ContainsFunc(p.History, func(t tick) bool { return strings.HasPrefix(t.Error, hostStall) })
}
