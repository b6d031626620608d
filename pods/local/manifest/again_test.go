package manifest_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/pods/local/manifest"
)

// loadAgain loads s, and returns its pods by name. It compares the error with want.
func loadAgain(t *testing.T, s *manifest.Source, want string) map[string]*declared.Pod {
	t.Helper()
	loaded, err := s.Load(t.Context())
	if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	pods := make(map[string]*declared.Pod)
	for _, pod := range loaded.Pods {
		pods[pod.Pod().Name] = pod
	}
	return pods
}

func TestLoadAgainParsesChangedFilesOnly(t *testing.T) {
	dir := t.TempDir()
	var parsed []string
	s := &manifest.Source{Paths: []string{dir}, Known: func(pod *v1.Pod) *declared.Pod {
		parsed = append(parsed, pod.Name)
		return nil
	}}
	writeFile(t, dir, "a.yaml", named("a"))
	b := writeFile(t, dir, "b.yaml", named("b"))
	first := loadAgain(t, s, "")
	for _, step := range []struct {
		name   string
		do     func()
		parsed []string
		pods   int
	}{
		{"nothing", func() {}, nil, 2},
		{"a changed file", func() { writeFile(t, dir, "b.yaml", named("b2")) }, []string{"b2"}, 2},
		{"a removed file", func() { os.Remove(b) }, nil, 1},
		{"a file that comes back", func() { writeFile(t, dir, "b.yaml", named("b2")) }, []string{"b2"}, 2},
		{"a file with another name", func() { os.Rename(b, filepath.Join(dir, "c.yaml")) }, []string{"b2"}, 2},
	} {
		parsed = nil
		step.do()
		pods := loadAgain(t, s, "")
		if diff := cmp.Diff(step.parsed, parsed); diff != "" || len(pods) != step.pods {
			t.Errorf("%s: %d pods, parsed %s", step.name, len(pods), diff)
		}
		if pods["a"] != first["a"] {
			t.Errorf("%s: another pod of a file that has not changed", step.name)
		}
	}
}

// A file may be rewritten within the resolution of its modification time.
func TestLoadAgainSeesRewriteWithSameTimeAndSize(t *testing.T) {
	dir := t.TempDir()
	at := time.Unix(1_700_000_000, 0)
	s := &manifest.Source{Paths: []string{dir}}
	for _, name := range []string{"a", "b"} {
		path := writeFile(t, dir, "pod.yaml", named(name))
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		if pods := loadAgain(t, s, ""); len(pods) != 1 || pods[name] == nil {
			t.Errorf("got %v, want %s", pods, name)
		}
	}
}

func TestLoadAgainReportsClashWithUnchangedFile(t *testing.T) {
	dir := t.TempDir()
	s := &manifest.Source{Paths: []string{dir}}
	last := writeFile(t, dir, "b.yaml", named("x")+"---\n"+named("a"))
	item := "- " + strings.ReplaceAll(strings.TrimSpace(named("c")), "\n", "\n  ") + "\n"
	list := writeFile(t, dir, "c.yaml", "apiVersion: v1\nkind: List\nitems:\n"+item)
	before := loadAgain(t, s, "")
	first := writeFile(t, dir, "a.yaml", named("a")+"---\n"+named("c"))
	want := fmt.Sprintf("%s:8: metadata.name: pod default/a is already at %s:1\n%s:6: items[0].metadata.name: pod default/c is already at %[2]s:6", last, first, list)
	loadAgain(t, s, want)
	loadAgain(t, s, want)
	writeFile(t, dir, "a.yaml", named("y"))
	after := loadAgain(t, s, "")
	if len(after) != 4 || after["a"] != before["a"] || after["x"] != before["x"] || after["c"] != before["c"] {
		t.Errorf("got %v after the clash, want the pods from before it and y", after)
	}
}

func TestLoadAgainReportsBrokenFileUntilFixed(t *testing.T) {
	dir := t.TempDir()
	s := &manifest.Source{Paths: []string{dir}}
	writeFile(t, dir, "a.yaml", named("a"))
	path := writeFile(t, dir, "b.yaml", named("b")+"---\n"+strings.Replace(named("c"), "kind: Pod", "kind: Service", 1))
	want := path + `:7: kind: must be Pod or List, not "Service"`
	for range 3 {
		loadAgain(t, s, want)
	}
	writeFile(t, dir, "b.yaml", named("b"))
	if pods := loadAgain(t, s, ""); len(pods) != 2 {
		t.Errorf("got %v, want a and b", pods)
	}
}

func TestLoadAgainChecksUnchangedFile(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, dir, "a.yaml", named("a")+"---\n"+named("b"))
	refused := false
	s := &manifest.Source{Paths: []string{dir}, Check: func(pod *declared.Pod) []error {
		if refused && pod.Pod().Name == "b" {
			return []error{errors.New("spec.containers[0].name: refused")}
		}
		return nil
	}}
	before := loadAgain(t, s, "")
	refused = true
	for range 2 {
		loadAgain(t, s, path+":9: spec.containers[0].name: refused")
	}
	refused = false
	if after := loadAgain(t, s, ""); after["a"] != before["a"] || after["b"] != before["b"] {
		t.Error("other pods after the check refused one")
	}
}

// After any changes of the files, a source that has loaded files before must return the same pods as a new one.
func TestLoadAgainEqualsFirstLoad(t *testing.T) {
	texts := []string{
		named("a"), named("b"), named("c"), named("d"), named("a") + "---\n" + named("b"), named("refused") + "---\n" + named("c"),
		"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(named("d")), "\n", "\n  ") + "\n",
		strings.Replace(named("d"), "{name: d}", "{name: d, uid: same}", 1), strings.Replace(named("e"), "{name: e}", "{name: e, uid: same}", 1),
		strings.Replace(named("w"), "spec: {", "spec: {volumes: [{name: v}], ", 1), // a warning
		named("a") + "---\n- no pod\n", strings.Replace(named("a"), "name: c", "name: C", 1), "a: [\n", "", named("b") + "---\n{",
	}
	random := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	again := &manifest.Source{Paths: []string{dir}, AllowUnsupported: true}
	failed, warned := 0, 0
	for step := range 2000 {
		name := fmt.Sprintf("%c.yaml", 'a'+random.IntN(3))
		if random.IntN(4) == 0 {
			os.Remove(filepath.Join(dir, name))
		} else {
			writeFile(t, dir, name, texts[random.IntN(len(texts))])
		}
		refuses := random.IntN(2) == 0
		check := func(pod *declared.Pod) []error {
			if refuses && pod.Pod().Name == "refused" {
				return []error{errors.New("spec.containers[0].name: refused")}
			}
			return nil
		}
		again.Check = check
		got, err := again.Load(t.Context())
		want, wantErr := (&manifest.Source{Paths: []string{dir}, AllowUnsupported: true, Check: check}).Load(t.Context())
		if diff := cmp.Diff(fmt.Sprint(wantErr), fmt.Sprint(err)); diff != "" {
			t.Fatalf("step %d: error %s", step, diff)
		}
		if diff := cmp.Diff(podsOf(want.Pods), podsOf(got.Pods)); diff != "" {
			t.Fatalf("step %d: pods %s", step, diff)
		}
		if diff := cmp.Diff(fmt.Sprint(want.Warnings), fmt.Sprint(got.Warnings)); diff != "" {
			t.Fatalf("step %d: warnings %s", step, diff)
		}
		if err != nil {
			failed++
		}
		warned += len(got.Warnings)
	}
	if failed < 200 || failed > 1800 || warned == 0 {
		t.Errorf("%d of 2000 loads failed, %d warnings: these files show little", failed, warned)
	}
}
