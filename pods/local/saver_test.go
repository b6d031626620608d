package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/probe"
)

var livenessPod = strings.ReplaceAll(patientPod, "KIND", "liveness")

// stateFile returns the name and the text of the only file in a state folder.
func stateFile(t *testing.T, dir string) (name, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 || !strings.HasSuffix(files[0], ".pod.json") {
		t.Fatalf("files %q, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return files[0], string(data)
}

// decidedIn returns the liveness result of the container c in the text of a state file.
func decidedIn(t *testing.T, text string) string {
	t.Helper()
	var saved struct {
		Containers map[string]struct{ Results map[string]string }
	}
	if err := json.Unmarshal([]byte(text), &saved); err != nil {
		t.Fatal(err)
	}
	return saved.Containers["c"].Results["liveness"]
}

// The result changes at every tick. Each write replaces the file by a new one.
func TestFlappingTargetIsSavedEveryFiveSeconds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p, end := newPatient(t, 0, dir, strings.Replace(livenessPod, "failureThreshold: 2", "failureThreshold: 1", 1))
		p.wait(100*time.Millisecond, probe.Liveness)
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
			t.Errorf("saved at once: %q", files)
		}
		saves := 0
		var last fs.FileInfo
		for range 600 {
			p.dead.Store(!p.dead.Load())
			p.wait(time.Second, probe.Liveness)
			name, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(name) == 0 {
				continue
			}
			info, err := os.Stat(name[0])
			if err != nil {
				t.Fatal(err)
			}
			if last == nil || !os.SameFile(info, last) {
				saves++
			}
			last = info
		}
		if saves < 40 || saves > 121 {
			t.Errorf("%d saves in 10 min", saves)
		}
		_, decided := p.wait(10*time.Second, probe.Liveness)
		if _, text := stateFile(t, dir); decidedIn(t, text) != decided.Word() {
			t.Errorf("%s is decided, saved is %s", decided, text)
		}
		before, _ := stateFile(t, dir)
		info, _ := os.Stat(before)
		p.wait(time.Minute, probe.Liveness)
		if now, err := os.Stat(before); err != nil || !os.SameFile(now, info) {
			t.Errorf("saved again though nothing has changed: %v", err)
		}
		end()
	})
}

func TestStopSavesNewestResult(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p, end := newPatient(t, 0, dir, livenessPod)
		p.dead.Store(true)
		if _, r := p.wait(3*time.Second, probe.Liveness); r != results.Failure {
			t.Fatalf("decided %s", r)
		}
		end()
		if _, text := stateFile(t, dir); decidedIn(t, text) != "failure" {
			t.Errorf("got %s", text)
		}
	})
}

func TestStateIsSavedAfterFolderReturns(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p, _ := newPatient(t, 0, dir, livenessPod, func(h *pods.Host) { h.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		p.wait(10*time.Second, probe.Liveness)
		if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "state could not be saved") || !strings.Contains(text, "no such file") {
			t.Errorf("logged %s", text)
		}
		failing := p.pods.Saving()
		if failing.Failures < 2 || failing.Since.IsZero() || !errors.Is(failing.Err, os.ErrNotExist) {
			t.Errorf("got %+v", failing)
		}
		// The pod does not change any more.
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.wait(30*time.Second, probe.Liveness)
		if text := log.String(); strings.Count(text, "level=INFO") != 1 || !strings.Contains(text, "all state is saved again") {
			t.Errorf("logged %s", text)
		}
		stateFile(t, dir)
		if got := p.pods.Saving(); got.Failures < failing.Failures || !got.Since.IsZero() || got.Err != nil {
			t.Errorf("got %+v", got)
		}
	})
}

func TestSavedStateOfFormerTargetIsRemoved(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		p, end := newPatient(t, 0, dir, livenessPod)
		p.wait(10*time.Second, probe.Liveness)
		stateFile(t, dir)
		failing := strings.Replace(livenessPod, "- {name: c}", "- {name: c, command: [no-such-program]}", 1)
		if err := p.pods.Apply(t.Context(), load(t, failing)); err != nil {
			t.Fatal(err)
		}
		p.wait(10*time.Second, probe.Liveness)
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) > 0 {
			t.Errorf("left in the state folder: %q", files)
		}
		end()
	})
}

func TestStopDoesNotWaitForDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(until <-chan struct{}) (*local.Pods, *manager.Manager) {
		pods, err := local.New(local.Config{StateDir: dir}, testHost())
		if err != nil {
			t.Fatal(err)
		}
		if until != nil {
			pods.HangDisk(until)
		}
		m, err := manager.New(manager.Config{Status: pods, Handlers: succeed{}, RestartGrace: local.RestartGrace})
		if err != nil {
			t.Fatal(err)
		}
		pods.Start(m)
		if err := pods.Apply(t.Context(), load(t, fmt.Sprintf(benchmarkPod, 1))); err != nil {
			t.Fatal(err)
		}
		awaitReady(t.Context(), t, pods, 1)
		return pods, m
	}
	first, m := run(nil)
	if err := errors.Join(first.Stop(t.Context()), m.Close()); err != nil {
		t.Fatal(err)
	}
	name, _ := stateFile(t, dir)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	second, m := run(answer)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := second.Stop(ctx); err == nil || !strings.Contains(err.Error(), dir+": the disk did not answer") {
		t.Errorf("got %v", err)
	}
	if n := len(m.Probes()); n > 0 {
		t.Errorf("%d probes run", n)
	}
	close(answer)
	if err := errors.Join(second.Stop(t.Context()), m.Close()); err != nil {
		t.Error(err)
	}
}
