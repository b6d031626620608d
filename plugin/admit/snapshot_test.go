package admit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/admit"
)

// scanner returns a scanner of the plugins in the folder "plugins" of s, and of prober.yaml.
func (s *shelf) scanner(cache string) *admit.Scanner {
	return admit.NewScanner(admit.ScannerConfig{
		Config:     admit.Config{ConfigFile: s.path("prober.yaml")},
		PluginDirs: []string{s.path("plugins")}, Builtins: []string{"http"},
		Sources: admit.NewSources(admit.SourcesConfig{CacheDir: cache}),
	})
}

// scan takes a snapshot with this prober.yaml.
func (s *shelf) scan(scanner *admit.Scanner, file string) *admit.Snapshot {
	s.t.Helper()
	write(s.t, s.path("prober.yaml"), fileHead+file)
	v, err := scanner.Scan()
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

var stateNames = []string{"absent", "admitted", "stale", "pending", "refused", "away", "listed"}

func states(v *admit.Snapshot) (all []string) {
	for _, name := range v.Names() {
		text := name + " " + stateNames[v.Plugin(name).State]
		if shadow := v.Shadow(name); shadow.State != admit.Absent {
			text += ", shadow " + stateNames[shadow.State]
		}
		all = append(all, text)
	}
	return all
}

func TestScanStates(t *testing.T) {
	s := newShelf(t)
	s.put("plugins/a.wasm", "a", "a")
	s.put("plugins/b.wasm", "b", "b")
	s.put("next.wasm", "a", "next")
	scanner := s.scanner("")
	const zeros = "'sha256:0000000000000000000000000000000000000000000000000000000000000000'"
	for _, c := range []struct{ name, file, want, err string }{
		{"folder", "", "[a admitted b admitted]", ""},
		{"wrong pin", "plugins: [{name: a, digest: " + zeros + "}]\n", "[a refused b admitted]", "digest of"},
		{"missing plugin", "plugins: [{name: c}]\n", "[a admitted b admitted c refused]", `plugin "c" is in none of the plugin folders`},
		{"registry not asked", "plugins: [{name: far, source: 'oci://localhost:1/far:1'}]\n", "[a admitted b admitted far pending]", ""},
		{"shadow", "plugins: [{name: a, shadow: true, source: next.wasm}]\n", "[a admitted, shadow admitted b admitted]", ""},
		{"missing shadow", "plugins: [{name: a, shadow: true, source: none.wasm}]\n", "[a admitted, shadow refused b admitted]", "plugins[0]: "},
		{"shadow not asked", "plugins: [{name: a, shadow: true, source: 'oci://localhost:1/a:1'}]\n", "[a admitted, shadow pending b admitted]", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := s.scan(scanner, c.file)
			if got := fmt.Sprint(states(v)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if err := v.Err(); (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
			if pending := strings.Contains(c.want, "far pending"); v.IsPending() != pending {
				t.Errorf("pending is %t", !pending)
			}
			if a := v.WithoutCode().Plugin("a"); a.Plugin.Module != nil || a.Loadable() && v.Plugin("a").Plugin.Module == nil {
				t.Error("WithoutCode has changed the snapshot, or has kept code")
			}
		})
	}
}

// ScanFor reads only the wanted plugins and the plugins that prober.yaml names.
func TestScanForReadsWhatIsWanted(t *testing.T) {
	s := newShelf(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		s.put("plugins/"+name+".wasm", name, name)
	}
	write(s.t, s.path("plugins/d.wasm"), "oops") // it cannot be listed
	write(s.t, s.path("prober.yaml"), fileHead+"plugins: [{name: b}]\n")
	v, err := s.scanner("").ScanFor(func(name string) bool { return name == "a" })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(states(v)), "[a admitted b admitted c listed]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if c := v.Plugin("c"); c.Plugin.Module != nil || c.Plugin.Digest != "" || c.Plugin.Manifest.Name != "c" || c.Plugin.Path != s.path("plugins/c.wasm") || c.Loadable() {
		t.Errorf("got %+v", c)
	}
	if err := v.Err(); err == nil || !strings.Contains(err.Error(), "d.wasm: not a WebAssembly module") {
		t.Errorf("got %v", err)
	}
}

func TestScanNumbersSnapshots(t *testing.T) {
	s := newShelf(t)
	scanner := s.scanner("")
	if a, b := s.scan(scanner, ""), s.scan(scanner, ""); b.Number <= a.Number {
		t.Errorf("%d after %d", b.Number, a.Number)
	}
	write(t, s.path("prober.yaml"), "oops")
	if v, err := scanner.Scan(); err == nil {
		t.Errorf("got %v for a file that cannot be read", v)
	}
}

func TestScanTwoPluginsOfOneName(t *testing.T) {
	s := newShelf(t)
	s.put("plugins/a.wasm", "a", "a")
	s.put("plugins/b.wasm", "a", "b")
	v := s.scan(s.scanner(""), "")
	e := v.Plugin("a")
	if e.State != admit.Admitted || e.Plugin.Path != s.path("plugins/a.wasm") || e.Rival == nil || !strings.Contains(e.Rival.Error(), "b.wasm: the name is taken by ") {
		t.Errorf("got %+v", e)
	}
}

func TestErrorsCarryNameOfPlugin(t *testing.T) {
	s := newShelf(t)
	a := s.put("plugins/a.wasm", "a", "a")
	v := s.scan(s.scanner(""), "trust: {require: true, keys: [ops.pub]}\n")
	named, ok := errors.AsType[*admit.PluginError](v.Err())
	refused, isRefused := errors.AsType[*admit.RefusedError](v.Plugin("a").Reason)
	if !ok || named.Name != "a" || !isRefused || refused.Path != a.Path || refused.Digest != a.Digest || refused.Trust() != "unsigned" {
		t.Errorf("got %v, %+v", named, refused)
	}
}

func TestAbout(t *testing.T) {
	s := newShelf(t)
	s.put("plugins/a.wasm", "a", "a")
	write(t, s.path("plugins/b.wasm"), "oops")
	v := s.scan(s.scanner(""), "plugins: [{name: a, shadow: true, source: none.wasm}]\n")
	for _, c := range []struct {
		name, path string
		want       bool
	}{
		{"a", "", false}, // an error of its shadow is not about it
		{"b", "", false}, // the name in a broken file is unknown
		{"b", s.path("plugins/b.wasm"), true},
		{"b", s.path("plugins/b.wasm.wasm"), false},
		{"b", s.path("plugins/prober-plugin-b.wasm"), false},
	} {
		if err := v.About(c.name, c.path); (err != nil) != c.want {
			t.Errorf("About(%s, %s) = %v", c.name, c.path, err)
		}
	}
}

func TestShadowWithoutPlugin(t *testing.T) {
	s := newShelf(t)
	s.put("next.wasm", "a", "next")
	const file = "plugins: [{name: a, shadow: true, source: next.wasm}]\n"
	scanner := s.scanner("")
	if err := s.scan(scanner, file).WithoutPlugin("a"); err == nil || !strings.Contains(err.Error(), "no plugin of that name for it to run beside") {
		t.Errorf("got %v", err)
	}
	s.put("plugins/a.wasm", "a", "a")
	if err := s.scan(scanner, file).WithoutPlugin("a"); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestIsGone(t *testing.T) {
	s := newShelf(t)
	a := s.put("plugins/a.wasm", "a", "a")
	v := s.scan(s.scanner(""), "")
	for path, want := range map[string]bool{a.Path: false, s.path("plugins/b.wasm"): true, s.path("elsewhere.wasm"): true} {
		if v.IsGone(path) != want {
			t.Errorf("%s: want %t", path, want)
		}
	}
	if err := os.Rename(s.path("plugins"), s.path("moved")); err != nil {
		t.Fatal(err)
	}
	if v.IsGone(a.Path) {
		t.Error("a plugin is gone, though its folder cannot be read")
	}
}

func TestRefreshThenScan(t *testing.T) {
	h, s := newHub(t), newShelf(t)
	h.push(t, "1", moduleOf(t, "demo", "1.0.0"))
	scanner := s.scanner(filepath.Join(t.TempDir(), "plugins"))
	file := "plugins: [{name: demo, plainHTTP: true, source: 'oci://" + h.Host + "/demo:1'}]\n"
	if v := s.scan(scanner, file); fmt.Sprint(states(v)) != "[demo pending]" {
		t.Errorf("got %s", states(v))
	}
	refresh := func() (got admit.Refreshed, incomplete bool) {
		t.Helper()
		calls := 0
		incomplete, err := scanner.Refresh(t.Context(), admit.RefreshConfig{All: true, Again: true, Each: func(r admit.Refreshed) { got, calls = r, calls+1 }})
		if err != nil || calls != 1 {
			t.Fatalf("%v, %d calls", err, calls)
		}
		return got, incomplete
	}
	if r, incomplete := refresh(); !r.Changed || r.WasStale || r.Err != nil || incomplete {
		t.Errorf("got %+v, incomplete %t", r, incomplete)
	}
	if v := s.scan(scanner, file); fmt.Sprint(states(v)) != "[demo admitted]" || v.Remote()["demo"] {
		t.Errorf("got %s", states(v))
	}
	if r, _ := refresh(); r.Changed {
		t.Errorf("got %+v for the same answer", r)
	}
	h.Close()
	if r, incomplete := refresh(); !r.Changed || r.Stale == nil || !incomplete {
		t.Errorf("got %+v, incomplete %t", r, incomplete)
	}
	v := s.scan(scanner, file)
	if e := v.Plugin("demo"); e.State != admit.Stale || e.Reason == nil || !e.Loadable() || !v.Remote()["demo"] || v.Err() != nil {
		t.Errorf("got %+v", e)
	}
}

func TestRefreshForgetsSourceThatWasRemoved(t *testing.T) {
	h, s := newHub(t), newShelf(t)
	h.push(t, "1", moduleOf(t, "demo", "1.0.0"))
	scanner := s.scanner(filepath.Join(t.TempDir(), "plugins"))
	file := "plugins: [{name: demo, plainHTTP: true, source: 'oci://" + h.Host + "/demo:1'}]\n"
	for _, c := range []struct{ file, before, after string }{
		{file, "[demo pending]", "[demo admitted]"},
		{"", "[]", "[]"},
		{file, "[demo pending]", "[demo admitted]"},
	} {
		if v := s.scan(scanner, c.file); fmt.Sprint(states(v)) != c.before {
			t.Errorf("before Refresh: got %s, want %s", states(v), c.before)
		}
		if _, err := scanner.Refresh(t.Context(), admit.RefreshConfig{Each: func(admit.Refreshed) {}}); err != nil {
			t.Fatal(err)
		}
		if v := s.scan(scanner, c.file); fmt.Sprint(states(v)) != c.after {
			t.Errorf("after Refresh: got %s, want %s", states(v), c.after)
		}
	}
}
