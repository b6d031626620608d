package process

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newTestLog(s *secrets) (*lineLog, *strings.Builder) {
	log := new(strings.Builder)
	return &lineLog{
		logger:   slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		maxLines: 10, bytes: 1000, secrets: s, unknown: s.unknowns(),
	}, log
}

func TestLineIsLoggedOrQuoted(t *testing.T) {
	const line = "it is hunter2"
	hide := func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") }
	for name, c := range map[string]struct {
		before func(s *secrets) // runs before the process starts
		during func(s *secrets) // runs after the process has started
		logged bool
		quoted string
	}{
		"no secrets":             {logged: true, quoted: line},
		"config accepted":        {during: func(s *secrets) { s.validate(); s.validated(false) }, logged: true, quoted: line},
		"config with a secret":   {during: func(s *secrets) { s.keep(new(bound), hide) }, quoted: "it is [redacted]"},
		"probe released":         {during: func(s *secrets) { s.forget(new(bound)) }, logged: true, quoted: line},
		"config refused":         {during: func(s *secrets) { s.validate(); s.validated(true) }},
		"config being validated": {during: func(s *secrets) { s.validate() }},
		"probe with a secret released": {during: func(s *secrets) {
			b := new(bound)
			s.keep(b, hide)
			s.forget(b)
		}},
		"probe with a secret released before the start": {before: func(s *secrets) {
			b := new(bound)
			s.keep(b, hide)
			s.forget(b)
		}, quoted: line},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(secrets)
			if c.before != nil {
				c.before(s)
			}
			l, log := newTestLog(s)
			if c.during != nil {
				c.during(s)
			}
			if !l.logLine("stderr", []byte(line)) {
				t.Error("the line is over the limits")
			}
			if got := strings.Contains(log.String(), "hunter2"); got != c.logged || log.Len() > 0 != c.logged {
				t.Errorf("logged %q, want %t", log, c.logged)
			}
			if got := l.lastWords(false); got != c.quoted {
				t.Errorf("quoted %q, want %q", got, c.quoted)
			}
		})
	}
}

// TestLastWordsOfValidation checks that only the error of a validation quotes output during it.
func TestLastWordsOfValidation(t *testing.T) {
	write := func(l *lineLog, text string) { l.logLine("stderr", []byte(text)) }
	t.Run("alone", func(t *testing.T) {
		s := new(secrets)
		l, _ := newTestLog(s)
		l.validate()
		s.validate()
		write(l, "hunter2")
		if got, other := l.lastWords(true), l.lastWords(false); got != "hunter2" || other != "" {
			t.Errorf("got %q, and %q for others", got, other)
		}
		s.validated(true)
		l.validate()
		s.validate()
		write(l, "hunter2, late")
		if got := l.lastWords(true); got != "" {
			t.Errorf("after a refusal: got %q", got)
		}
	})
	t.Run("beside another", func(t *testing.T) {
		s := new(secrets)
		l, _ := newTestLog(s)
		l.validate()
		s.validate()
		s.validate()
		write(l, "hunter2")
		if got := l.lastWords(true); got != "" {
			t.Errorf("got %q", got)
		}
		s.validated(false)
		if got := l.lastWords(true); got != "" {
			t.Errorf("after the other has ended: got %q", got)
		}
	})
}

func TestRedactedOfSeveralProbes(t *testing.T) {
	for text, want := range map[string]string{
		"nothing of note":                "nothing of note",
		"port for me":                    "[redacted] for me",
		"port and word":                  "[redacted]",
		"user with it":                   "[redacted]",
		"passport, which is longer":      "[redacted]",
		"passportal, where they overlap": "[redacted]",
	} {
		s := new(secrets)
		for _, texts := range [][]string{{"port", "user"}, {"passport"}, {"word"}, {"portal,"}, {"user with"}} {
			var pairs []string
			for _, t := range texts {
				pairs = append(pairs, t, "[redacted]")
			}
			s.keep(new(bound), strings.NewReplacer(pairs...).Replace)
		}
		for range 20 { // map order varies
			if got := s.redacted(text); got != want {
				t.Errorf("%s: got %q, want %q", text, got, want)
				break
			}
		}
	}
}

// TestLastWordsAreRecent checks that an old panic is not quoted as the reason for an end.
func TestLastWordsAreRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newTestLog(new(secrets))
		l.logLine("stderr", []byte("panic: of an earlier request"))
		l.logLine("stderr", []byte("server.go:1107 +0x11d"))
		if got := l.lastWords(false); got != "panic: of an earlier request" {
			t.Errorf("at once: %q", got)
		}
		time.Sleep(6 * time.Second)
		if got := l.lastWords(false); got != "" {
			t.Errorf("later: %q", got)
		}
		l.logLine("stderr", []byte("out of disk"))
		if got := l.lastWords(false); got != "out of disk" {
			t.Errorf("after another line: %q", got)
		}
	})
}
