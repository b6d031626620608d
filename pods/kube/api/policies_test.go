package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/daeace23/prober/pods/kube/api"
	"github.com/daeace23/prober/pods/kube/policy"
)

// TestPolicies checks the requests for policies, and how their answers are read.
func TestPolicies(t *testing.T) {
	const spec = `"selector":{"matchLabels":{"app":"web"}},"probes":[{"container":"app","kind":"Readiness","name":"web","tcpSocket":{"port":80}}]`
	c, s := connect(t, func(w http.ResponseWriter, r request) {
		w.Header().Set("Content-Type", "application/json")
		text := `{"apiVersion":"prober.dev/v1alpha1","kind":"NodeProbes","metadata":{"name":"one","resourceVersion":"8"}}`
		switch {
		case r.method == "GET" && strings.HasSuffix(r.path, "/probepolicies"):
			text = `{"apiVersion":"prober.dev/v1alpha1","kind":"ProbePolicyList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"web"},"spec":{` + spec + `}}]}`
		case r.method == "GET" && strings.HasSuffix(r.path, "/nodeprobes"):
			text = `{"apiVersion":"prober.dev/v1alpha1","kind":"NodeProbesList","metadata":{},"items":[{"metadata":{"name":"one"},"spec":{"policies":[{"namespace":"shop",` + spec + `}]}}]}`
		case r.method == "GET":
			text = `{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[]}`
		case r.method == "DELETE":
			text = `{"apiVersion":"v1","kind":"Status","status":"Success"}`
		}
		_, _ = w.Write([]byte(text))
	})
	listed := func(lw cache.ListerWatcher) runtime.Object {
		t.Helper()
		got, err := cache.ToListerWithContext(lw).ListWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	policies := listed(c.Policies()).(*policy.ProbePolicyList)
	if p := policies.Items[0]; policies.ResourceVersion != "7" || p.Name != "web" || p.Spec.Probes[0].Container != "app" || string(p.Spec.Probes[0].Text) != `{"tcpSocket":{"port":80}}` {
		t.Errorf("got %+v", policies)
	}
	nodes := listed(c.AllNodeProbes()).(*policy.NodeProbesList)
	if n := nodes.Items[0].Spec.Policies[0]; n.Namespace != "shop" || n.Selector.MatchLabels["app"] != "web" {
		t.Errorf("got %+v", nodes)
	}
	listed(c.AllPods())
	node := &policy.NodeProbes{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: nodes.Items[0].Spec}
	if version, err := c.CreateNodeProbes(t.Context(), node); version != "8" || err != nil {
		t.Error(version, err)
	}
	node.UID, node.ResourceVersion = "u", "7"
	if version, err := c.UpdateNodeProbes(t.Context(), node); version != "8" || err != nil {
		t.Error(version, err)
	}
	if err := c.DeleteNodeProbes(t.Context(), node); err != nil {
		t.Error(err)
	}
	one := policies.Items[0]
	one.Namespace, one.UID, one.Status.Pods.Matched = "shop", "p", 3
	if version, err := c.PatchPolicyStatus(t.Context(), &one); version != "8" || err != nil {
		t.Error(version, err)
	}
	const group = "/apis/prober.dev/v1alpha1"
	for i, want := range []struct{ request, part string }{
		{"GET " + group + "/probepolicies ", ""},
		{"GET " + group + "/nodeprobes ", ""},
		{"GET /api/v1/pods fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed", ""},
		{"POST " + group + "/nodeprobes fieldManager=prober", `"kind":"NodeProbes","apiVersion":"prober.dev/v1alpha1","metadata":{"name":"one"}`},
		{"PUT " + group + "/nodeprobes/one fieldManager=prober", `"resourceVersion":"7"`},
		{"DELETE " + group + "/nodeprobes/one ", `"preconditions":{"uid":"u","resourceVersion":"7"}`},
		{"PATCH " + group + "/namespaces/shop/probepolicies/web/status fieldManager=prober", `{"metadata":{"uid":"p"},"status":{"pods":{"matched":3,"gated":0,`},
	} {
		r := s.requests[i]
		if r.method+" "+r.path+" "+r.query != want.request || !strings.Contains(r.body, want.part) {
			t.Errorf("request %d: %+v", i, r)
		}
		if i == 6 && r.contentType != "application/merge-patch+json" {
			t.Errorf("request %d: %s", i, r.contentType)
		}
	}
	var sent policy.NodeProbes
	if err := json.Unmarshal([]byte(s.requests[3].body), &sent); err != nil || string(sent.Spec.Policies[0].Probes[0].Text) != `{"tcpSocket":{"port":80}}` {
		t.Errorf("%v: %s", err, s.requests[3].body)
	}
}

func TestPolicyIsGone(t *testing.T) {
	for _, answer := range []*apierrors.StatusError{
		apierrors.NewNotFound(schema.GroupResource{}, "web"),
		apierrors.NewConflict(schema.GroupResource{}, "web", errors.New("Precondition failed: UID in precondition: p, UID in object meta: q")),
	} {
		c, _ := connect(t, func(w http.ResponseWriter, _ request) { refuse(w, answer) })
		if _, err := c.PatchPolicyStatus(t.Context(), &policy.ProbePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "p"}}); !errors.Is(err, api.ErrGone) {
			t.Error(err)
		}
	}
}

// TestPersistent repeats requests without an answer, and returns all other errors at once.
func TestPersistent(t *testing.T) {
	for _, c := range []struct {
		name    string
		err     error
		repeats bool
	}{
		{"no connection", errors.New("connection refused"), true},
		{"busy", apierrors.NewTooManyRequests("later", 1), true},
		{"starting", apierrors.NewServiceUnavailable("no etcd"), true},
		{"token expired", apierrors.NewUnauthorized("no"), true},
		{"no right", apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no")), false},
		{"too old", apierrors.NewResourceExpired("too old"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left, noted := 5, []error(nil)
				from := &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					if left--; left > 0 {
						return nil, c.err
					}
					return &policy.NodeProbesList{}, nil
				}}
				again := api.Persistent(from, func(_ context.Context, err error) { noted = append(noted, err) })
				begun := time.Now()
				_, err := cache.ToListerWithContext(again).ListWithContext(t.Context(), metav1.ListOptions{})
				if took := time.Since(begun); c.repeats && (err != nil || len(noted) != 5 || noted[3] != c.err || noted[4] != nil || took < 3*time.Second || took > 8*time.Second) {
					t.Errorf("%v after %v, noted %v", err, took, noted)
				}
				if !c.repeats && (err != c.err || len(noted) != 1) {
					t.Errorf("%v, noted %v", err, noted)
				}
			})
		})
	}
}
