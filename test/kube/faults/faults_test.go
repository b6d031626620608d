//go:build linux

package faults

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/test/kube/bed"
)

var (
	outage = flag.Duration("outage", 45*time.Second, "how long the API server is away")
	slow   = flag.Bool("slow", false, "also let the token and the lease of the agent expire")
)

// TestFaults makes one part of the cluster after the other fail.
func TestFaults(t *testing.T) {
	f := newFleet(t)
	pause(3 * time.Second) // let pending changes finish
	type fault struct {
		name string
		run  func(*fleet)
	}
	faults := []fault{
		{"agent is killed", (*fleet).killAgent},
		{"kubelet is restarted", (*fleet).restartKubelet},
		{"runtime is away", (*fleet).stopRuntime},
		{"API server is away", (*fleet).stopAPIServer},
		{"agent is started without the API server", (*fleet).startWithoutAPIServer},
		{"node is rebooted", (*fleet).rebootNode},
	}
	if *slow {
		faults = slices.Insert(faults, 0, fault{"token expires", (*fleet).expireToken})
	}
	for _, test := range faults {
		t.Run(test.name, func(t *testing.T) {
			begun := time.Now()
			test.run(f.withT(t))
			if t.Failed() {
				for _, c := range f.changesSince(begun) {
					t.Log(c)
				}
				t.Log("events: ", f.eventsSince(begun))
			}
		})
	}
}

// restartKubelet restarts the kubelet. No condition may change.
func (f *fleet) restartKubelet() {
	mark := time.Now()
	f.Kubelet.Kill(f.t)
	f.Kubelet.Start(f.t)
	pause(5 * time.Second)
	f.wantUnchanged(mark)
}

// stopRuntime stops containerd. Exec probes have no result meanwhile; all other probes must continue.
func (f *fleet) stopRuntime() {
	mark := time.Now()
	others := slices.DeleteFunc(slices.Clone(healthy), func(name string) bool { return name == "exec" })
	f.Containerd.Stop(f.t)
	stopped := time.Now()
	f.awaitTicks(time.Now(), others...)
	bed.Await(f.t, "the exec probe to be unknown", func() bool { p := f.probe("exec", "readiness"); return p.Last != nil && p.Last.Result == "unknown" })
	f.setApp("turns", "sick")
	f.await("turns", gate, no)
	f.setApp("turns", "well")
	f.await("turns", gate, yes)
	pause(20*time.Second - time.Since(stopped))
	if p := f.probe("exec", "readiness"); p.Result != "success" {
		f.t.Errorf("the exec probe has decided %q without the runtime", p.Result)
	}
	if got := conditionOf(f.pod("exec"), gate); got.Status != yes || got.Reason != "ProbeUnknown" {
		f.t.Errorf("the gate of the exec probe: %+v", got)
	}
	f.Containerd.Start(f.t)
	started := time.Now()
	bed.Await(f.t, "the exec probe to succeed again", func() bool { return conditionOf(f.pod("exec"), gate).Reason == "ProbeSucceeded" })
	f.t.Logf("exec probes had a verdict %.1f s after the runtime was back", time.Since(started).Seconds())
	if got := f.statuses(mark, "exec", gate); len(got) > 0 {
		f.t.Errorf("the gate of the exec probe has become %v", got)
	}
	f.wantReasons(mark, "exec")
	for _, name := range []string{"exec", "inside"} {
		for what, status := range map[string]corev1.ConditionStatus{"sick": no} {
			f.setApp(name, what)
			f.await(name, gate, status)
		}
		f.setApp(name, "well")
		f.await(name, gate, yes)
	}
	f.wantUnchanged(mark, "well", "started", "quiet", "failing", "recovers")
	f.awaitReady(healthy...)
}

// awaitReady waits until the kubelet has set Ready to True, so that the next test does not see the change.
func (f *fleet) awaitReady(pods ...string) {
	f.t.Helper()
	for _, name := range pods {
		f.await(name, corev1.PodReady, yes)
	}
	pause(time.Second)
}

// stopAPIServer changes pods in many ways while the API server is away.
func (f *fleet) stopAPIServer() {
	mark, memory := time.Now(), f.memory()
	ran := f.probe("well", "readiness").Run
	twin := f.pod("replaced").DeepCopy()
	f.APIServer.Kill(f.t) // Stop would take 30 s
	stopped := time.Now()
	f.setApp("turns", "sick")
	f.setApp("recovers", "well")
	f.setApp("blinks", "sick")
	f.setApp("replaced", "sick")
	for _, name := range []string{"turns", "blinks", "replaced"} {
		bed.Await(f.t, name+" to fail", func() bool { return f.probe(name, "readiness").Result == "failure" })
	}
	f.setApp("blinks", "well")
	f.restartWithoutAPIServer()
	twin.UID, twin.Status = types.UID("0123"+string(twin.UID)[4:]), corev1.PodStatus{Phase: corev1.PodPending, QOSClass: twin.Status.QOSClass}
	f.StorePod(f.t, twin) // as if the pod was deleted and created again with the same name
	created := twin.DeepCopy()
	created.Name, created.UID = "created", types.UID("4567"+string(twin.UID)[4:])
	f.StorePod(f.t, created)
	f.DropPod(f.t, f.ns, "deleted")
	pause(*outage - time.Since(stopped))

	length := time.Since(stopped)
	if got, least := f.probe("well", "readiness").Run-ran, int(length/period)/2; got < least {
		f.t.Errorf("%d ticks of a probe in %v, want %d", got, length, least)
	}
	growth := f.memory() - memory
	f.t.Logf("away for %v: %d ticks of a probe, the agent's memory grew from %d by %d KiB", length.Round(time.Second), f.probe("well", "readiness").Run-ran, memory, growth)
	if growth > 16<<10 {
		f.t.Errorf("the memory of the agent has grown by %d KiB", growth)
	}
	f.APIServer.Start(f.t)
	back := time.Now()
	for name, status := range map[string]corev1.ConditionStatus{"turns": no, "recovers": yes} {
		f.await(name, gate, status)
		took := f.changeTime(mark, name, gate, status).Sub(back)
		f.t.Logf("the gate of %s was written %.1f s after the API server was ready", name, took.Seconds())
		if took > soon {
			f.t.Errorf("that is later than %v", soon)
		}
	}
	// A kubelet may wait a minute before it lists its pods again, which is too long for this test.
	f.Kubelet.Kill(f.t)
	f.Kubelet.Start(f.t)
	f.afterAPIServer(mark, twin.UID)
}

// restartWithoutAPIServer makes the agent restart a container twice, while the status of the pod does not
// change.
func (f *fleet) restartWithoutAPIServer() {
	for i := range 2 {
		f.setApp("restarted", "sick")
		before := f.probe("restarted", "liveness").ContainerID
		bed.Await(f.t, fmt.Sprint("restart ", i+1, " without the API server"), func() bool {
			p := f.probe("restarted", "liveness")
			return p.ContainerID != "" && p.ContainerID != before && p.Result == "success" && f.ask("restarted", "healthz") == http.StatusOK
		})
	}
}

// afterAPIServer checks the pods that stopAPIServer has changed, after the API server is back.
func (f *fleet) afterAPIServer(mark time.Time, twin types.UID) {
	f.await("created", gate, yes)
	bed.Await(f.t, "the new pod of the old name to be ready", func() bool {
		pod := f.pod("replaced")
		return pod.UID == twin && conditionOf(pod, gate).Status == yes
	})
	bed.Await(f.t, "the agent to forget the deleted pod", func() bool { return len(f.agent.Probes(f.t, f.ns, "deleted")) == 0 })
	bed.Await(f.t, "events of the outage", func() bool {
		return slices.Contains(f.reasons(mark, "turns"), "Unhealthy") && slices.Contains(f.reasons(mark, "recovers"), "Healthy") &&
			len(f.reasons(mark, "blinks")) >= 2 && countOf(f.reasons(mark, "restarted"), "Killing") >= 2
	})
	pause(3 * time.Second) // time for further events, which would be wrong
	f.wantReasons(mark, "turns", "Unhealthy")
	f.wantReasons(mark, "recovers", "Healthy")
	f.wantReasons(mark, "blinks", "Unhealthy", "Healthy")
	if n := countOf(f.reasons(mark, "restarted"), "Killing"); n != 2 {
		f.t.Errorf("%d events Killing of 2 restarts: %v", n, f.eventsSince(mark, "restarted"))
	}
	if n := restarts(f.pod("restarted")); n != 2 {
		f.t.Errorf("%d restarts", n)
	}
	for _, name := range []string{"turns", "recovers"} {
		w := slices.DeleteFunc(f.writes(mark, name), func(w bed.Write) bool {
			return w.Code == http.StatusForbidden // an API server that has just started does not know the roles
		})
		if len(w) != 1 || w[0].Code != http.StatusOK {
			f.t.Errorf("patches of %s: %+v", name, w)
		}
	}
	if got := f.statuses(mark, "blinks", gate); len(got) > 0 {
		f.t.Errorf("the gate of a pod that recovered during the outage has become %v", got)
	}
	for _, c := range f.changesSince(mark, "replaced") {
		// The app of the old pod was sick. The new one may refuse connections until it listens.
		if c.uid == twin && c.Type == gate && c.Status == no && strings.Contains(c.Message, "statuscode") {
			f.t.Errorf("the new pod has the state of the old one: %v", c)
		}
	}
	f.wantNoWrites(mark, append(slices.Clone(healthy), "failing", "breaks")...)
	f.setApp("turns", "well")
	f.await("turns", gate, yes)
	f.awaitReady("turns", "recovers", "blinks", "restarted")
}

func countOf(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

func restarts(pod *corev1.Pod) int32 {
	if len(pod.Status.ContainerStatuses) != 1 {
		return -1
	}
	return pod.Status.ContainerStatuses[0].RestartCount
}

// killAgent kills the agent five times. A pod becomes sick after the third kill and well after the fourth.
// The next agent must notice the change.
func (f *fleet) killAgent() {
	mark := time.Now()
	for i := range 5 {
		f.agent.Kill(f.t)
		switch i {
		case 2:
			f.setApp("turns", "sick")
		case 3:
			f.setApp("turns", "well")
		}
		began := time.Now()
		f.agent.Start(f.t)
		f.awaitTicks(began, append(slices.Clone(healthy), "failing", "turns")...)
		switch i {
		case 2:
			f.await("turns", gate, no)
		case 3:
			f.await("turns", gate, yes)
		}
		pause(2 * time.Second) // time for two decisions
	}
	f.wantUnchanged(mark, append(slices.Clone(healthy), "failing", "recovers", "breaks")...)
	f.wantReasons(mark, "turns", "Unhealthy", "Healthy")
	if got := f.statuses(mark, "turns", gate); !slices.Equal(got, []corev1.ConditionStatus{no, yes}) {
		f.t.Errorf("the gate of the pod that was sick has become %v", got)
	}
	f.awaitReady("turns")
}

// startWithoutAPIServer starts an agent while the API server is away.
func (f *fleet) startWithoutAPIServer() {
	mark := time.Now()
	f.agent.Stop(f.t)
	f.APIServer.Kill(f.t)
	f.agent.Start(f.t)
	pause(5 * time.Second)
	if probes := f.agent.Probes(f.t, f.ns, "well"); len(probes) > 0 {
		f.t.Errorf("probes of an agent that knows no pods: %+v", probes)
	}
	f.APIServer.Start(f.t)
	back := time.Now()
	f.awaitTicks(back, append(slices.Clone(healthy), "failing")...)
	f.t.Logf("pods were probed %.1f s after the API server was ready", time.Since(back).Seconds())
	f.setApp("turns", "sick")
	f.await("turns", gate, no)
	f.setApp("turns", "well")
	f.await("turns", gate, yes)
	f.awaitReady("turns")
	f.wantUnchanged(mark, append(slices.Clone(healthy), "failing", "recovers", "breaks")...)
}

// rebootNode reboots the node. The agent, which is usually a pod, starts after the other pods.
func (f *fleet) rebootNode() {
	before := time.Now()
	f.agent.Kill(f.t)
	if err := os.WriteFile(filepath.Join(f.state, "sick"), nil, 0o644); err != nil {
		f.t.Fatal(err)
	}
	counts := make(map[string]int32)
	for _, name := range append(slices.Clone(healthy), "breaks") {
		counts[name] = restarts(f.pod(name))
	}
	f.RebootNode(f.t)
	for name, n := range counts {
		bed.Await(f.t, name+" to run again", func() bool {
			return restarts(f.pod(name)) > n && f.pod(name).Status.ContainerStatuses[0].State.Running != nil
		})
	}
	f.t.Logf("breaks after the reboot, without an agent: %s %v", gate, f.changesSince(before, "breaks"))
	pause(2 * time.Second) // conditions and containers have times in whole seconds
	mark := time.Now()
	f.agent.Start(f.t)
	f.await("breaks", gate, no)
	f.t.Logf("the gate of a pod that is broken after the reboot was False %.1f s after the start of the agent: %s", f.changeTime(mark, "breaks", gate, no).Sub(mark).Seconds(), conditionOf(f.pod("breaks"), gate).Message)
	for name := range counts {
		if name != "breaks" {
			f.awaitTicks(mark, name)
			f.await(name, gate, yes)
			f.await(name, corev1.PodReady, yes)
			// An attempt that succeeds before the first patch leaves the gate as it was.
			if got := f.statuses(mark, name, gate); len(got) > 0 && !slices.Equal(got, []corev1.ConditionStatus{no, yes}) {
				f.t.Errorf("the gate of %s has become %v", name, got)
			}
		}
	}
	bed.Await(f.t, "the probe of breaks to decide", func() bool {
		return strings.Contains(conditionOf(f.pod("breaks"), gate).Message, "statuscode: 503") // the message of an attempt
	})
	if got := f.statuses(mark, "breaks", gate); !slices.Equal(got, []corev1.ConditionStatus{no}) {
		f.t.Errorf("the gate of a broken pod has become %v", got)
	}
	f.await("breaks", corev1.PodReady, no)
}
