package api_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/pods/kube/api"
)

var web = api.Pod{Namespace: "shop", Name: "web", UID: "web-uid"}

func at(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }

// TestPodProbeMarkerDefect13 shows that a patch changes only prober's conditions. It needs no read before, and leaves
// conditions that the kubelet changes meanwhile as they are.
func TestPodProbeMarkerDefect13(t *testing.T) {
	var p pod
	p.stored = v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "web-uid", ResourceVersion: "7"}, Status: v1.PodStatus{Conditions: []v1.PodCondition{
		{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "kubelet", LastTransitionTime: at(1)},
		{Type: "prober.dev/ready", Status: v1.ConditionTrue, Reason: "ProbeWarning", Message: "slow", LastTransitionTime: at(2)},
		{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: at(3)},
	}}}
	c, s := connect(t, func(w http.ResponseWriter, r request) { p.patch(w, r.body) })
	err := c.PatchConditions(t.Context(), web, []v1.PodCondition{
		{Type: "prober.dev/ready", Status: v1.ConditionTrue, Reason: "ProbeSucceeded"}, // keeps its time
		{Type: "prober.dev/live", Status: v1.ConditionFalse, Reason: "ProbeFailed", Message: "wedged", LastTransitionTime: at(9)},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []v1.PodCondition{
		{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "kubelet", LastTransitionTime: at(1)},
		{Type: "prober.dev/ready", Status: v1.ConditionTrue, Reason: "ProbeSucceeded", LastTransitionTime: at(2)},
		{Type: "prober.dev/live", Status: v1.ConditionFalse, Reason: "ProbeFailed", Message: "wedged", LastTransitionTime: at(9)},
		{Type: v1.PodInitialized, Status: v1.ConditionTrue, LastTransitionTime: at(3)},
	}
	if diff := cmp.Diff(want, p.stored.Status.Conditions); diff != "" {
		t.Error(diff)
	}
	r := s.requests[0]
	if len(s.requests) != 1 || r.method != "PATCH" || r.path != "/api/v1/namespaces/shop/pods/web/status" || r.query != "fieldManager=prober" || r.contentType != "application/strategic-merge-patch+json" {
		t.Errorf("requests %+v", s.requests)
	}
	again := web
	again.UID = "another"
	if err := c.PatchConditions(t.Context(), again, nil); !errors.Is(err, api.ErrGone) {
		t.Errorf("a pod of the same name: %v", err)
	}
	if strings.Contains(r.body, "resourceVersion") {
		t.Errorf("the patch may conflict with the kubelet: %s", r.body)
	}
}

func TestErrors(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	blocked := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	blocked.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "DisruptionBudget", Message: "it needs 2 healthy pods"}}
	for _, c := range []struct {
		name   string
		answer *apierrors.StatusError
		want   error // nil: none of them
	}{
		{"not found", apierrors.NewNotFound(pods, "web"), api.ErrGone},
		{"another UID in a patch", immutableUID("web-uid"), api.ErrGone},
		{"another UID in an eviction", apierrors.NewConflict(pods, "web", errors.New("the UID in the precondition does not match the UID in record")), api.ErrGone},
		{"RBAC", apierrors.NewForbidden(pods, "web", errors.New("no")), api.ErrDenied},
		{"admission policy", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil), api.ErrDenied},
		{"webhook", apierrors.NewBadRequest("admission webhook denied the request"), api.ErrDenied},
		{"token expired", apierrors.NewUnauthorized("no"), nil},
		{"overload", apierrors.NewTooManyRequests("later", 60), nil},
		{"outage", apierrors.NewServiceUnavailable("no etcd"), nil},
		{"PodDisruptionBudget", blocked, api.ErrBlocked},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, s := connect(t, func(w http.ResponseWriter, _ request) { refuse(w, c.answer) })
			calls := map[string]func() error{"evict": func() error { return client.Evict(t.Context(), web, nil) }}
			if c.want != api.ErrBlocked {
				calls["patch"] = func() error { return client.PatchConditions(t.Context(), web, nil) }
			}
			for name, call := range calls {
				err := call()
				if err == nil {
					t.Fatalf("%s: no error", name)
				}
				for _, known := range []error{api.ErrGone, api.ErrDenied, api.ErrBlocked} {
					if errors.Is(err, known) != (known == c.want) {
						t.Errorf("%s: %v: is it %v?", name, err, known)
					}
				}
			}
			if len(s.requests) != len(calls) {
				t.Errorf("%d requests: the client retries by itself", len(s.requests))
			}
		})
	}
}

func TestEvictNamesPodAndGrace(t *testing.T) {
	c, s := connect(t, func(w http.ResponseWriter, _ request) { reply(w, 201, metav1.Status{Status: "Success"}) })
	if err := c.Evict(t.Context(), web, new(int64(7))); err != nil {
		t.Fatal(err)
	}
	r := s.requests[0]
	want := `"deleteOptions":{"gracePeriodSeconds":7,"preconditions":{"uid":"web-uid"}}`
	if r.method != "POST" || r.path != "/api/v1/namespaces/shop/pods/web/eviction" || !strings.Contains(r.body, want) || !strings.Contains(r.body, `"apiVersion":"policy/v1"`) {
		t.Errorf("request %+v", r)
	}
}

func TestPodsOfNodeAreListedInProtobuf(t *testing.T) {
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web"}}}}
	list.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("PodList"))
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var encoded bytes.Buffer
	if err := protobuf.NewSerializer(scheme, scheme).Encode(list, &encoded); err != nil {
		t.Fatal(err)
	}
	c, s := connect(t, func(w http.ResponseWriter, _ request) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		_, _ = w.Write(encoded.Bytes())
	})
	got, err := cache.ToListerWithContext(c.Pods()).ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	if pods := got.(*v1.PodList); len(pods.Items) != 1 || pods.Items[0].Name != "web" || pods.ResourceVersion != "5" {
		t.Errorf("got %+v", got)
	}
	if pods, err := c.PodsOf(t.Context(), "two"); err != nil || len(pods) != 1 {
		t.Errorf("got %v, %v", pods, err)
	}
	for i, query := range []string{"fieldSelector=spec.nodeName%3Done&resourceVersion=0", "fieldSelector=spec.nodeName%3Dtwo"} {
		r := s.requests[i]
		if r.path != "/api/v1/pods" || r.query != query || !strings.HasPrefix(r.accept, "application/vnd.kubernetes.protobuf") {
			t.Errorf("request %+v", r)
		}
	}
}

func TestRenewLeaseCreatesIt(t *testing.T) {
	exists, uid := false, "first"
	c, s := connect(t, func(w http.ResponseWriter, r request) {
		switch {
		case strings.HasPrefix(r.path, "/api/v1/nodes/"):
			reply(w, 200, map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": "one", "uid": uid}})
			return
		case r.method == "PATCH" && !exists:
			refuse(w, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "prober-one"))
			return
		}
		exists = true
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, r.body)
	})
	renew := func() {
		t.Helper()
		if err := c.RenewLease(t.Context(), "prober", 1500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	renew()
	renew()
	exists, uid = false, "second" // the node was deleted with its lease, and added again
	renew()
	var got []string
	for _, r := range s.requests {
		got = append(got, r.method+" "+r.path)
	}
	const node, leases = "GET /api/v1/nodes/one", "/apis/coordination.k8s.io/v1/namespaces/prober/leases"
	created := []string{"PATCH " + leases + "/prober-one", node, "POST " + leases}
	if diff := cmp.Diff(slices.Concat([]string{node}, created, created[:1], created), got); diff != "" {
		t.Error(diff)
	}
	const owned = `"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"one","uid":%q}]`
	for i, want := range map[int]string{1: "first", 3: "first", 4: "first", 7: "second"} {
		if body := s.requests[i].body; !strings.Contains(body, fmt.Sprintf(owned, want)) || !strings.Contains(body, `"app.kubernetes.io/name":"prober"`) || !strings.Contains(body, `"holderIdentity":"one","leaseDurationSeconds":2,"renewTime":"2`) {
			t.Errorf("body %d: %s", i, body)
		}
	}
}

// If the node cannot be read, its lease is renewed without an owner.
func TestRenewLeaseWithoutNode(t *testing.T) {
	c, s := connect(t, func(w http.ResponseWriter, r request) {
		if strings.HasPrefix(r.path, "/api/v1/nodes/") {
			refuse(w, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "one", errors.New("no right")))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, r.body)
	})
	if err := c.RenewLease(t.Context(), "prober", time.Second); err != nil {
		t.Fatal(err)
	}
	if body := s.requests[1].body; strings.Contains(body, "ownerReferences") {
		t.Errorf("body %s", body)
	}
}

func TestLeaseOfWorkload(t *testing.T) {
	c, s := connect(t, func(w http.ResponseWriter, r request) {
		switch {
		case strings.HasPrefix(r.path, "/api/v1/nodes/"):
			reply(w, 200, map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": "one", "uid": "u"}})
		case r.method == "POST":
			refuse(w, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "leases"}, "d"))
		case r.method == "PUT":
			refuse(w, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "d", errors.New("changed")))
		default:
			reply(w, 200, map[string]any{"kind": "PodList", "apiVersion": "v1", "items": []any{}})
		}
	})
	l := &api.Lease{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: "lease", ResourceVersion: "7"}, Spec: api.LeaseSpec{HolderIdentity: "one", LeaseDurationSeconds: 600}}
	if err := c.CreateLease(t.Context(), "prober", l); !apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}
	if err := c.UpdateLease(t.Context(), "prober", l); !apierrors.IsConflict(err) {
		t.Error(err)
	}
	if err := c.DeleteLease(t.Context(), "prober", l); err != nil {
		t.Error(err)
	}
	if _, err := c.PodsLike(t.Context(), "shop", map[string]string{"app": "api", "tier": "web"}); err != nil {
		t.Error(err)
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/prober/leases"
	for i, want := range []struct{ request, part string }{
		{"GET /api/v1/nodes/one ", ""},
		{"POST " + leases + " fieldManager=prober", `"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"one","uid":"u"}]`},
		{"PUT " + leases + "/d fieldManager=prober", `"resourceVersion":"7"`},
		{"DELETE " + leases + "/d ", `"preconditions":{"uid":"lease","resourceVersion":"7"}`},
		{"GET /api/v1/namespaces/shop/pods labelSelector=app%3Dapi%2Ctier%3Dweb&resourceVersion=0", ""},
	} {
		if r := s.requests[i]; r.method+" "+r.path+" "+r.query != want.request || !strings.Contains(r.body, want.part) {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

func TestNewErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  api.Config
		want string
	}{
		{api.Config{}, "this process does not run in a pod of a cluster, and no kubeconfig is given"},
		{api.Config{Context: "x"}, `the context "x" needs a kubeconfig`},
		{api.Config{Kubeconfig: "missing"}, "kubeconfig missing: stat missing: no such file"},
	} {
		if _, err := api.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestExecErrorNamesPod(t *testing.T) {
	c, _ := connect(t, func(w http.ResponseWriter, _ request) {
		refuse(w, apierrors.NewForbidden(schema.GroupResource{Resource: "pods/exec"}, "web", errors.New("no")))
	})
	_, _, err := c.Exec(t.Context(), web, "app", []string{"true"})
	if err == nil || !strings.HasPrefix(err.Error(), "exec in shop/web through the API server: ") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	if _, _, err := c.Exec(ctx, web, "app", []string{"true"}); err == nil || err.Error() != "too late" {
		t.Errorf("got %v", err)
	}
}

// BenchmarkList compares the formats of a list of 110 pods.
func BenchmarkList(b *testing.B) {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		b.Fatal(err)
	}
	list := &v1.PodList{}
	list.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("PodList"))
	for i := range 110 {
		p := v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Namespace: "shop", UID: "0f1b3bd5-8f5c-4a3c-a6e7-5f4d1e5d6a7b", Labels: map[string]string{"app": "web", "version": "1"}}}
		for j := range 3 {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", j), Image: "registry.example/web:1", Env: make([]v1.EnvVar, 10), VolumeMounts: make([]v1.VolumeMount, 3), Ports: make([]v1.ContainerPort, 2)})
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{Name: fmt.Sprint("c", j), ContainerID: "containerd://0123456789abcdef", ImageID: "sha256:0123456789abcdef"})
		}
		p.Status.Conditions = make([]v1.PodCondition, 6)
		list.Items = append(list.Items, p)
	}
	codecs := serializer.NewCodecFactory(scheme)
	for _, kind := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), kind)
		var encoded bytes.Buffer
		if err := info.Serializer.Encode(list, &encoded); err != nil {
			b.Fatal(err)
		}
		b.Run("format="+kind[strings.LastIndexAny(kind, "/.")+1:], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := info.Serializer.Decode(encoded.Bytes(), nil, &v1.PodList{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(encoded.Len()), "wire-B")
		})
	}
}
