package controller

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods/kube/policy"
)

// Size of the cluster of BenchmarkController: 550,000 pods of 11,000 workloads in 100 namespaces.
const (
	benchNodes      = 5000
	benchPods       = 110 // of a node
	benchPolicies   = 2000
	benchNamespaces = 100
	benchWorkloads  = 110 // of a namespace
)

// benchPod returns a pod: each node has a pod of 110 workloads of several namespaces.
func benchPod(node, i int) *v1.Pod {
	n := node*benchPods + i
	workload := (n / benchNamespaces) % benchWorkloads
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("team-", n%benchNamespaces), Name: fmt.Sprintf("workload-%d-6f7c9d5b8-%07d", workload, n), UID: types.UID(fmt.Sprint(n)),
			Labels: map[string]string{"app.kubernetes.io/name": fmt.Sprint("workload-", workload), "app.kubernetes.io/part-of": "bench", "pod-template-hash": "6f7c9d5b8"},
		},
		Spec:   v1.PodSpec{NodeName: fmt.Sprint("node-", node), ReadinessGates: []v1.PodReadinessGate{{ConditionType: "prober.dev/ready"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: "prober.dev/ready", Status: v1.ConditionTrue, Reason: "ProbeSucceeded"}}},
	}
}

func benchPolicy(i int) *policy.ProbePolicy {
	return &policy.ProbePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i%benchNamespaces), Name: fmt.Sprint("policy-", i), UID: types.UID(fmt.Sprint("p", i)), Generation: 1, ResourceVersion: "1", CreationTimestamp: metav1.Now()},
		Spec: policy.Spec{
			Selector: metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": fmt.Sprint("workload-", i/benchNamespaces)}},
			Probes:   []policy.Probe{{Name: "web", Container: "app", Kind: "Readiness", Text: json.RawMessage(`{"httpGet":{"path":"/ready","port":"http"},"periodSeconds":5}`)}},
		},
	}
}

// BenchmarkController measures a state of 550,000 pods: its memory, the time until all nodes are computed, and the time of
// one event with what follows from it.
func BenchmarkController(b *testing.B) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := newState(func() {})
	for i := range benchPolicies {
		s.setPolicy(benchPolicy(i))
	}
	begun := time.Now()
	for node := range benchNodes {
		for i := range benchPods {
			p, _ := trim(benchPod(node, i))
			s.setPod(p.(*pod))
		}
	}
	listed := time.Since(begun)
	runtime.GC()
	runtime.ReadMemStats(&after)
	pods := after.HeapAlloc - before.HeapAlloc
	begun = time.Now()
	s.settle()
	settled := time.Since(begun)
	runtime.GC()
	runtime.ReadMemStats(&after)
	all := after.HeapAlloc - before.HeapAlloc

	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			for _, n := range s.nodes {
				s.stale[n] = struct{}{}
			}
			s.settle()
		}
		b.ReportMetric(float64(pods)/(benchNodes*benchPods), "B/pod")
		b.ReportMetric(float64(all)/(1<<20), "MiB")
		b.ReportMetric(listed.Seconds(), "s-pods")
		b.ReportMetric(settled.Seconds(), "s-first")
	})
	b.Run("event=condition", func(b *testing.B) {
		p := benchPod(0, 0)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			p.Status.Conditions[0].Status = []v1.ConditionStatus{v1.ConditionFalse, v1.ConditionTrue}[n%2]
			one, _ := trim(p)
			s.setPod(one.(*pod))
			s.settle()
		}
	})
	b.Run("event=moved", func(b *testing.B) {
		p := benchPod(0, 0)
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			p.Spec.NodeName = fmt.Sprint("node-", n%2)
			one, _ := trim(p)
			s.setPod(one.(*pod))
			s.settle()
		}
	})
	b.Run("event=policy", func(b *testing.B) {
		p := benchPolicy(0)
		b.ReportAllocs()
		for b.Loop() {
			p.Generation++
			s.setPolicy(p)
			s.settle()
		}
	})
	b.Run("event=status", func(b *testing.B) {
		e := s.namespaces["team-0"].policies["policy-0"]
		b.ReportAllocs()
		for b.Loop() {
			same(e.status(), &e.observed)
		}
	})
}
