package trust_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/trust"
)

// One key has signed two programs. A mix of their files is not signed.
func TestCheckMixedProgramsIsRefused(t *testing.T) {
	key := private(t)
	dir := t.TempDir()
	type program struct{ code, manifest, signature []byte }
	of := func(name string) program {
		p := program{code: []byte("the program " + name), manifest: []byte("apiVersion: prober.dev/v1\nname: " + name + "\nversion: 1.0.0\n")}
		var err error
		if p.signature, err = key.Sign(&plugin.Found{Module: p.code, Beside: plugin.Digest(p.manifest)}, nil); err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := of("a"), of("b")
	policy, err := trust.New(trust.Config{Keys: []trust.Key{key.Key}, Require: true})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "prober-plugin-a")
	check := func(p program) (plugin.Found, error) {
		t.Helper()
		for name, data := range map[string][]byte{path: p.code, path + ".yaml": p.manifest, path + ".sig": p.signature} {
			if err := os.WriteFile(name, data, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		f, err := plugin.ReadProcess(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = policy.Check(f)
		return f, err
	}
	if _, err := check(a); err != nil {
		t.Error(err)
	}
	for name, p := range map[string]program{
		"the program of another":         {b.code, a.manifest, a.signature},
		"the manifest of another":        {a.code, b.manifest, a.signature},
		"the signature of another":       {a.code, a.manifest, b.signature},
		"all but the program of another": {a.code, b.manifest, b.signature},
	} {
		_, err := check(p)
		if err == nil || !strings.Contains(err.Error(), "is not of this plugin") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The complete files of another plugin are that plugin, at any path.
	if f, err := check(b); err != nil || f.Manifest.Name != "b" {
		t.Errorf("%v, %+v", err, f.Manifest)
	}
}
