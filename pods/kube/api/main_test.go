package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/daeace23/prober/pods/kube/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is a request received by a server.
type request struct {
	method, path, query, contentType, accept string
	body                                     string
}

// server is an HTTP server that records its requests.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	handle   func(w http.ResponseWriter, r request)
}

// connect returns a client of a new server.
func connect(t *testing.T, handle func(w http.ResponseWriter, r request)) (*api.Client, *server) {
	t.Helper()
	s := &server{handle: handle}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		one := request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Accept"), string(body)}
		s.mu.Lock()
		s.requests = append(s.requests, one)
		s.mu.Unlock()
		s.handle(w, one)
	}))
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":"secret"}}],
		"contexts":[{"name":"x","context":{"cluster":"c","user":"u","namespace":"here"}}],"current-context":"x"}`, s.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := api.New(api.Config{Kubeconfig: path, Node: "one"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	t.Cleanup(s.CloseClientConnections)
	return c, s
}

// reply writes v as JSON.
func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse writes an API status as the response.
func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	err.ErrStatus.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	reply(w, int(err.ErrStatus.Code), err.ErrStatus)
}

// pod is a stored pod, patched by the code of apimachinery.
type pod struct {
	mu     sync.Mutex
	stored v1.Pod
}

// immutableUID returns the error of API server v1.36 for a patch with another UID.
func immutableUID(uid types.UID) *apierrors.StatusError {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
}

func (p *pod) patch(w http.ResponseWriter, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, _ := json.Marshal(p.stored)
	changed, err := strategicpatch.StrategicMergePatch(old, []byte(body), v1.Pod{})
	if err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	var next v1.Pod
	if err := json.Unmarshal(changed, &next); err != nil {
		refuse(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	if next.UID != p.stored.UID {
		refuse(w, immutableUID(next.UID))
		return
	}
	p.stored = next
	reply(w, 200, next)
}
