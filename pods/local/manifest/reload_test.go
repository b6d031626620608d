package manifest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/pods/local/manifest"
)

const onePod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, annotations: {note: %q}}\nspec: {containers: [{name: web}]}\n"

func writePod(t testing.TB, dir, file, name, note string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), fmt.Appendf(nil, onePod, name, note), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Load reads what has changed, and hands out the same pods for files that have not.
func TestLoadAgain(t *testing.T) {
	dir := t.TempDir()
	writePod(t, dir, "a.yaml", "a", "")
	writePod(t, dir, "b.yaml", "b", "")
	checked := 0
	var refused string
	s := &manifest.Source{Paths: []string{dir}, Check: func(pod *v1.Pod) []error {
		checked++
		if pod.Name == refused {
			return []error{errors.New("spec.containers[0].name: refused")}
		}
		return nil
	}}
	load := func() []*v1.Pod {
		t.Helper()
		loaded, err := s.Load(t.Context())
		if err != nil || len(loaded.Pods) != 2 {
			t.Fatalf("%v, %v", loaded.Pods, err)
		}
		return loaded.Pods
	}
	first := load()
	writePod(t, dir, "b.yaml", "b", "changed")
	second := load()
	if first[0] != second[0] {
		t.Error("the pod of an unchanged file was read again")
	}
	if second[1].Annotations["note"] != "changed" {
		t.Error("the pod of a changed file was not read again")
	}
	if checked != 4 {
		t.Errorf("%d checks, want one of each pod in each load", checked)
	}

	checked, refused = 0, "a"
	if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "a.yaml:4: spec.containers[0].name: refused") {
		t.Errorf("a check that refuses an unchanged pod: %v", err)
	}
	if checked != 2 {
		t.Errorf("%d checks, want one of each pod", checked)
	}
	refused = ""
	if third := load(); third[0] != first[0] {
		t.Error("what a check refused was read again, though its file was the same")
	}

	writePod(t, dir, "0.yaml", "a", "")
	if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "a.yaml:3: metadata.name: pod default/a is already at "+filepath.Join(dir, "0.yaml")+":1") {
		t.Errorf("a name that a file before it has: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "0.yaml")); err != nil {
		t.Fatal(err)
	}
	load()
	if err := os.Rename(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	if pods := load(); pods[0].Name != "b" || pods[1].Name != "a" {
		t.Errorf("after a file was renamed: %s, %s", pods[0].Name, pods[1].Name)
	}
}

// BenchmarkLoad is a change of one file beside files=N others, read anew or again.
func BenchmarkLoad(b *testing.B) {
	for _, again := range []bool{false, true} {
		b.Run(fmt.Sprintf("files=1000/again=%v", again), func(b *testing.B) {
			dir := b.TempDir()
			for i := range 1000 {
				writePod(b, dir, fmt.Sprintf("%d.yaml", i), fmt.Sprintf("p%d", i), "")
			}
			s := &manifest.Source{Paths: []string{dir}}
			for n := 0; b.Loop(); n++ {
				if !again {
					s = &manifest.Source{Paths: []string{dir}}
				}
				writePod(b, dir, "7.yaml", "p7", fmt.Sprint(n))
				if _, err := s.Load(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
