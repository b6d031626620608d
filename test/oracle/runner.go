package oracle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	remote "k8s.io/cri-client/pkg"
)

// runner runs the commands of the exec probes by their scripts.
type runner struct {
	record  *Record
	scripts map[string][]Step // by command; read-only

	mu   sync.Mutex
	made map[string]int // attempts so far, by command
}

func newRunner(s *Scenario, r *Record) *runner {
	scripts := make(map[string][]Step)
	s.eachProbe(func(pod int, container, kind string, p **Probe) {
		if *p != nil {
			scripts[fmt.Sprintf("p%d %s %s", pod, container, kind)] = (*p).Script
		}
	})
	return &runner{record: r, scripts: scripts, made: make(map[string]int)}
}

// run makes one attempt. Like a container runtime, it enforces the timeout itself, a little late, and
// returns earlier only if ctx is canceled.
func (r *runner) run(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error) {
	name, rest := strings.Join(cmd[:3], " "), strings.Join(cmd[3:], " ")
	n, step := r.step(name)
	end := r.record.attempt(cmd, fmt.Sprintf("%s in %s within %v: %s", name, id, timeout, rest), n)
	defer end()
	output := step.output(fmt.Sprintf("%s says %s", name, step.Do))
	duration, late := time.Duration(step.Sleep), false
	if timeout > 0 && !step.Late && (step.Do == StepTimeout || duration >= timeout) {
		duration, late = timeout+lateness, true
	}
	if err := sleep(ctx, duration); err != nil {
		return nil, err
	}
	if late {
		return nil, &timedOut{name, timeout}
	}
	switch step.Do {
	case StepOK, StepTimeout: // without a timeout
		return output, nil
	case StepZero:
		return output, exitError(0)
	case StepFail:
		return output, exitError(1)
	case StepBig:
		return []byte(strings.Repeat(string(output)+"; ", 1000)), exitError(1)
	case StepPanic:
		panic("a panic of the script")
	default:
		return output, fmt.Errorf("%s could not be run", name)
	}
}

// output returns the output of an attempt.
func (s Step) output(text string) []byte {
	switch s.Output {
	case "none":
		return nil
	case "binary":
		return []byte(text + "\x00\xff\xc3\x28\x1b[31m\r\n\u2028%d")
	default:
		return []byte(text)
	}
}

// lateness is how long after the timeout a runtime answers. It is an odd number, so that no tick is at the
// same instant.
const lateness = 3 * time.Nanosecond

// sleep sleeps for d. It returns early if ctx is canceled, but not at its deadline.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return ctx.Err()
			}
			<-timer.C
			return nil
		}
	}
}

// step returns the next step of a probe, and the number of steps before it.
func (r *runner) step(name string) (n int, s Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = r.made[name]
	r.made[name]++
	script := r.scripts[name]
	if len(script) == 0 {
		return n, Step{Do: StepOK}
	}
	return n, script[n%len(script)]
}

// exitError is the error of a command with an exit code, as both sides expect it.
type exitError int

func (e exitError) Error() string   { return fmt.Sprintf("command exited with %d", int(e)) }
func (e exitError) String() string  { return e.Error() }
func (e exitError) Exited() bool    { return true }
func (e exitError) ExitStatus() int { return int(e) }

// timedOut is the error of a runtime after the timeout of a command. It matches the CRI client's error, which
// the kubelet expects, and context.DeadlineExceeded, which ours expects.
type timedOut struct {
	command string
	timeout time.Duration
}

func (e *timedOut) Error() string {
	return fmt.Sprintf("%v: %q timed out after %v", remote.ErrCommandTimedOut, e.command, e.timeout)
}

func (e *timedOut) Is(target error) bool {
	return target == remote.ErrCommandTimedOut || target == context.DeadlineExceeded
}
