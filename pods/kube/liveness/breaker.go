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

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// change is what the breaker needs of a change of the state of a probe.
type change struct {
	probe           probeKey
	good            bool // it was or is a success
	failed, removed bool
	first           bool // it counts though the probe is new
	at              time.Time
}

type probeKey struct {
	podUID, container string
	kind              probe.Kind
}

// changeOf returns what the breaker needs of c. The end of a container is no failure of its probes:
// many end when a node is drained, or a workload is scaled down. New pods are not ready at first, which
// is no sign of trouble; that they are not live is one.
func changeOf(c *states.Change) change {
	isGood := func(s states.State) bool { return s == states.Success || s == states.Warning }
	return change{
		probe: probeKey{c.Info.PodUID, c.Info.Container, c.Info.Kind},
		good:  isGood(c.From) || isGood(c.To), failed: c.To == states.Failure && c.Reason != string(results.NotRunning), removed: c.Removed, at: c.Time,
		first: c.Info.Kind != probe.Readiness,
	}
}

// history is what the breaker knows of a probe.
type history struct {
	good   bool      // it has succeeded since it failed last; it may be unknown meanwhile
	failed time.Time // when it began to fail, as far as that counts; zero: never
}

// breaker decides whether the agent distrusts its probes. The goroutine of Run owns it.
type breaker struct {
	limits      Breaker
	stalled     func() time.Duration
	pressureDir string
	log         *slog.Logger

	probes    map[probeKey]history // all that are known
	pressures map[string]float64   // of those that can be read
	unread    map[string]bool      // resources whose pressure cannot be read

	blind, strained latch
}

// latch is a cause that holds the breaker open, and for a while after it has ended.
type latch struct {
	reason string    // "": it is closed
	until  time.Time // it closes, if nothing holds it open
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
		limits: cfg.Breaker, stalled: cfg.Stalled, pressureDir: cfg.PressureDir, log: log,
		probes: map[probeKey]history{}, pressures: map[string]float64{}, unread: map[string]bool{},
	}
}

func (b *breaker) changed(c *change) {
	if c.removed {
		delete(b.probes, c.probe)
		return
	}
	h := b.probes[c.probe]
	h.good = h.good || c.good
	if c.failed {
		if h.good || c.first && h.failed.IsZero() {
			h.failed = c.at
		}
		h.good = false
	}
	b.probes[c.probe] = h
}

// fails takes a failure that is to be acted upon. There is no change of a state where the container before had
// ended: the probe has failed since then.
func (b *breaker) fails(of probeKey, now time.Time) {
	if h := b.probes[of]; h.good || h.failed.IsZero() {
		b.probes[of] = history{failed: now}
	}
}

// check returns why the breaker is open, and logs when that changes. The zero value means that it is
// closed.
func (b *breaker) check(now time.Time) doubts {
	before := doubts{b.blind.reason, b.strained.reason}
	after := doubts{b.blind.check(b.blindness(now), now, b.limits.Window), b.strained.check(cmp.Or(b.crowd(), b.strain()), now, b.limits.Window)}
	switch {
	case after.any() != "" && before.any() == "":
		b.log.Warn("the breaker is open: no restarts and evictions", "reason", after.any())
	case after.any() == "" && before.any() != "":
		b.log.Info("the breaker is closed again", "after", before.any())
	}
	return after
}

// doubts are why the breaker is open.
type doubts struct {
	blind    string // what probes say may be wrong; "" if it is not
	strained string // probes say what is, but restarts make it worse: the node is under pressure, or there would be too many
}

func (d doubts) any() string { return cmp.Or(d.blind, d.strained) }

// blindness returns why the results of probes are not to be trusted; "" if they are.
func (b *breaker) blindness(now time.Time) string {
	if b.stalled != nil {
		if lag := b.stalled(); lag > b.limits.Lag {
			return fmt.Sprintf("probes are %v late, more than %v", lag.Round(time.Millisecond), b.limits.Lag)
		}
	}
	failed := 0
	for _, h := range b.probes {
		if b.recent(h, now) {
			failed++
		}
	}
	if b.many(failed, len(b.probes)) {
		return fmt.Sprintf("%d of %d probes of the node began to fail within %v", failed, len(b.probes), b.limits.Window)
	}
	return ""
}

// crowd returns how many of the probes that act fail, however long; "" if they are few. What fails for so
// many at once is the probe, or something that they all need, and no restart mends that. Readiness
// probes that succeed say nothing about a bad liveness probe that many pods have. Nor do startup probes,
// which have succeeded once.
func (b *breaker) crowd() string {
	failed, all := 0, 0
	for probeOf, h := range b.probes {
		fails := !h.good && !h.failed.IsZero()
		if probeOf.kind == probe.Liveness || probeOf.kind == probe.Startup && fails {
			all++
			if fails {
				failed++
			}
		}
	}
	if b.many(failed, all) {
		return fmt.Sprintf("%d of %d liveness and startup probes of the node fail", failed, all)
	}
	return ""
}

// recent reports whether a probe began to fail within the window.
func (b *breaker) recent(h history, now time.Time) bool {
	return !h.failed.IsZero() && now.Sub(h.failed) < b.limits.Window
}

func (b *breaker) many(failed, all int) bool {
	return failed >= b.limits.Least && float64(failed) >= b.limits.Share*float64(all)
}

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
