package liveness

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// change is the part of a [states.Change] that the breaker needs.
type change struct {
	pod             types.UID
	probe           probeKey
	good            bool // the state was or is a success or a warning
	failed, removed bool
	first           bool // a failure counts even if the probe has never succeeded
	at              time.Time
}

// probeKey names a probe of a pod.
type probeKey struct {
	container string
	kind      probe.Kind
}

// changeOf converts c. The end of a container does not count as a failure of its probes: many containers end when
// a node is drained, or a workload is scaled down. For a new pod, a first failure of a readiness probe does not
// count, since pods are not ready at first, but a failure of a liveness or startup probe does.
func changeOf(c *states.Change) change {
	isGood := func(s states.State) bool { return s == states.Success || s == states.Warning }
	return change{
		pod: types.UID(c.Info.PodUID), probe: probeKey{c.Info.Container, c.Info.Kind},
		good: isGood(c.From) || isGood(c.To), failed: c.To == states.Failure && c.Reason != string(results.NotRunning), removed: c.Removed, at: c.Time,
		first: c.Info.Kind != probe.Readiness,
	}
}

// history is the breaker's record of a probe.
type history struct {
	good   bool      // it has succeeded since its last failure; its state may be unknown since
	failed time.Time // when it last began to fail, if that counted; zero: never
}

// breaker decides whose probes the agent distrusts. The goroutine of Run owns it.
// See RATIONALE.md, "Why must doubt hold without any one of its parties?"
type breaker struct {
	limits      Breaker
	party       func(types.UID) (Party, bool)
	stalled     func() time.Duration
	pressureDir string
	log         *slog.Logger

	pods      map[types.UID]map[probeKey]history // all known probes
	pressures map[string]float64                 // by readable resource
	unread    map[string]bool                    // resources whose pressure cannot be read

	late latch            // while open, the results of all probes are not trusted
	open map[Scope]*latch // while open, no action is taken
}

// latch holds the breaker open while a cause exists, and for one window afterwards.
type latch struct {
	reason string    // "": it is closed
	until  time.Time // when it closes without a further cause
	all    bool      // the cause is the agent or the node, not failing probes
}

// update sets the present cause, and returns the reason why the latch is open; "" if it is closed.
func (l *latch) update(cause string, now time.Time, window time.Duration) string {
	switch {
	case cause != "":
		l.reason, l.until = cause, now.Add(window)
	case !now.Before(l.until):
		l.reason = ""
	}
	return l.reason
}

func newBreaker(cfg *Config, log *slog.Logger) *breaker {
	return &breaker{
		limits: cfg.Breaker, party: cfg.Party, stalled: cfg.Stalled, pressureDir: cfg.PressureDir, log: log,
		pods: map[types.UID]map[probeKey]history{}, pressures: map[string]float64{}, unread: map[string]bool{}, open: map[Scope]*latch{},
	}
}

func (b *breaker) changed(c *change) {
	if c.removed {
		delete(b.pods[c.pod], c.probe)
		if len(b.pods[c.pod]) == 0 {
			delete(b.pods, c.pod)
		}
		return
	}
	h := b.pods[c.pod][c.probe]
	h.good = h.good || c.good
	if c.failed {
		if h.good || c.first && h.failed.IsZero() {
			h.failed = c.at
		}
		h.good = false
	}
	b.put(c.pod, c.probe, h)
}

func (b *breaker) put(pod types.UID, key probeKey, h history) {
	if b.pods[pod] == nil {
		b.pods[pod] = map[probeKey]history{}
	}
	b.pods[pod][key] = h
}

// fails records a failure passed to [Actor.Failed]. After the end of the previous container, the state was a failure
// already, so that changed gets no change for it.
func (b *breaker) fails(pod types.UID, key probeKey, now time.Time) {
	if h := b.pods[pod][key]; h.good || h.failed.IsZero() {
		b.put(pod, key, history{failed: now})
	}
}

// check returns the present doubts, and logs when the breaker of a scope opens and closes.
func (b *breaker) check(now time.Time) Doubts {
	blind, shares := b.correlated(func(key probeKey, h history, p Party) (counted, failed bool) {
		return p.depends(key.kind), !h.failed.IsZero() && now.Sub(h.failed) < b.limits.Window
	})
	crowd, acted := b.correlated(func(key probeKey, h history, p Party) (counted, failed bool) {
		fails := !h.good && !h.failed.IsZero()
		return p.Acts && (key.kind == probe.Liveness || key.kind == probe.Startup && fails), fails
	})
	lag := b.lag()
	late := b.late.update(lag, now, b.limits.Window)
	next := Doubts{}
	for _, scope := range slices.Concat(slices.Collect(maps.Keys(blind)), slices.Collect(maps.Keys(crowd)), slices.Collect(maps.Keys(b.open)), []Scope{{}}) {
		if _, ok := next[scope]; ok {
			continue
		}
		var failures, failing string
		if t, ok := blind[scope]; ok {
			failures = fmt.Sprintf("%d of %d probes of the %s began to fail within %v", t.failed, t.all, scope, b.limits.Window)
		}
		if t, ok := crowd[scope]; ok {
			failing = fmt.Sprintf("%d of %d liveness and startup probes of the %s fail", t.failed, t.all, scope)
		}
		d := Doubt{Blind: failures}
		cause, others := cmp.Or(failures, failing), ""
		if scope == (Scope{}) {
			others = cmp.Or(lag, b.pressure())
			d.Blind, cause = cmp.Or(late, failures), cmp.Or(lag, cause, others)
		}
		if d.Open, d.All = b.hold(scope, cause, others != "", now); d.Open != "" {
			next[scope] = d
		}
	}
	if _, doubted := next[Scope{}]; !doubted {
		return next
	}
	for name := range shares {
		if scope := (Scope{Namespace: name}); max(shares[name], acted[name]) < b.limits.Share-rounding {
			d := next[scope]
			d.Well = true
			next[scope] = d
		}
	}
	return next
}

// hold updates the latch of a scope with the present cause, and returns why no action is taken on the scope's
// pods; "" if actions are allowed. all reports whether cause is about the agent or the node. ofAll reports
// whether reason is.
func (b *breaker) hold(scope Scope, cause string, all bool, now time.Time) (reason string, ofAll bool) {
	l := b.open[scope]
	if l == nil {
		if cause == "" {
			return "", false
		}
		l = &latch{}
		b.open[scope] = l
	}
	before := l.reason
	after := l.update(cause, now, b.limits.Window)
	l.all = all || l.all && after == before
	switch {
	case after != "" && before == "":
		b.log.Warn("the breaker is open: no restarts and evictions", "reason", after)
	case after == "":
		b.log.Info("the breaker is closed again", "after", before)
		delete(b.open, scope)
	}
	return after, l.all
}

// lag returns a text if the schedule of probes is late by more than the limit; "" if not.
func (b *breaker) lag() string {
	if b.stalled != nil {
		if lag := b.stalled(); lag > b.limits.Lag {
			return fmt.Sprintf("probes are %v late, more than %v", lag.Round(time.Millisecond), b.limits.Lag)
		}
	}
	return ""
}

// tally counts the probes of a pod, a workload or a namespace.
type tally struct {
	failed, all int     // probes
	share       float64 // share that failed, with equal weight for each pod of a workload and each workload of a namespace
}

// correlated returns the scopes in which so many probes fail that a common cause is likely, which a restart would not
// fix, or a fault of the agent. It also returns the failed share of each namespace. Only probes for which count returns
// counted are considered.
func (b *breaker) correlated(count func(probeKey, history, Party) (counted, failed bool)) (doubted map[Scope]tally, shares map[string]float64) {
	pods := make(map[Scope][]tally)
	for uid, probes := range b.pods {
		party, ok := b.party(uid)
		if !ok {
			continue
		}
		var t tally
		for key, h := range probes {
			counted, failed := count(key, h, party)
			if counted {
				t.all++
			}
			if counted && failed {
				t.failed++
			}
		}
		if t.all > 0 {
			t.share = float64(t.failed) / float64(t.all)
			pods[party.Scope] = append(pods[party.Scope], t)
		}
	}
	doubted, shares = make(map[Scope]tally), make(map[string]float64)
	workloads := b.merged(pods, doubted, func(s Scope) Scope { return Scope{Namespace: s.Namespace} })
	for scope, tallies := range workloads {
		shares[scope.Namespace] = sum(tallies).share / float64(len(tallies))
	}
	namespaces := b.merged(workloads, doubted, func(Scope) Scope { return Scope{} })
	b.merged(namespaces, doubted, func(s Scope) Scope { return s })
	return doubted, shares
}

// merged sums up the tallies of each scope, and returns the sums by the enclosing scope, which within returns. It adds
// the scopes with many failures to doubted.
func (b *breaker) merged(parties map[Scope][]tally, doubted map[Scope]tally, within func(Scope) Scope) map[Scope][]tally {
	all := make(map[Scope][]tally)
	for scope, tallies := range parties {
		t := sum(tallies)
		if b.many(t, tallies) {
			doubted[scope] = t
		}
		t.share /= float64(len(tallies))
		all[within(scope)] = append(all[within(scope)], t)
	}
	return all
}

// sum returns the sums of tallies.
func sum(tallies []tally) (t tally) {
	for _, one := range tallies {
		t.failed, t.all, t.share = t.failed+one.failed, t.all+one.all, t.share+one.share
	}
	return t
}

// many reports whether the limits are exceeded even without any single one of parties. So one pod, workload or
// namespace alone, however many probes it has, never causes distrust of the probes of others.
func (b *breaker) many(total tally, parties []tally) bool {
	for _, without := range parties {
		rest := len(parties) - 1
		if rest == 0 || total.failed-without.failed < b.limits.Least || total.share-without.share < b.limits.Share*float64(rest)-rounding {
			return false
		}
	}
	return true
}

// rounding is an upper bound of the floating-point error of a sum of shares.
const rounding = 1e-9

// pressure returns a text if the pressure of a resource exceeds its limit; "" if not.
func (b *breaker) pressure() string {
	for _, resource := range slices.Sorted(maps.Keys(b.pressures)) {
		if p, limit := b.pressures[resource], b.limits.Pressure[resource]; p > limit {
			return fmt.Sprintf("%s: tasks waited for it %.0f %% of the last 10 s, more than %.0f %%", resource, p, limit)
		}
	}
	return ""
}

// measure reads the pressure of each resource that has a limit. If a file cannot be read, as in kernels
// without pressure files, it logs that once, and does not check the resource.
func (b *breaker) measure() {
	for resource := range b.limits.Pressure {
		if b.unread[resource] {
			continue
		}
		p, err := pressureOf(filepath.Join(b.pressureDir, filepath.Base(resource)))
		if err != nil {
			b.unread[resource] = true
			b.log.Info("the pressure of a resource cannot be read; it is not checked", "resource", resource, "error", err)
			delete(b.pressures, resource)
			continue
		}
		b.pressures[resource] = p
	}
}

// pressureOf reads the first number of a pressure file: "some avg10=1.23 …".
func pressureOf(file string) (float64, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	line, _, _ := bytes.Cut(content, []byte("\n"))
	for field := range strings.FieldsSeq(string(line)) {
		if text, ok := strings.CutPrefix(field, "avg10="); ok && bytes.HasPrefix(line, []byte("some ")) {
			return strconv.ParseFloat(text, 64)
		}
	}
	return 0, fmt.Errorf("%s: no avg10 of some", file)
}
