package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
)

// Decision is the input of a sentence about a probe: its thresholds, its decided result, and the effect of its
// last tick. Results are the words of the API: "success", "failure" and "unknown".
type Decision struct {
	Kind             probe.Kind
	SuccessThreshold int
	FailureThreshold int
	Restarts         bool // a failed liveness or startup probe restarts the container
	Task             bool // the text is about a task, not about a container in a pod
	Decided          string
	Gate             string // why no attempts are made: the text of a worker's gate; "" if attempts are made
	Skipped          string // why ticks since the last attempt were skipped, as in metrics; "" if none were
	Next             time.Time
	Window           time.Duration // how long after Next the attempt may come
	Last             *Tick         // last tick of the present container; nil before the first
}

// Tick is the effect of a tick on the thresholds.
type Tick struct {
	Result      probe.Result
	Error       bool // the attempts returned errors
	HostTrouble bool // the errors are faults of the agent's own host
	Dependency  bool // the target failed while something on which it depends fails
	Counted     bool
	As          string // the result that it counted as
	Run         int    // consecutive equal results, including this one
	Threshold   int    // the number of equal results that decides
	Before      string // decided result before the tick
	After       string // decided result after the tick
}

const (
	success = "success"
	failure = "failure"
)

// Sentence says why the last tick did or did not change the decided result, and what comes next.
func (d *Decision) Sentence(now time.Time) string {
	switch {
	case d.Gate != "":
		return d.gated()
	case d.Skipped != "":
		return fmt.Sprintf("the last tick was skipped, since %s: the result stays %s%s", skipText(d.Skipped), d.Decided, d.next(now))
	case d.Last == nil:
		return fmt.Sprintf("no attempt yet: the result is %s until %s%s", d.Decided, d.needed(d.opposite()), d.next(now))
	case d.Last.Counted:
		return d.counted() + d.next(now)
	case d.Last.HostTrouble:
		return fmt.Sprintf("the agent's own host had trouble, so that the tick does not count: the result stays %s%s", d.Decided, d.next(now))
	case d.Last.Dependency:
		return fmt.Sprintf("something on which the target depends fails, so that the tick does not count: the result stays %s%s", d.Decided, d.next(now))
	default:
		return fmt.Sprintf("the tick ended in an error, which does not count (errorPolicy: discard): the result stays %s%s", d.Decided, d.next(now))
	}
}

// next returns the end of the sentence, about the next attempt.
func (d *Decision) next(now time.Time) string {
	if d.Next.IsZero() {
		return ""
	}
	wait := d.Next.Sub(now)
	switch {
	case wait <= 0:
		return "; the next attempt is due now"
	case wait >= 10*time.Second:
		wait = wait.Round(time.Second)
	case wait >= time.Second:
		wait = wait.Round(100 * time.Millisecond)
	default:
		wait = max(wait.Round(time.Millisecond), time.Millisecond)
		if window := d.Window.Round(time.Millisecond); window > 0 {
			return fmt.Sprintf("; the next attempt is in %v to %v", wait, wait+window)
		}
	}
	return fmt.Sprintf("; the next attempt is in %v", wait)
}

// counted returns the effect of a tick that counts on the run of equal results.
func (d *Decision) counted() string {
	t := d.Last
	var b strings.Builder
	switch {
	case t.Error:
		b.WriteString("the error counts as a failure (errorPolicy: failure): ")
	case t.Result == probe.Warning:
		fmt.Fprintf(&b, "the warning counts as a %s: ", t.As)
	case t.Result == probe.Unknown:
		b.WriteString("unknown counts as a failure: ")
	}
	if t.Run <= t.Threshold {
		fmt.Fprintf(&b, "%d of %s", t.Run, several(t.Threshold, t.As))
	} else {
		fmt.Fprintf(&b, "%s in a row", several(t.Run, t.As))
	}
	switch {
	case t.Before != t.After:
		fmt.Fprintf(&b, ": the result became %s%s; ", t.After, d.effect(t.After))
	case t.After == t.As:
		fmt.Fprintf(&b, ": the result stays %s; ", t.After)
	default:
		left := "one more makes"
		if n := t.Threshold - t.Run; n > 1 {
			left = fmt.Sprintf("%d more make", n)
		}
		fmt.Fprintf(&b, ": the result stays %s; %s it %s%s", t.After, left, t.As, d.effect(t.As))
		return b.String()
	}
	if d.Kind == probe.Startup && t.After == success {
		b.WriteString("it is not probed again before the " + d.container() + " starts again")
	} else {
		b.WriteString(d.needed(d.opposite()))
	}
	return b.String()
}

// container returns the word for a probed container.
func (d *Decision) container() string {
	if d.Task {
		return "task"
	}
	return "container"
}

// pod returns the word for the pod of the probed container.
func (d *Decision) pod() string {
	if d.Task {
		return "task"
	}
	return "pod"
}

func (d *Decision) opposite() string {
	if d.Decided == success {
		return failure
	}
	return success
}

// needed returns how many equal results are needed to decide result.
func (d *Decision) needed(result string) string {
	n := d.SuccessThreshold
	if result == failure {
		n = d.FailureThreshold
	}
	if n == 1 {
		return fmt.Sprintf("one %s makes it %s%s", result, result, d.effect(result))
	}
	return fmt.Sprintf("%s in a row make it %s%s", several(n, result), result, d.effect(result))
}

// effect returns the consequence of a decided result.
func (d *Decision) effect(result string) string {
	switch {
	case result == failure && d.Kind == probe.Readiness:
		return ", which makes the " + d.container() + " not ready"
	case result == failure && d.Restarts:
		return ", which restarts the " + d.container()
	case result == failure:
		return ", which does not restart the " + d.container()
	case d.Kind == probe.Readiness:
		return ", which makes the " + d.container() + " ready"
	case d.Kind == probe.Startup:
		return ", which lets the other probes begin"
	default:
		return ""
	}
}

// gated returns why no attempts are made.
func (d *Decision) gated() string {
	gate, _, _ := strings.Cut(d.Gate, ",")
	switch {
	case gate == "on hold" && d.Decided == failure:
		text := "the result is failure" + d.effect(failure)
		if t := d.Last; t != nil && t.Counted && t.After == failure {
			text = fmt.Sprintf("%d of %s: the result became failure%s", t.Run, several(t.Threshold, t.As), d.effect(failure))
		}
		return text + "; no attempts before it runs again"
	case gate == "on hold", gate == "started":
		return "the startup probe has succeeded; no attempts before the " + d.container() + " starts again"
	case gate == "not started":
		return fmt.Sprintf("no attempts before the startup probe has succeeded: the result is %s until then", d.Decided)
	case gate == "initial delay":
		return fmt.Sprintf("no attempts during the %s: the result is %s until then", d.Gate, d.Decided)
	case gate == "container not running":
		return fmt.Sprintf("no attempts while the %s does not run: the result is %s", d.container(), d.Decided)
	case gate == "terminating":
		return "no attempts, since the " + d.pod() + " is being deleted: nothing restarts it"
	case gate == "pod ended":
		return "no attempts, since the " + d.pod() + " has ended"
	case gate == "no status":
		return "no attempts before the " + d.pod() + " has a status"
	case gate == "no container":
		return "no attempts before the " + d.container() + " exists"
	case gate == "forced up", gate == "forced down", gate == "drained":
		return fmt.Sprintf("%s: the result is %s until that ends", gate, d.Decided)
	case gate == "paused":
		return fmt.Sprintf("paused: the result stays %s until the probe is resumed", d.Decided)
	case strings.HasPrefix(gate, "quarantined"):
		return fmt.Sprintf("the handler has failed several times in a row and is %s: the result stays %s", d.Gate, d.Decided)
	case strings.HasPrefix(gate, "attempt under way"):
		return fmt.Sprintf("the %s does not heed its deadline: no other is made before it ends, and the result is %s", d.Gate, d.Decided)
	default:
		return fmt.Sprintf("no attempts (%s): the result is %s", d.Gate, d.Decided)
	}
}

// Paused returns the sentence about a paused probe: who paused it, why, and when the pause ends. forced is "up",
// "down" or "drained" for a forced state, and "" for a pause. by and reason may be "". until is zero if the pause
// does not end by itself.
func Paused(forced, decided, by, reason string, until, now time.Time) string {
	text, holds, end := "paused", "stays", "the probe is resumed"
	switch forced {
	case "":
	case "up", "down":
		text, holds, end = "forced "+forced, "is", "prober unforce"
	default:
		text, holds, end = forced, "is", "prober unforce"
	}
	if !until.IsZero() {
		what := "the pause"
		if forced != "" {
			what = "that"
		}
		end = fmt.Sprintf("%s ends in %v", what, max(until.Sub(now).Round(time.Second), 0))
	}
	return Forced(text, by, reason) + fmt.Sprintf(": the result %s %s until %s", holds, decided, end)
}

// Forced returns who has paused or forced a probe, and why. by and reason may be "".
func Forced(text, by, reason string) string {
	if by != "" {
		text += " by " + OneLine(by)
	}
	if reason != "" {
		text += " (" + OneLine(reason) + ")"
	}
	return text
}

func skipText(reason string) string {
	switch reason {
	case "busy":
		return "the tick before it was still under way"
	case "no_slot":
		return "the handler had no free slot, or its process was starting again"
	case "quarantine":
		return "the handler is in quarantine"
	case "panic":
		return "the handler panicked (see the log of the agent)"
	default:
		return "of " + reason
	}
}

// several returns n with a result, in the plural unless n is 1.
func several(n int, result string) string {
	switch {
	case n == 1:
		return "1 " + result
	case result == success:
		return fmt.Sprintf("%d successes", n)
	default:
		return fmt.Sprintf("%d %ss", n, result)
	}
}
