package agent_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/netnstest"
	"github.com/daeace23/prober/pods"
)

// answerAt responds with status at 127.0.0.1:8080 in a new network namespace.
func answerAt(t *testing.T, status int) *netnstest.Net {
	t.Helper()
	n := netnstest.New(t)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	_ = s.Listener.Close()
	var err error
	n.Do(func() { s.Listener, err = net.Listen("tcp4", "127.0.0.1:8080") })
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	return n
}

// TestPodsAreProbedInTheirNetworks uses pods with the same address: one is healthy, one is not, one has no
// network yet, and the namespace of one does not exist.
func TestPodsAreProbedInTheirNetworks(t *testing.T) {
	paths := map[string]string{
		"uid-good": answerAt(t, http.StatusOK).Path, "uid-bad": answerAt(t, http.StatusServiceUnavailable).Path,
		"uid-new": "", "uid-gone": "/none",
	}
	var all []*v1.Pod
	for _, name := range []string{"good", "bad", "new", "gone"} {
		all = append(all, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("uid-" + name), Annotations: map[string]string{
				declared.Annotation: "web: {readiness: {httpGet: {port: 8080}, period: 20ms, timeout: 1m}}",
			}},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "web"}}},
		})
	}
	r := start(t, "", func(c *agent.Config) {
		c.Source = agent.NewMemory(all...).With(func(s *pods.Source) {
			s.NetworkOf = func(uid string) (path string, ok bool) {
				path, ok = paths[uid]
				return path, ok
			}
		})
	})
	left := map[string]string{
		"good": "", "bad": "HTTP probe failed with statuscode: 503",
		"new":  "pod shop/new: its network namespace is not known yet",
		"gone": "pod shop/gone: network namespace /none: open: no such file or directory",
	}
	for len(left) > 0 {
		awaitProbe(t, r.stream(), "an attempt of each pod", func(p *streamedProbe) bool {
			want, ok := left[p.Pod]
			if !ok || p.Last == nil {
				return false
			}
			if got := p.Last.Output + p.Last.Error; !strings.HasPrefix(got, want) || (p.Last.Error == "") != (p.Pod == "good" || p.Pod == "bad") || ready(p) != (p.Pod == "good") {
				t.Errorf("%s: got %+v, want %s", p.Pod, p.Last, want)
			}
			delete(left, p.Pod)
			return true
		})
	}
}
