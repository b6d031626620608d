//go:build linux

package deploytest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/daeace23/prober/test/kube/bed"
)

// yard is an API server with deploy/kubernetes, two nodes, and pods on both.
type yard struct {
	*bed.Cluster

	// namespace has the pods own on node-a, and other and asks on node-b. asks has the annotation
	// prober.dev/on-agent-loss: unready.
	namespace string

	agent  kubernetes.Interface // the agent of node-a
	nobody kubernetes.Interface // the agent's account, with a token that names no node
	loss   kubernetes.Interface // the Deployment prober-agent-loss
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{Cluster: bed.Up(t, bed.API)}
	dir := kustomization(t, "evict", "exec-api", "agent-loss")
	kubectl(t, "apply", "-k", dir)
	y.namespace = y.Namespace(t)
	for _, node := range []string{"node-a", "node-b"} {
		y.FakeNode(t, node)
	}
	y.pod(t, "own", "node-a", nil)
	y.pod(t, "other", "node-b", nil)
	y.pod(t, "asks", "node-b", map[string]string{"prober.dev/on-agent-loss": "unready"})
	pods := render(t, dir).pods
	y.agent = clientFor(t, y.token(t, pods["prober"], "node-a"))
	y.loss = clientFor(t, y.token(t, pods["prober-agent-loss"], "node-b"))
	y.nobody = clientFor(t, y.ServiceAccount(t, system, "prober-node", nil))
	y.await(t)
	return y
}

// pod creates a pod on a node.
func (y *yard) pod(t *testing.T, name, node string, annotations map[string]string) {
	t.Helper()
	pod := bed.Pod(name, nil)
	pod.Spec.NodeName, pod.Annotations = node, annotations
	y.Create(t, y.namespace, pod)
}

// token creates a pod of prober, and returns a client config with a token bound to the pod, as the kubelet
// requests it.
func (y *yard) token(t *testing.T, pod *corev1.Pod, node string) *rest.Config {
	t.Helper()
	pod = pod.DeepCopy()
	pod.GenerateName, pod.Name, pod.Spec.NodeName = pod.Name+"-", "", node
	pod = y.Create(t, system, pod)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	token, err := y.Client.CoreV1().ServiceAccounts(system).CreateToken(t.Context(), pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(y.Config)
	config.BearerToken = token.Status.Token
	return config
}

// await waits until the API server enforces all policies.
func (y *yard) await(t *testing.T) {
	t.Helper()
	for name, attempt := range map[string]func() error{
		"prober-node-status":       func() error { return y.patch(t, y.nobody, "own", ready("True", "ProbeSucceeded"), true) },
		"prober-node-events":       func() error { return y.event(t, y.nobody, "x", "Pod", "own", "node-a", true) },
		"prober-node-evict":        func() error { return y.evict(t, y.nobody, "own") },
		"prober-node-exec":         func() error { return y.exec(t, y.nobody, "own") },
		"prober-node-lease":        func() error { return y.lease(t, y.nobody, "node-a", true) },
		"prober-agent-loss-status": func() error { return y.patch(t, y.loss, "own", ready("False", "AgentLost"), true) },
	} {
		bed.Await(t, "the policy "+name+" is enforced", func() bool {
			err := attempt()
			return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+name+"'")
		})
	}
	bed.Await(t, "the policies know the pods", func() bool {
		return y.evict(t, y.agent, "own") == nil && apierrors.IsForbidden(y.evict(t, y.agent, "other")) && apierrors.IsForbidden(y.exec(t, y.agent, "other"))
	})
}

// dry returns the field DryRun of a request.
func dry(run bool) []string {
	if run {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// ready returns a patch of the condition prober.dev/ready.
func ready(status, reason string) string {
	return fmt.Sprintf(`{"status":{"conditions":[{"type":"prober.dev/ready","status":%q,"reason":%q,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status, reason)
}

// patch patches the status of a pod.
func (y *yard) patch(t *testing.T, who kubernetes.Interface, pod, patch string, dryRun bool) error {
	_, err := who.CoreV1().Pods(y.namespace).Patch(t.Context(), pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dry(dryRun)}, "status")
	return err
}

// event creates an event whose source is prober on a node.
func (y *yard) event(t *testing.T, who kubernetes.Interface, name, kind, about, host string, dryRun bool) error {
	_, err := who.CoreV1().Events(y.namespace).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: y.namespace},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: y.namespace, Name: about},
		Source:         corev1.EventSource{Component: "prober", Host: host},
		Reason:         "Unhealthy", Type: corev1.EventTypeWarning,
	}, metav1.CreateOptions{DryRun: dry(dryRun)})
	return err
}

// evict requests the eviction of a pod as a dry run.
func (y *yard) evict(t *testing.T, who kubernetes.Interface, pod string) error {
	return who.CoreV1().Pods(y.namespace).EvictV1(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: y.namespace}, DeleteOptions: &metav1.DeleteOptions{DryRun: dry(true)},
	})
}

// exec requests a command in a pod. It never runs, because the nodes have no kubelets.
func (y *yard) exec(t *testing.T, who kubernetes.Interface, pod string) error {
	return who.CoreV1().RESTClient().Post().Namespace(y.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "app", Command: []string{"true"}, Stdout: true}, scheme.ParameterCodec).Do(t.Context()).Error()
}

// lease renews or creates the lease of a node, as the agent does.
func (y *yard) lease(t *testing.T, who kubernetes.Interface, node string, dryRun bool) error {
	leases, name := who.CoordinationV1().Leases(system), "prober-"+node
	_, err := leases.Patch(t.Context(), name, types.MergePatchType, []byte(`{"spec":{"leaseDurationSeconds":40}}`), metav1.PatchOptions{DryRun: dry(dryRun)})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: dry(dryRun)})
	}
	return err
}

// check checks that err is a refusal whose text contains want. If want is "", err must be nil.
func check(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%v, want no error", err)
	case want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want)):
		t.Errorf("%v, want a refusal: %s", err, want)
	}
}

const (
	otherNode   = "the pod is not on node-a"
	noNode      = "does not name its node"
	onlyOwn     = "may only change conditions whose type begins with prober.dev/"
	onlyStatus  = "may only change the conditions in the status of a pod"
	noMetadata  = "may not change the metadata of a pod"
	notAllowed  = "cannot" // by RBAC
	onlyReady   = "may only change the condition prober.dev/ready"
	onlyLost    = "may only set prober.dev/ready to False"
	doesNotAsk  = "does not have the annotation prober.dev/on-agent-loss"
	onlyLease   = "may only write the lease prober-NODE of its own node"
	onlyHeld    = "may only write leases of workloads that its node holds, for ten minutes at most"
	onlyOwner   = "may only name its node as the owner of leases"
	onlyAbout   = "may only write events about pods"
	onlySource  = "may only write events whose source is prober on its node"
	conditionOf = `{"status":{"conditions":[{"type":%q,"status":"True"}]}}`
)

func TestFence(t *testing.T) {
	y := newYard(t)
	t.Run("status", y.testStatus)
	t.Run("status with many conditions", y.testManyConditions)
	t.Run("eviction and exec", y.testPods)
	t.Run("eviction among many pods", y.testManyPods)
	t.Run("events", y.testEvents)
	t.Run("leases", y.testLeases)
	t.Run("agent-loss", y.testLoss)
	t.Run("RBAC", y.testRBAC)
}

func (y *yard) testStatus(t *testing.T) {
	for _, c := range []struct{ name, pod, patch, want string }{
		{"condition", "own", ready("True", "ProbeSucceeded"), ""},
		{"condition of a probe", "own", fmt.Sprintf(conditionOf, "prober.dev/readiness.app"), ""},
		{"change", "own", ready("False", "ProbeFailed"), ""},
		{"removal", "own", `{"status":{"conditions":[{"$patch":"delete","type":"prober.dev/ready"}]}}`, ""},
		{"pod of another node", "other", ready("True", "ProbeSucceeded"), otherNode},
		{"another condition", "own", fmt.Sprintf(conditionOf, "Ready"), onlyOwn},
		{"condition with a similar name", "own", fmt.Sprintf(conditionOf, "prober.developer/x"), onlyOwn},
		{"removal of another condition", "own", `{"status":{"conditions":[{"$patch":"delete","type":"PodScheduled"}]}}`, onlyOwn},
		{"all conditions", "own", `{"status":{"conditions":null}}`, onlyOwn},
		{"phase", "own", `{"status":{"phase":"Failed"}}`, onlyStatus},
		{"address", "own", `{"status":{"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`, onlyStatus},
		{"containers", "own", `{"status":{"containerStatuses":[{"name":"app","ready":true,"restartCount":0,"image":"a","imageID":""}]}}`, onlyStatus},
		{"removal of the start", "own", `{"status":{"startTime":null}}`, onlyStatus},
		{"label", "own", `{"metadata":{"labels":{"a":"b"}}}`, noMetadata},
		{"annotation", "own", `{"metadata":{"annotations":{"a":"b"}}}`, noMetadata},
		{"finalizer", "own", `{"metadata":{"finalizers":["example.com/a"]}}`, noMetadata},
	} {
		t.Run(c.name, func(t *testing.T) {
			y.reset(t, "own")
			check(t, y.patch(t, y.agent, c.pod, c.patch, false), c.want)
		})
	}
	t.Run("token without a node", func(t *testing.T) {
		check(t, y.patch(t, y.nobody, "own", ready("True", "ProbeSucceeded"), false), noNode)
	})
	t.Run("spec", func(t *testing.T) {
		check(t, y.patch(t, y.agent, "own", `{"spec":{"activeDeadlineSeconds":1}}`, false), "")
		pod, err := y.Client.CoreV1().Pods(y.namespace).Get(t.Context(), "own", metav1.GetOptions{})
		if err != nil || pod.Spec.ActiveDeadlineSeconds != nil {
			t.Errorf("the spec has been changed, or %v", err)
		}
		_, err = y.agent.CoreV1().Pods(y.namespace).Patch(t.Context(), "own", types.StrategicMergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
		check(t, err, notAllowed)
	})
}

// reset writes a status to a pod as a kubelet does.
func (y *yard) reset(t *testing.T, pod string) {
	t.Helper()
	status := `{"status":{"phase":"Running","startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"False"}]}}`
	if err := y.patch(t, y.Client, pod, status, false); err != nil {
		t.Fatal(err)
	}
}

// testManyConditions checks that the cost of the expressions stays within the limits of the API
// server.
func (y *yard) testManyConditions(t *testing.T) {
	var status corev1.PodStatus
	for i := range 40 {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(fmt.Sprint("example.com/", i)), Status: "True", Message: strings.Repeat("x", 1024)})
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: fmt.Sprint("c", i), Image: "a", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	y.pod(t, "large", "node-a", nil)
	if err := y.patch(t, y.Client, "large", string(text), false); err != nil {
		t.Fatal(err)
	}
	check(t, y.patch(t, y.agent, "large", ready("True", "ProbeSucceeded"), false), "")
	check(t, y.patch(t, y.agent, "large", fmt.Sprintf(conditionOf, "example.com/41"), false), onlyOwn)
}

func (y *yard) testPods(t *testing.T) {
	check(t, y.evict(t, y.agent, "own"), "")
	check(t, y.evict(t, y.agent, "other"), otherNode)
	check(t, y.evict(t, y.nobody, "own"), noNode)
	if err := y.exec(t, y.agent, "own"); err == nil || apierrors.IsForbidden(err) {
		t.Errorf("exec in a pod of the own node: %v, want an error because the node has no address", err)
	}
	check(t, y.exec(t, y.agent, "other"), otherNode)
	check(t, y.exec(t, y.nobody, "own"), noNode)
	check(t, y.evict(t, y.loss, "other"), notAllowed)
}

// testManyPods checks that a namespace with many pods stays within the limits of the API server. Each pod is
// a parameter of the policy.
func (y *yard) testManyPods(t *testing.T) {
	for i := range 300 {
		y.pod(t, fmt.Sprint("many-", i), "node-b", nil)
	}
	bed.Await(t, "the policy knows the last pod", func() bool { return apierrors.IsForbidden(y.evict(t, y.agent, "many-299")) })
	check(t, y.evict(t, y.agent, "own"), "")
	check(t, y.evict(t, y.agent, "many-0"), otherNode)
}

func (y *yard) testEvents(t *testing.T) {
	check(t, y.event(t, y.agent, "e1", "Pod", "own", "node-a", false), "")
	check(t, y.event(t, y.agent, "e2", "Node", "node-a", "node-a", false), "")
	check(t, y.event(t, y.agent, "e3", "Node", "node-b", "node-a", false), onlyAbout)
	check(t, y.event(t, y.agent, "e4", "Secret", "own", "node-a", false), onlyAbout)
	check(t, y.event(t, y.agent, "e5", "Pod", "own", "node-b", false), onlySource)
	check(t, y.event(t, y.nobody, "e6", "Pod", "own", "node-a", false), noNode)
	check(t, y.event(t, y.Client, "theirs", "Pod", "own", "node-b", false), "")
	count := []byte(`{"count":2}`)
	for name, want := range map[string]string{"e1": "", "theirs": onlySource} {
		_, err := y.agent.CoreV1().Events(y.namespace).Patch(t.Context(), name, types.StrategicMergePatchType, count, metav1.PatchOptions{})
		check(t, err, want)
	}
	check(t, y.event(t, y.loss, "e7", "Pod", "other", "", false), notAllowed)
}

func (y *yard) testLeases(t *testing.T) {
	for range 2 { // the first call creates it, the second renews it
		check(t, y.lease(t, y.agent, "node-a", false), "")
	}
	check(t, y.lease(t, y.agent, "node-b", false), onlyLease)
	check(t, y.lease(t, y.Client, "node-b", false), "") // the lease of node-b's agent
	check(t, y.lease(t, y.agent, "node-b", false), onlyLease)
	check(t, y.lease(t, y.nobody, "node-a", false), noNode)
	check(t, y.lease(t, y.loss, "node-a", false), notAllowed)
	y.testLeasesOfWorkloads(t)
	if _, err := y.loss.CoordinationV1().Leases(system).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// testLeasesOfWorkloads writes leases as an agent does before a restart or an eviction.
func (y *yard) testLeasesOfWorkloads(t *testing.T) {
	leases := y.agent.CoordinationV1().Leases(system)
	lease := func(name, holder string, seconds int32, owner string) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds}}
		if owner != "" {
			l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: owner, UID: "a"}}
		}
		return l
	}
	create := func(l *coordinationv1.Lease) error {
		_, err := leases.Create(t.Context(), l, metav1.CreateOptions{})
		return err
	}
	check(t, create(lease("disruption-1", "node-a", 600, "node-a")), "")
	check(t, create(lease("disruption-2", "node-b", 600, "")), onlyHeld)
	check(t, create(lease("disruption-3", "node-a", 601, "")), onlyHeld)
	check(t, create(lease("disruption-4", "node-a", 600, "node-b")), onlyOwner)
	check(t, create(lease("other", "node-a", 600, "")), onlyLease)
	if _, err := y.Client.CoordinationV1().Leases(system).Create(t.Context(), lease("disruption-5", "node-b", 600, ""), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	check(t, leases.Delete(t.Context(), "disruption-5", metav1.DeleteOptions{}), onlyHeld)
	check(t, leases.Delete(t.Context(), "prober-node-b", metav1.DeleteOptions{}), onlyLease)
	for _, name := range []string{"disruption-1", "prober-node-a"} {
		check(t, leases.Delete(t.Context(), name, metav1.DeleteOptions{}), "")
	}
	if _, err := y.agent.CoreV1().Nodes().Get(t.Context(), "node-a", metav1.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func (y *yard) testLoss(t *testing.T) {
	y.reset(t, "asks")
	for _, c := range []struct{ name, pod, patch, want string }{
		{"pod that asks", "asks", ready("False", "AgentLost"), ""},
		{"pod that does not", "other", ready("False", "AgentLost"), doesNotAsk},
		{"true", "asks", ready("True", "AgentLost"), onlyLost},
		{"another reason", "asks", ready("False", "ProbeFailed"), onlyLost},
		{"removal", "asks", `{"status":{"conditions":[{"$patch":"delete","type":"prober.dev/ready"}]}}`, onlyLost},
		{"another condition of prober", "asks", fmt.Sprintf(conditionOf, "prober.dev/live"), onlyReady},
		{"another condition", "asks", fmt.Sprintf(conditionOf, "Ready"), onlyReady},
		{"phase", "asks", `{"status":{"phase":"Failed"}}`, onlyStatus},
		{"label", "asks", `{"metadata":{"labels":{"a":"b"}}}`, noMetadata},
	} {
		t.Run(c.name, func(t *testing.T) {
			check(t, y.patch(t, y.loss, c.pod, c.patch, false), c.want)
		})
	}
}

// testRBAC tries requests that RBAC refuses to agents.
func (y *yard) testRBAC(t *testing.T) {
	core := y.agent.CoreV1()
	if _, err := core.Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=node-a"}); err != nil {
		t.Error(err)
	}
	_, err := core.Secrets("").List(t.Context(), metav1.ListOptions{})
	check(t, err, notAllowed)
	_, err = core.Secrets(system).List(t.Context(), metav1.ListOptions{})
	check(t, err, notAllowed)
	_, err = core.ConfigMaps(system).List(t.Context(), metav1.ListOptions{})
	check(t, err, notAllowed)
	_, err = core.Nodes().List(t.Context(), metav1.ListOptions{})
	check(t, err, notAllowed)
	_, err = core.ServiceAccounts(system).CreateToken(t.Context(), "prober-agent-loss", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	check(t, err, notAllowed)
	check(t, core.Pods(y.namespace).Delete(t.Context(), "own", metav1.DeleteOptions{}), notAllowed)
	check(t, core.Events(y.namespace).Delete(t.Context(), "e1", metav1.DeleteOptions{}), notAllowed)
}
