package admit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin/admit"
)

// A plugin whose files and policy are the same as before is not read again.
func TestScanForReadsWhatHasChanged(t *testing.T) {
	s := newShelf(t)
	old := time.Now().Add(-time.Hour)
	age := func(paths ...string) {
		t.Helper()
		for _, path := range paths {
			old = old.Add(time.Second)
			if err := os.Chtimes(s.path(path), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	configure := func(text string) { write(t, s.path("prober.yaml"), fileHead+text) }
	keys := "trust: {keys: [ops.pub]}\n"
	configure(keys)
	a := s.put("plugins/a.wasm", "a", "a")
	s.put("plugins/b.wasm", "b", "b")
	age("plugins/a.wasm", "plugins/b.wasm")
	scanner := s.scanner("")
	for _, c := range []struct {
		name     string
		change   func()
		a, trust string // of a: its state, and its trust
		read     bool   // a is read
		bRead    bool
	}{
		{"first", func() {}, "admitted", "unsigned", true, true},
		{"again", func() {}, "admitted", "unsigned", false, false},
		{"other bytes", func() { a = s.put("plugins/a.wasm", "a", "A"); age("plugins/a.wasm") }, "admitted", "unsigned", true, false},
		{"signed", func() { s.sign(a); age("plugins/a.wasm.sig") }, "admitted", "signed", true, false},
		{"again signed", func() {}, "admitted", "signed", false, false},
		{"wrong signature", func() { write(t, s.path("plugins/a.wasm.sig"), "oops\n"); age("plugins/a.wasm.sig") }, "refused", "", false, false},
		{"again refused", func() {}, "refused", "", false, false},
		{"another policy", func() { configure("") }, "admitted", "unchecked", true, true},
		{"again with it", func() {}, "admitted", "unchecked", false, false},
		{"changed a moment ago", func() { s.put("plugins/a.wasm", "a", "new") }, "admitted", "unchecked", true, false},
		{"still young", func() {}, "admitted", "unchecked", true, false},
	} {
		c.change()
		v, err := scanner.ScanFor(func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		gotA, gotB := v.Plugin("a"), v.Plugin("b")
		if state := stateNames[gotA.State]; state != c.a || string(gotA.Plugin.Verdict.State) != c.trust {
			t.Errorf("%s: a is %s, %s: %v", c.name, state, gotA.Plugin.Verdict.State, gotA.Reason)
		}
		if read := gotA.Plugin.Module != nil; read != c.read {
			t.Errorf("%s: a is read: %t", c.name, read)
		}
		if read := gotB.Plugin.Module != nil; read != c.bRead || gotB.State != admit.Admitted || gotB.Plugin.Digest == "" {
			t.Errorf("%s: b is read: %t; %+v", c.name, read, gotB)
		}
	}
}

// ScanFor reads changed sources of prober.yaml again. It never admits a plugin whose file belongs to
// another one.
func TestScanForReadsSourcesThatHaveChanged(t *testing.T) {
	s := newShelf(t)
	old := time.Now().Add(-time.Hour)
	put := func(path, name, text string) {
		t.Helper()
		s.put(path, name, text)
		for _, file := range []string{path, filepath.Dir(path)} {
			old = old.Add(time.Second)
			if err := os.Chtimes(s.path(file), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(s.path("own"), 0o700); err != nil {
		t.Fatal(err)
	}
	put("own/a.wasm", "a", "a")
	write(t, s.path("prober.yaml"), fileHead+"plugins: [{name: a, source: own/a.wasm}, {name: b, source: own/a.wasm}]\n")
	scanner := s.scanner("")
	for _, c := range []struct {
		name   string
		change func()
		read   bool
	}{
		{"first", func() {}, true},
		{"again", func() {}, false},
		{"other bytes", func() { put("own/a.wasm", "a", "A") }, true},
		{"again with them", func() {}, false},
		{"another module beside it", func() { put("own/c.wasm", "c", "c") }, true},
	} {
		c.change()
		v, err := scanner.ScanFor(func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(states(v)); got != "[a admitted b refused]" {
			t.Errorf("%s: %s", c.name, got)
		}
		a := v.Plugin("a").Plugin
		if read := a.Module != nil; read != c.read {
			t.Errorf("%s: a is read: %t", c.name, read)
		}
		if got, err := a.WithCode(); err != nil || got.ModuleDigest() != a.Digest {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestWithCodeReadsWhatWasVerified(t *testing.T) {
	s := newShelf(t)
	f := s.put("plugins/a.wasm", "a", "a")
	write(t, s.path("prober.yaml"), fileHead)
	v, err := s.scanner("").Scan()
	if err != nil {
		t.Fatal(err)
	}
	p := v.Plugin("a").Plugin.WithoutCode()
	for _, c := range []admit.Plugin{p, v.Plugin("a").Plugin} {
		if got, err := c.WithCode(); err != nil || string(got.Module) != string(f.Module) || got.ModuleDigest() != f.Digest {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	s.put("plugins/a.wasm", "a", "other")
	if _, err := p.WithCode(); err == nil || !strings.Contains(err.Error(), "it has changed since it was verified") {
		t.Errorf("got %v for another module", err)
	}
	if err := os.Remove(f.Path); err != nil {
		t.Fatal(err)
	}
	if _, err := p.WithCode(); err == nil {
		t.Error("no error for a module that was removed")
	}
}

// ScanFor reads a plugin again if WithCode found it changed, and every plugin after Forget, although the
// stamps of the files are the same.
func TestScanForReadsWhatMustBeForgotten(t *testing.T) {
	s := newShelf(t)
	write(t, s.path("prober.yaml"), fileHead)
	old := time.Now().Add(-time.Hour)
	for _, version := range []string{"one", "two"} {
		f := s.put("plugins/"+version+".wasm", "a", version)
		file := s.path("plugins/" + version) // its name is not a plugin's
		if err := errors.Join(os.Rename(f.Path, file), os.Chtimes(file, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	lead := func(to string) {
		t.Helper()
		path := s.path("plugins/a.wasm")
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(to, path); err != nil {
			t.Skip(err)
		}
	}
	lead("one")
	scanner := s.scanner("")
	scan := func(what string, read bool) admit.Plugin {
		t.Helper()
		v, err := scanner.ScanFor(func(string) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		a := v.Plugin("a")
		if a.State != admit.Admitted || (a.Plugin.Module != nil) != read {
			t.Errorf("%s: read is %t; %s, %v", what, a.Plugin.Module != nil, stateNames[a.State], a.Reason)
		}
		return a.Plugin
	}
	scan("first", true)
	a := scan("again", false)
	lead("two")
	if _, err := a.WithCode(); err == nil {
		t.Error("no error for another module")
	}
	lead("one")
	scan("after it has differed", true)
	scan("again after that", false)
	scanner.Forget()
	scan("after Forget", true)
	scan("again after Forget", false)
}
