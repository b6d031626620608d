package plugintest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest"
)

func TestUpdateReplacesResultAndMessage(t *testing.T) {
	t.Parallel()
	f := load(t, `
- name: "ärger"
  request: {config: {do: 'say "x"'}}   # stays
  want: {result: failure, message: 'it''s', virtualTime: 0s}
- name: b
  request: {config: {do: error}}
  want:
    message: /yes/
    result: success
`)
	n, err := plugintest.Update(run(t, f, plugintest.Config{CasesOnly: true}))
	if err != nil || n != 4 {
		t.Fatalf("%d values updated, %v", n, err)
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"{do: 'say \"x\"'}}   # stays\n  want: {result: success, message: \"say \\\"x\\\"\", virtualTime: 0s}\n",
		"    message: \"plugin \\\"guest\\\": not today\"\n    result: error(guest)\n",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %q in\n%s", want, data)
		}
	}
	again, err := plugintest.Load(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if report := run(t, again, plugintest.Config{CasesOnly: true}); !report.OK() {
		t.Errorf("the cases fail after the update: %+v", report.Results)
	}
}

func TestUpdateChangedFileFails(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: a, request: {config: {do: fine}}, want: {result: success, message: 'other'}}
`)
	report := run(t, f, plugintest.Config{CasesOnly: true})
	text, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, saved := range []string{
		"cut off",
		strings.Replace(string(text), "message: 'other'", "trace:   'other'", 1),
	} {
		if err := os.WriteFile(f.Path, []byte(saved), 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := plugintest.Update(report)
		if want := f.Path + " has changed since it was read: run the tests again"; n != 0 || err == nil || err.Error() != want {
			t.Errorf("%d values updated, %v", n, err)
		}
		if data, err := os.ReadFile(f.Path); err != nil || string(data) != saved {
			t.Errorf("got %q, %v", data, err)
		}
	}
}

// TestUpdateNamesValuesItCannotReplace checks that the other values are still replaced.
func TestUpdateNamesValuesItCannotReplace(t *testing.T) {
	t.Parallel()
	f := load(t, `
- {name: a, request: {config: {do: fine}}, want: {result: failure}}
- {name: b, request: {config: {do: fine}}, want: {result: &anchor failure}}
- name: c
  request: {config: {do: fine}}
  want:
    result: !!str failure
    message: |
      two
      lines
- name: d
  request: {config: {do: fine}}
  want: {message: "two
    lines", result: failure}
`)
	link := filepath.Join(t.TempDir(), "link_test.yaml")
	if err := errors.Join(os.Chmod(f.Path, 0o640), os.Symlink(f.Path, link)); err != nil {
		t.Fatal(err)
	}
	linked, err := plugintest.Load(link)
	if err != nil {
		t.Fatal(err)
	}
	n, err := plugintest.Update(run(t, linked, plugintest.Config{CasesOnly: true}))
	var want []string
	for _, line := range []int{6, 10, 11, 16} {
		want = append(want, fmt.Sprintf("%s:%d: the value is not plain and on one line: change it by hand", link, line))
	}
	if n != 2 || err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("%d values updated, %v", n, err)
	}
	data, err := os.ReadFile(f.Path)
	if got := strings.Count(string(data), "result: success}"); err != nil || got != 2 {
		t.Errorf("%d results are updated, %v, in\n%s", got, err, data)
	}
	if info, err := os.Stat(f.Path); err != nil || info.Mode() != 0o640 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}
