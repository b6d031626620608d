//go:build linux

package api

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/disruption"
	"github.com/daeace23/prober/test/kube/bed"
)

// TestOneDisruptionOfWorkload makes the agents of six nodes claim a workload at the same moment, 20 times.
// Only one claim may succeed each time.
func TestOneDisruptionOfWorkload(t *testing.T) {
	c := bed.Up(t, bed.API)
	ns := c.Namespace(t)
	const nodes = 6
	var pods []*corev1.Pod
	var agents []*disruption.Claims
	for i := range nodes {
		node := c.FakeNode(t, fmt.Sprint("spread-", i))
		pod := bed.Pod(fmt.Sprint("api-", i), nil)
		pod.Labels = map[string]string{"app": "api"}
		pod.Spec.NodeName = node.Name
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "api", UID: "rs", Controller: new(true)}}
		pods = append(pods, c.Create(t, ns, pod))
		client, err := api.New(api.Config{Kubeconfig: bed.Kubeconfig("admin"), Node: node.Name})
		if err != nil {
			t.Fatal(err)
		}
		agents = append(agents, disruption.New(disruption.Config{Cluster: client, Namespace: ns, Node: node.Name, Logger: slog.New(slog.DiscardHandler)}))
	}
	leases := func() []string {
		list, err := c.Client.CoordinationV1().Leases(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, l := range list.Items {
			if len(l.OwnerReferences) != 1 || l.OwnerReferences[0].Kind != "Node" || l.OwnerReferences[0].Name != *l.Spec.HolderIdentity {
				t.Errorf("owners of the lease of %s: %+v", *l.Spec.HolderIdentity, l.OwnerReferences)
			}
			all = append(all, l.Annotations[disruption.AnnotationPod])
		}
		return all
	}
	for round := range 20 {
		done := make([]func(bool), nodes)
		var claims sync.WaitGroup
		for i := range nodes {
			claims.Go(func() { done[i], _ = agents[i].Claim(t.Context(), pods[i]) })
		}
		claims.Wait()
		won := slices.IndexFunc(done, func(f func(bool)) bool { return f != nil })
		others := slices.DeleteFunc(slices.Clone(done), func(f func(bool)) bool { return f == nil })
		if len(others) != 1 {
			t.Fatalf("round %d: %d agents may disrupt a pod", round, len(others))
		}
		if got := leases(); !slices.Equal(got, []string{ns + "/" + pods[won].Name}) {
			t.Errorf("round %d: leases of %q", round, got)
		}
		done[won](false)
	}
	if got := leases(); len(got) != 0 {
		t.Errorf("leases of %q are left", got)
	}

	// A claim with a disruption lasts until the pod is ready again. The test writes the status of the pod.
	end, err := agents[0].Claim(t.Context(), pods[0])
	if err != nil {
		t.Fatal(err)
	}
	end(true)
	running := make(chan struct{})
	go func() { defer close(running); agents[0].Run(t.Context()) }()
	t.Cleanup(func() { <-running })
	if _, err := agents[1].Claim(t.Context(), pods[1]); err == nil {
		t.Error("two pods may be disrupted")
	}
	status := []byte(`{"status":{"conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"name":"app","image":"x","imageID":"x","ready":true,"restartCount":1,"containerID":"containerd://new"}]}}`)
	if _, err := c.Client.CoreV1().Pods(ns).Patch(t.Context(), pods[0].Name, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	bed.Await(t, "the claim ends", func() bool { return len(leases()) == 0 })
	if _, err := agents[1].Claim(t.Context(), pods[1]); err != nil {
		t.Error(err)
	}
}
