package process_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
)

// TestSecretIsNotLogged checks that the output of a process that got a secret is not logged, nor the output
// of a later version, and that other users cannot see the secret.
func TestSecretIsNotLogged(t *testing.T) {
	var log lockedBuffer
	cfg := unhurried(process.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	s := replace.New(replace.Config{Name: "tester"})
	defer s.Close()
	replace := func() {
		h, err := process.Load(t.Context(), cfg, found())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(t.Context(), quarantine.New(h, quarantine.Config{})); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	b, err := s.Prepare([]byte(`{"mode":"gossip","password":"hunter2"}`), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	b.(probe.SecretKeeper).KeepSecret(func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") })
	for range 2 {
		if _, err := attempt(t, b, patience); err != nil {
			t.Fatal(err)
		}
		pid := pidOf(t, bind(t, s, "pid"))
		for _, file := range []string{"cmdline", "environ", "comm"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil || strings.Contains(string(data), "hunter2") {
				t.Errorf("%s: %s, %v", file, data, err)
			}
		}
		replace()
	}
	probe.Release(b)
	if _, err := attempt(t, bind(t, s, "pid"), patience); err != nil {
		t.Fatal(err)
	}
	if text := log.text(); strings.Contains(text, "hunter2") || strings.Contains(text, "and the password was") {
		t.Errorf("the log: %s", text)
	}
}

func TestSecretOfSchemaIsNotLogged(t *testing.T) {
	var log lockedBuffer
	cfg := unhurried(process.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	f := found()
	var err error
	if f.Manifest.Config, err = schema.New([]byte(`{"properties":{"password":{"format":"password"}}}`)); err != nil {
		t.Fatal(err)
	}
	h, err := process.Load(t.Context(), cfg, f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := h.Prepare([]byte(`{"mode":"gossip","password":"hunter2"}`), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attempt(t, declared.Secrets{}.Handler(b), patience); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if text := log.text(); strings.Contains(text, "hunter2") {
		t.Errorf("the log: %s", text)
	}
}

// TestConfigThatEndsProcess has a config that ends the process. Only the error of the validation may quote
// the output, because the secrets of the config are not known yet.
func TestConfigThatEndsProcess(t *testing.T) {
	var log lockedBuffer
	cfg := unhurried(process.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Pause: time.Hour, MaxPause: time.Hour})
	h, err := process.Load(t.Context(), cfg, found())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ok := bind(t, h, "ok")
	if _, err := h.Prepare([]byte(`{"mode":"spill","password":"hunter2"}`), probe.Target{}); err == nil || !strings.Contains(err.Error(), "panic: cannot take hunter2") {
		t.Errorf("who asked: got %v", err)
	}
	if _, err := attempt(t, ok, patience); err == nil || !strings.Contains(err.Error(), "exit status 2") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("another probe: got %v", err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if text := log.text(); strings.Count(text, "a plugin's process has ended") != 2 || strings.Contains(text, "hunter2") {
		t.Errorf("the log: %s", text)
	}
}

// TestConfigsValidatedTogether checks that no error quotes output while several configs are validated.
func TestConfigsValidatedTogether(t *testing.T) {
	for range 5 {
		h, err := process.Load(t.Context(), unhurried(process.Config{}), found())
		if err != nil {
			t.Fatal(err)
		}
		bind(t, h, "ok") // wait until it has started
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := h.Prepare([]byte(`{"mode":"spill","password":"hunter2"}`), probe.Target{}); err == nil {
				t.Error("a config that ends the process was taken")
			}
		})
		if _, err := h.Prepare([]byte(`{"mode":"ok"}`), probe.Target{}); err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("another config: got %v", err)
		}
		if asking.Wait(); h.Close() != nil || t.Failed() {
			return
		}
	}
}
