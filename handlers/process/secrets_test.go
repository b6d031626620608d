package process

import (
	"log/slog"
	"strings"
	"testing"
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
		before func(s *secrets) // what happened before the process began
		during func(s *secrets) // and after
		logged bool
		quoted string
	}{
		"no secrets":             {logged: true, quoted: line},
		"config accepted":        {during: func(s *secrets) { v := s.validate(); v.end(false) }, logged: true, quoted: line},
		"config with a secret":   {during: func(s *secrets) { s.keep(new(bound), hide) }, quoted: "it is [redacted]"},
		"probe released":         {during: func(s *secrets) { s.forget(new(bound)) }, logged: true, quoted: line},
		"config refused":         {during: func(s *secrets) { v := s.validate(); v.end(true) }},
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
			if !l.line("stderr", []byte(line)) {
				t.Error("the line is over the limits")
			}
			if got := strings.Contains(log.String(), "hunter2"); got != c.logged || log.Len() > 0 != c.logged {
				t.Errorf("logged %q, want %t", log, c.logged)
			}
			if got := l.lastWords(nil); got != c.quoted {
				t.Errorf("quoted %q, want %q", got, c.quoted)
			}
		})
	}
}

// What is written during a validation is quoted in its error, and in no other.
func TestLastWordsOfValidation(t *testing.T) {
	write := func(l *lineLog, text string) { l.line("stderr", []byte(text)) }
	t.Run("alone", func(t *testing.T) {
		s := new(secrets)
		l, _ := newTestLog(s)
		l.validate()
		v := s.validate()
		write(l, "hunter2")
		if got, other := l.lastWords(&v), l.lastWords(nil); got != "hunter2" || other != "" {
			t.Errorf("got %q, and %q for others", got, other)
		}
		v.end(true)
		l.validate()
		v = s.validate()
		write(l, "hunter2, late")
		if got := l.lastWords(&v); got != "" {
			t.Errorf("after a refusal: got %q", got)
		}
	})
	t.Run("beside another", func(t *testing.T) {
		s := new(secrets)
		l, _ := newTestLog(s)
		l.validate()
		v, other := s.validate(), s.validate()
		write(l, "hunter2")
		other.end(false)
		if a, b := l.lastWords(&v), l.lastWords(&other); a != "" || b != "" {
			t.Errorf("got %q and %q", a, b)
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
		for range 20 { // in any order
			if got := s.redacted(text); got != want {
				t.Errorf("%s: got %q, want %q", text, got, want)
				break
			}
		}
	}
}
