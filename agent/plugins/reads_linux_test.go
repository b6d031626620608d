package plugins_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/plugins"
	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// padding is the size of a custom section in the plugins of these tests, in bytes.
const padding = 1 << 20

// succeeding returns a plugin that always succeeds: it has a memory, and a function probe that returns 0.
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

// bytesRead returns how many bytes this process reads from files during do.
func bytesRead(t *testing.T, do func()) (n int) {
	t.Helper()
	count := func() (n int) {
		text, err := os.ReadFile("/proc/self/io")
		if err != nil {
			t.Fatal(err)
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

// A manifest refers to 20 plugins. They are first used one after another, and each first use takes a
// snapshot.
func TestPluginsAreReadOnceWhenFirstUsed(t *testing.T) {
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
	var pods []*declared.Pod
	for i := range n {
		put(i, "1.0.0")
		pods = append(pods, podWith(fmt.Sprintf("plugin: {name: p%d}", i)))
	}
	s := open(t, plugins.Config{PluginDirs: []string{dir}})
	s.HoldApplied(pods)
	reload := func(retry bool) {
		t.Helper()
		if _, err := s.Reload(t.Context(), retry); err != nil {
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
	check("reload", 0, func() { reload(false) })
	check("reload of one that has changed", 1, func() { put(3, "1.0.1"); reload(false) })
	check("reload on request", n, func() { reload(true) })
	check("reload after that", 0, func() { reload(false) })
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

// changedAt returns the change time (ctime) of the file at path, which programs cannot set.
func changedAt(t *testing.T, path string) syscall.Timespec {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		t.Fatal(err)
	}
	return s.Ctim
}

// A plugin is replaced in place by one of the same size, which keeps the modification time of the file.
func TestReloadOfPluginWithUnchangedTime(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, old := t.TempDir(), time.Now().Add(-time.Hour)
	path := filepath.Join(dir, "a.wasm")
	put := func(version string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path, succeeding(t, "a", version), 0o600), os.Chtimes(path, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	put("1.0.0")
	s := open(t, plugins.Config{PluginDirs: []string{dir}, IdleAfter: 1})
	prepare := func() probe.Handler {
		t.Helper()
		h, err := s.Prepare("a", nil, probe.Target{})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := prepare()
	before := s.Stamp()
	for was := changedAt(t, path); changedAt(t, path) == was; { // until the clock of the file system ticks
		put("1.0.1")
	}
	if s.Stamp() == before {
		t.Error("the stamp is the same")
	}
	if changed, err := s.Reload(t.Context(), false); !changed || err != nil {
		t.Errorf("reload: %t, %v", changed, err)
	}
	probe.Release(h)
	for i := range 2 {
		s.UnloadUnused(time.Now().Add(time.Duration(i) * time.Hour))
	}
	probe.Release(prepare())
	if p := s.Statuses()[0]; p.Version != "1.0.1" || p.State != "running" {
		t.Errorf("%+v", p)
	}
}

// A second plugin comes into use while the first is being loaded, which is in use by then.
func TestStampIncludesPluginBeingLoaded(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, started := t.TempDir(), filepath.Join(t.TempDir(), "started")
	program := filepath.Join(dir, "prober-plugin-slow")
	manifest := func(version string) {
		t.Helper()
		text := "apiVersion: prober.dev/v1\nname: slow\nruntime: process\nversion: " + version + "\n"
		if err := os.WriteFile(program+".yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manifest("1.0.0")
	err := errors.Join(
		syscall.Mkfifo(started, 0o600),
		os.WriteFile(program, []byte("#!/bin/sh\nread line < '"+started+"'\nexit 1\n"), 0o700),
		os.WriteFile(filepath.Join(dir, "a.wasm"), succeeding(t, "a", "1.0.0"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, plugins.Config{PluginDirs: []string{dir}})
	loaded := make(chan error, 1)
	go func() {
		_, err := s.Prepare("slow", nil, probe.Target{})
		loaded <- err
	}()
	end, err := os.OpenFile(started, os.O_WRONLY, 0) // waits for the program
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Prepare("a", nil, probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	probe.Release(h)
	before := s.Stamp()
	manifest("1.0.0-changed")
	if s.Stamp() == before {
		t.Error("the change of the plugin that is being loaded is not seen")
	}
	if err := end.Close(); err != nil {
		t.Error(err)
	}
	if err := <-loaded; err == nil {
		t.Error("no error of a program that is no plugin")
	}
}
