package declared

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
	"sync"
	"unicode/utf8"

	"github.com/daeace23/prober/internal/redact"
	"github.com/daeace23/prober/probe"
)

// secretReference matches ${file:/path} and ${env:NAME}.
var secretReference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{(file|env):([^}]+)\}`) })

// ResolveSecrets replaces the references in the strings of a handler's config. resolve returns the value of
// a reference, given its source ("file" or "env") and name.
func ResolveSecrets(config []byte, resolve func(source, name string) (string, error)) (resolved []byte, secrets Secrets, err error) {
	if !secretReference().Match(config) {
		return config, Secrets{}, nil
	}
	if resolve == nil {
		return nil, Secrets{}, errors.New("config refers to a secret, and this agent cannot resolve secrets")
	}
	var document any
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	if err := decoder.Decode(&document); err != nil {
		return nil, Secrets{}, err
	}
	r := resolver{resolve: resolve, answers: make(map[string]answer)}
	document, err = walkStrings(document, "", func(s, field string) (string, error) {
		if secretReference().MatchString(s) {
			secrets.fields = append(secrets.fields, field)
		}
		return r.replace(s, &secrets.values)
	})
	if err != nil {
		return nil, Secrets{}, secrets.Error(err)
	}
	slices.Sort(secrets.fields)
	resolved, err = json.Marshal(document)
	return resolved, secrets, err
}

var (
	errNotText = errors.New("the secret is not valid UTF-8")
	errTooLong = fmt.Errorf("the config takes more than %d bytes with its secrets", maxSecrets)
)

// maxSecrets limits the size of all secrets in a config, in bytes. A reference takes eight bytes, and may
// stand for a file.
const maxSecrets = 4 << 20

// resolver resolves the references of one config. It resolves each reference only once.
type resolver struct {
	resolve func(source, name string) (string, error)
	answers map[string]answer // by reference
	bytes   int               // size of all secrets
}

type answer struct {
	value string
	err   error
}

// replace replaces the references in s. It appends new secrets to secrets.
func (r *resolver) replace(s string, secrets *[]string) (string, error) {
	var failed []error
	s = secretReference().ReplaceAllStringFunc(s, func(reference string) string {
		a, known := r.answers[reference]
		if !known {
			parts := secretReference().FindStringSubmatch(reference)
			a.value, a.err = r.resolve(parts[1], parts[2])
			if a.err == nil && !utf8.ValidString(a.value) { // json.Marshal would change it, and redaction would miss it
				a.err = errNotText
			}
			if a.err != nil {
				a.value = ""
				failed = append(failed, fmt.Errorf("%s: %w", reference, a.err))
			} else if strings.TrimSpace(a.value) != "" {
				*secrets = append(*secrets, a.value)
			}
			r.answers[reference] = a
		}
		if r.bytes += len(a.value); r.bytes > maxSecrets {
			return ""
		}
		return a.value
	})
	if r.bytes > maxSecrets {
		failed = append(failed, errTooLong)
	}
	return s, errors.Join(failed...)
}

// SecretFields returns the fields of a config, a JSON object, that refer to secrets, such as "password" and
// "auth.token".
func SecretFields(config []byte) (fields []string) {
	var document any
	if json.Unmarshal(config, &document) != nil {
		return nil
	}
	_, _ = walkStrings(document, "", func(s, field string) (string, error) {
		if secretReference().MatchString(s) {
			fields = append(fields, field)
		}
		return s, nil
	})
	slices.Sort(fields)
	return fields
}

// walkStrings replaces every string in v, a decoded JSON document. at is the path of v.
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

// Bind returns h with the secrets removed from its outcome, errors, trace and description. The secrets are
// the values of s, and those that h finds in its config. Attempts of h get [probe.Request.Redact], for
// logs. Bind returns an error if h refuses secrets in their fields.
func (s Secrets) Bind(h probe.Handler) (probe.Handler, error) {
	if err := probe.CheckSecrets(h, s.fields); err != nil {
		return nil, err
	}
	values := slices.Concat(s.values, probe.SecretsOf(h))
	if len(values) == 0 {
		return h, nil
	}
	secrets := redact.New(values)
	probe.KeepSecret(h, secrets.Replace)
	return redactor{h, secrets}, nil
}

// redactor removes the secrets from the output of a handler.
type redactor struct {
	handler probe.Handler
	secrets *redact.Replacer
}

var (
	_ probe.Wrapper   = redactor{}
	_ probe.Describer = redactor{}
)

// Unwrap implements [probe.Wrapper].
func (r redactor) Unwrap() probe.Handler { return r.handler }

// Describe implements [probe.Describer].
func (r redactor) Describe(name string, req *probe.Request) string {
	defer r.redactPanic()
	return r.secrets.Replace(probe.Describe(r.handler, name, req))
}

// redactPanic is deferred, and redacts the value of a panic. The worker logs the panic.
func (r redactor) redactPanic() {
	if p := recover(); p != nil {
		panic(r.secrets.Replace(fmt.Sprint(p)))
	}
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
	defer r.redactPanic()
	outcome, err := r.handler.Probe(ctx, req)
	outcome.Output, outcome.Details = r.secrets.Replace(outcome.Output), r.details(outcome.Details)
	outcome.Metrics = r.metrics(outcome.Metrics)
	return outcome, redact.Error(err, r.secrets.Replace)
}

// metrics returns metrics without secrets. It drops a metric or label whose name contains a secret, because
// "[redacted]" is not a valid name.
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

// details returns a JSON object without secrets, in any escaping. If the result is not valid JSON, the
// worker drops it.
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
	// A string may contain JSON itself, which is escaped twice in the object.
	fields, _ = walkStrings(fields, "", func(text, _ string) (string, error) { return r.secrets.Replace(text), nil })
	encoded, _ := json.Marshal(fields) // with the escapes that redact recognizes; decoded values can always be encoded
	return r.secrets.Replace(string(encoded))
}

// Secrets has the values of the references in a config. The zero value has none.
type Secrets struct {
	values []string
	fields []string // fields of the config that have secrets
}

// Handler returns h with the secrets removed from its outcome, errors and trace, including secrets found by
// a [probe.SecretHolder]. If h refuses secrets in their fields of the config, every attempt ends in an
// error; see [probe.SecretChecker].
func (s Secrets) Handler(h probe.Handler) probe.Handler {
	bound, err := s.Bind(h)
	if err != nil {
		return probe.HandlerFunc(func(context.Context, probe.Request) (probe.Outcome, error) { return probe.Outcome{}, err })
	}
	return bound
}

// Error returns err without the secrets in its text; nil if err is nil.
func (s Secrets) Error(err error) error {
	if err == nil || len(s.values) == 0 {
		return err
	}
	return redact.Error(err, redact.New(s.values).Replace)
}

// SecretReference is a reference such as ${file:/run/secret} in a probe's config.
type SecretReference struct {
	Source string // "file" or "env"
	Name   string
}

// RefersToSecret reports whether the config of c has a reference.
func (c *Probe) RefersToSecret() bool { return c.Refers && secretReference().Match(c.Config) }

// SecretReferences returns the references in the config of c, each once and in no particular order.
func (c *Probe) SecretReferences() (all []SecretReference) {
	if !c.Refers {
		return nil
	}
	_, _, err := ResolveSecrets(c.Config, func(source, name string) (string, error) {
		all = append(all, SecretReference{source, name})
		return "", nil
	})
	if err != nil {
		return nil // not JSON: no handler is ever bound to it
	}
	return all
}
