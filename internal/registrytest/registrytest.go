// Package registrytest starts registries on loopback for tests.
package registrytest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// Registry is a registry that speaks plain HTTP and keeps everything in memory.
type Registry struct {
	Host   string // HOST:PORT
	server *httptest.Server

	mu       sync.Mutex
	before   func(w http.ResponseWriter, r *http.Request) bool
	requests []string
}

// Handler returns the handler of a registry that logs nothing.
func Handler(options ...registry.Option) http.Handler {
	return registry.New(append(options, registry.Logger(log.New(io.Discard, "", 0)))...)
}

// New starts a registry that ends with the test.
func New(t testing.TB, options ...registry.Option) *Registry {
	t.Helper()
	r, real := &Registry{}, Handler(options...)
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		r.requests = append(r.requests, req.Method+" "+req.URL.Path)
		before := r.before
		r.mu.Unlock()
		if before == nil || !before(w, req) {
			real.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(r.server.Close)
	r.Host = strings.TrimPrefix(r.server.URL, "http://")
	return r
}

// Close ends the registry before the end of the test.
func (r *Registry) Close() { r.server.Close() }

// Intercept sets a function that is called before each further request; nil for none. If before returns true, it has
// answered the request. Intercept also clears the list of requests.
func (r *Registry) Intercept(before func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.requests = before, nil
}

// Requests returns the methods and paths of the requests, such as "GET /v2/".
func (r *Registry) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// Ref returns the reference to rest, such as demo:1, in the registry.
func (r *Registry) Ref(t testing.TB, rest string) plugin.Reference {
	t.Helper()
	ref, err := plugin.ParseReference(r.Host + "/" + rest)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// Push pushes an artifact to the reference of rest, and returns its digest.
func (r *Registry) Push(t testing.TB, rest string, a *oci.Artifact) string {
	t.Helper()
	c, err := oci.NewClient(oci.ClientConfig{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Push(t.Context(), r.Ref(t, rest), a); err != nil {
		t.Fatal(err)
	}
	return a.Digest
}

// PushModule pushes a module to the reference of rest, and returns the digest of its artifact.
func (r *Registry) PushModule(t testing.TB, rest string, module []byte) string {
	t.Helper()
	a, err := oci.Pack(module, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Push(t, rest, a)
}

// PushProgram pushes a program to the reference of rest, and returns the digest of its artifact.
func (r *Registry) PushProgram(t testing.TB, rest string, p oci.Program) string {
	t.Helper()
	a, err := oci.PackProgram(p)
	if err != nil {
		t.Fatal(err)
	}
	return r.Push(t, rest, a)
}

// Put sends body to a path of the registry, such as /v2/demo/manifests/1.
func (r *Registry) Put(t testing.TB, path, mediaType, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", mediaType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Fatal(res.Status)
	}
}

// PutBlob stores data as a blob of a repository.
func (r *Registry) PutBlob(t testing.TB, repository string, data []byte) {
	t.Helper()
	r.Put(t, "/v2/"+repository+"/blobs/uploads/1?digest="+plugin.Digest(data), "application/octet-stream", string(data))
}
