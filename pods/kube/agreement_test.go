package kube_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/pods/kube/conditions"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// nodeLife is a pod on a node whose decided conditions are written to it.
type nodeLife struct {
	*world
	pod     *v1.Pod
	scripts map[string]*probetest.Handler // by path
	decided map[manager.Key]bool          // probes that have had a decided result
	renewed bool                          // the container was started again, and has not been ready since
}

// write patches the conditions of the pod, as the writer does, until they are stable.
func (l *nodeLife) write() {
	l.t.Helper()
	for range 5 {
		l.wait(12 * time.Second) // more than resync, which notices pauses
		set := l.setOf("web")
		changed := conditions.Decide(&set)
		if len(changed) == 0 {
			return
		}
		for _, c := range changed {
			c.LastTransitionTime = metav1.Now()
			if old := l.condition(c.Type); old != nil {
				*old = c
			} else {
				l.pod.Status.Conditions = append(l.pod.Status.Conditions, c)
			}
		}
		l.cluster.set(l.pod)
	}
	l.t.Fatalf("the conditions do not stay: %+v", l.pod.Status.Conditions)
}

func (l *nodeLife) condition(of v1.PodConditionType) *v1.PodCondition {
	for i := range l.pod.Status.Conditions {
		if l.pod.Status.Conditions[i].Type == of {
			return &l.pod.Status.Conditions[i]
		}
	}
	return nil
}

// agree compares the condition of each probe with its state in the API. before has the conditions at the
// previous step.
func (l *nodeLife) agree(when string, before map[v1.PodConditionType]v1.ConditionStatus) (now map[v1.PodConditionType]v1.ConditionStatus) {
	l.t.Helper()
	now = make(map[v1.PodConditionType]v1.ConditionStatus)
	if r, ok := l.manager.Results(probe.Readiness).Get(l.pod.Status.ContainerStatuses[0].ContainerID); ok && r == results.Success {
		l.renewed = false
	}
	gate, undecided := v1.ConditionTrue, false
	for _, p := range l.manager.Probes() {
		is := l.tracker.Of(string(p.Key().PodUID), p.Key().Container, p.Key().Kind)
		of := v1.PodConditionType(conditions.Prefix + p.Key().Kind.String() + "." + p.Key().Container)
		l.decided[p.Key()] = l.decided[p.Key()] || is.State != states.Unknown
		status, reason := v1.ConditionTrue, ""
		renewed := l.renewed && p.Key().Kind == probe.Readiness
		switch {
		case is.State == states.Failure, renewed && is.State != states.Unknown:
			status, reason = v1.ConditionFalse, conditions.ProbeFailed
		case is.State == states.Unknown:
			status, reason = before[of], conditions.ProbeUnknown
		case p.Paused:
			reason = conditions.Paused
		case is.State == states.Warning:
			reason = conditions.ProbeWarning
		default:
			reason = conditions.ProbeSucceeded
		}
		if renewed { // a restarted container is not ready
			status, l.decided[p.Key()] = v1.ConditionFalse, true
		}
		c := l.condition(of)
		switch {
		case !l.decided[p.Key()]:
			undecided = undecided || p.Key().Kind == probe.Readiness
			if c != nil {
				l.t.Errorf("%s: %s has decided nothing, the condition %+v", when, of, c)
			}
		case c == nil || c.Status != status || c.Reason != reason:
			l.t.Errorf("%s: %s is %s (paused: %t), the condition %+v; want %s %s", when, of, is.State, p.Paused, c, status, reason)
		case renewed && is.State != states.Unknown && strings.HasSuffix(c.Message, ": the container was started again"):
		case (is.State == states.Failure || reason == conditions.ProbeUnknown || reason == conditions.ProbeWarning) && !strings.HasSuffix(c.Message, ": "+is.Cause.Text):
			l.t.Errorf("%s: %s: the cause %q, the message %q", when, of, is.Cause.Text, c.Message)
		}
		if c == nil {
			continue
		}
		if now[of] = c.Status; c.Status == v1.ConditionFalse && p.Key().Kind == probe.Readiness {
			gate = v1.ConditionFalse
		}
	}
	ready := l.condition(conditions.Ready)
	if undecided && gate == v1.ConditionTrue {
		if ready != nil {
			l.t.Errorf("%s: a probe has decided nothing, and the gate is %+v", when, ready)
		}
	} else if ready == nil || ready.Status != gate {
		l.t.Errorf("%s: the gate is %+v, want %s", when, ready, gate)
	}
	return now
}

// The condition of a probe agrees with its state in the API after any event in the life of the pod.
func TestConditionsAgreeWithStates(t *testing.T) {
	answers := map[string]probetest.Step{"success": success, "warning": warning, "failure": failure, "error": probetest.Error(errors.New("no idea"))}
	words := []string{"success", "warning", "failure", "error"}
	for range 20 {
		seed := rand.Uint64()
		bubble(t, func(w *world) {
			random := rand.New(rand.NewPCG(seed, 0))
			l := &nodeLife{world: w, scripts: make(map[string]*probetest.Handler), decided: make(map[manager.Key]bool)}
			var text strings.Builder
			for _, kind := range []string{"readiness", "liveness"} {
				first := words[random.IntN(4)]
				l.scripts[kind] = w.script("/"+kind, answers[first])
				fmt.Fprintf(&text, "%s: {httpGet: {path: /%s, port: http}, period: 1s, failureThreshold: 1}, ", kind, kind)
			}
			l.pod = podNamed("web", "{web: {"+text.String()+"}}", "prober.dev/conditions", "true")
			w.cluster.set(l.pod)
			w.start()
			l.write()
			before := l.agree("at the start", nil)
			for i := range 15 {
				all := w.manager.Probes()
				p := all[random.IntN(len(all))]
				did := fmt.Sprintf("seed %d, step %d, %s: ", seed, i, p.Key().Kind)
				switch n := random.IntN(6); {
				case n == 0 && p.Paused:
					did += "resume"
					_ = w.manager.Resume(p.Key())
				case n == 0:
					did += "pause"
					_ = w.manager.Pause(p.Key())
				case n == 1:
					did += "a new container"
					run(l.pod, fmt.Sprint("again", i), time.Now())
					w.cluster.set(l.pod)
					l.renewed = true
				default:
					answer := words[random.IntN(4)]
					did += answer
					l.scripts[p.Key().Kind.String()].Then(answers[answer])
				}
				l.write()
				before = l.agree(did, before)
			}
		})
		if t.Failed() {
			return
		}
	}
}
