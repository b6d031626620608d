package liveness

import (
	"bytes"
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
	at              time.Time
}

type probeKey struct {
	podUID, container string
	kind              probe.Kind
}

// changeOf returns what the breaker needs of c. The end of a container is no failure of its probes:
// many end when a node is drained, or a workload is scaled down.
func changeOf(c *states.Change) change {
	isGood := func(s states.State) bool { return s == states.Success || s == states.Warning }
	return change{
		probe: probeKey{c.Info.PodUID, c.Info.Container, c.Info.Kind},
		good:  isGood(c.From) || isGood(c.To), failed: c.To == states.Failure && c.Reason != string(results.NotRunning), removed: c.Removed, at: c.Time,
	}
}

// history is what the breaker knows of a probe.
type history struct {
	good   bool      // it has succeeded since it failed last; it may be unknown meanwhile
	failed time.Time // when it began to fail after a success; zero: never
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
	reason    string               // why it is open
	until     time.Time            // it closes, if nothing holds it open
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
		if h.good {
			h.failed = c.at
		}
		h.good = false
	}
	b.probes[c.probe] = h
}

// check returns why the breaker is open, "" if it is closed, and logs when that changes.
func (b *breaker) check(now time.Time) string {
	why := b.trouble(now)
	switch {
	case why != "" && b.reason == "":
		b.log.Warn("the agent distrusts its probes: no restarts and evictions", "reason", why)
		fallthrough
	case why != "":
		b.reason, b.until = why, now.Add(b.limits.Window)
	case b.reason != "" && !now.Before(b.until):
		b.log.Info("the agent trusts its probes again", "after", b.reason)
		b.reason = ""
	}
	return b.reason
}

// trouble returns which limit is exceeded; "" if none is.
func (b *breaker) trouble(now time.Time) string {
	if b.stalled != nil {
		if lag := b.stalled(); lag > b.limits.Lag {
			return fmt.Sprintf("probes are %v late, more than %v", lag.Round(time.Millisecond), b.limits.Lag)
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(b.pressures)) {
		if p, limit := b.pressures[resource], b.limits.Pressure[resource]; p > limit {
			return fmt.Sprintf("%s: tasks waited for it %.0f %% of the last 10 s, more than %.0f %%", resource, p, limit)
		}
	}
	failed := 0
	for _, h := range b.probes {
		if !h.failed.IsZero() && now.Sub(h.failed) < b.limits.Window {
			failed++
		}
	}
	if failed >= b.limits.Least && float64(failed) >= b.limits.Share*float64(len(b.probes)) {
		return fmt.Sprintf("%d of %d probes of the node began to fail within %v", failed, len(b.probes), b.limits.Window)
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
