package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
)

// ways returns the valid paths of the plugin demo, whose module is DIR/demo/demo.wasm.
var ways = map[string]func(dir string) (plugin.Found, error){
	"file":     func(dir string) (plugin.Found, error) { return plugin.Read(filepath.Join(dir, "demo", "demo.wasm")) },
	"folder":   func(dir string) (plugin.Found, error) { return plugin.Read(filepath.Join(dir, "demo")) },
	"manifest": func(dir string) (plugin.Found, error) { return plugin.Read(filepath.Join(dir, "demo", "plugin.yaml")) },
	"Find":     func(dir string) (plugin.Found, error) { return only(plugin.Find([]string{dir})) },
	"Find in the plugin's own folder": func(dir string) (plugin.Found, error) {
		return only(plugin.Find([]string{filepath.Join(dir, "demo")}))
	},
}

func only(found []plugin.Found, err error) (plugin.Found, error) {
	if len(found) == 0 {
		return plugin.Found{}, err
	}
	return found[0], err
}

// version returns the manifest of a version of demo.
func version(v string) []byte {
	return []byte("apiVersion: prober.dev/v1\nname: demo\nversion: " + v + "\n")
}

func TestReadManifestBesideModule(t *testing.T) {
	inside, err := plugin.Embed(module, version("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		module, beside []byte
		want           string // version
		isBeside       bool   // whether Found.Beside is the digest of beside
		overrides      bool   // whether Found.Inside is the digest of the manifest inside
	}{
		{"none inside", module, version("2.0.0"), "2.0.0", true, false},
		{"the same inside", inside, version("1.0.0"), "1.0.0", false, false},
		{"another inside", inside, version("2.0.0"), "2.0.0", true, true},
	} {
		dir := t.TempDir()
		write(t, c.module, dir, "demo", "demo.wasm")
		write(t, c.beside, dir, "demo", "plugin.yaml")
		for way, read := range ways {
			f, err := read(dir)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, way, err)
				continue
			}
			var beside, overridden string
			if c.isBeside {
				beside = plugin.Digest(c.beside)
			}
			if c.overrides {
				overridden = plugin.Digest(version("1.0.0"))
			}
			if f.Manifest.Version != c.want || f.Manifest.Runtime != plugin.Wasm || f.Beside != beside || f.Inside != overridden ||
				f.Path != filepath.Join(dir, "demo", "demo.wasm") || f.Digest != plugin.Digest(c.module) || c.isBeside != (string(f.Text) == string(c.beside)) {
				t.Errorf("%s, %s: version %s, beside %q, inside %q, path %s", c.name, way, f.Manifest.Version, f.Beside, f.Inside, f.Path)
			}
		}
	}
}

func TestReadManifestOfAnotherModule(t *testing.T) {
	dir := t.TempDir()
	write(t, module, dir, "demo.wasm")
	write(t, module, dir, "bare.wasm")
	write(t, embed(t, "other"), dir, "other.wasm")
	for _, c := range []struct{ manifest, path, want string }{ // want is a name or an error
		{string(version("1.0.0")), "demo.wasm", "demo"},
		{string(version("1.0.0")), ".", "demo"},
		{string(version("1.0.0")), "other.wasm", "other"},
		{string(version("1.0.0")), "bare.wasm", "and the plugin.yaml beside it describes demo.wasm"},
		{string(named("absent")), ".", "there must be absent.wasm or only one .wasm beside plugin.yaml, found bare.wasm, demo.wasm, other.wasm"},
		{string(version("1.0.0")) + "runtime: process\n", "other.wasm", "other"},
		{string(version("1.0.0")) + "runtime: process\n", "demo.wasm", "and the plugin.yaml beside it says that its runtime is process"},
		{"name: 1", "other.wasm", "other"},
		{"name: 1", "demo.wasm", "plugin.yaml:1: apiVersion: the field is required"},
		{"", "bare.wasm", "plugin.yaml:1: the file is empty"},
	} {
		write(t, []byte(c.manifest), dir, "plugin.yaml")
		f, err := plugin.Read(filepath.Join(dir, c.path))
		if err == nil && f.Manifest.Name != c.want || err != nil && !strings.HasSuffix(strings.Split(err.Error(), "\n")[0], c.want) {
			t.Errorf("%q: %s: got %v, %v; want %s", c.manifest, c.path, f.Manifest, err, c.want)
		}
		if err != nil && c.path != "." && string(f.Module) != string(module) {
			t.Errorf("%s: the module is not returned along with the error", c.path)
		}
	}
}

func TestFindManifestBesideSeveralModules(t *testing.T) {
	dir := t.TempDir()
	write(t, module, dir, "demo.wasm")
	write(t, version("1.0.0"), dir, "plugin.yaml")
	write(t, embed(t, "other"), dir, "other.wasm")
	found, err := plugin.Find([]string{dir})
	if err != nil || len(found) != 2 || found[0].Manifest.Name != "demo" || found[0].Beside == "" || found[1].Manifest.Name != "other" || found[1].Beside != "" {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestReadMissing(t *testing.T) {
	dir := t.TempDir()
	write(t, version("1.0.0"), dir, "demo", "plugin.yaml")
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"nosuch.wasm": "nosuch.wasm: no such file or directory",
		"demo":        filepath.Join("demo", "demo.wasm") + ": no such file or directory",
		"empty":       "empty: there is no plugin.yaml in this folder",
	} {
		if _, err := plugin.Read(filepath.Join(dir, path)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
}
