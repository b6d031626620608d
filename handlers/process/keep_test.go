package process

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/internal/pluginpb"
)

// A process may answer what its SDK would not let it keep.
func TestKeysAreBounded(t *testing.T) {
	b := &bound{plugin: &Handler{keeps: true}, store: &store{}}
	values := make(map[string][]byte)
	for n := range abi.MaxKVKeys {
		values[strconv.Itoa(n)] = nil
	}
	if err := b.keep(&pluginpb.KV{Values: values}, abi.MaxKV); err != nil || len(b.Kept()) != abi.MaxKVKeys {
		t.Errorf("got %v, and %d keys are kept", err, len(b.Kept()))
	}
	values["one more"] = nil
	if err := b.keep(&pluginpb.KV{Values: values}, abi.MaxKV); err == nil || err.Error() != "1025 keys; at most 1024 are allowed" || len(b.Kept()) != abi.MaxKVKeys {
		t.Errorf("got %v, and %d keys are kept", err, len(b.Kept()))
	}
}

// What a program has written is read, though the time for that is over before anybody has
// come to look.
func TestWhatWasWrittenInTimeIsRead(t *testing.T) {
	c := newCapture(100)
	if err := c.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.write.WriteString("last words"); err != nil {
		t.Fatal(err)
	}
	if err := c.read.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	c.start()
	if c.wg.Wait(); string(c.kept) != "last words" || c.held {
		t.Errorf("got %q, held %t", c.kept, c.held)
	}
	_ = c.read.Close()
}

// However many probes come and go, what they kept secret is remembered once, for ten minutes
// from the end of the last of them.
func TestSecretsOfProbesThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{cfg: Config{}.withDefaults()}
		ends := func(config, secret string) {
			b := &bound{plugin: h, config: []byte(config)}
			b.KeepSecret(strings.NewReplacer(secret, "*").Replace)
			b.Release()
		}
		holds := func(want string) {
			t.Helper()
			if got := h.redact(`one"1 two"2 three`); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		const config = `{"a":"one\"1","b":["two\"2"]}`
		for range 100 {
			ends(config, `one"1`)
			ends(config, `two"2`) // the same config, with another secret
		}
		if holds("* * three"); len(h.late) != 2 {
			t.Errorf("%d secrets are remembered, want 2", len(h.late))
		}
		time.Sleep(lateFor - time.Second)
		ends(config, `one"1`)
		ends(`{"a":"three"}`, "three")
		time.Sleep(time.Minute)
		holds(`* two"2 *`)
		time.Sleep(lateFor)
		if holds(`one"1 two"2 three`); len(h.late) != 0 {
			t.Errorf("%d secrets are remembered, want none", len(h.late))
		}
	})
}

// What is written of a config that is refused may be read a moment later.
func TestTheLogIsShutForAMomentAfterARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(Handler)
		if h.isMuted() {
			t.Error("nothing was refused")
		}
		h.refused.Store(new(time.Now()))
		if !h.isMuted() {
			t.Error("what the process has said of the config is told")
		}
		if time.Sleep(outputGrace); h.isMuted() {
			t.Error("the log stays shut")
		}
	})
}

// A process that takes a question at the moment in which another was not taken is none that
// takes none.
func TestAQuestionThatIsTakenBesideOneThatIsNot(t *testing.T) {
	in := &instance{child: new(child), since: time.Now().Add(-2 * time.Hour)}
	done := make(chan struct{})
	var taking sync.WaitGroup
	taking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				in.missedAt.Store(0)
			}
		}
	})
	for range 200_000 {
		in.missed(time.Hour)
	}
	close(done)
	taking.Wait()
	if in.child.killed {
		t.Error("it was killed")
	}
}

// The log is not open for a moment between the question about a config and the refusal.
func TestTheLogIsShutWhenAConfigIsRefused(t *testing.T) {
	for range 50_000 {
		h := new(Handler)
		h.validating.Add(1)
		var refusing sync.WaitGroup
		refusing.Go(func() {
			h.refused.Store(new(time.Now().Add(time.Hour))) // however long the machine stands still
			h.validating.Add(-1)
		})
		for range 20 {
			if !h.isMuted() {
				t.Error("what the process has said of the config is told")
			}
		}
		if refusing.Wait(); t.Failed() {
			return
		}
	}
}

// What was said while the log was shut is not in it either when whoever reads it stands still
// until that is over.
func TestALineOfAShutLogStaysOutOfIt(t *testing.T) {
	var log strings.Builder
	shut := true
	l := &lineLog{
		logger:   slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		maxLines: 10, bytes: 1000, redact: func(text string) string { return text },
		muted: func() (was bool) {
			was, shut = shut, false
			return was
		},
	}
	l.line("stderr", []byte("hunter2"))
	l.line("stderr", []byte("of an attempt"))
	if got := log.String(); strings.Contains(got, "hunter2") || !strings.Contains(got, "of an attempt") {
		t.Errorf("the log: %s", got)
	}
}

// What a process has said of a config that was refused is not told to who asks it next.
func TestLastWordsAreForWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lineLog{maxLines: 10, bytes: 1000, redact: func(text string) string { return text }, muted: func() bool { return true }}
		says := func(text string) { l.take("stderr", []byte(text)) }
		told := func(want string) {
			t.Helper()
			if got := l.lastWords(true); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		l.begin()
		says("first")
		told("first")
		l.end(true)
		l.begin() // at once: what was said of the first may come only now
		says("first, late")
		told("")
		l.begin() // a third, beside it
		l.end(false)
		l.end(false)
		told("")
		time.Sleep(outputGrace)
		l.begin()
		told("")
		says("fourth")
		told("fourth")
		l.end(false)
	})
}

// Each probe knows its own secrets alone; what they have taken out of a text leaves nothing of
// another's in it.
func TestSecretsOfSeveralProbes(t *testing.T) {
	for text, want := range map[string]string{
		"nothing of note":                "nothing of note",
		"pass for me":                    "[redacted] for me",
		"user with pass and word":        "[redacted] with [redacted] and [redacted]",
		"pass-x-word, the longer one":    "[redacted]", // where pass and word would leave -x-
		"passport, which is longer":      "[redacted]",
		"portal, which begins in it":     "[redacted] which begins in it",
		"passportal, where they overlap": "[redacted]",
	} {
		h := &Handler{cfg: Config{}.withDefaults()}
		for _, secrets := range [][]string{{"pass", "user"}, {"passport"}, {"word"}, {"pass-x-word"}, {"portal,"}, {"user"}, {"user"}} {
			var pairs []string
			for _, s := range secrets {
				pairs = append(pairs, s, "[redacted]")
			}
			(&bound{plugin: h}).KeepSecret(strings.NewReplacer(pairs...).Replace)
		}
		for range 20 { // in any order
			if got := h.redact(text); got != want {
				t.Errorf("%s: got %q, want %q", text, got, want)
				break
			}
		}
	}
}
