package managertest

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// row is the test of one rule, for a pod with one probe.
type row struct {
	name, kind string
	test       func(w *World)
}

const second = time.Second

var rows = []row{
	{"same pod changes nothing", readiness, func(w *World) {
		w.start()
		w.answer(false, 3*second)
		w.next()
		w.update()
		w.wantAttempts(0, 4*second, "after an update that changes nothing")
		w.wantReady(false, "after the attempt under way has failed")
	}},
	{"grace period of the probe changes nothing", liveness, func(w *World) {
		w.answer(true, 3*second)
		w.start()
		w.change(liveness, func(p *v1.Probe) { p.TerminationGracePeriodSeconds = new(int64(5)) })
		w.wantAttempts(0, 5*second, "after the update")
	}},

	// Attempts.
	{"new handler cancels the attempt under way, and another one begins at once", readiness, func(w *World) {
		w.start()
		w.answer(false, 3*second)
		w.deaf = true
		w.next()
		w.answer(true, 0)
		w.change(readiness, version("v2"))
		w.run(5 * second)
		w.wantReady(true, "after a late result of the handler before")
		if got := w.last().version; got != "v2" {
			w.t.Errorf("the last attempt is one of %s", got)
		}
	}},
	{"new handler begins a new run, and keeps the decided result", readiness, func(w *World) {
		(*w.probe(readiness)).FailureThreshold = 3
		w.start()
		w.answer(false, 0)
		w.next()
		w.next()
		w.change(readiness, version("v2"))
		w.next()
		w.next()
		w.run(step)
		w.wantReady(true, "after two failures of the new handler")
		w.next()
		w.run(step)
		w.wantReady(false, "after three")
	}},
	{"new handler keeps the schedule", readiness, func(w *World) {
		w.start()
		w.next()
		last := w.last().at
		w.run(3 * second)
		w.change(readiness, version("v2"))
		w.next()
		w.wantSince(last, 10*second)
	}},
	{"new timeout cancels the attempt under way, and keeps the run", readiness, func(w *World) {
		(*w.probe(readiness)).FailureThreshold = 3
		w.start()
		w.answer(false, 0)
		w.next()
		w.next()
		w.answer(false, 2*second)
		w.next()
		w.answer(false, 0)
		w.change(readiness, func(p *v1.Probe) { p.TimeoutSeconds = 4 })
		w.run(second)
		w.wantReady(false, "after the third failure")
		if got := len(w.attempts()); got < 5 {
			w.t.Errorf("%d attempts: the one that was under way was not made again", got)
		}
	}},
	{"probe that changes faster than its attempts end still decides", readiness, func(w *World) {
		(*w.probe(readiness)).FailureThreshold = 3
		w.start()
		w.answer(false, 3*second)
		for i := range 120 {
			w.change(readiness, version(fmt.Sprint("v", i+2)))
			w.run(second)
		}
		w.wantReady(false, "after two minutes of failures")
	}},
	{"probe whose timeout changes faster than its attempts end still decides", readiness, func(w *World) {
		w.start()
		w.answer(false, 3*second)
		for i := range 30 {
			w.change(readiness, func(p *v1.Probe) { p.TimeoutSeconds = int32(5 + i%2) })
			w.run(second)
		}
		w.wantReady(false, "after half a minute of failures")
	}},

	// Thresholds.
	{"new thresholds keep the attempt under way and the run, and apply to both", readiness, func(w *World) {
		(*w.probe(readiness)).FailureThreshold = 9
		w.start()
		w.answer(false, 0)
		w.next()
		w.answer(false, 3*second)
		w.next()
		w.change(readiness, func(p *v1.Probe) { p.FailureThreshold = 2 })
		w.wantReady(true, "before the second failure")
		w.wantAttempts(0, 4*second, "while one is under way")
		w.wantReady(false, "after it")
	}},

	// Schedule.
	{"new period counts from the last attempt", readiness, func(w *World) {
		w.start()
		w.next()
		last := w.last().at
		w.run(2 * second)
		w.change(readiness, func(p *v1.Probe) { p.PeriodSeconds = 5 })
		w.next()
		w.wantSince(last, 5*second)
		w.wantAttempts(3, 15*second, "with a period of 5s")
	}},
	{"new period keeps the attempt under way", readiness, func(w *World) {
		w.start()
		w.answer(false, 3*second)
		w.next()
		w.change(readiness, func(p *v1.Probe) { p.PeriodSeconds = 20 })
		w.wantAttempts(0, 4*second, "while one is under way")
		w.wantReady(false, "after it")
	}},
	{"longer initial delay stops attempts until it ends", readiness, func(w *World) {
		w.start()
		w.change(readiness, func(p *v1.Probe) { p.InitialDelaySeconds = 60 })
		w.wantAttempts(0, 30*second, "before the end of the delay")
		w.wantReady(true, "as before")
	}},

	// Holds.
	{"liveness probe on hold is probed again with another handler", liveness, func(w *World) {
		n := w.hold()
		w.change(liveness, version("v2"))
		w.waitAttempts(n)
		if got := w.last().version; got != "v2" {
			w.t.Errorf("attempt of %s", got)
		}
		w.wantAttempts(2, 20*second, "after a success")
	}},
	{"liveness probe on hold is probed again with another timeout", liveness, func(w *World) {
		n := w.hold()
		w.change(liveness, func(p *v1.Probe) { p.TimeoutSeconds = 6 })
		w.waitAttempts(n)
	}},
	{"liveness probe on hold is probed again with another threshold, and holds again", liveness, func(w *World) {
		n := w.hold()
		w.answer(false, 0)
		w.change(liveness, func(p *v1.Probe) { p.FailureThreshold = 2 })
		w.waitAttempts(n + 1)
		w.wantAttempts(0, 20*second, "after the second failure in a row")
	}},
	{"liveness probe stays on hold with another period and delay", liveness, func(w *World) {
		w.hold()
		w.change(liveness, func(p *v1.Probe) { p.PeriodSeconds, p.InitialDelaySeconds = 5, 1 })
		w.wantAttempts(0, 20*second, "on hold")
	}},
	{"startup probe that has failed is probed again with another handler", startup, func(w *World) {
		n := w.hold()
		w.change(startup, version("v2"))
		w.waitAttempts(n)
		w.run(step)
		w.wantStarted(true, "after a success")
	}},
	{"changed startup probe does not probe a container that has started", startup, func(w *World) {
		w.start()
		w.change(startup, func(p *v1.Probe) { version("v2")(p); p.FailureThreshold = 5 })
		w.wantAttempts(0, 20*second, "after the start")
		w.wantStarted(true, "as before")
	}},

	// Added and removed probes.
	{"removed readiness probe leaves no result, and none comes late", readiness, func(w *World) {
		w.answer(false, 0)
		w.start()
		w.wantReady(false, "after a failure")
		w.answer(false, 3*second)
		w.deaf = true
		w.next()
		*w.probe(readiness) = nil
		w.update()
		w.wantReady(true, "without a readiness probe")
		w.wantAttempts(0, 20*second, "without a probe")
		w.wantReady(true, "after a late failure")
	}},
	{"added startup probe has decided nothing", liveness, func(w *World) {
		w.start()
		w.wantStarted(true, "without a startup probe")
		w.answer(true, 3*second)
		*w.probe(startup) = (*w.probe(liveness)).DeepCopy()
		w.change(startup, version("startup"))
		for range 5 {
			if w.last().version != "startup" {
				w.next()
			}
		}
		w.wantStarted(false, "before its first attempt has ended")
		w.run(4 * second)
		w.wantStarted(true, "after a success")
	}},
	{"removed startup probe leaves the container started", startup, func(w *World) {
		w.answer(false, 0)
		(*w.probe(startup)).FailureThreshold = 9
		w.start()
		w.wantStarted(false, "after a failure")
		*w.probe(startup) = nil
		w.update()
		w.wantStarted(true, "without a startup probe")
	}},
	{"added readiness probe has decided nothing", liveness, func(w *World) {
		w.start()
		w.wantReady(true, "without a readiness probe")
		w.answer(true, 3*second)
		*w.probe(readiness) = (*w.probe(liveness)).DeepCopy()
		w.update()
		w.wantReady(false, "before its first attempt has ended")
		w.run(15 * second)
		w.wantReady(true, "after a success")
	}},
	{"probe moved to another kind is a new probe", readiness, func(w *World) {
		w.answer(false, 0)
		w.start()
		w.wantReady(false, "after a failure")
		*w.probe(liveness), *w.probe(readiness) = *w.probe(readiness), nil
		w.answer(true, 0)
		w.update()
		w.wantReady(true, "without a readiness probe")
		w.next()
	}},
}

// hold starts an unhealthy world, checks that its probe is on hold after the failure, and makes the world
// healthy. It returns the number of attempts.
func (w *World) hold() (attempts int) {
	w.t.Helper()
	w.answer(false, 0)
	w.start()
	w.wantAttempts(0, 20*second, "on hold")
	w.answer(true, 0)
	return len(w.attempts())
}

// wantSince checks that the last attempt began d after the given time.
func (w *World) wantSince(before time.Time, d time.Duration) {
	w.t.Helper()
	if got := w.last().at.Sub(before).Round(step); got != d {
		w.t.Errorf("the next attempt begins %v after the last, want %v", got, d)
	}
}
