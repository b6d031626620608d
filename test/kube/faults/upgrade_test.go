//go:build linux

package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

const system = "prober-system"

// TestUpgrade replaces the agent of deploy/kubernetes: by a restart, by another image and, with -slow, after
// its loss.
func TestUpgrade(t *testing.T) {
	f := &fleet{Cluster: bed.Up(t, bed.Node), t: t}
	f.ImportProber(t)
	if out, err := exec.Command("ctr", "--namespace=k8s.io", "images", "tag", bed.ProberImage, "localhost/prober:next").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f.install()
	f.ns = f.Namespace(t)
	f.recorder = record(t, f.Cluster, f.ns)
	const readiness = "readiness: " + httpProbe
	for _, pod := range []*corev1.Pod{
		podWith("well", readiness+", liveness: "+httpProbe, nil),
		podWith("unready", readiness, nil, "prober.dev/on-agent-loss", "unready"),
		podWith("failing", readiness+", liveness: "+httpProbe, map[string]string{"SICK_AFTER": "1ns"}),
		podWith("turns", readiness, nil),
	} {
		f.Create(t, f.ns, pod)
	}
	for _, name := range []string{"well", "unready", "turns"} {
		f.await(name, corev1.PodReady, yes)
	}
	f.awaitFailing()
	pause(2 * time.Second)
	mark := time.Now()
	for _, how := range [][]string{{"rollout", "restart", "daemonset/prober"}, {"set", "image", "daemonset/prober", "prober=localhost/prober:next"}} {
		begun := time.Now()
		old := f.agentPod()
		f.Kubectl(t, append([]string{"-n", system}, how...)...)
		bed.Await(t, "the old agent to end", func() bool { uid := f.agentPod(); return uid != "" && uid != old })
		f.setApp("turns", "sick")
		f.rolledOut()
		f.await("turns", gate, no)
		t.Logf("%s %s: the gate of a pod that became sick without an agent was False %.1f s after the command", how[0], how[1], f.changeTime(begun, "turns", gate, no).Sub(begun).Seconds())
		f.setApp("turns", "well")
		f.await("turns", gate, yes)
		f.awaitReady("turns")
	}
	f.wantUnchanged(mark, "well", "unready", "failing")
	if *slow {
		f.loseAgent()
	}
}

// loseAgent removes the agent for longer than its lease, and then brings it back.
func (f *fleet) loseAgent() {
	mark := time.Now()
	f.Kubectl(f.t, "-n", system, "patch", "daemonset", "prober", "-p", `{"spec": {"template": {"spec": {"nodeSelector": {"there": "is-none"}}}}}`)
	f.await("unready", gate, no)
	if got := conditionOf(f.pod("unready"), gate); got.Reason != "AgentLost" {
		f.t.Errorf("the gate without an agent: %+v", got)
	}
	lost := f.changeTime(mark, "unready", gate, no)
	f.await("unready", corev1.PodReady, no)
	again := time.Now()
	f.Kubectl(f.t, "-n", system, "patch", "daemonset", "prober", "-p", `{"spec": {"template": {"spec": {"nodeSelector": {"there": null}}}}}`)
	f.await("unready", gate, yes)
	f.await("unready", corev1.PodReady, yes)
	f.t.Logf("AgentLost %.1f s after the command that removed the agent, and True again %.1f s after it may run", lost.Sub(mark).Seconds(), f.changeTime(again, "unready", gate, yes).Sub(again).Seconds())
	f.wantUnchanged(mark, "well", "failing", "turns")
}

// agentPod returns the UID of the agent's pod; "" if there is none that is not being deleted.
func (f *fleet) agentPod() string {
	pods, err := f.Client.CoreV1().Pods(system).List(f.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=node"})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			return string(pods.Items[i].UID)
		}
	}
	return ""
}

func (f *fleet) rolledOut() {
	f.t.Helper()
	bed.Await(f.t, "the DaemonSet is rolled out", func() bool {
		d, err := f.Client.AppsV1().DaemonSets(system).Get(f.t.Context(), "prober", metav1.GetOptions{})
		return err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedNumberScheduled == 1 && d.Status.NumberReady == 1
	})
}

// install applies deploy/kubernetes with the component agent-loss.
func (f *fleet) install() {
	f.t.Helper()
	dir := f.t.TempDir()
	deploy, err := filepath.Abs("../../../deploy/kubernetes")
	if err != nil {
		f.t.Fatal(err)
	}
	if deploy, err = filepath.Rel(dir, deploy); err != nil {
		f.t.Fatal(err)
	}
	for name, text := range map[string]string{
		"prober.yaml": bed.AgentYAML,
		"kustomization.yaml": fmt.Sprintf("namespace: %s\nresources: [%s/base]\ncomponents: [%[2]s/components/agent-loss]\n"+
			"images: [{name: localhost/prober, newTag: bed}]\nconfigMapGenerator: [{name: prober, behavior: merge, files: [prober.yaml]}]\n", system, deploy),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	f.t.Cleanup(func() { // other tests have an agent of their own
		cmd := exec.Command(filepath.Join(os.Getenv("PROBER_KUBE_TOOLS"), "kubectl"), "--kubeconfig="+bed.Kubeconfig("admin"), "-n", system,
			"delete", "daemonset,deployment", "--all", "--cascade=foreground", "--timeout=2m")
		if out, err := cmd.CombinedOutput(); err != nil {
			f.t.Errorf("%v\n%s", err, out)
		}
	})
	f.Kubectl(f.t, "apply", "-k", dir)
	f.rolledOut()
}
