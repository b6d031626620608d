//go:build linux

package bed

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Namespace creates a namespace for a test, and deletes it at the end of the test.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	shared.mu.Lock()
	shared.names++
	name := fmt.Sprint("test-", shared.names)
	shared.mu.Unlock()
	core := c.Client.CoreV1()
	_, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Pods need this account. A controller would create it later, but the tier API has no controllers.
	_, err = core.ServiceAccounts(name).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if err := core.Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return name
}

// cleanupContext returns a context for cleanups: the context of the test has ended then.
func cleanupContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), waitLimit)
}

// Pod returns a pod that runs test/kube/testapp with an environment, bound to the node. It does not create
// the pod.
func Pod(name string, environment map[string]string) *corev1.Pod {
	app := corev1.Container{Name: "app", Image: AppImage, ImagePullPolicy: corev1.PullNever}
	for _, key := range slices.Sorted(maps.Keys(environment)) {
		app.Env = append(app.Env, corev1.EnvVar{Name: key, Value: environment[key]})
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName:                      NodeName,
			AutomountServiceAccountToken:  new(bool),
			TerminationGracePeriodSeconds: new(int64(1)),
			Containers:                    []corev1.Container{app},
		},
	}
}

// Create creates a pod.
func (c *Cluster) Create(t testing.TB, namespace string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pod, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// AwaitPod waits until condition is true for a pod, and returns the pod.
func (c *Cluster) AwaitPod(t testing.TB, namespace, name, what string, condition func(pod *corev1.Pod) bool) (pod *corev1.Pod) {
	t.Helper()
	defer func() {
		if t.Failed() && pod != nil {
			status, _ := json.MarshalIndent(pod.Status, "", "  ")
			t.Logf("status of pod %s: %s", name, status)
		}
	}()
	Await(t, "pod "+name+": "+what, func() bool {
		got, err := c.Client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			pod = got
		}
		return err == nil && condition(pod)
	})
	return pod
}

// HasCondition returns a function for AwaitPod that reports whether a condition of the pod has a status.
func HasCondition(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == status })
	}
}

// HasMessage returns a function for AwaitPod that reports whether the message of a condition of the pod
// contains text. Until an app listens, its conditions have another message.
func HasMessage(kind corev1.PodConditionType, text string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == kind && strings.Contains(c.Message, text)
		})
	}
}

// HTTPStatus sends GET requests to a testapp until it answers, and returns the status code. A pod without a
// probe is ready before its app listens.
func HTTPStatus(t testing.TB, url string) (code int) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	Await(t, "an answer of "+url, func() bool {
		resp, err := client.Get(url)
		if err != nil {
			return false
		}
		code = resp.StatusCode
		return resp.Body.Close() == nil
	})
	return code
}

// ConditionPatch returns a strategic merge patch of pods/status that sets one condition of a pod.
func ConditionPatch(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) []byte {
	patch, _ := json.Marshal(map[string]any{ // cannot fail
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"conditions": []map[string]any{{"type": kind, "status": status, "lastTransitionTime": metav1.Now()}}},
	})
	return patch
}

// SetCondition sets a condition of a pod, as an administrator.
func (c *Cluster) SetCondition(t testing.TB, pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus) {
	t.Helper()
	_, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, ConditionPatch(pod, kind, status), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
}
