package explain_test

import (
	"testing"
	"time"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

func TestSentence(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	in8s := now.Add(8 * time.Second)
	const next = "; the next attempt is in 8s"
	fail := func(run int, before, after string) *explain.Tick {
		return &explain.Tick{Result: probe.Failure, Counted: true, As: "failure", Run: run, Threshold: 3, Before: before, After: after}
	}
	succeed := func(run, threshold int, before, after string) *explain.Tick {
		return &explain.Tick{Result: probe.Success, Counted: true, As: "success", Run: run, Threshold: threshold, Before: before, After: after}
	}
	as := func(d explain.Decision, change func(*explain.Tick)) explain.Decision {
		last := *d.Last
		change(&last)
		d.Last = &last
		return d
	}
	of := func(kind probe.Kind, decided string, last *explain.Tick) explain.Decision {
		return explain.Decision{Kind: kind, SuccessThreshold: 1, FailureThreshold: 3, Restarts: true, Decided: decided, Next: in8s, Last: last}
	}
	gated := func(kind probe.Kind, decided, gate string, last *explain.Tick) explain.Decision {
		d := of(kind, decided, last)
		d.Gate = gate
		return d
	}
	norestart := of(probe.Liveness, "failure", fail(3, "success", "failure"))
	norestart.Restarts = false
	slow := of(probe.Readiness, "failure", succeed(1, 3, "failure", "failure"))
	slow.SuccessThreshold = 3
	skipped := func(reason string) explain.Decision {
		d := of(probe.Liveness, "success", succeed(4, 1, "success", "success"))
		d.Skipped = reason
		return d
	}
	at := func(next time.Time) explain.Decision {
		d := of(probe.Readiness, "failure", nil)
		d.Next = next
		return d
	}
	for name, c := range map[string]struct {
		of   explain.Decision
		want string
	}{
		"liveness, one of three":        {of(probe.Liveness, "success", fail(1, "success", "success")), "1 of 3 failures: the result stays success; 2 more make it failure, which restarts the container" + next},
		"liveness, two of three":        {of(probe.Liveness, "success", fail(2, "success", "success")), "2 of 3 failures: the result stays success; one more makes it failure, which restarts the container" + next},
		"readiness, two of three":       {of(probe.Readiness, "success", fail(2, "success", "success")), "2 of 3 failures: the result stays success; one more makes it failure, which makes the container not ready" + next},
		"readiness, never ready":        {of(probe.Readiness, "failure", fail(2, "failure", "failure")), "2 of 3 failures: the result stays failure; one success makes it success, which makes the container ready" + next},
		"readiness has failed":          {of(probe.Readiness, "failure", fail(3, "success", "failure")), "3 of 3 failures: the result became failure, which makes the container not ready; one success makes it success, which makes the container ready" + next},
		"readiness goes on failing":     {of(probe.Readiness, "failure", fail(7, "failure", "failure")), "7 failures in a row: the result stays failure; one success makes it success, which makes the container ready" + next},
		"readiness, one of three up":    {slow, "1 of 3 successes: the result stays failure; 2 more make it success, which makes the container ready" + next},
		"readiness is ready again":      {of(probe.Readiness, "success", succeed(1, 1, "failure", "success")), "1 of 1 success: the result became success, which makes the container ready; 3 failures in a row make it failure, which makes the container not ready" + next},
		"liveness succeeds":             {of(probe.Liveness, "success", succeed(9, 1, "success", "success")), "9 successes in a row: the result stays success; 3 failures in a row make it failure, which restarts the container" + next},
		"liveness of a task that stays": {norestart, "3 of 3 failures: the result became failure, which does not restart the container; one success makes it success" + next},
		"startup, one of three":         {of(probe.Startup, "unknown", fail(1, "unknown", "unknown")), "1 of 3 failures: the result stays unknown; 2 more make it failure, which restarts the container" + next},
		"startup has succeeded":         {of(probe.Startup, "success", succeed(1, 1, "unknown", "success")), "1 of 1 success: the result became success, which lets the other probes begin; it is not probed again before the container starts again" + next},
		"warning": {as(of(probe.Readiness, "success", succeed(2, 1, "success", "success")), func(t *explain.Tick) { t.Result = probe.Warning }),
			"the warning counts as a success: 2 successes in a row: the result stays success; 3 failures in a row make it failure, which makes the container not ready" + next},
		"unknown": {as(of(probe.Liveness, "success", fail(1, "success", "success")), func(t *explain.Tick) { t.Result = probe.Unknown }),
			"unknown counts as a failure: 1 of 3 failures: the result stays success; 2 more make it failure, which restarts the container" + next},
		"error that counts": {as(of(probe.Liveness, "success", fail(1, "success", "success")), func(t *explain.Tick) { t.Result, t.Error = probe.Unknown, true }),
			"the error counts as a failure (errorPolicy: failure): 1 of 3 failures: the result stays success; 2 more make it failure, which restarts the container" + next},
		"error":        {of(probe.Readiness, "failure", &explain.Tick{Error: true}), "the tick ended in an error, which does not count (errorPolicy: discard): the result stays failure" + next},
		"host trouble": {of(probe.Readiness, "success", &explain.Tick{Error: true, HostTrouble: true}), "the agent's own host had trouble, so that the tick does not count: the result stays success" + next},
		"dependency":   {of(probe.Readiness, "success", &explain.Tick{Error: true, Dependency: true}), "something on which the target depends fails, so that the tick does not count: the result stays success" + next},
		"no tick yet":  {of(probe.Readiness, "failure", nil), "no attempt yet: the result is failure until one success makes it success, which makes the container ready" + next},
		"no slot":      {skipped("no_slot"), "the last tick was skipped, since the handler had no free slot, or its process was starting again: the result stays success" + next},
		"busy":         {skipped("busy"), "the last tick was skipped, since the tick before it was still under way: the result stays success" + next},
		"panic":        {skipped("panic"), "the last tick was skipped, since the handler panicked (see the log of the agent): the result stays success" + next},
		"quarantine":   {skipped("quarantine"), "the last tick was skipped, since the handler is in quarantine: the result stays success" + next},

		"hold after liveness":  {gated(probe.Liveness, "failure", "on hold", fail(3, "success", "failure")), "3 of 3 failures: the result became failure, which restarts the container; no attempts before it runs again"},
		"hold without a tick":  {gated(probe.Liveness, "failure", "on hold", nil), "the result is failure, which restarts the container; no attempts before it runs again"},
		"hold after startup":   {gated(probe.Startup, "success", "on hold", succeed(1, 1, "unknown", "success")), "the startup probe has succeeded; no attempts before the container starts again"},
		"started":              {gated(probe.Startup, "success", "started", nil), "the startup probe has succeeded; no attempts before the container starts again"},
		"not started":          {gated(probe.Liveness, "success", "not started", nil), "no attempts before the startup probe has succeeded: the result is success until then"},
		"initial delay":        {gated(probe.Readiness, "failure", "initial delay, 4s left", nil), "no attempts during the initial delay, 4s left: the result is failure until then"},
		"not running":          {gated(probe.Readiness, "failure", "container not running", nil), "no attempts while the container does not run: the result is failure"},
		"terminating":          {gated(probe.Liveness, "success", "terminating", nil), "no attempts, since the pod is being deleted: nothing restarts it"},
		"pod ended":            {gated(probe.Liveness, "success", "pod ended", nil), "no attempts, since the pod has ended"},
		"no status":            {gated(probe.Liveness, "success", "no status", nil), "no attempts before the pod has a status"},
		"no container":         {gated(probe.Liveness, "success", "no container", nil), "no attempts before the container exists"},
		"paused":               {gated(probe.Readiness, "success", "paused", fail(2, "success", "success")), "paused: the result stays success until the probe is resumed"},
		"quarantined":          {gated(probe.Readiness, "success", "quarantined until 2026-11-23T12:05:00Z", nil), "the handler has failed several times in a row and is quarantined until 2026-11-23T12:05:00Z: the result stays success"},
		"a gate of the future": {gated(probe.Readiness, "success", "asleep", nil), "no attempts (asleep): the result is success"},

		"due now":        {at(now), "no attempt yet: the result is failure until one success makes it success, which makes the container ready; the next attempt is due now"},
		"due in 1.23 s":  {at(now.Add(1234 * time.Millisecond)), "no attempt yet: the result is failure until one success makes it success, which makes the container ready; the next attempt is in 1.2s"},
		"due in 90.4 s":  {at(now.Add(90400 * time.Millisecond)), "no attempt yet: the result is failure until one success makes it success, which makes the container ready; the next attempt is in 1m30s"},
		"due in 12.3 ms": {at(now.Add(12300 * time.Microsecond)), "no attempt yet: the result is failure until one success makes it success, which makes the container ready; the next attempt is in 12ms"},
		"due in 12.3 ms, with a window": {explain.Decision{
			Kind: probe.Readiness, SuccessThreshold: 1, FailureThreshold: 3, Decided: "failure", Next: now.Add(12300 * time.Microsecond), Window: 10 * time.Millisecond,
		}, "no attempt yet: the result is failure until one success makes it success, which makes the container ready; the next attempt is in 12ms to 22ms"},
		"no due time": {at(time.Time{}), "no attempt yet: the result is failure until one success makes it success, which makes the container ready"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.of.Sentence(now); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestPausedSentence(t *testing.T) {
	now := time.Now()
	for want, got := range map[string]string{
		"paused: the result stays success until the probe is resumed":                                         explain.Paused("", "success", "", "", time.Time{}, now),
		"paused by uid 0, with the socket (db moves): the result stays failure until the pause ends in 9m30s": explain.Paused("", "failure", "uid 0, with the socket", "db moves", now.Add(570*time.Second), now),
		`paused ( [31m): the result stays success until the pause ends in 0s`:                                 explain.Paused("", "success", "", "\x1b[31m", now.Add(-time.Second), now),
		"forced down by uid 0 (a drill): the result is failure until that ends in 2h0m0s":                     explain.Paused("down", "failure", "uid 0", "a drill", now.Add(2*time.Hour), now),
		"drained: the result is failure until prober unforce":                                                 explain.Paused("drained", "failure", "", "", time.Time{}, now),
	} {
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
