package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"text/template"
	"time"
)

const (
	MaxTemplate = 64 << 10  // bytes of a template
	maxRendered = 256 << 10 // bytes of the result
)

// A template prints a jsonString with JSON escapes, as the inside of a JSON string, and a plainString as it
// is.
type (
	jsonString  string
	plainString string
)

// String returns s with JSON escapes, without quotes.
func (s jsonString) String() string {
	quoted, _ := json.Marshal(string(s)) // a string can be marshaled
	return string(quoted[1 : len(quoted)-1])
}

// view is a [Message] for templates, with the same field names.
type view[T ~string] struct {
	Version, Receiver, ID, Status, Title, Host, URL, Severity T
	Repeated                                                  bool
	Time                                                      time.Time
	Group                                                     map[string]T
	Counts                                                    Counts
	Probes                                                    []probeView[T]
	Omitted                                                   int
}

// probeView is a [Probe] for templates.
type probeView[T ~string] struct {
	Namespace, Pod, Container, Kind, Handler, Target, Status, State, Worst, Reason, Text, Explain, Pause, URL T
	New                                                                                                       bool
	Since, Ended                                                                                              time.Time
	Duration                                                                                                  time.Duration
	Times                                                                                                     int
}

func newView[T ~string](m *Message) view[T] {
	v := view[T]{
		Version: T(m.Version), Receiver: T(m.Receiver), ID: T(m.ID), Status: T(m.Status), Title: T(m.Title), Host: T(m.Host), URL: T(m.URL),
		Severity: T(m.Severity()), Repeated: m.Repeated, Time: m.Time, Group: make(map[string]T), Counts: m.Counts, Omitted: m.Omitted,
	}
	for name, value := range m.Group {
		v.Group[name] = T(value)
	}
	for i := range m.Probes {
		p := &m.Probes[i]
		v.Probes = append(v.Probes, probeView[T]{
			T(p.Namespace), T(p.Pod), T(p.Container), T(p.Kind), T(p.Handler), T(p.Target), T(p.Status), T(p.State), T(p.Worst), T(p.Reason), T(p.Text), T(p.Explain), T(p.Pause), T(p.URL),
			p.New, p.Since, p.Ended, p.duration(), p.Times,
		})
	}
	return v
}

// functions returns the functions of templates. Functions that format texts get them unescaped. Their results
// are escaped when they are printed, as cutting an escaped text could break an escape sequence.
func functions[T ~string]() template.FuncMap {
	raw := func(args []any) []any {
		plain := make([]any, len(args))
		for i, a := range args {
			if t, ok := a.(T); ok {
				a = string(t)
			}
			plain[i] = a
		}
		return plain
	}
	return template.FuncMap{
		"json": func(v any) (string, error) {
			out, err := json.Marshal(v)
			return string(out), err
		},
		"printf":   func(format string, args ...any) T { return T(fmt.Sprintf(format, raw(args)...)) },
		"print":    func(args ...any) T { return T(fmt.Sprint(raw(args)...)) },
		"println":  func(args ...any) T { return T(fmt.Sprintln(raw(args)...)) },
		"html":     func(args ...any) T { return T(template.HTMLEscapeString(fmt.Sprint(raw(args)...))) },
		"js":       func(args ...any) T { return T(template.JSEscapeString(fmt.Sprint(raw(args)...))) },
		"urlquery": func(args ...any) T { return T(url.QueryEscape(fmt.Sprint(raw(args)...))) },
	}
}

// limitedBuffer is a buffer that takes at most max bytes.
type limitedBuffer struct {
	bytes.Buffer
	max int
}

var errTooLong = errors.New("the result is too long")

// Write implements [io.Writer].
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, errTooLong
	}
	return b.Buffer.Write(p)
}

// Template returns the result of the template text for m.
func Template(text, contentType string, m *Message) ([]byte, error) {
	isJSON := strings.Contains(contentType, "json")
	out := limitedBuffer{max: maxRendered}
	var err error
	if isJSON {
		err = execute(&out, text, functions[jsonString](), newView[jsonString](m))
	} else {
		err = execute(&out, text, functions[plainString](), newView[plainString](m))
	}
	if err != nil {
		return nil, err
	}
	if isJSON && !json.Valid(out.Bytes()) {
		return nil, errors.New("template: the result is not valid JSON")
	}
	return out.Bytes(), nil
}

func execute(out *limitedBuffer, text string, functions template.FuncMap, data any) error {
	if len(text) > MaxTemplate {
		return fmt.Errorf("template: more than %d bytes", MaxTemplate)
	}
	t, err := template.New("message").Option("missingkey=error").Funcs(functions).Parse(text)
	if err == nil {
		err = t.Execute(out, data)
	}
	return err
}
