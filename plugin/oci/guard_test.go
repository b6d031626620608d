package oci_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// A registry may keep its blobs on another host.
func TestRedirectGetsNoCredentials(t *testing.T) {
	h, elsewhere := registrytest.New(t), registrytest.New(t)
	a := pack(t, "1.0.0", "signature")
	config := filepath.Join(t.TempDir(), "config.json")
	writeFile(t, config, fmt.Appendf(nil, `{"auths":{%q:{"auth":"bWU6c2VjcmV0"}}}`, h.Host))
	c := client(t, oci.ClientConfig{DockerConfig: config})
	for _, hub := range []*registrytest.Registry{h, elsewhere} {
		push(t, c, hub.Ref(t, "demo:1"), a)
	}
	h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if requireLogin(w, r) {
			return true
		}
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, "http://"+elsewhere.Host+r.URL.Path, http.StatusTemporaryRedirect)
			return true
		}
		return false
	})
	seen := make(chan string, 100)
	elsewhere.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		seen <- r.Header.Get("Authorization")
		return false
	})
	got, err := c.Pull(t.Context(), h.Ref(t, "demo:1"))
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, got, a)
	if len(seen) != 3 {
		t.Errorf("%d requests elsewhere", len(seen))
	}
	for range len(seen) {
		if authorization := <-seen; authorization != "" {
			t.Errorf("%q was sent elsewhere", authorization)
		}
	}
}

func TestMetadataAddressIsError(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{Cosign: true})
	push(t, c, h.Ref(t, "demo:1"), pack(t, "1.0.0", ""))
	for _, address := range []string{"169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[fd00:ec2::23]", "[64:ff9b:1:a9fe:a9:fe00::]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "100.100.100.200"} {
		h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/blobs/") {
				return false
			}
			http.Redirect(w, r, "http://"+address+"/latest/meta-data", http.StatusTemporaryRedirect)
			return true
		})
		_, err := c.Pull(t.Context(), h.Ref(t, "demo:1"))
		wantError(t, err, h.Host+"/demo:1: ", "a link-local or metadata address, which a registry must not have")
	}
	h.Intercept(func(w http.ResponseWriter, r *http.Request) bool { // the next page of a list is on another host
		if !strings.Contains(r.URL.Path, "/referrers/") {
			return false
		}
		w.Header().Set("Link", `<http://169.254.169.254/v2/>; rel="next"`)
		w.Header().Set("Content-Type", "application/vnd.oci.image.index.v1+json")
		_, _ = io.WriteString(w, `{"schemaVersion":2,"manifests":[]}`)
		return true
	})
	_, err := c.Pull(t.Context(), h.Ref(t, "demo:1"))
	wantError(t, err, h.Host+"/demo:1: ", "not the same origin")
	direct, err := plugin.ParseReference("169.254.169.254/demo:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Pull(t.Context(), direct)
	wantError(t, err, "169.254.169.254 is a link-local or metadata address")
}

func TestRedirectFromHTTPSToHTTPIsError(t *testing.T) {
	plain := registrytest.New(t)
	a := pack(t, "1.0.0", "")
	push(t, client(t, oci.ClientConfig{}), plain.Ref(t, "demo:1"), a)
	real := registrytest.Handler()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, "http://"+plain.Host+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		real.ServeHTTP(w, r)
	}))
	defer server.Close()
	trustCertificate(t, server.Certificate())
	c, err := oci.NewClient(oci.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ref, err := plugin.ParseReference(strings.TrimPrefix(server.URL, "https://") + "/demo:1")
	if err != nil {
		t.Fatal(err)
	}
	push(t, c, ref, a)
	_, err = c.Pull(t.Context(), ref)
	wantError(t, err, ref.String()+": ", "the registry refers to an address without HTTPS")
}

// trustCertificate makes new clients trust a certificate until the test ends.
func trustCertificate(t *testing.T, certificate *x509.Certificate) {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport)
	was := transport.TLSClientConfig
	t.Cleanup(func() { transport.TLSClientConfig = was })
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	transport.TLSClientConfig = &tls.Config{RootCAs: pool}
}

// requireLogin answers requests without the right user and password.
func requireLogin(w http.ResponseWriter, r *http.Request) bool {
	if user, password, ok := r.BasicAuth(); ok && user == "me" && password == "secret" {
		return false
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
	http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
	return true
}
