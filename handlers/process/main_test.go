package process_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// Fixtures. They are read-only after TestMain.
var (
	tester     []byte // testdata/plugin
	testerPath string
)

func TestMain(m *testing.M) {
	if os.Getenv(hostVariable) != "" {
		beHost()
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "process")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	testerPath = filepath.Join(dir, "prober-plugin-tester")
	build := exec.Command("go", "build", "-o", testerPath, "./testdata/plugin")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return 0, err
	}
	if tester, err = os.ReadFile(testerPath); err != nil {
		return 0, err
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		return 0, err
	}
	return code, nil
}

// found returns the plugin under test.
func found(edit ...func(*plugin.Manifest)) plugin.Found {
	m := plugin.Minimal("tester")
	m.Version = "1.0.0"
	for _, e := range edit {
		e(m)
	}
	return plugin.Found{Manifest: m, Path: testerPath, Module: tester, Digest: plugin.Digest(tester)}
}

// load starts the plugin and closes it at the end of the test.
func load(t testing.TB, cfg process.Config, edit ...func(*plugin.Manifest)) *process.Handler {
	t.Helper()
	h, err := process.Load(t.Context(), unhurried(cfg), found(edit...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// bind returns the plugin bound to a mode.
func bind(t testing.TB, h probe.Preparer, mode string) probe.Handler {
	t.Helper()
	b, err := h.Prepare([]byte(`{"mode":"`+mode+`"}`), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patience is a timeout that no successful test reaches, on the slowest machine.
const patience = 2 * time.Minute

// unhurried returns cfg with a long StartTimeout, unless it has one.
func unhurried(cfg process.Config) process.Config {
	cfg.StartTimeout = cmp.Or(cfg.StartTimeout, patience)
	return cfg
}

// attempt makes the first attempt of a tick.
func attempt(t testing.TB, h probe.Handler, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	return attemptOf(t, h, probe.Request{Attempt: 1}, timeout)
}

func attemptOf(t testing.TB, h probe.Handler, req probe.Request, timeout time.Duration) (probe.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	req.Spec.Timeout = timeout
	return h.Probe(ctx, req)
}

// hostVariable makes the test binary run beHost.
const hostVariable = "PROCESS_TEST_HOST"

// beHost starts the plugin, prints its process ID, and waits to be killed.
func beHost() {
	code, err := os.ReadFile(os.Getenv(hostVariable))
	if err != nil {
		panic(err)
	}
	m := plugin.Minimal("tester")
	m.Version = "1.0.0"
	h, err := process.Load(context.Background(), unhurried(process.Config{}), plugin.Found{Manifest: m, Module: code})
	if err != nil {
		panic(err)
	}
	b, err := h.Prepare([]byte(`{"mode":"pid"}`), probe.Target{})
	if err != nil {
		panic(err)
	}
	out, err := b.Probe(context.Background(), probe.Request{Attempt: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Output)
	select {}
}
