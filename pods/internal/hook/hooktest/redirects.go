// Package hooktest tests the hooks of a source of pods.
package hooktest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Redirects tests which redirects the request of a hook follows. run runs a hook of a pod with the address
// 127.0.0.1, and reports whether it failed.
func Redirects(t *testing.T, run func(*testing.T, v1.LifecycleHandler) (failed bool)) {
	var mu sync.Mutex
	var seen []string
	serve := func(name string, start func(http.Handler) *httptest.Server) (port string) {
		s := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, name+r.URL.Path+" "+r.Header.Get("X-Token"))
			switch to := r.FormValue("to"); {
			case r.URL.Path == "/end":
				return
			case r.URL.Path == "/loop":
				w.Header().Set("Location", "/loop")
			case to != "":
				w.Header().Set("Location", to)
			}
			w.WriteHeader(http.StatusFound)
		}))
		t.Cleanup(s.Close)
		_, port, _ = net.SplitHostPort(s.Listener.Addr().String())
		return port
	}
	own, other, secure := serve("own", httptest.NewServer), serve("other", httptest.NewServer), serve("secure", httptest.NewTLSServer)
	for name, c := range map[string]struct {
		path   string
		want   []string
		failed bool
	}{
		"same host":        {"/?to=/end", []string{"own/ secret", "own/end secret"}, false},
		"other host":       {"/?to=http://localhost:" + other + "/end", []string{"own/ secret"}, false},
		"other port":       {"/?to=http://127.0.0.1:" + other + "/end", []string{"own/ secret", "other/end secret"}, false},
		"https":            {"/?to=https://127.0.0.1:" + secure + "/end", []string{"own/ secret", "secure/end secret"}, false},
		"loop":             {"/loop", slices.Repeat([]string{"own/loop secret"}, 10), true},
		"missing Location": {"/", []string{"own/ secret"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			seen = nil
			failed := run(t, v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
				Path: c.path, Port: intstr.Parse(own), HTTPHeaders: []v1.HTTPHeader{{Name: "X-Token", Value: "secret"}},
			}})
			mu.Lock()
			defer mu.Unlock()
			if failed != c.failed || !slices.Equal(seen, c.want) {
				t.Errorf("failed %t, requests %s", failed, strings.Join(seen, ", "))
			}
		})
	}
}
