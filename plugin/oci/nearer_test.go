package oci_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/netaddr"
	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin/oci"
)

// A registry refers to a server on another network in every way that the protocol has.
func TestPlainHTTPToNearerNetworkIsError(t *testing.T) {
	const public, private, loopback = netaddr.Public, netaddr.Private, netaddr.Loopback
	h, other := registrytest.New(t), registrytest.New(t)
	config := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, config, fmt.Appendf(nil, `{"auths":{%q:{"auth":"bWU6c2VjcmV0"}}}`, h.Host))
	a := pack(t, "1.0.0", "")
	leads := map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"redirect of a manifest": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "http://"+other.Host+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		},
		"redirect of a blob": func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			http.Redirect(w, r, "http://"+other.Host+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		},
		"redirect to HTTPS": func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "https://"+other.Host+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		},
		"token server": func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/v1/agent/self",service="hub",scope="repository:demo:pull"`, other.Host))
			w.WriteHeader(http.StatusUnauthorized)
			return true
		},
	}
	for _, c := range []struct {
		from, to netaddr.Class
		refused  string // the kind of address
	}{
		{public, loopback, "loopback"}, {public, private, "private"}, {private, loopback, "loopback"},
		{public, public, ""}, {private, private, ""}, {private, public, ""},
		{loopback, loopback, ""}, {loopback, private, ""}, {loopback, public, ""},
	} {
		for name, lead := range leads {
			t.Run(fmt.Sprintf("%s from %d to %d", name, c.from, c.to), func(t *testing.T) {
				cl := client(t, oci.ClientConfig{DockerConfig: config})
				oci.Pretend(cl, map[string]netaddr.Class{h.Host: c.from, other.Host: c.to})
				h.Intercept(nil)
				push(t, client(t, oci.ClientConfig{}), h.Ref(t, "demo:1"), a)
				push(t, client(t, oci.ClientConfig{}), other.Ref(t, "demo:1"), a)
				h.Intercept(lead)
				other.Intercept(nil)
				_, err := cl.Pull(t.Context(), h.Ref(t, "demo:1"))
				if asked := other.Requests(); (len(asked) == 0) != (c.refused != "") && name != "redirect to HTTPS" {
					t.Errorf("the other server was asked %q", asked)
				}
				if refused := err != nil && strings.Contains(err.Error(), "the registry refers to it over plain HTTP"); refused != (c.refused != "") {
					t.Errorf("got %v", err)
				}
				if c.refused != "" {
					wantError(t, err, h.Host+"/demo:", "127.0.0.1 is a "+c.refused+" address: the registry refers to it")
				}
			})
		}
	}
}

// oras makes this check.
func TestUploadToOtherHostIsError(t *testing.T) {
	h, other := registrytest.New(t), registrytest.New(t)
	h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		w.Header().Set("Location", "http://"+other.Host+"/v1/kv/x")
		w.WriteHeader(http.StatusAccepted)
		return true
	})
	err := client(t, oci.ClientConfig{}).Push(t.Context(), h.Ref(t, "demo:1"), pack(t, "1.0.0", ""))
	wantError(t, err, h.Host+"/demo:1: ", "is on a different host than the registry")
	if asked := other.Requests(); len(asked) > 0 {
		t.Errorf("the other server was asked %q", asked)
	}
}

// A registry on loopback may refer to a loopback address; a public registry may not.
func TestRegistriesDoNotShareAddresses(t *testing.T) {
	local, public, other := registrytest.New(t), registrytest.New(t), registrytest.New(t)
	a := pack(t, "1.0.0", "")
	for _, h := range []*registrytest.Registry{local, public, other} {
		push(t, client(t, oci.ClientConfig{}), h.Ref(t, "demo:1"), a)
	}
	away := func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://"+other.Host+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	}
	local.Intercept(away)
	public.Intercept(away)
	c := client(t, oci.ClientConfig{})
	oci.Pretend(c, map[string]netaddr.Class{public.Host: netaddr.Public})
	if _, err := c.Pull(t.Context(), local.Ref(t, "demo:1")); err != nil {
		t.Fatal(err)
	}
	other.Intercept(nil)
	_, err := c.Pull(t.Context(), public.Ref(t, "demo:1"))
	wantError(t, err, public.Host+"/demo:1: ", "a loopback address")
	if asked := other.Requests(); len(asked) > 0 {
		t.Errorf("the other server was asked %q", asked)
	}
}
