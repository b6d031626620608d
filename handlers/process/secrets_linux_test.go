package process_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/probe"
)

// What a probe keeps secret is in no log, also of what a plugin says of it later, in a
// version that came later, and in nothing that other users of the machine can see.
func TestSecretsOfAProbe(t *testing.T) {
	log := newWatchedLog()
	cfg := unhurried(process.Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
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
		if line := log.next(t, "and the password was"); !strings.Contains(line, "[redacted]") {
			t.Errorf("the log: %s", line)
		}
		pid := pidOf(t, bind(t, s, "pid"))
		for _, file := range []string{"cmdline", "environ", "comm"} {
			data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil || strings.Contains(string(data), "hunter2") {
				t.Errorf("%s: %s, %v", file, data, err)
			}
		}
		replace()
		log.forget()
	}
}

// A process goes on after one of its probes, and may still tell of it.
func TestSecretsOfAProbeThatHasEnded(t *testing.T) {
	log := newWatchedLog()
	cfg := unhurried(process.Config{Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	h, err := process.Load(t.Context(), cfg, found())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	b, err := h.Prepare([]byte(`{"mode":"gossip","password":"hunter2"}`), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	b.(probe.SecretKeeper).KeepSecret(func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") })
	if _, err := attempt(t, b, patience); err != nil {
		t.Fatal(err)
	}
	probe.Release(b)
	log.forget()
	if line := log.next(t, "and the password was"); !strings.Contains(line, "[redacted]") {
		t.Errorf("the log: %s", line)
	}
}

// What a process tells of a config at its end is for who asked it about that, and for nobody
// else: what of it is secret is not known here.
func TestSecretsOfAConfigThatEndsTheProcess(t *testing.T) {
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

// Where several ask about their configs at the same time, none of them is told what the
// process has said of another's.
func TestSecretsOfAConfigAmongOthers(t *testing.T) {
	for range 5 {
		h, err := process.Load(t.Context(), unhurried(process.Config{}), found())
		if err != nil {
			t.Fatal(err)
		}
		bind(t, h, "ok") // it has started
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

// watchedLog is a log whose lines are waited for.
type watchedLog struct {
	mu    sync.Mutex
	text  string
	wrote chan struct{} // closed with the next line
}

func newWatchedLog() *watchedLog { return &watchedLog{wrote: make(chan struct{})} }

func (l *watchedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(p)
	close(l.wrote)
	l.wrote = make(chan struct{})
	return len(p), nil
}

func (l *watchedLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = ""
}

// next waits for the third line with text: the first may have been written while the
// attempt was under way.
func (l *watchedLog) next(t *testing.T, text string) string {
	t.Helper()
	for {
		l.mu.Lock()
		lines, wrote := strings.Split(l.text, "\n"), l.wrote
		l.mu.Unlock()
		var with []string
		for _, line := range lines {
			if strings.Contains(line, text) {
				with = append(with, line)
			}
		}
		if len(with) > 2 {
			return with[2]
		}
		select {
		case <-wrote:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}
