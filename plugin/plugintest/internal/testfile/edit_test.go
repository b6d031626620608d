package testfile_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// An item of a replay is the case that a run of the replay has.
func TestEditorReplayHasRequestOfRun(t *testing.T) {
	t.Parallel()
	for _, own := range []string{
		"",
		", request: {config: {b: 2}}",
		", request: {target: {host: other}}",
		", request: {pod: {labels: {c: d}}}",
		", timeout: 3s, request: {config: {b: 2}, pod: {name: x, labels: {}}}",
	} {
		dir := t.TempDir()
		session := "apiVersion: prober.dev/v1\nkind: PluginSession\nrequest: {target: {host: a, port: 1}, config: {a: 1, d: {e: 1}}, pod: {name: p, labels: {a: b}}}\nhost: {}\nwant: {result: success}\n"
		file := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ncases:\n- {name: a, replay: session.yaml" + own + "}\n"
		path := filepath.Join(dir, "x_test.yaml")
		for name, text := range map[string]string{path: file, filepath.Join(dir, "session.yaml"): session} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := testfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		e, err := testfile.NewEditor(f)
		if err != nil {
			t.Fatal(err)
		}
		item, err := e.Item(0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.Case(item)
		if err != nil {
			t.Fatal(err)
		}
		want := &f.Cases[0]
		if string(got.Config) != string(want.Config) || got.Target != want.Target || !reflect.DeepEqual(got.Pod, want.Pod) || got.Timeout != want.Timeout {
			t.Errorf("%q: got %s %v %v %v, a run has %s %v %v %v", own, got.Config, got.Target, got.Pod, got.Timeout, want.Config, want.Target, want.Pod, want.Timeout)
		}
	}
}
