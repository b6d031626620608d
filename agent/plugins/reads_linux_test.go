package plugins_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// padding is how many bytes a plugin of these tests has in a section of its own.
const padding = 1 << 20

// succeeding returns a plugin that succeeds: a memory, and the function probe, which returns 0.
func succeeding(t *testing.T, name, version string) []byte {
	t.Helper()
	const code = "\x00asm\x01\x00\x00\x00" + "\x01\x05\x01\x60\x00\x01\x7f" + "\x03\x02\x01\x00" + "\x05\x03\x01\x00\x01" +
		"\x07\x12\x02\x06memory\x02\x00\x05probe\x00\x00" + "\x0a\x06\x01\x04\x00\x41\x00\x0b"
	section := append([]byte("\x03pad"), bytes.Repeat([]byte{0}, padding-4)...)
	module := append([]byte(code), 0, padding&0x7f|0x80, padding>>7&0x7f|0x80, padding>>14)
	module, err := plugin.Embed(append(module, section...), []byte("apiVersion: prober.dev/v1\nname: "+name+"\nversion: "+version+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// bytesRead returns how many bytes do has read from files, by this process.
func bytesRead(t *testing.T, do func()) (n int) {
	t.Helper()
	count := func() (n int) {
		text, err := os.ReadFile("/proc/self/io")
		if err != nil {
			t.Skip(err)
		}
		if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	do()
	return count() - before
}

// A manifest names 20 plugins, which come into use one after another: each takes a snapshot.
func TestPluginsThatComeIntoUseAreReadOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const n = 20
	dir, old := t.TempDir(), time.Now().Add(-time.Hour)
	put := func(i int, version string) {
		t.Helper()
		path := filepath.Join(dir, fmt.Sprintf("p%d.wasm", i))
		if err := os.WriteFile(path, succeeding(t, fmt.Sprintf("p%d", i), version), 0o600); err != nil {
			t.Fatal(err)
		}
		old = old.Add(time.Second)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	var pods []*v1.Pod
	for i := range n {
		put(i, "1.0.0")
		pods = append(pods, podWith(fmt.Sprintf("plugin: {name: p%d}", i)))
	}
	s := open(t, plugins.Config{PluginDirs: []string{dir}})
	s.HoldApplied(pods)
	reload := func() {
		t.Helper()
		if _, err := s.Reload(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, plugins int, do func()) {
		t.Helper()
		if got := bytesRead(t, do); got < plugins*padding || got > plugins*padding+padding {
			t.Errorf("%s: %d bytes were read, must be those of %d plugins", what, got, plugins)
		}
	}
	check("first use", n, func() {
		for i := range n {
			name := fmt.Sprintf("p%d", i)
			h, err := s.Prepare(name, nil, probe.Target{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { probe.Release(h) })
			if out, err := h.Probe(t.Context(), probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: time.Minute}}); err != nil || out.Result != probe.Success {
				t.Fatalf("%s: %+v, %v", name, out, err)
			}
		}
	})
	check("reload", 0, reload)
	check("reload of one that has changed", 1, func() { put(3, "1.0.1"); reload() })
	for _, p := range s.Statuses() {
		want := "1.0.0"
		if p.Name == "p3" {
			want = "1.0.1"
		}
		if p.State != "running" || p.Version != want || p.Error != "" {
			t.Errorf("%+v, must be %s", p, want)
		}
	}
}
