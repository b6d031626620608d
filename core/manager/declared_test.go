package manager_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// forms are the ways to declare a probe of container "web".
var forms = map[string]func(*v1.Pod, probe.Kind) []manager.ProbeConfig{
	"field": func(pod *v1.Pod, kind probe.Kind) []manager.ProbeConfig {
		setProbe(&pod.Spec.Containers[0], kind, execProbe())
		return nil
	},
	"annotation": func(pod *v1.Pod, kind probe.Kind) []manager.ProbeConfig {
		pod.Annotations = map[string]string{declared.Annotation: fmt.Sprintf("web: {%s: {exec: {command: [x]}, period: 1s, failureThreshold: 1}}", kind)}
		return nil
	},
	"typed": func(_ *v1.Pod, kind probe.Kind) []manager.ProbeConfig {
		return []manager.ProbeConfig{{Container: "web", Kind: kind, Handler: "mine", Spec: probe.Spec{Period: time.Second, FailureThreshold: 1}}}
	},
}

// moments are the times at which a status may be updated, for a container whose probe fails. known means
// that the manager knows the typed probes.
var moments = []struct {
	name  string
	known bool
	do    func(*rig, *v1.Pod, []manager.ProbeConfig)
}{
	{"before AddPod", false, func(*rig, *v1.Pod, []manager.ProbeConfig) {}},
	{"after AddPod", true, addTyped},
	{"after a failure", true, func(r *rig, pod *v1.Pod, typed []manager.ProbeConfig) {
		addTyped(r, pod, typed)
		r.wait(time.Second)
	}},
	{"after StopLivenessAndStartup", true, func(r *rig, pod *v1.Pod, typed []manager.ProbeConfig) {
		addTyped(r, pod, typed)
		r.m.StopLivenessAndStartup(pod)
	}},
	{"after UpdatePod of a pod that is being deleted", true, func(r *rig, pod *v1.Pod, typed []manager.ProbeConfig) {
		addTyped(r, pod, typed)
		pod.DeletionTimestamp = new(metav1.Now())
		if err := r.m.UpdatePod(r.t.Context(), pod, typed...); err != nil {
			r.t.Error(err)
		}
		r.wait(time.Second)
	}},
	{"after RemovePod", false, func(r *rig, pod *v1.Pod, typed []manager.ProbeConfig) {
		addTyped(r, pod, typed)
		r.m.RemovePod(pod)
	}},
	{"after CleanupPods", false, func(r *rig, pod *v1.Pod, typed []manager.ProbeConfig) {
		addTyped(r, pod, typed)
		r.m.CleanupPods(nil)
	}},
	{"after Close", true, func(r *rig, pod *v1.Pod, typed []manager.ProbeConfig) {
		addTyped(r, pod, typed)
		if err := r.m.Close(); err != nil {
			r.t.Error(err)
		}
	}},
}

func addTyped(r *rig, pod *v1.Pod, typed []manager.ProbeConfig) {
	r.t.Helper()
	if err := r.m.AddPod(r.t.Context(), pod, typed...); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// A declared probe that has not succeeded counts at every time of an update.
func TestDeclaredProbeCountsAtEveryMoment(t *testing.T) {
	for form, declare := range forms {
		for _, kind := range []probe.Kind{probe.Startup, probe.Readiness} {
			for _, moment := range moments {
				bubble(t, fmt.Sprintf("%s of %s %s", kind, form, moment.name), func(t *testing.T) {
					r := newRig(t)
					r.always(probetest.NewHandler(failure))
					pod := podOf("u", container("web"))
					typed := declare(pod, kind)
					r.store.SetPodStatus(pod, statusOf(upFor(kind, "web", "c1")))
					moment.do(r, pod, typed)
					in := fresh(running("web", "c1"))
					in.Ready = true
					started, ready := r.resolve(pod, in)
					counts := form != "typed" || moment.known
					if want := !(counts && kind == probe.Startup); started != want {
						t.Errorf("started %v, want %v", started, want)
					}
					if ready == counts {
						t.Errorf("ready %v, want %v", ready, !counts)
					}
				})
			}
		}
	}
}

// A started container stays started when its startup probe is stopped, with or without the last status. The
// readiness probe keeps its result.
func TestStoppedStartupProbeLeavesContainerStarted(t *testing.T) {
	for form, declare := range forms {
		for _, published := range []bool{false, true} {
			for _, stopped := range []bool{false, true} {
				bubble(t, fmt.Sprintf("%s, published %v, stopped %v", form, published, stopped), func(t *testing.T) {
					r := newRig(t)
					pod := podOf("u", container("web", probe.Readiness))
					typed := declare(pod, probe.Startup)
					r.store.SetPodStatus(pod, statusOf(starting("web", "c1")))
					addTyped(r, pod, typed)
					r.wantCached(probe.Startup, "c1", results.Success)
					r.store.SetContainerStartup(pod.UID, "c1", true)
					r.wait(time.Second)
					r.wantCached(probe.Readiness, "c1", results.Success)
					if published {
						pod.Status, _ = r.store.PodStatus(pod.UID)
					}
					if stopped {
						r.m.StopLivenessAndStartup(pod)
						r.m.StopLivenessAndStartup(pod)
					}
					if started, ready := r.resolve(pod, fresh(running("web", "c1"))); !started || !ready {
						t.Errorf("started %v, ready %v", started, ready)
					}
					if started, ready := r.resolve(pod, fresh(running("web", "c2"))); started || ready {
						t.Errorf("another container: started %v, ready %v", started, ready)
					}
				})
			}
		}
	}
}

// An annotation that the manager has not read yet counts too. A removed one does not.
func TestStatusOfChangedAnnotation(t *testing.T) {
	const readiness, both = "web: {readiness: {exec: {command: [x]}}}", "web: {readiness: {exec: {command: [x]}}, startup: {exec: {command: [x]}}}"
	bubble(t, "startup probe is added and removed", func(t *testing.T) {
		r := newRig(t)
		before, after := annotated(readiness), annotated(both)
		before.Spec.Containers[0].ReadinessProbe, after.Spec.Containers[0].ReadinessProbe = execProbe(), execProbe()
		r.add(before)
		for name, tc := range map[string]struct {
			pod  *v1.Pod
			want bool
		}{"added": {before, true}, "changed": {after, false}} {
			if started, _ := r.resolve(tc.pod, fresh(running("web", "c1"))); started != tc.want {
				t.Errorf("%s: started %v", name, started)
			}
		}
		r.update(after)
		r.update(before)
		if started, _ := r.resolve(before, fresh(running("web", "c1"))); !started {
			t.Error("not started without a startup probe")
		}
	})
}

// TestStatusModel compares UpdatePodStatus with a naive model for random sequences of calls, with and
// without the kubelet's switches.
func TestStatusModel(t *testing.T) {
	for name, switches := range map[string]manager.Compat{"default": 0, "kubelet": manager.KubeletV1_36 &^ probe.CompatAddPodStops} {
		for seed := range uint64(150) {
			bubble(t, fmt.Sprint(name, seed), func(t *testing.T) {
				w := newStatusWalk(t, seed, switches)
				for range 25 {
					w.step()
				}
			})
		}
	}
}

// statusWalk is a pod with a random sequence of calls, and the naive model of its status.
type statusWalk struct {
	*rig
	rand      *rand.Rand
	kubelet   bool
	pod       *v1.Pod
	typed     []manager.ProbeConfig
	ids       map[string]string // container IDs by container name
	published map[string]v1.ContainerStatus
	known     bool              // the manager knows the typed probes
	started   map[string]string // container IDs of containers that had started before their startup probe was stopped
	log       []string
}

func newStatusWalk(t *testing.T, seed uint64, switches manager.Compat) *statusWalk {
	w := &statusWalk{rig: newRig(t, compat(switches)), rand: rand.New(rand.NewPCG(seed, 1)), kubelet: switches != 0}
	w.handle = func(string, []byte) (*probetest.Handler, error) {
		steps := make([]probetest.Step, 20)
		for i := range steps {
			steps[i] = []probetest.Step{success, failure}[w.rand.IntN(2)]
		}
		return probetest.NewHandler(steps...), nil
	}
	pick := func() (kinds []probe.Kind) {
		for _, kind := range probe.Kinds {
			if w.rand.IntN(3) == 0 {
				kinds = append(kinds, kind)
			}
		}
		return kinds
	}
	w.pod = podOf("u", container("a", pick()...), container("b", pick()...), container("c"))
	w.pod.Spec.InitContainers = []v1.Container{container("init"), sidecar("s", pick()...)}
	if w.rand.IntN(2) == 0 {
		w.pod.Annotations = map[string]string{declared.Annotation: "b: {startup: {exec: {command: [x]}, period: 1s}}\ns: {readiness: {exec: {command: [x]}, period: 1s}}"}
	}
	if w.rand.IntN(2) == 0 {
		w.typed = []manager.ProbeConfig{{Container: "c", Kind: probe.Kinds[1+w.rand.IntN(2)], Handler: "mine", Spec: probe.Spec{Period: time.Second}}}
	}
	w.ids, w.published, w.started = make(map[string]string), make(map[string]v1.ContainerStatus), make(map[string]string)
	for i, name := range []string{"a", "b", "c", "init", "s", "unknown", "lost"} {
		w.ids[name] = fmt.Sprint("x://", i)
	}
	return w
}

func (w *statusWalk) step() {
	ops := map[string]func(){
		"add":    func() { w.known = w.m.AddPod(w.t.Context(), w.pod, w.typed...) == nil; clear(w.started) },
		"update": func() { w.known = w.m.UpdatePod(w.t.Context(), w.pod, w.typed...) == nil; clear(w.started) },
		"stop":   w.stop,
		"remove": func() { w.m.RemovePod(w.pod); w.known = false; clear(w.started) },
		"clean":  func() { w.m.CleanupPods(nil); w.known = false; clear(w.started) },
		"wait":   func() { time.Sleep(time.Duration(w.rand.IntN(3000)) * ms) },
		"restart": func() {
			name := []string{"a", "b", "c", "s"}[w.rand.IntN(4)]
			w.ids[name] += "'"
		},
		"sync": w.sync,
	}
	names := slices.Sorted(maps.Keys(ops))
	names = append(names, "sync", "sync", "wait", "add")
	name := names[w.rand.IntN(len(names))]
	w.log = append(w.log, name)
	ops[name]()
	synctest.Wait()
}

func (w *statusWalk) stop() {
	kept := make(map[string]string)
	for _, name := range []string{"a", "b", "c", "s"} {
		if id := w.workerID(name, probe.Startup); w.cached(probe.Startup, id) == results.Success {
			kept[name] = id
		}
	}
	w.m.StopLivenessAndStartup(w.pod)
	if len(kept) > 0 {
		w.started = kept
	}
}

// workerID returns the container ID of a probe's worker; "" if there is none.
func (w *statusWalk) workerID(name string, kind probe.Kind) string {
	p, _ := w.m.Latest(manager.Key{PodUID: "u", Container: name, Kind: kind})
	return p.ContainerID
}

// sync passes a status through UpdatePodStatus, and publishes the result.
func (w *statusWalk) sync() {
	var status v1.PodStatus
	status.Phase, status.PodIP = v1.PodRunning, "10.0.0.1"
	for _, name := range []string{"a", "b", "c", "unknown"} {
		status.ContainerStatuses = append(status.ContainerStatuses, w.incoming(name))
	}
	for _, name := range []string{"init", "s", "lost"} {
		status.InitContainerStatuses = append(status.InitContainerStatuses, w.incoming(name))
	}
	shuffle := func(all []v1.ContainerStatus) {
		w.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	shuffle(status.ContainerStatuses)
	shuffle(status.InitContainerStatuses)
	wants := make(map[string][2]bool)
	for _, c := range status.ContainerStatuses {
		wants[c.Name] = w.want(c, -1)
	}
	for i, c := range status.InitContainerStatuses {
		wants[c.Name] = w.want(c, i)
	}
	w.m.UpdatePodStatus(w.pod, &status)
	for _, c := range slices.Concat(status.ContainerStatuses, status.InitContainerStatuses) {
		if got := [2]bool{*c.Started, c.Ready}; got != wants[c.Name] {
			w.t.Errorf("%s of %v: started and ready %v, want %v\n%v", c.Name, w.pod.Annotations, got, wants[c.Name], w.log)
		}
		w.published[c.Name] = c
	}
	w.pod = w.pod.DeepCopy()
	w.pod.Status = status
	w.store.SetPodStatus(w.pod, status)
}

// incoming returns a status as reported by a runtime, with random leftovers of an agent.
func (w *statusWalk) incoming(name string) v1.ContainerStatus {
	c := fresh(running(name, w.ids[name]))
	switch w.rand.IntN(6) {
	case 0:
		c = terminated(name, w.ids[name], int32(w.rand.IntN(2)))
	case 1:
		c = waiting(name, w.ids[name])
	}
	if c.Ready = w.rand.IntN(2) == 0; w.rand.IntN(2) == 0 { // carried over by container name
		c.Started = w.published[name].Started
	}
	return c
}

// want is the model. init is the index of an init container, -1 for other containers.
func (w *statusWalk) want(c v1.ContainerStatus, init int) [2]bool {
	plain := c.Name == "init" || c.Name == "lost"
	if w.kubelet && c.Name == "s" && init != 1 || w.kubelet && c.Name == "init" && init != 0 || c.Name == "lost" && w.kubelet {
		return [2]bool{w.wantStarted(c), c.Ready} // not found by its index
	}
	started := w.wantStarted(c)
	switch {
	case plain && c.State.Terminated != nil && c.State.Terminated.ExitCode == 0 && c.Name == "init":
		return [2]bool{started, true}
	case plain || !started:
		return [2]bool{started, w.kubelet && c.Ready}
	}
	return [2]bool{started, w.cached(probe.Readiness, c.ContainerID) == results.Success || !w.counts(c.Name, probe.Readiness)}
}

func (w *statusWalk) wantStarted(c v1.ContainerStatus) bool {
	decided, last := w.cached(probe.Startup, c.ContainerID), w.published[c.Name]
	carried, same := c.Started != nil && *c.Started, last.ContainerID == c.ContainerID
	switch {
	case c.State.Running == nil:
		return false
	case decided != unset:
		return decided == results.Success
	case w.kubelet && carried, !w.kubelet && same && (carried || *last.Started), w.started[c.Name] == c.ContainerID:
		return true
	}
	return !w.counts(c.Name, probe.Startup)
}

// counts reports whether a probe without a result counts: with the kubelet's switches if it has a worker,
// without them if it is declared.
func (w *statusWalk) counts(name string, kind probe.Kind) bool {
	if slices.Contains(w.keys(), "u/"+name+"/"+kind.String()) {
		return true
	}
	if w.kubelet {
		return false
	}
	configs, _ := declared.ProbesOf(w.pod)
	if w.known {
		configs = append(configs, w.typed...)
	}
	return slices.ContainsFunc(configs, func(c manager.ProbeConfig) bool { return c.Container == name && c.Kind == kind })
}

// Two pods never share a result, even if their containers have the same ID.
func TestContainerIDOfTwoPods(t *testing.T) {
	pods := func(r *rig) (first, second *v1.Pod) {
		r.handle = func(_ string, config []byte) (*probetest.Handler, error) {
			if strings.Contains(string(config), "fails") {
				return probetest.NewHandler(failure), nil
			}
			return probetest.NewHandler(success), nil
		}
		first, second = podOf("u", container("web", probe.Readiness, probe.Startup)), podOf("v", container("web", probe.Readiness))
		second.Spec.Containers[0].ReadinessProbe.Exec.Command = []string{"fails"}
		r.store.SetPodStatus(first, statusOf(starting("web", "same")))
		r.add(first)
		r.store.SetContainerStartup(first.UID, "same", true)
		r.wait(2 * time.Second)
		return first, second
	}
	check := func(r *rig, pod *v1.Pod, want bool) {
		r.t.Helper()
		if started, ready := r.resolve(pod, running("web", "same")); !started || ready != want {
			r.t.Errorf("%s: started %v, ready %v; want ready %v", pod.Name, started, ready, want)
		}
	}
	bubble(t, "AddPod returns an error", func(t *testing.T) {
		r := newRig(t)
		first, second := pods(r)
		r.store.SetPodStatus(second, statusOf(running("web", "same")))
		err := r.m.AddPod(t.Context(), second)
		if want := `spec.containers[0].readinessProbe: container ID "same" is in use by ns/pod-u/web`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		check(r, first, true)
		check(r, second, false)
	})
	bubble(t, "gate says so until the other pod is gone", func(t *testing.T) {
		r := newRig(t)
		first, second := pods(r)
		r.add(second)
		r.store.SetPodStatus(second, statusOf(running("web", "same")))
		r.wait(2 * time.Second)
		if got := r.status("v", "web", probe.Readiness); got.Gate != "container ID in use by ns/pod-u/web" || got.Result != results.Failure {
			t.Errorf("gate %q, result %v", got.Gate, got.Result)
		}
		check(r, first, true)
		check(r, second, false)
		r.m.RemovePod(first)
		r.wait(2 * time.Second)
		if got := r.status("v", "web", probe.Readiness); got.Gate != "" || got.Last == nil {
			t.Errorf("gate %q", got.Gate)
		}
		check(r, second, false)
	})
}
