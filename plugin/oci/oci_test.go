package oci_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

func TestMain(m *testing.M) {
	// The registries of these tests cannot be reached through the user's proxy.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		_ = os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m)
}

// module returns a plugin that does nothing.
func module(t *testing.T, version string) []byte {
	t.Helper()
	manifest := "apiVersion: prober.dev/v1\nkind: Plugin\nname: demo\nversion: " + version +
		"\ndescription: A demo\nlicense: Apache-2.0\nrequests: [{capability: net, allow: [target], reason: to dial}]\n"
	m, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func pack(t *testing.T, version, signature string) *oci.Artifact {
	t.Helper()
	a, err := oci.Pack(module(t, version), []byte(signature))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func client(t *testing.T, cfg oci.ClientConfig) *oci.Client {
	t.Helper()
	cfg.PlainHTTP = true
	c, err := oci.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func push(t *testing.T, c *oci.Client, ref plugin.Reference, a *oci.Artifact) {
	t.Helper()
	if err := c.Push(t.Context(), ref, a); err != nil {
		t.Fatal(err)
	}
}

func checkSame(t *testing.T, got, want *oci.Artifact) {
	t.Helper()
	if got.Digest != want.Digest || !bytes.Equal(got.Module, want.Module) || !bytes.Equal(got.Signature, want.Signature) || got.Manifest.Name != "demo" {
		t.Errorf("got %s with %d and %d bytes, want %s with %d and %d", got.Digest, len(got.Module), len(got.Signature),
			want.Digest, len(want.Module), len(want.Signature))
	}
}

// wantError fails unless err is one line that contains all of texts.
func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", texts)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q has no %q in it", err, text)
		}
	}
}

// The digests are constants: the same plugin must have the same digest in each version of prober.
func TestPackIsDeterministic(t *testing.T) {
	for signature, want := range map[string]string{
		"":          "sha256:ca856b9495a871259c1225d67021a510208a4dda9c7b8c4cd66a5887012a23a3",
		"signature": "sha256:5b9c0c14295464cc8cc41fb74e933b7a6e927ea92548b3d127f9fabec1c62ed5",
	} {
		if got := pack(t, "1.0.0", signature).Digest; got != want {
			t.Errorf("signature %q: %s, want %s", signature, got, want)
		}
	}
}

func TestPushAndPull(t *testing.T) {
	h := registrytest.New(t)
	var most int64
	c := client(t, oci.ClientConfig{Progress: func(done, total int64) { most = max(most, min(done, total)) }})
	for _, signature := range []string{"", "signature"} {
		want := pack(t, "1.0.0", signature)
		tag := h.Ref(t, "me/demo:v"+signature)
		push(t, c, tag, want)
		for _, ref := range []plugin.Reference{tag, tag.Pinned(want.Digest)} {
			got, err := c.Pull(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			checkSame(t, got, want)
		}
	}
	if most < int64(len(module(t, "1.0.0"))) {
		t.Errorf("progress told of %d bytes", most)
	}
	h.Intercept(nil)
	push(t, c, h.Ref(t, "me/demo:again"), pack(t, "1.0.0", ""))
	for _, asked := range h.Requests() {
		if strings.HasPrefix(asked, "POST") {
			t.Errorf("a blob was sent again: %s", asked)
		}
	}
}

// Other clients depend on these fields.
func TestPushedManifest(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	a := pack(t, "1.0.0", "signature")
	push(t, c, h.Ref(t, "demo:1"), a)
	var m struct {
		MediaType, ArtifactType string
		Config                  struct{ MediaType, Digest string }
		Layers                  []struct {
			MediaType, Digest string
			Annotations       map[string]string
		}
		Annotations map[string]string
	}
	getJSON(t, h, "/v2/demo/manifests/1", &m)
	if m.MediaType != "application/vnd.oci.image.manifest.v1+json" || m.ArtifactType != "application/vnd.prober.plugin.v1" ||
		m.Config.MediaType != "application/vnd.wasm.config.v0+json" || len(m.Layers) != 2 || m.Layers[0].MediaType != "application/wasm" {
		t.Errorf("%+v", m)
	}
	if m.Layers[0].Digest != plugin.Digest(a.Module) || m.Layers[1].Annotations["org.opencontainers.image.title"] != "demo.wasm.sig" {
		t.Errorf("%+v", m.Layers)
	}
	for key, want := range map[string]string{
		"org.opencontainers.image.title": "demo", "org.opencontainers.image.version": "1.0.0",
		"org.opencontainers.image.description": "A demo", "org.opencontainers.image.licenses": "Apache-2.0",
		"dev.prober.plugin.abi": "1", "dev.prober.plugin.mode": "reactor", "dev.prober.plugin.requests": "net",
	} {
		if m.Annotations[key] != want {
			t.Errorf("annotation %s is %q, want %q", key, m.Annotations[key], want)
		}
	}
	var config struct {
		Architecture, OS, Created string
		LayerDigests              []string
	}
	getJSON(t, h, "/v2/demo/blobs/"+m.Config.Digest, &config)
	if config.Architecture != "wasm" || config.OS != "wasip1" || config.Created == "" || len(config.LayerDigests) != 2 ||
		config.LayerDigests[0] != m.Layers[0].Digest {
		t.Errorf("%+v", config)
	}
}

func getJSON(t *testing.T, h *registrytest.Registry, path string, into any) {
	t.Helper()
	res, err := http.Get("http://" + h.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

func TestPullOtherThanPluginIsError(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	good := pack(t, "1.0.0", "")
	push(t, c, h.Ref(t, "demo:good"), good)
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest := func(config, layers string) string {
		return fmt.Sprintf(`{"schemaVersion":2,"config":{"mediaType":%q,"digest":%q,"size":2},"layers":[%s]}`,
			config, plugin.Digest([]byte("{}")), layers)
	}
	layer := func(size int, digest string) string {
		return fmt.Sprintf(`{"mediaType":"application/wasm","digest":%q,"size":%d}`, digest, size)
	}
	h.PutBlob(t, "demo", []byte("{}"))
	bare := string(module(t, "1.0.0")[:8])
	h.PutBlob(t, "demo", []byte(bare))
	for _, tc := range []struct {
		name, mediaType, body string
		want                  []string
	}{
		{"image", manifestType, manifest("application/vnd.oci.image.config.v1+json", ""), []string{"/demo:image is an image, not a plugin"}},
		{"docker", "application/vnd.docker.distribution.manifest.v2+json", "{}", []string{"/demo:docker is an image, not a plugin"}},
		{"index", "application/vnd.oci.image.index.v1+json", "{}", []string{"/demo:index is an index of images, not a plugin"}},
		{"chart", manifestType, manifest("application/vnd.cncf.helm.config.v1+json", ""),
			[]string{`/demo:chart is of type "application/vnd.cncf.helm.config.v1+json", not a plugin`}},
		{"empty", manifestType, manifest(oci.ConfigType, ""), []string{"has 0 layers of application/wasm, must have 1"}},
		{"twice", manifestType, manifest(oci.ConfigType, layer(8, good.Digest)+","+layer(8, good.Digest)), []string{"has 2 layers"}},
		{"huge", manifestType, manifest(oci.ConfigType, layer(32<<20+1, good.Digest)), []string{"of 33554433 bytes (application/wasm); at most 33554432 are allowed"}},
		{"negative", manifestType, manifest(oci.ConfigType, layer(-1, good.Digest)), []string{"of -1 bytes"}},
		{"weak", manifestType, manifest(oci.ConfigType, layer(8, "md5:00")), []string{"is not a digest that can be verified"}},
		{"gone", manifestType, manifest(oci.ConfigType, layer(8, plugin.Digest([]byte("gone")))), []string{"not found"}},
		{"bare", manifestType, manifest(oci.ConfigType, layer(8, plugin.Digest([]byte(bare)))), []string{`no manifest inside, in the custom section "prober.manifest"`}},
		{"text", manifestType, "no JSON", []string{"manifest: invalid character"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h.Put(t, "/v2/demo/manifests/"+tc.name, tc.mediaType, tc.body)
			_, err := c.Pull(t.Context(), h.Ref(t, "demo:"+tc.name))
			wantError(t, err, append(tc.want, h.Host+"/demo:"+tc.name)...)
		})
	}
	for _, ref := range []string{"demo:missing", "other:1", "demo@" + plugin.Digest(nil)} {
		_, err := c.Pull(t.Context(), h.Ref(t, ref))
		wantError(t, err, h.Host+"/"+ref+": not found")
	}
}

func TestPullTamperedIsError(t *testing.T) {
	h := registrytest.New(t)
	c := client(t, oci.ClientConfig{})
	a := pack(t, "1.0.0", "signature")
	push(t, c, h.Ref(t, "demo:1"), a)
	for name, lie := range map[string]func(path, digest string) (body []byte, length int){
		"other module": func(path, _ string) ([]byte, int) {
			if strings.HasSuffix(path, plugin.Digest(a.Module)) {
				return append(bytes.Clone(a.Module[1:]), 0), len(a.Module)
			}
			return nil, 0
		},
		"longer module": func(path, _ string) ([]byte, int) {
			if strings.HasSuffix(path, plugin.Digest(a.Module)) {
				return append(bytes.Clone(a.Module), 0), -1 // without a length
			}
			return nil, 0
		},
		"other signature": func(path, _ string) ([]byte, int) {
			if strings.HasSuffix(path, plugin.Digest(a.Signature)) {
				return []byte("SIGNATURE"), -1
			}
			return nil, 0
		},
		"endless module": func(path, _ string) ([]byte, int) {
			if strings.HasSuffix(path, plugin.Digest(a.Module)) {
				return make([]byte, 33<<20), -1
			}
			return nil, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
				body, length := lie(r.URL.Path, "")
				if body == nil {
					return false
				}
				if length >= 0 {
					w.Header().Set("Content-Length", fmt.Sprint(length))
				} else {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(body) // the client may have hung up
				return true
			})
			_, err := c.Pull(t.Context(), h.Ref(t, "demo:1"))
			wantError(t, err, "the bytes do not match their digest")
		})
	}
	t.Run("large module that does not arrive", func(t *testing.T) {
		root := strings.Replace(string(a.Root()), fmt.Sprintf(`"size":%d`, len(a.Module)), fmt.Sprintf(`"size":%d`, oci.MaxBlob), 1)
		h.Put(t, "/v2/demo/manifests/large", "application/vnd.oci.image.manifest.v1+json", root)
		h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, plugin.Digest(a.Module)) {
				return false
			}
			w.(http.Flusher).Flush() // without a length
			_, _ = w.Write(a.Module)
			return true
		})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Pull(t.Context(), h.Ref(t, "demo:large"))
		runtime.ReadMemStats(&after)
		wantError(t, err, "the bytes do not match their digest")
		if size := after.TotalAlloc - before.TotalAlloc; size > oci.MaxBlob/2 {
			t.Errorf("%d bytes were allocated for a module of %d", size, len(a.Module))
		}
	})
	t.Run("other manifest of a digest", func(t *testing.T) {
		other := pack(t, "2.0.0", "")
		push(t, c, h.Ref(t, "demo:2"), other)
		h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/manifests/"+a.Digest) {
				http.Redirect(w, r, "/v2/demo/manifests/"+other.Digest, http.StatusTemporaryRedirect)
				return true
			}
			return false
		})
		_, err := c.Pull(t.Context(), h.Ref(t, "demo@"+a.Digest))
		wantError(t, err, "digest mismatch")
	})
	t.Run("huge manifest", func(t *testing.T) {
		h.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			w.Header().Set("Docker-Content-Digest", a.Digest)
			w.Header().Set("Content-Length", fmt.Sprint(5<<20))
			_, _ = w.Write(make([]byte, 5<<20))
			return true
		})
		_, err := c.Pull(t.Context(), h.Ref(t, "demo:1"))
		wantError(t, err, "of 5242880 bytes", "at most 4194304 are allowed")
	})
}

func TestPackErrors(t *testing.T) {
	_, err := oci.Pack([]byte("text"), nil)
	wantError(t, err, "not a WebAssembly module")
	_, err = oci.Pack(module(t, "1.0.0"), make([]byte, 64<<10+1))
	wantError(t, err, "signature of 65537 bytes; at most 65536 are allowed")
}

func TestUnknownCertificateIsError(t *testing.T) {
	server := httptest.NewUnstartedServer(registrytest.Handler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	c, err := oci.NewClient(oci.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ref, err := plugin.ParseReference(strings.TrimPrefix(server.URL, "https://") + "/demo:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Pull(t.Context(), ref)
	wantError(t, err, "certificate")
}
