package local

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// todo formats actions, such as "kill a(liveness)", "start b", "kill pod".
func todo(a actions) string {
	var words []string
	if a.killPod {
		words = append(words, "kill pod")
	}
	for _, k := range a.kill {
		word := "kill " + k.container.Name
		if k.cause != causeNone {
			word += "(" + string(k.cause) + ")"
		}
		words = append(words, word)
	}
	for _, c := range a.start {
		words = append(words, "start "+c.Name)
	}
	return strings.Join(words, ", ")
}

func testPod(policy v1.RestartPolicy, inits, names string) *v1.Pod {
	pod := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: policy}}
	for name := range strings.FieldsSeq(inits) {
		c := v1.Container{Name: strings.TrimSuffix(name, "*"), Command: []string{"x"}}
		if strings.HasSuffix(name, "*") {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for name := range strings.FieldsSeq(names) {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Command: []string{"x"}})
	}
	return pod
}

var (
	failed    = decision{results.Failure, true}
	succeeded = decision{results.Success, true}
	undecided = decision{results.Unknown, true}
)

func TestComputeActionsContainers(t *testing.T) {
	up, down := view{state: running}, view{state: finished, exitCode: 1}
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		views  map[string]view
		want   string
	}{
		{"all run", v1.RestartPolicyAlways, map[string]view{"a": up, "b": up}, ""},
		{"nothing was started", v1.RestartPolicyNever, nil, "start a, start b"},
		{"#159 liveness failure kills and restarts", v1.RestartPolicyAlways,
			map[string]view{"a": {state: running, liveness: failed}, "b": up}, "kill a(liveness), start a"},
		{"#160 startup failure kills and restarts", v1.RestartPolicyAlways,
			map[string]view{"a": {state: running, startup: failed}, "b": up}, "kill a(startup), start a"},
		{"liveness wins over startup", v1.RestartPolicyAlways,
			map[string]view{"a": {state: running, liveness: failed, startup: failed}, "b": up}, "kill a(liveness), start a"},
		{"a change wins over liveness", v1.RestartPolicyNever,
			map[string]view{"a": {state: running, liveness: failed, changed: true}, "b": up}, "kill a(changed), start a"},
		{"policy Never: killed for good", v1.RestartPolicyNever,
			map[string]view{"a": {state: running, liveness: failed}, "b": up}, "kill a(liveness)"},
		{"policy Never and nothing else left: the pod ends", v1.RestartPolicyNever,
			map[string]view{"a": {state: running, liveness: failed}, "b": down}, "kill pod"},
		{"a kill under way is left alone", v1.RestartPolicyAlways,
			map[string]view{"a": {state: running, liveness: failed, stopping: true}, "b": up}, ""},
		{"crash under Always", v1.RestartPolicyAlways, map[string]view{"a": down, "b": up}, "start a"},
		{"crash under Never", v1.RestartPolicyNever, map[string]view{"a": down, "b": up}, ""},
		{"crash and success under OnFailure", v1.RestartPolicyOnFailure, map[string]view{"a": down, "b": {state: finished}}, "start a"},
		{"success under OnFailure after a kill by a probe", v1.RestartPolicyOnFailure,
			map[string]view{"a": {state: finished, again: true}, "b": up}, "start a"},
		{"all ended under Never", v1.RestartPolicyNever, map[string]view{"a": down, "b": {state: finished}}, "kill pod"},
		{"an external target that fails its probes is left alone", v1.RestartPolicyAlways,
			map[string]view{"a": {state: running, external: true, liveness: failed}, "b": {state: running, external: true, startup: failed}}, ""},
		{"an external target whose definition changed is renewed under Never", v1.RestartPolicyNever,
			map[string]view{"a": {state: running, external: true, liveness: failed, changed: true}, "b": up}, "kill a(changed), start a"},
		{"success is no reason", v1.RestartPolicyAlways,
			map[string]view{"a": {state: running, liveness: succeeded, startup: succeeded}, "b": {state: running, startup: undecided}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := todo(computeActions(testPod(c.policy, "", "a b"), c.views)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestComputeActionsKillMessages(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		own    *v1.ContainerRestartPolicy
		view   view
		want   string
	}{
		{"liveness", v1.RestartPolicyAlways, nil, view{liveness: failed}, "Container a failed liveness probe, will be restarted"},
		{"startup", v1.RestartPolicyOnFailure, nil, view{startup: failed}, "Container a failed startup probe, will be restarted"},
		{"never", v1.RestartPolicyNever, nil, view{liveness: failed}, "Container a failed liveness probe"},
		{"the container's own policy", v1.RestartPolicyAlways, new(v1.ContainerRestartPolicyNever), view{liveness: failed}, "Container a failed liveness probe"},
		{"changed", v1.RestartPolicyNever, nil, view{changed: true}, "Container a definition changed, will be restarted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := testPod(c.policy, "", "a b")
			pod.Spec.Containers[0].RestartPolicy = c.own
			c.view.state = running
			a := computeActions(pod, map[string]view{"a": c.view, "b": {state: running}})
			if len(a.kill) != 1 || a.kill[0].message != c.want {
				t.Errorf("got %+v, want %q", a.kill, c.want)
			}
		})
	}
}

func TestComputeActionsSidecars(t *testing.T) {
	// The pod has sidecars s and t and one container, c; s was just started.
	withStartup := func(d decision) view { return view{state: running, hasStartup: true, startup: d} }
	for _, c := range []struct {
		name string
		s    view
		want string
	}{
		{"#161 liveness not run: the next may start", view{state: running}, "start t"},
		{"#162 liveness Unknown: the next may start", view{state: running, liveness: undecided}, "start t"},
		{"#163 liveness completed: the next may start", view{state: running, liveness: succeeded}, "start t"},
		{"#164 liveness Failure: killed and restarted, and the next starts", view{state: running, liveness: failed}, "kill s(liveness), start s, start t"},
		{"#165 startup not run: wait", withStartup(decision{}), ""},
		{"#166 startup Unknown: wait", withStartup(undecided), ""},
		{"#167 startup Success: start the next", withStartup(succeeded), "start t"},
		{"#168 startup Failure: killed and restarted, the next is not started", withStartup(failed), "kill s(startup), start s"},
		{"a kill under way holds up nothing else", view{state: running, hasStartup: true, startup: failed, stopping: true}, ""},
		{"external, startup Failure: left alone, the next is not started", view{state: running, external: true, hasStartup: true, startup: failed}, ""},
		{"external, changed before it has started: renewed", view{state: running, external: true, hasStartup: true, startup: failed, changed: true}, "kill s(changed), start s"},
		{"external, liveness Failure: left alone, and the next starts", view{state: running, external: true, liveness: failed}, "start t"},
		{"it has ended", view{state: finished}, "start s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := testPod(v1.RestartPolicyNever, "s* t*", "c")
			if got := todo(computeActions(pod, map[string]view{"s": c.s})); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestComputeActionsLastSidecar(t *testing.T) {
	for _, c := range []struct {
		name  string
		views map[string]view
		want  string
	}{
		{"#164 liveness Failure: regular containers start", map[string]view{"s": {state: running, liveness: failed}}, "kill s(liveness), start s, start c"},
		{"#167 startup Success: regular containers start", map[string]view{"s": {state: running, hasStartup: true, startup: succeeded}}, "start c"},
		{"#168 startup Failure: regular containers do not start", map[string]view{"s": {state: running, hasStartup: true, startup: failed}}, "kill s(startup), start s"},
		{"startup Failure beside a running container", map[string]view{"s": {state: running, hasStartup: true, startup: failed}, "c": {state: running}}, "kill s(startup), start s"},
		{"ended beside a running container", map[string]view{"s": {state: finished}, "c": {state: running}}, "start s"},
		{"new beside a running container", map[string]view{"c": {state: running}}, "start s"},
		{"nothing left but the sidecar", map[string]view{"s": {state: running}, "c": {state: finished}}, "kill pod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := todo(computeActions(testPod(v1.RestartPolicyNever, "s*", "c"), c.views)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A regular container that has run means that the pod is initialized, even while the container waits for its
// restart (kubelet 1.37).
func TestComputeActionsEndedContainerMeansInitialized(t *testing.T) {
	ended := view{state: finished, exitCode: 1}
	for name, c := range map[string]struct {
		inits string
		views map[string]view
		want  string
	}{
		"a sidecar that ended does not delay it":      {"s*", map[string]view{"s": ended, "c": ended}, "start s, start c"},
		"a sidecar that starts does not delay it":     {"s*", map[string]view{"s": {state: running, hasStartup: true}, "c": ended}, "start c"},
		"an init container that failed is not run":    {"i", map[string]view{"i": ended, "c": ended}, "start c"},
		"an init container is run where none has run": {"i", map[string]view{"i": ended}, "start i"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := todo(computeActions(testPod(v1.RestartPolicyAlways, c.inits, "c"), c.views)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestComputeActionsInitContainers(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy v1.RestartPolicy
		views  map[string]view
		want   string
	}{
		{"first", v1.RestartPolicyAlways, nil, "start i"},
		{"wait for the first", v1.RestartPolicyAlways, map[string]view{"i": {state: running}}, ""},
		{"second", v1.RestartPolicyAlways, map[string]view{"i": {state: finished}}, "start j"},
		{"all done", v1.RestartPolicyAlways, map[string]view{"i": {state: finished}, "j": {state: finished}}, "start c"},
		{"failed, again", v1.RestartPolicyOnFailure, map[string]view{"i": {state: finished, exitCode: 1}}, "start i"},
		{"failed for good", v1.RestartPolicyNever, map[string]view{"i": {state: finished, exitCode: 1}}, "kill pod"},
		{"not again once initialized", v1.RestartPolicyAlways, map[string]view{"i": {state: finished, exitCode: 1}, "c": {state: running}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := todo(computeActions(testPod(c.policy, "i j", "c"), c.views)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestGracePeriod(t *testing.T) {
	const unset = int64(-1)
	for _, c := range []struct {
		name                             string
		pod, liveness, startup, deletion int64
		cause                            killCause
		want                             time.Duration
	}{
		{"#169 nothing set", unset, unset, unset, unset, causeNone, 2},
		{"#169 pod", 60, unset, unset, unset, causeNone, 60},
		{"#169 liveness 10 over pod 60", 60, 10, unset, unset, causeLiveness, 10},
		{"#169 startup 10 over pod 60", 60, unset, 10, unset, causeStartup, 10},
		{"#169 startup 60 over pod 10", 10, unset, 60, unset, causeStartup, 60},
		{"#169 liveness 60 over pod 10", 10, 60, unset, unset, causeLiveness, 60},
		{"#169 another reason ignores liveness", 60, 10, unset, unset, causeNone, 60},
		{"#169 another reason ignores startup", 60, unset, 10, unset, causeChanged, 60},
		{"#169 all set, unknown reason", 60, 10, 20, unset, causeNone, 60},
		{"#169 all set, startup", 60, 10, 20, unset, causeStartup, 20},
		{"#169 all set, liveness", 60, 10, 20, unset, causeLiveness, 10},
		{"the deletion's own period wins", 60, 10, 20, 5, causeLiveness, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := func(n int64) *int64 {
				if n == unset {
					return nil
				}
				return &n
			}
			pod := &v1.Pod{}
			pod.DeletionGracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds = set(c.deletion), set(c.pod)
			probes := &podProbes{}
			probes.grace[probe.Liveness], probes.grace[probe.Startup] = set(c.liveness), set(c.startup)
			if got := gracePeriod(pod, probes, c.cause); got != c.want*time.Second {
				t.Errorf("got %s, want %ds", got, c.want)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b backoff
	var pauses []time.Duration
	now := start
	for range 8 { // the container ends one second after each start
		ended := now.Add(time.Second)
		now = ended
		if at := b.until(ended); !at.IsZero() {
			now = at
		}
		pauses = append(pauses, now.Sub(ended))
		b.next(now, ended, 10*time.Second)
	}
	s := time.Second
	if diff := cmp.Diff([]time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s}, pauses); diff != "" {
		t.Error(diff)
	}
	if at := b.until(now.Add(10*time.Minute + s)); !at.IsZero() {
		t.Errorf("after more than 10 min it is held until %s", at)
	}
	if at := b.until(now.Add(10 * time.Minute)); at.IsZero() {
		t.Error("after 10 min it is not held any more")
	}
}
