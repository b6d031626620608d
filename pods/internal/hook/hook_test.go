package hook_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/pods/internal/hook"
)

func TestRequest(t *testing.T) {
	got := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	hooks := hook.Hooks{Container: &v1.Container{}, IP: u.Hostname()}
	for name, c := range map[string]struct {
		path          string
		headers       []v1.HTTPHeader
		uri           string
		agent, accept string
	}{
		"defaults":         {"", nil, "/", "kube-lifecycle/1.36", "*/*"},
		"headers replaced": {"/", []v1.HTTPHeader{{Name: "user-agent", Value: "a"}, {Name: "accept", Value: "b"}}, "/", "a", "b"},
		"headers left out": {"/", []v1.HTTPHeader{{Name: "User-Agent"}, {Name: "Accept"}}, "/", "", ""},
		"escaped path":     {"/a%20b?c=%2F", nil, "/a%20b?c=%2F", "kube-lifecycle/1.36", "*/*"},
		"URL as path":      {"http://evil.test:99/x", nil, "/x", "kube-lifecycle/1.36", "*/*"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Path: c.path, Port: intstr.Parse(u.Port()), HTTPHeaders: c.headers}}
			if err := hooks.Run(t.Context(), h); err != nil {
				t.Fatal(err)
			}
			if r := <-got; r.RequestURI != c.uri || r.UserAgent() != c.agent || r.Header.Get("Accept") != c.accept || r.Host != u.Host {
				t.Errorf("got %s%s %v", r.Host, r.RequestURI, r.Header)
			}
		})
	}
}

func TestInvalidHooks(t *testing.T) {
	get := func(host string, port intstr.IntOrString) v1.LifecycleHandler {
		return v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Host: host, Port: port}}
	}
	for _, c := range []struct {
		ip   string
		hook v1.LifecycleHandler
		want string
	}{
		{"10.0.0.1", v1.LifecycleHandler{}, "the hook has no handler"},
		{"10.0.0.1", v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(1)}}, "the hook has no handler"},
		{"10.0.0.1", v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"a"}}}, "commands cannot be run in containers"},
		{"10.0.0.1", get("10.0.0.2", intstr.FromInt32(1)), `host "10.0.0.2" is no address of the pod`},
		{"10.0.0.1", get("", intstr.FromString("web")), "port web: must be from 1 to 65535, or the name of a port of the container"},
		{"", get("", intstr.FromInt32(1)), "the pod has no address"},
	} {
		hooks := hook.Hooks{Container: &v1.Container{}, IP: c.ip, Hosts: []string{c.ip}}
		if err := hooks.Run(t.Context(), &c.hook); err == nil || err.Error() != c.want {
			t.Errorf("%v: got %v, want %s", c.hook.String(), err, c.want)
		}
	}
}

func TestLongSleepEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := new(hook.Hooks).Run(ctx, &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 1 << 40}})
		if err == nil || time.Since(start) != time.Minute {
			t.Errorf("ended after %v with %v", time.Since(start), err)
		}
	})
}
