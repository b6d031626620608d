package socket

import (
	"bytes"
	"encoding/hex"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/expr"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer/httpmatch"
)

// Message is bytes, some of which may be computed when they are sent or expected.
type Message struct {
	data     []byte
	template *expr.Template // nil: data
	captured []captured     // parts of data that a session writes as names; in order
}

// captured is a part of recorded bytes that an earlier step has received as a name.
type captured struct {
	from, to int
	name     string
}

// bytes returns the message for the values of env.
func (m *Message) bytes(env *expr.Env) ([]byte, error) {
	if m.template == nil {
		return m.data, nil
	}
	return m.template.Bytes(env)
}

// String returns the message for an error.
func (m *Message) String() string {
	if m.template == nil {
		return field.Quote(m.data)
	}
	return strings.Join(strings.Fields(m.template.String()), " ")
}

// decodeMessage returns a reader of a message, which parse reads as text or as hexadecimal digits.
func decodeMessage(r *field.Reader, s *expr.Scope, to **Message, parse func(string, *expr.Scope) (*expr.Template, error)) field.Read {
	return func(n *yamlpos.Node, path string) {
		text, ok := r.Text(n, path)
		if !ok {
			return
		}
		if text == "" {
			r.Errorf(n, path, "must not be empty")
			return
		}
		template, err := parse(text, s)
		if err != nil {
			r.Error(n, path, err)
			return
		}
		*to = &Message{template: template}
		if data, ok := template.Constant(); ok {
			*to = &Message{data: data}
		}
	}
}

// messageFields are the fields text and hex, which both give a message.
func messageFields(r *field.Reader, s *expr.Scope, to **Message) yamlpos.Fields {
	return yamlpos.Fields{"text": decodeMessage(r, s, to, expr.Text), "hex": decodeMessage(r, s, to, expr.Hex)}
}

// redact replaces secrets, which may change the length of the data. Captured parts stay as they are: a session
// writes them as names.
func (m *Message) redact(text func(string) string) {
	if m == nil {
		return
	}
	var data []byte
	at := 0
	for i := range m.captured {
		c := &m.captured[i]
		data = append(data, httpmatch.RedactBytes(m.data[at:c.from], text)...)
		at = c.to
		size := c.to - c.from
		data = append(data, m.data[c.from:c.to]...)
		c.from, c.to = len(data)-size, len(data)
	}
	m.data = append(data, httpmatch.RedactBytes(m.data[at:], text)...)
}

// MarshalYAML implements yaml.Marshaler.
func (m *Message) MarshalYAML() (any, error) {
	if len(m.captured) == 0 && !bytes.Contains(m.data, []byte("${")) {
		return field.Data(m.data).MarshalYAML()
	}
	if field.IsText(m.data) {
		return field.Flow(struct{ Text field.Text }{field.Text(m.source(func(b []byte) string { return strings.ReplaceAll(string(b), "${", "$${") }))})
	}
	return struct{ Hex field.Text }{field.Text(m.source(hex.EncodeToString))}, nil
}

// source returns the message as a template, with its literal parts encoded.
func (m *Message) source(encode func([]byte) string) string {
	var b strings.Builder
	at := 0
	for _, c := range m.captured {
		b.WriteString(encode(m.data[at:c.from]) + "${" + c.name + "}")
		at = c.to
	}
	return b.String() + encode(m.data[at:])
}
