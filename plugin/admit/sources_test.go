package admit_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin/admit"
)

// hub is a registry whose repository demo has modules.
type hub struct{ *registrytest.Registry }

func newHub(t *testing.T) hub {
	t.Helper()
	return hub{registrytest.New(t)}
}

// push pushes a module to a tag of demo, and returns the digest of its artifact.
func (h hub) push(t *testing.T, tag string, module []byte) string {
	t.Helper()
	return h.PushModule(t, "demo:"+tag, module)
}

// sourced writes a prober.yaml with the plugin demo from a source. It appends more.
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
		a, err := admit.New(admit.Config{ConfigFile: sourced(t, "oci://"+h.Host+"/demo:1", "")})
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
