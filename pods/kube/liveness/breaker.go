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

// change is what the breaker needs of a change of the state of a probe.
type change struct {
	pod             types.UID
	probe           probeKey
	good            bool // it was or is a success
	failed, removed bool
	first           bool // it counts though the probe is new
	at              time.Time
}

// probeKey names a probe of a pod.
type probeKey struct {
	container string
	kind      probe.Kind
}

// changeOf returns what the breaker needs of c. The end of a container is no failure of its probes:
// many end when a node is drained, or a workload is scaled down. New pods are not ready at first, which
// is no sign of trouble; that they are not live is one.
func changeOf(c *states.Change) change {
	isGood := func(s states.State) bool { return s == states.Success || s == states.Warning }
	return change{
		pod: types.UID(c.Info.PodUID), probe: probeKey{c.Info.Container, c.Info.Kind},
		good: isGood(c.From) || isGood(c.To), failed: c.To == states.Failure && c.Reason != string(results.NotRunning), removed: c.Removed, at: c.Time,
		first: c.Info.Kind != probe.Readiness,
	}
}

// history is what the breaker knows of a probe.
type history struct {
	good   bool      // it has succeeded since it failed last; it may be unknown meanwhile
	failed time.Time // when it began to fail, as far as that counts; zero: never
}

// breaker decides whose probes the agent distrusts. The goroutine of Run owns it.
// See RATIONALE.md, "Why must doubt hold without any one of its parties?"
type breaker struct {
	limits      Breaker
	party       func(types.UID) (Party, bool)
	stalled     func() time.Duration
	pressureDir string
	log         *slog.Logger

	pods      map[types.UID]map[probeKey]history // all probes that are known
	pressures map[string]float64                 // of those that can be read
	unread    map[string]bool                    // resources whose pressure cannot be read

	late latch            // keeps the results of all probes from being trusted
	open map[Scope]*latch // keep actions from being done
}

// latch is a cause that holds the breaker open, and for a while after it has ended.
type latch struct {
	reason string    // "": it is closed
	until  time.Time // it closes, if nothing holds it open
	all    bool      // the cause is none of probes
}

// check returns the reason after a look at the cause, "" if there is none at present.
func (l *latch) check(cause string, now time.Time, window time.Duration) string {
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

func (b *breaker) put(pod types.UID, of probeKey, h history) {
	if b.pods[pod] == nil {
		b.pods[pod] = map[probeKey]history{}
	}
	b.pods[pod][of] = h
}

// fails takes a failure that is to be acted upon. There is no change of a state where the container before had
// ended: the probe has failed since then.
func (b *breaker) fails(pod types.UID, of probeKey, now time.Time) {
	if h := b.pods[pod][of]; h.good || h.failed.IsZero() {
		b.put(pod, of, history{failed: now})
	}
}

// check returns the present doubts, and logs when the breaker of a scope opens and closes.
func (b *breaker) check(now time.Time) Doubts {
	blind, shares := b.crowds(func(of probeKey, h history, p Party) (counted, failed bool) {
		return p.depends(of.kind), !h.failed.IsZero() && now.Sub(h.failed) < b.limits.Window
	})
	crowd, acted := b.crowds(func(of probeKey, h history, p Party) (counted, failed bool) {
		fails := !h.good && !h.failed.IsZero()
		return p.Acts && (of.kind == probe.Liveness || of.kind == probe.Startup && fails), fails
	})
	lag := b.lag()
	late := b.late.check(lag, now, b.limits.Window)
	next := Doubts{}
	for _, scope := range slices.Concat(slices.Collect(maps.Keys(blind)), slices.Collect(maps.Keys(crowd)), slices.Collect(maps.Keys(b.open)), []Scope{{}}) {
		if _, ok := next[scope]; ok {
			continue
		}
		var failures, strain string
		if t, ok := blind[scope]; ok {
			failures = fmt.Sprintf("%d of %d probes of the %s began to fail within %v", t.failed, t.all, scope, b.limits.Window)
		}
		if t, ok := crowd[scope]; ok {
			strain = fmt.Sprintf("%d of %d liveness and startup probes of the %s fail", t.failed, t.all, scope)
		}
		d := Doubt{Blind: failures}
		cause, others := cmp.Or(failures, strain), ""
		if scope == (Scope{}) {
			others = cmp.Or(lag, b.strain())
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

// hold returns why nothing is done to the pods of a scope, with the present cause. all is whether that is none of probes,
// and so are the causes since it has been open.
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
	after := l.check(cause, now, b.limits.Window)
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

// lag returns why the ticks of all probes are not to be trusted; "" if they are.
func (b *breaker) lag() string {
	if b.stalled != nil {
		if lag := b.stalled(); lag > b.limits.Lag {
			return fmt.Sprintf("probes are %v late, more than %v", lag.Round(time.Millisecond), b.limits.Lag)
		}
	}
	return ""
}

// tally is what the probes of a pod, a workload or a namespace say.
type tally struct {
	failed, all int     // probes
	share       float64 // that failed: each pod counts the same in its workload, each workload in its namespace
}

// crowds returns the scopes in which so much fails that one cause is likely, which no restart mends, or that
// the agent itself is at fault; and the share of each namespace that fails. It counts probes of which counted is true.
func (b *breaker) crowds(count func(probeKey, history, Party) (counted, failed bool)) (doubted map[Scope]tally, shares map[string]float64) {
	pods := make(map[Scope][]tally)
	for uid, probes := range b.pods {
		party, ok := b.party(uid)
		if !ok {
			continue
		}
		var t tally
		for of, h := range probes {
			counted, failed := count(of, h, party)
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
	for scope, of := range workloads {
		shares[scope.Namespace] = sum(of).share / float64(len(of))
	}
	namespaces := b.merged(workloads, doubted, func(Scope) Scope { return Scope{} })
	b.merged(namespaces, doubted, func(s Scope) Scope { return s })
	return doubted, shares
}

// merged adds the parties of each scope up to a tally of the scope that has it, and notes scopes in which many fail.
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
	for _, of := range tallies {
		t.failed, t.all, t.share = t.failed+of.failed, t.all+of.all, t.share+of.share
	}
	return t
}

// many reports whether many probes of a scope fail even without any one of its parties: a pod, workload or
// namespace alone, whatever number of probes it has, is never a reason to distrust the probes of others.
func (b *breaker) many(total tally, parties []tally) bool {
	for _, without := range parties {
		rest := len(parties) - 1
		if rest == 0 || total.failed-without.failed < b.limits.Least || total.share-without.share < b.limits.Share*float64(rest)-rounding {
			return false
		}
	}
	return true
}

// rounding is more than the error of a sum of shares.
const rounding = 1e-9

// strain returns for which resource tasks of the node wait too long; "" for none.
func (b *breaker) strain() string {
	for _, resource := range slices.Sorted(maps.Keys(b.pressures)) {
		if p, limit := b.pressures[resource], b.limits.Pressure[resource]; p > limit {
			return fmt.Sprintf("%s: tasks waited for it %.0f %% of the last 10 s, more than %.0f %%", resource, p, limit)
		}
	}
	return ""
}

// measure reads the pressure of each resource that has a limit. It says once if one cannot be read:
// not every kernel has them.
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
