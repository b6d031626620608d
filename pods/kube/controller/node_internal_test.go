package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/daeace23/prober/pods/kube/policy"
)

// TestNamespacesShareANode checks with random sizes that the policies of a node fit, and that a namespace which needs
// no more than an equal share has all of its policies.
func TestNamespacesShareANode(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	displaced := 0
	for round := range 500 {
		roles, need, namespaces := make(map[*entry]role), make(map[string]int), 1+random.IntN(6)
		for i := range 1 + random.IntN(40) {
			namespace := fmt.Sprint("ns", random.IntN(namespaces))
			e := &entry{size: 1 + random.IntN(1<<random.IntN(20)), policy: policy.NodePolicy{
				Namespace: namespace, Name: fmt.Sprint(i), Created: metav1.NewTime(time.Unix(int64(random.IntN(5)), 0)),
			}}
			roles[e] = full
			need[namespace] += e.size + 1
		}
		fit := fitting(roles)
		size := 0
		for _, e := range fit {
			size += e.size + 1
		}
		if size > maxNode {
			t.Fatalf("round %d: %d bytes", round, size)
		}
		for e := range roles {
			switch in := slices.Contains(fit, e); {
			case !in && need[e.policy.Namespace] <= maxNode/len(need):
				t.Errorf("round %d: %s of %s has no room, and its namespace needs %d bytes of %d", round, e.policy.Name, e.policy.Namespace, need[e.policy.Namespace], maxNode/len(need))
			case !in && size+e.size+1 <= maxNode:
				t.Errorf("round %d: %s of %s would fit", round, e.policy.Name, e.policy.Namespace)
			case !in:
				displaced++
			}
		}
	}
	if displaced == 0 {
		t.Error("no node was full")
	}
}
