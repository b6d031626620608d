package kubelettests

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/probe"
)

// gateCase is one tick with at most one attempt, and its expected effects.
type gateCase struct {
	name   string
	pod    func(*v1.Pod, *v1.Probe)
	status func(kind string) *v1.PodStatus // nil: the pod has none
	update func(kind string) string        // the last update; "" for none
	ends   func(kind string) bool          // whether the worker ends
}

func always(s string) func(string) string { return func(string) string { return s } }
func ends(string) bool                    { return true }
func continues(string) bool               { return false }

var (
	zero, one = new(int32(0)), new(int32(1))
	nothing   = always("")
	failure   = always("Failure")
)

func exited(code *int32) func(string) *v1.PodStatus {
	return func(kind string) *v1.PodStatus { return statusOf(stopped(kind, first, code)) }
}

func isRunning(kind string) *v1.PodStatus { return statusOf(running(kind, first)) }

func unchanged(*v1.Pod, *v1.Probe) {}

var gates = []gateCase{
	{"#25 #33 #42 the pod has no status", unchanged, nil, nothing, continues},
	{"#26 #33 #42 the pod has failed", unchanged, func(kind string) *v1.PodStatus {
		s := isRunning(kind)
		s.Phase = v1.PodFailed
		return s
	}, nothing, ends},
	{"#27 #33 #42 the pod is being deleted", func(pod *v1.Pod, _ *v1.Probe) {
		pod.DeletionTimestamp = new(metav1.Now())
	}, isRunning, always("Success"), func(kind string) bool { return kind != readiness }},
	{"#28 #33 #42 only another container has a status", unchanged, func(kind string) *v1.PodStatus {
		c := running(kind, first)
		c.Name = "other"
		return statusOf(c)
	}, nothing, continues},
	{"#29 #33 #42 the container waits", unchanged, exited(nil), failure, continues},
	{"#30 #33 #42 #63 the container has exited, and the pod is never restarted", unchanged, exited(zero), failure, ends},
	{"#31 #33 #42 the probe succeeds", unchanged, isRunning, always("Success"), continues},
	{"#32 #33 #42 the initial delay is long over", func(_ *v1.Pod, p *v1.Probe) {
		p.InitialDelaySeconds = 10
	}, func(kind string) *v1.PodStatus {
		s := isRunning(kind)
		s.ContainerStatuses[0].State.Running.StartedAt.Time = time.Now().Add(-100 * time.Second)
		return s
	}, always("Success"), continues},
	{"#62 a sidecar has exited, and the pod is never restarted", sidecar, func(kind string) *v1.PodStatus {
		s := statusOf()
		s.InitContainerStatuses = []v1.ContainerStatus{stopped(kind, first, zero)}
		return s
	}, failure, continues},
}

// policy returns a change of podWith that sets the restart policy and rules of the container.
func policy(p v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) func(*v1.Pod, *v1.Probe) {
	return func(pod *v1.Pod, _ *v1.Probe) {
		c := &pod.Spec.Containers[0]
		c.RestartPolicy, c.RestartPolicyRules = &p, rules
	}
}

func ruleIn(action v1.ContainerRestartRuleAction, codes ...int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
		Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes,
	}}
}

// besideTrigger is a change of podWith: it adds a container whose exit with code 1 restarts all containers.
func besideTrigger(pod *v1.Pod, _ *v1.Probe) {
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
		Name: "trigger", RestartPolicy: new(v1.ContainerRestartPolicyNever),
		RestartPolicyRules: []v1.ContainerRestartRule{ruleIn(v1.ContainerRestartRuleActionRestartAllContainers, 1)},
	})
}

var restarts = []gateCase{
	{"#34 #42 exit code 1, OnFailure", policy(v1.ContainerRestartPolicyOnFailure), exited(one), failure, continues},
	{"#35 #42 exit code 0, OnFailure", policy(v1.ContainerRestartPolicyOnFailure), exited(zero), failure, ends},
	{"#36 #42 exit code 1, Always", policy(v1.ContainerRestartPolicyAlways), exited(one), failure, continues},
	{"#37 #42 exit code 0, Always", policy(v1.ContainerRestartPolicyAlways), exited(zero), failure, continues},
	{"#38 #42 exit code 1, Never", policy(v1.ContainerRestartPolicyNever), exited(one), failure, ends},
	{"#39 #42 exit code 0, Never", policy(v1.ContainerRestartPolicyNever), exited(zero), failure, ends},
	{"#40 #42 exit code 1, Never, and a rule that matches", policy(v1.ContainerRestartPolicyNever,
		ruleIn(v1.ContainerRestartRuleActionRestart, 1)), exited(one), failure, continues},
	{"#41 #42 exit code 1, Never, and a rule that does not match", policy(v1.ContainerRestartPolicyNever,
		ruleIn(v1.ContainerRestartRuleActionRestart, 99)), exited(one), failure, ends},
	{"#43 exit code 1, Never, and a rule that restarts all", policy(v1.ContainerRestartPolicyNever,
		ruleIn(v1.ContainerRestartRuleActionRestartAllContainers, 1)), exited(one), failure, continues},
	{"#44 another container's exit restarts all", besideTrigger, func(kind string) *v1.PodStatus {
		trigger := stopped(kind, another, one)
		trigger.Name = "trigger"
		return statusOf(stopped(kind, first, one), trigger)
	}, failure, continues},
	{"#45 all are restarted, and wait", besideTrigger, func(kind string) *v1.PodStatus {
		s := statusOf(stopped(kind, first, nil))
		s.Phase = v1.PodPending
		return s
	}, failure, continues},
}

func TestGates(t *testing.T) {
	for _, c := range append(gates, restarts...) {
		eachKind(t, c.name, kinds, func(t *testing.T, r *rig, kind string) {
			r.settle()
			if c.status != nil {
				r.setStatus(uid, c.status(kind))
			}
			r.add(podWith(kind, c.pod))
			r.wantUpdate(kind, first, c.update(kind))
			alive := statusOf(running(kind, second))
			alive.InitContainerStatuses = alive.ContainerStatuses
			r.setStatus(uid, alive)
			// A delay of 10 s passes as well.
			if ended := len(r.commandsIn(15*time.Second)) == 0; ended != c.ends(kind) {
				t.Errorf("the worker has ended: %v, want %v", ended, c.ends(kind))
			}
		})
	}
}

func TestInitialDelay(t *testing.T) {
	eachKind(t, "#46 #47 the initial delay", kinds, func(t *testing.T, r *rig, kind string) {
		r.settle()
		r.setStatus(uid, isRunning(kind))
		r.add(podWith(kind, func(_ *v1.Pod, p *v1.Probe) { p.InitialDelaySeconds = 10 }))
		r.wantCached(kind, first, initial[kind])
		later := isRunning(kind)
		later.ContainerStatuses[0].State.Running.StartedAt.Time = time.Now().Add(-100 * time.Second)
		r.setStatus(uid, later)
		r.wait(time.Second)
		r.wantCached(kind, first, "Success")
	})
}

// sequenceCase is a sequence of ticks of a container. A step begins with "+" for a success, "-" for a
// failure, "*" for a new container and a success, "/" for a new container and a failure, or "s" for a
// failure after the container has started. The letter S, F or U follows: the expected result in the cache,
// Success, Failure or Unknown. "!" means that no attempt is expected.
type sequenceCase struct {
	name             string
	kinds            []string
	success, failure int32
	started          string // "false", or "" for the value with which the kind probes
	steps            string
}

var sequences = []sequenceCase{
	{"#48 #49 #50 the failure threshold", []string{readiness}, 1, 3, "", "+S +S +S -S -S -F -F -F +S +S +S -S -S -F -F -F"},
	{"#51 #52 the success threshold", []string{readiness}, 3, 1, "", "+F +F +S +S +S -F +F +F +S +S +S -F"},
	{"#53 a startup success holds", []string{startup}, 1, 3, "", "+S +S!"},
	{"#54 #55 #61 startup failures hold, and reset the run", []string{startup}, 1, 3, "", "-U -U -F -F! /U -U -F"},
	{"#57 #58 #59 a liveness failure holds until a new container", []string{liveness}, 1, 1, "", "-F +F! *S +S"},
	{"#57 #58 #59 a startup failure holds until a new container", []string{startup}, 1, 1, "", "-F +F! *S +S!"},
	{"#60 a liveness failure resets the run", []string{liveness}, 1, 3, "", "+S -S -S -F -F! /S -S -F"},
	{"#64 liveness waits for the start", []string{liveness}, 1, 1, "false", "-S! sF"},
	{"#65 startup ends with the start", []string{startup}, 1, 2, "", "-U +S sS!"},
}

func TestSequences(t *testing.T) {
	results := map[byte]string{'S': "Success", 'F': "Failure", 'U': "UNKNOWN"}
	for _, c := range sequences {
		eachKind(t, c.name, c.kinds, func(t *testing.T, r *rig, kind string) {
			r.settle()
			container, n := running(kind, first), 1
			if c.started == "false" {
				container.Started = new(false)
			}
			for i, step := range strings.Fields(c.steps) {
				var err error
				switch step[0] {
				case '-':
					err = exit(1)
				case 's':
					err, container.Started = exit(1), new(true)
				case '/', '*':
					n++
					container.ContainerID = fmt.Sprintf("test://web-%d", n)
					if step[0] == '/' {
						err = exit(1)
					}
				}
				r.answer("", err)
				r.setStatus(uid, statusOf(*container.DeepCopy()))
				var commands []string
				if i == 0 {
					r.add(podWith(kind, thresholds(c.success, c.failure)))
					commands = r.commandsIn(0)
				} else {
					commands = r.commandsIn(time.Second)
				}
				r.wantCached(kind, container.ContainerID, results[step[1]])
				if held := strings.HasSuffix(step, "!"); i > 0 && held != (len(commands) == 0) {
					t.Errorf("step %d, %s: commands %q", i+1, step, commands)
				}
			}
		})
	}
}

func TestCleanUp(t *testing.T) {
	eachKind(t, "#56 a worker may be stopped ten times", kinds, func(t *testing.T, r *rig, kind string) {
		r.settle()
		r.setStatus(uid, isRunning(kind))
		pod := podWith(kind)
		r.add(pod)
		r.wantCached(kind, first, "Success")
		for range 10 {
			r.RemovePod(pod)
		}
		if got := r.commandsIn(10 * time.Second); len(got) > 0 {
			t.Errorf("still commands: %q", got)
		}
		r.wantCached(kind, first, "")
		r.add(pod) // the old worker has ended
		r.wantCached(kind, first, "Success")
	})
}

// TestAgentRestart checks the first tick of a container that was started five minutes before the agent, or
// after it. The tick is too early for an attempt.
func TestAgentRestart(t *testing.T) {
	begins := func(kind string) string { return initial[kind] }
	for _, c := range []struct {
		name    string
		gate    bool // ChangeContainerStatusOnKubeletRestart
		restart bool // the container is older than the agent
		shape   func(*v1.Pod, *v1.Probe)
		update  func(kind string) string
	}{
		{"#66 with the gate, over a restart", true, true, unchanged, begins},
		{"#66 with the gate, a new container", true, false, unchanged, begins},
		{"#67 without the gate, over a restart", false, true, unchanged, nothing},
		{"#68 without the gate, a new container", false, false, unchanged, begins},
		{"#69 without the gate, a sidecar over a restart", false, true, sidecar, func(kind string) string {
			return map[string]string{startup: "Success"}[kind]
		}},
	} {
		more := manager.Compat(0)
		if c.gate {
			more = probe.CompatStatusOnRestart
		}
		setGate(t, c.gate)
		for _, kind := range kinds {
			bothWith(t, c.name+"/"+kind, more, func(t *testing.T, r *rig) {
				started := r.start.Add(5 * time.Minute)
				if c.restart {
					started = r.start.Add(-5 * time.Minute)
				}
				time.Sleep(time.Minute)
				web := running(readiness, first)
				web.State.Running.StartedAt.Time = started
				s := statusOf(web)
				s.InitContainerStatuses = s.ContainerStatuses
				r.setStatus(uid, s)
				r.add(podWith(kind, func(_ *v1.Pod, p *v1.Probe) { p.InitialDelaySeconds = 1000 }, c.shape))
				r.wantCached(kind, first, c.update(kind))
				r.wantUpdate(kind, first, c.update(kind))
			})
		}
	}
	setGate(t, false)
}

func setGate(t *testing.T, on bool) {
	t.Helper()
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{"ChangeContainerStatusOnKubeletRestart": on}); err != nil {
		t.Fatal(err)
	}
}
