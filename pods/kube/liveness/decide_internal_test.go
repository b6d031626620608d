package liveness

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/probe"
)

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	later := now.Add(time.Minute)
	policy := func(p v1.RestartPolicy) func(*situation) {
		return func(s *situation) { s.pod.Spec.RestartPolicy = p }
	}
	own := func(p v1.ContainerRestartPolicy, rules ...v1.ContainerRestartRule) func(*situation) {
		return func(s *situation) {
			s.pod.Spec.Containers[0].RestartPolicy, s.pod.Spec.Containers[0].RestartPolicyRules = &p, rules
		}
	}
	rule := func(codes ...int32) v1.ContainerRestartRule {
		return v1.ContainerRestartRule{Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: codes}}
	}
	kill := func(s *situation) { s.onFailure = Kill }
	status := func(f func(*v1.ContainerStatus)) func(*situation) {
		return func(s *situation) { f(&s.pod.Status.ContainerStatuses[0]) }
	}
	acted := func(s *situation) { s.acted = true }
	evict := func(s *situation) { s.failure.Mode = Evict }
	sidecar := func(s *situation) {
		s.pod.Spec.InitContainers, s.pod.Spec.Containers = s.pod.Spec.Containers, nil
		s.pod.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		s.pod.Status.InitContainerStatuses, s.pod.Status.ContainerStatuses = s.pod.Status.ContainerStatuses, nil
	}
	restart := func(grace time.Duration) decision {
		return decision{do: act, order: order{grace: grace, returns: true}}
	}
	end := func(grace time.Duration) decision { return decision{do: act, order: order{grace: grace}} }
	killed := decision{do: act, order: order{kill: true, returns: true}}
	dropped := func(reason string) decision { return decision{do: drop, reason: reason} }
	waits := func(reason string, until time.Time) decision {
		return decision{do: wait, reason: reason, until: until}
	}
	type changes = []func(*situation)
	for _, c := range []struct {
		name    string
		changes changes
		want    decision
	}{
		{"nothing is in the way", nil, restart(30 * time.Second)},
		{"pod is gone", changes{func(s *situation) { s.pod = nil }}, dropped(WithheldGone)},
		{"pod is another one", changes{func(s *situation) { s.pod.UID = "other" }}, dropped(WithheldGone)},
		{"pod is being deleted", changes{func(s *situation) { s.pod.DeletionTimestamp = new(metav1.NewTime(now)) }}, dropped(WithheldGone)},
		{"container is not in the spec", changes{func(s *situation) { s.pod.Spec.Containers = nil }}, dropped(WithheldGone)},
		{"container has no status", changes{func(s *situation) { s.pod.Status.ContainerStatuses = nil }}, dropped(WithheldGone)},
		{"container has another ID", changes{status(func(s *v1.ContainerStatus) { s.ContainerID = "x://2" })}, dropped(WithheldGone)},
		{"container has another restart count", changes{status(func(s *v1.ContainerStatus) { s.RestartCount = 4 })}, dropped(WithheldGone)},
		{"restart count was not known", changes{status(func(s *v1.ContainerStatus) { s.RestartCount = 4 }), func(s *situation) { s.restarts = -1 }}, restart(30 * time.Second)},
		{"container has ended", changes{status(func(s *v1.ContainerStatus) { s.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}} })}, dropped(WithheldGone)},
		{"container was restarted by the action", changes{status(func(s *v1.ContainerStatus) { s.ContainerID = "x://2" }), acted}, dropped("")},
		{"probe does not fail any more", changes{func(s *situation) { s.failing = false }}, dropped("")},
		{"action had no effect", changes{acted}, restart(30 * time.Second)},

		{"no runtime", changes{func(s *situation) { s.possible = false }}, dropped(WithheldUnavailable)},
		{"no eviction", changes{evict, func(s *situation) { s.possible = false }}, dropped(WithheldUnavailable)},

		{"OnFailure", changes{policy(v1.RestartPolicyOnFailure)}, dropped(WithheldOnFailure)},
		{"OnFailure, kill", changes{policy(v1.RestartPolicyOnFailure), kill}, killed},
		{"Never", changes{policy(v1.RestartPolicyNever)}, dropped(WithheldOnFailure)},
		{"Never, kill", changes{policy(v1.RestartPolicyNever), kill}, end(30 * time.Second)},
		{"Always of the container in a pod with Never", changes{policy(v1.RestartPolicyNever), own(v1.ContainerRestartPolicyAlways)}, restart(30 * time.Second)},
		{"OnFailure of the container", changes{own(v1.ContainerRestartPolicyOnFailure)}, dropped(WithheldOnFailure)},
		{"OnFailure of the container, kill", changes{own(v1.ContainerRestartPolicyOnFailure), kill}, killed},
		{"Never of the container", changes{own(v1.ContainerRestartPolicyNever)}, dropped(WithheldOnFailure)},
		{"Never with a rule for SIGKILL", changes{own(v1.ContainerRestartPolicyNever, rule(137))}, dropped(WithheldOnFailure)},
		{"Never with a rule for SIGKILL, kill", changes{own(v1.ContainerRestartPolicyNever, rule(137)), kill}, killed},
		{"Never with a rule for another exit code, kill", changes{own(v1.ContainerRestartPolicyNever, rule(42)), kill}, end(30 * time.Second)},
		{"OnFailure with a rule for exit code 0", changes{own(v1.ContainerRestartPolicyOnFailure, rule(0))}, restart(30 * time.Second)},
		{"sidecar of a pod with Never", changes{policy(v1.RestartPolicyNever), sidecar}, restart(30 * time.Second)},
		{"Never, evict", changes{policy(v1.RestartPolicyNever), evict}, decision{do: act}},

		{"grace of the probe", changes{func(s *situation) { s.failure.Grace = new(int64(5)) }}, restart(5 * time.Second)},
		{"grace of the probe is longer", changes{func(s *situation) { s.failure.Grace = new(int64(500)) }}, restart(500 * time.Second)},
		{"#169 no grace", changes{func(s *situation) { s.pod.Spec.TerminationGracePeriodSeconds = nil }}, restart(2 * time.Second)},
		{"grace that overflows", changes{func(s *situation) { s.failure.Grace = new(int64(1 << 62)) }}, restart(1 << 31 * time.Second)},
		{"grace below zero", changes{func(s *situation) { s.failure.Grace = new(int64(-1)) }}, restart(0)},

		{"not settled", changes{func(s *situation) { s.settled = later }}, waits("", later)},
		{"breaker", changes{func(s *situation) { s.open = "why" }}, waits(WithheldBreaker, now.Add(recheck))},
		{"container of another pod, or of none", changes{func(s *situation) { s.owned = false }}, waits(WithheldUnavailable, now.Add(recheck))},
		{"eviction needs no runtime", changes{evict, func(s *situation) { s.owned = false }}, decision{do: act}},
		{"blocked", changes{evict, func(s *situation) { s.blocked = later }}, waits("", later)},
		{"back-off", changes{func(s *situation) { s.backoff = later }}, waits(WithheldBackoff, later)},
		{"budget of the workload", changes{func(s *situation) { s.workload = later }}, waits(WithheldBudget, later)},
		{"budget of the node", changes{func(s *situation) { s.node = later }}, waits(WithheldBudget, later)},
		{"both budgets", changes{func(s *situation) { s.node, s.workload = later, later.Add(1) }}, waits(WithheldBudget, later.Add(1))},
		{"both budgets, that of the node is later", changes{func(s *situation) { s.node, s.workload = later.Add(1), later }}, waits(WithheldBudget, later.Add(1))},
		{"too many actions", changes{func(s *situation) { s.noSlot = true }}, waits("", now.Add(time.Second))},
		{"another action of the pod", changes{func(s *situation) { s.busy = true }}, waits("", now.Add(time.Second))},
		{"a failure that is refused does not wait", changes{policy(v1.RestartPolicyNever), func(s *situation) { s.open, s.settled = "why", later }}, dropped(WithheldOnFailure)},
		{"the container is checked before the guards", changes{status(func(s *v1.ContainerStatus) { s.ContainerID = "x://2" }), func(s *situation) { s.open = "why" }}, dropped(WithheldGone)},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "n"},
				Spec: v1.PodSpec{
					RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)), Containers: []v1.Container{{Name: "app"}},
				},
				Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
					Name: "app", ContainerID: "x://1", RestartCount: 3, State: v1.ContainerState{Running: &v1.ContainerStateRunning{}},
				}}},
			}
			s := &situation{
				failure:  &Failure{Pod: pod.DeepCopy(), Container: "app", ContainerID: "x://1", Kind: probe.Liveness, Mode: Restart},
				restarts: 3, pod: pod, failing: true, possible: true, owned: true, onFailure: Refuse,
			}
			for _, change := range c.changes {
				change(s)
			}
			got := decide(s, now)
			if (got.reason != "") != (got.text != "") && got.reason != "" {
				t.Errorf("reason %q without words", got.reason)
			}
			if got.text = ""; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
