package admit_test

import (
	"context"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/oci"
)

// hub is a registry on loopback.
type hub struct {
	host string
	stop func()
}

func newHub(t *testing.T) *hub {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return &hub{host: strings.TrimPrefix(server.URL, "http://"), stop: server.Close}
}

// push puts a module under a tag of demo, and returns the digest of its artifact.
func (h *hub) push(t *testing.T, tag string, module []byte) string {
	t.Helper()
	a, err := oci.Pack(module, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h.pushAs(t, "demo:"+tag, a)
}

// pushProgram puts a program under tester:1, and returns the digest of its artifact.
func (h *hub) pushProgram(t *testing.T, p oci.Program) string {
	t.Helper()
	a, err := oci.PackProgram(p)
	if err != nil {
		t.Fatal(err)
	}
	return h.pushAs(t, "tester:1", a)
}

// pushAs puts an artifact where rest says, and returns its digest.
func (h *hub) pushAs(t *testing.T, rest string, a *oci.Artifact) string {
	t.Helper()
	ref, err := plugin.ParseReference(h.host + "/" + rest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := oci.NewClient(oci.ClientConfig{PlainHTTP: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Push(t.Context(), ref, a); err != nil {
		t.Fatal(err)
	}
	return a.Digest
}

// sourced is a prober.yaml with a plugin demo of a source, and more text.
func sourced(t *testing.T, source, more string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "prober.yaml")
	write(t, file, fileHead+"plugins:\n- name: demo\n  source: "+source+"\n  plainHTTP: true\n"+more)
	return file
}

func TestSourcesOffline(t *testing.T) {
	h := newHub(t)
	h.push(t, "1", moduleOf(t, "demo", "1.0.0"))
	cache := filepath.Join(t.TempDir(), "plugins")
	pull := func(offline bool) admit.Pulled {
		t.Helper()
		a, err := admit.New(admit.Config{ConfigFile: sourced(t, "oci://"+h.host+"/demo:1", "")})
		if err != nil {
			t.Fatal(err)
		}
		all := a.Pull(context.Background(), admit.NewSources(admit.SourcesConfig{CacheDir: cache, Offline: offline}))
		if len(all) != 1 {
			t.Fatalf("%d plugins", len(all))
		}
		return all[0]
	}
	if r := pull(true); r.Err == nil || !strings.Contains(r.Err.Error(), "it is not in the plugin cache") {
		t.Errorf("%+v", r.Err)
	}
	for _, offline := range []bool{false, true} {
		if r := pull(offline); r.Err != nil || r.Stale != nil || r.Found.Manifest.Version != "1.0.0" {
			t.Errorf("%+v", r)
		}
	}
}
