package manager

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/probe"
)

// secretReference matches ${file:/path} and ${env:NAME}.
var secretReference = regexp.MustCompile(`\$\{(file|env):([^}]+)\}`)

// resolveSecrets replaces the references in the strings of config and returns what must not
// be shown.
func (m *Manager) resolveSecrets(config []byte) (resolved []byte, secrets Secrets, err error) {
	if !secretReference.Match(config) {
		return config, Secrets{}, nil
	}
	if m.cfg.ResolveSecret == nil {
		return nil, Secrets{}, errors.New("config refers to a secret, and the agent resolves none")
	}
	var document any
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return nil, Secrets{}, err
	}
	document, err = walkStrings(document, "", func(s, field string) (string, error) {
		if secretReference.MatchString(s) {
			secrets.fields = append(secrets.fields, field)
		}
		return m.replaceReferences(s, &secrets.values)
	})
	if err != nil {
		return nil, Secrets{}, err
	}
	slices.Sort(secrets.fields)
	resolved, err = json.Marshal(document)
	return resolved, secrets, err
}

var errNotText = errors.New("the secret is not valid UTF-8")

func (m *Manager) replaceReferences(s string, secrets *[]string) (string, error) {
	var failed error
	s = secretReference.ReplaceAllStringFunc(s, func(reference string) string {
		parts := secretReference.FindStringSubmatch(reference)
		value, err := m.cfg.ResolveSecret(parts[1], parts[2])
		if err == nil && !utf8.ValidString(value) { // JSON would have other bytes, which redaction does not know
			err = errNotText
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", reference, err))
			return ""
		}
		if strings.TrimSpace(value) != "" {
			*secrets = append(*secrets, value)
		}
		return value
	})
	return s, failed
}

// SecretFields returns the fields of a config, a JSON object, that refer to secrets: "password"
// and "auth.token".
func SecretFields(config []byte) (fields []string) {
	var document any
	if json.Unmarshal(config, &document) != nil {
		return nil
	}
	_, _ = walkStrings(document, "", func(s, field string) (string, error) {
		if secretReference.MatchString(s) {
			fields = append(fields, field)
		}
		return s, nil
	})
	slices.Sort(fields)
	return fields
}

// walkStrings replaces every string inside a decoded JSON document. field is the path to it.
func walkStrings(v any, at string, replace func(s, field string) (string, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		return replace(v, at)
	case []any:
		for i := range v {
			if v[i], err = walkStrings(v[i], fieldOf(at, strconv.Itoa(i)), replace); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = walkStrings(v[key], fieldOf(at, key), replace); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func fieldOf(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// redacted returns a handler that never lets go of secrets, in output, details, error,
// metric or trace, and is told how to keep them out of its log.
func redacted(h probe.Handler, secrets []string) probe.Handler {
	if len(secrets) == 0 {
		return h
	}
	return redactor{h, redact.New(secrets)}
}

func redactError(err error, secrets []string) error {
	if len(secrets) == 0 {
		return err
	}
	return redactedError{err, redact.New(secrets).Replace(err.Error())}
}

type redactor struct {
	probe.Handler
	secrets *redact.Replacer
}

// Probe implements [probe.Handler].
func (r redactor) Probe(ctx context.Context, req probe.Request) (probe.Outcome, error) {
	req.Redact = r.secrets.Replace
	if trace := req.Trace; trace != nil {
		req.Trace = func(e probe.TraceEvent) {
			e.Name, e.Detail = r.secrets.Replace(e.Name), r.secrets.Replace(e.Detail)
			trace(e)
		}
	}
	defer func() {
		if p := recover(); p != nil { // it will be logged
			panic(r.secrets.Replace(fmt.Sprint(p)))
		}
	}()
	outcome, err := r.Handler.Probe(ctx, req)
	outcome.Output, outcome.Details = r.secrets.Replace(outcome.Output), r.details(outcome.Details)
	outcome.Metrics = r.metrics(outcome.Metrics)
	if err != nil {
		err = redactedError{err, r.secrets.Replace(err.Error())}
	}
	return outcome, err
}

// metrics takes the secrets out of metrics. It drops a metric whose name has one, and a label
// whose key has one: "[redacted]" cannot be part of either.
func (r redactor) metrics(all []probe.Metric) (clean []probe.Metric) {
	for _, m := range all {
		if r.secrets.Replace(m.Name) != m.Name {
			continue
		}
		m.Unit, m.Labels = r.secrets.Replace(m.Unit), maps.Clone(m.Labels)
		for k, v := range m.Labels {
			if r.secrets.Replace(k) != k {
				delete(m.Labels, k)
				continue
			}
			m.Labels[k] = r.secrets.Replace(v)
		}
		clean = append(clean, m)
	}
	return clean
}

// details takes the secrets out of a JSON object, however they are spelled in it. What is
// no JSON any more without them is dropped by whoever looks at it next.
func (r redactor) details(object string) string {
	if object == "" {
		return ""
	}
	var fields any
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	if d.Decode(&fields) != nil {
		return ""
	}
	// A text of it may be JSON itself, which is spelled twice in the object.
	fields, _ = walkStrings(fields, "", func(text, _ string) (string, error) { return r.secrets.Replace(text), nil })
	spelled, _ := json.Marshal(fields) // as formsOf has it; what was decoded can be encoded
	return r.secrets.Replace(string(spelled))
}

// redactedError shows its own text, and is the error inside to errors.Is and As.
type redactedError struct {
	err  error
	text string
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.err }

// Secrets are the values that the references in a config stood for. The zero value has
// none.
type Secrets struct {
	values []string
	fields []string // of the config
}

// ResolveSecrets replaces the references in a handler's config as AddPod does, for
// whoever prepares handlers without a manager. resolve is [Config.ResolveSecret].
func ResolveSecrets(config []byte, resolve func(source, name string) (string, error)) ([]byte, Secrets, error) {
	m := Manager{cfg: Config{ResolveSecret: resolve}}
	resolved, secrets, err := m.resolveSecrets(config)
	return resolved, secrets, secrets.Error(err)
}

// Handler returns a handler that never lets go of the secrets, in output, error, metric
// or trace, and is told how to keep them out of its log. Where h does not take secrets in
// their fields of the config, every attempt ends in an error; see [probe.SecretChecker].
func (s Secrets) Handler(h probe.Handler) probe.Handler {
	if err := probe.CheckSecrets(h, s.fields); err != nil {
		return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, err })
	}
	return redacted(h, s.values)
}

// Error returns an error whose text is without the secrets. It may be nil.
func (s Secrets) Error(err error) error {
	if err == nil {
		return nil
	}
	return redactError(err, s.values)
}
