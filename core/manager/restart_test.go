package manager_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// rule returns a restart rule with the given operator, codes and action.
func rule(action v1.ContainerRestartRuleAction, op v1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: codes}}
}

const (
	in         = v1.ContainerRestartRuleOnExitCodesOpIn
	notIn      = v1.ContainerRestartRuleOnExitCodesOpNotIn
	restart    = v1.ContainerRestartRuleActionRestart
	restartAll = v1.ContainerRestartRuleActionRestartAllContainers
)

// world is the state of a pod whose container "web" is probed.
type world struct {
	pod    v1.RestartPolicy
	own    v1.ContainerRestartPolicy // "" for none
	rules  []v1.ContainerRestartRule
	other  *v1.Container
	status v1.PodStatus
}

// TestWorkerLife checks which pod states end a worker, and the decided results in the other states.
func TestWorkerLife(t *testing.T) {
	exit := func(code int32) v1.PodStatus { return statusOf(terminated("web", "c1", code)) }
	never, onFailure, always := v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyAlways
	trigger := &v1.Container{Name: "trigger", RestartPolicy: &never, RestartPolicyRules: []v1.ContainerRestartRule{rule(restartAll, in, 1)}}
	failed := statusOf(running("web", "c1"))
	failed.Phase = v1.PodFailed
	succeeded := statusOf(terminated("web", "c1", 0))
	succeeded.Phase = v1.PodSucceeded
	pending := statusOf(waiting("web", "c1"))
	pending.Phase = v1.PodPending
	marked := statusOf(terminated("web", "c1", 1))
	marked.Conditions = []v1.PodCondition{{Type: v1.AllContainersRestarting, Status: v1.ConditionTrue}}
	for _, tc := range []struct {
		name  string
		world world
		lives bool
		want  results.Result
	}{
		{"#26 phase Failed", world{pod: v1.RestartPolicyAlways, status: failed}, false, unset},
		{"#26 phase Succeeded", world{pod: v1.RestartPolicyAlways, status: succeeded}, false, unset},
		{"#28 another container's status only", world{pod: v1.RestartPolicyAlways, status: statusOf(running("other", "c1"))}, true, unset},
		{"#28 a status without an ID", world{pod: v1.RestartPolicyAlways, status: statusOf(waiting("web", ""))}, true, unset},
		{"#29 waiting", world{pod: v1.RestartPolicyNever, status: statusOf(waiting("web", "c1"))}, true, results.Failure},
		{"#30 #63 terminated, pod Never", world{pod: v1.RestartPolicyNever, status: exit(0)}, false, unset},
		{"terminated, pod Always", world{pod: v1.RestartPolicyAlways, status: exit(0)}, true, results.Failure},
		{"terminated with 1, pod OnFailure", world{pod: v1.RestartPolicyOnFailure, status: exit(1)}, true, results.Failure},
		{"terminated with 0, pod OnFailure", world{pod: v1.RestartPolicyOnFailure, status: exit(0)}, false, unset},
		{"#33 waiting, rules are no matter", world{pod: v1.RestartPolicyNever, own: never, rules: []v1.ContainerRestartRule{rule(restart, in, 1)}, status: statusOf(waiting("web", "c1"))}, true, results.Failure},
		{"#34 container OnFailure, exit 1", world{pod: v1.RestartPolicyNever, own: onFailure, status: exit(1)}, true, results.Failure},
		{"#35 container OnFailure, exit 0", world{pod: v1.RestartPolicyNever, own: onFailure, status: exit(0)}, false, unset},
		{"#36 container Always, exit 1", world{pod: v1.RestartPolicyNever, own: always, status: exit(1)}, true, results.Failure},
		{"#37 container Always, exit 0", world{pod: v1.RestartPolicyNever, own: always, status: exit(0)}, true, results.Failure},
		{"#38 container Never, exit 1", world{pod: v1.RestartPolicyAlways, own: never, status: exit(1)}, false, unset},
		{"#39 container Never, exit 0", world{pod: v1.RestartPolicyAlways, own: never, status: exit(0)}, false, unset},
		{"#40 container Never, rule matches", world{pod: v1.RestartPolicyNever, own: never, rules: []v1.ContainerRestartRule{rule(restart, in, 1)}, status: exit(1)}, true, results.Failure},
		{"#41 container Never, rule does not match", world{pod: v1.RestartPolicyNever, own: never, rules: []v1.ContainerRestartRule{rule(restart, in, 99)}, status: exit(1)}, false, unset},
		{"#42 #43 own exit restarts all", world{pod: v1.RestartPolicyNever, own: never, rules: []v1.ContainerRestartRule{rule(restartAll, in, 1)}, status: exit(1)}, true, results.Failure},
		{"#44 another's exit restarts all", world{pod: v1.RestartPolicyNever, own: never, other: trigger, status: statusOf(terminated("web", "c1", 1), terminated("trigger", "c2", 1))}, true, results.Failure},
		{"#44 another's exit restarts none", world{pod: v1.RestartPolicyNever, own: never, other: trigger, status: statusOf(terminated("web", "c1", 1), terminated("trigger", "c2", 2))}, false, unset},
		{"#44 the pod says that all are being restarted", world{pod: v1.RestartPolicyNever, status: marked}, true, results.Failure},
		{"#45 after the clean-up of a restart of all", world{pod: v1.RestartPolicyNever, own: never, other: trigger, status: pending}, true, results.Failure},
	} {
		each(t, tc.name, func(t *testing.T, kind probe.Kind) {
			r := newRig(t)
			pod := podOf("u", container("web", kind))
			pod.Spec.RestartPolicy = tc.world.pod
			if tc.world.own != "" {
				pod.Spec.Containers[0].RestartPolicy, pod.Spec.Containers[0].RestartPolicyRules = &tc.world.own, tc.world.rules
			}
			if tc.world.other != nil {
				pod.Spec.Containers = append(pod.Spec.Containers, *tc.world.other)
			}
			r.store.SetPodStatus(pod, tc.world.status)
			r.add(pod)
			if tc.lives {
				r.wantKeys("u/web/" + kind.String())
			} else {
				r.wantKeys()
			}
			r.wantCached(kind, "c1", tc.want)
			if got := r.sent(); len(got) > 0 {
				t.Errorf("events: %q", got)
			}
		})
	}
}

func TestWorkerContinuesWhileContainerCanRun(t *testing.T) {
	each(t, "#25 pod without a status", func(t *testing.T, kind probe.Kind) {
		r := newRig(t)
		r.add(podOf("u", container("web", kind)))
		r.wait(3 * time.Second)
		r.wantKeys("u/web/" + kind.String())
	})
	each(t, "#27 pod that is being deleted", func(t *testing.T, kind probe.Kind) {
		r := newRig(t)
		pod := podOf("u", container("web", kind))
		pod.DeletionTimestamp = new(metav1.Now())
		r.store.SetPodStatus(pod, statusOf(upFor(kind, "web", "c1")))
		r.add(pod)
		if kind == probe.Readiness {
			r.wantKeys("u/web/readiness")
			r.wantCached(kind, "c1", results.Success)
			return
		}
		r.wantKeys()
	})
	each(t, "#31 container that runs", func(t *testing.T, kind probe.Kind) {
		r := newRig(t)
		pod := podOf("u", container("web", kind))
		r.store.SetPodStatus(pod, statusOf(upFor(kind, "web", "c1")))
		r.add(pod)
		r.wantKeys("u/web/" + kind.String())
		r.wantCached(kind, "c1", results.Success)
	})
	each(t, "#62 terminated sidecar of a pod with policy Never", func(t *testing.T, kind probe.Kind) {
		r := newRig(t)
		pod := podOf("u", container("web"))
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.InitContainers = []v1.Container{sidecar("side", kind)}
		r.store.SetPodStatus(pod, v1.PodStatus{Phase: v1.PodRunning, InitContainerStatuses: []v1.ContainerStatus{terminated("side", "c1", 0)}})
		r.add(pod)
		r.wantKeys("u/side/" + kind.String())
		r.wantCached(kind, "c1", results.Failure)
	})
	each(t, "#207 #214 restarted sidecar is probed again", func(t *testing.T, kind probe.Kind) {
		r := newRig(t)
		pod := podOf("u", container("web"))
		pod.Spec.RestartPolicy = v1.RestartPolicyNever
		pod.Spec.InitContainers = []v1.Container{sidecar("side", kind)}
		status := v1.PodStatus{Phase: v1.PodRunning, InitContainerStatuses: []v1.ContainerStatus{terminated("side", "c1", 1)}}
		r.store.SetPodStatus(pod, status)
		r.add(pod)
		status.InitContainerStatuses[0] = upFor(kind, "side", "c2")
		r.store.SetPodStatus(pod, status)
		r.wait(time.Second)
		r.wantCached(kind, "c1", unset)
		r.wantCached(kind, "c2", results.Success)
	})
}

func TestContainerShouldRestart(t *testing.T) {
	never, onFailure, always := v1.ContainerRestartPolicyNever, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyAlways
	ruled := func(r v1.ContainerRestartRule) v1.Container {
		return v1.Container{RestartPolicy: &never, RestartPolicyRules: []v1.ContainerRestartRule{r}}
	}
	for _, tc := range []struct {
		name      string
		container v1.Container
		pod       v1.RestartPolicy
		exit      int32
		want      bool
	}{
		{"In matches", ruled(rule(restart, in, 42, 50)), "", 42, true},
		{"NotIn matches", ruled(rule(restart, notIn, 0, 1)), "", 99, true},
		{"In matches, restart of all", ruled(rule(restartAll, in, 42)), "", 42, true},
		{"In does not match", ruled(rule(restart, in, 10)), v1.RestartPolicyAlways, 30, false},
		{"NotIn does not match", ruled(rule(restart, notIn, 10)), v1.RestartPolicyAlways, 10, false},
		{"container Always", v1.Container{RestartPolicy: &always}, v1.RestartPolicyNever, 0, true},
		{"container OnFailure, exit 0", v1.Container{RestartPolicy: &onFailure}, v1.RestartPolicyAlways, 0, false},
		{"container OnFailure, exit 1", v1.Container{RestartPolicy: &onFailure}, v1.RestartPolicyNever, 1, true},
		{"container Never", v1.Container{RestartPolicy: &never}, v1.RestartPolicyAlways, 1, false},
		{"pod Always", v1.Container{}, v1.RestartPolicyAlways, 0, true},
		{"pod OnFailure, exit 1", v1.Container{}, v1.RestartPolicyOnFailure, 1, true},
		{"pod OnFailure, exit 0", v1.Container{}, v1.RestartPolicyOnFailure, 0, false},
		{"pod Never", v1.Container{}, v1.RestartPolicyNever, 1, false},
		{"no policy at all", v1.Container{}, "", 0, true},
		{"an unknown container policy falls back to the pod's", v1.Container{RestartPolicy: new(v1.ContainerRestartPolicy("Sometimes"))}, v1.RestartPolicyNever, 1, false},
	} {
		t.Run("#170 "+tc.name, func(t *testing.T) {
			if got := manager.ContainerShouldRestart(&tc.container, &v1.PodSpec{RestartPolicy: tc.pod}, tc.exit); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	t.Run("first matching rule decides", func(t *testing.T) {
		c := v1.Container{RestartPolicy: &never, RestartPolicyRules: []v1.ContainerRestartRule{
			rule("Later", in, 1), rule(restart, in, 1, 2),
		}}
		if manager.ContainerShouldRestart(&c, &v1.PodSpec{}, 1) {
			t.Error("exit 1: an unknown action restarts")
		}
		if !manager.ContainerShouldRestart(&c, &v1.PodSpec{}, 2) {
			t.Error("exit 2: the second rule does not restart")
		}
	})
	t.Run("rules without a container policy have no effect", func(t *testing.T) {
		c := v1.Container{RestartPolicyRules: []v1.ContainerRestartRule{rule(restart, in, 1)}}
		if manager.ContainerShouldRestart(&c, &v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}, 1) {
			t.Error("restarts")
		}
	})
}
