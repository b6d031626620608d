package probe

import (
	"context"
	"errors"
	"strings"
)

// Wrapper is implemented by handlers that make the attempts of another one: they count them, limit them or
// make them elsewhere. What a Wrapper does not implement itself of the optional interfaces below, the handler
// inside implements for it: the functions of this package find that.
type Wrapper interface {
	Handler
	// Unwrap returns the handler inside.
	Unwrap() Handler
}

// maxWrappers is how many wrappers the functions of this package look into: an Unwrap that returns itself ends.
const maxWrappers = 100

// find returns the first of h, the handler inside it and so on that is a T.
func find[T any](h Handler) (found T, ok bool) {
	for range maxWrappers {
		if found, ok = h.(T); ok {
			return found, true
		}
		w, wraps := h.(Wrapper)
		if !wraps {
			break
		}
		h = w.Unwrap()
	}
	return found, false
}

// innermost returns the handler inside all wrappers of h.
func innermost(h Handler) Handler {
	for range maxWrappers {
		w, wraps := h.(Wrapper)
		if !wraps {
			break
		}
		h = w.Unwrap()
	}
	return h
}

// ContextPreparer is a [Preparer] whose Prepare may take long, and ends with a context.
type ContextPreparer interface {
	Preparer
	PrepareContext(ctx context.Context, config []byte, target Target) (Handler, error)
}

// Prepare binds h to config and target. A handler that is not a [Preparer] is returned as it is, and
// takes no config. The end of ctx ends the Prepare of a [ContextPreparer].
func Prepare(ctx context.Context, h Handler, config []byte, target Target) (Handler, error) {
	switch p := h.(type) {
	case ContextPreparer:
		return p.PrepareContext(ctx, config, target)
	case Preparer:
		return p.Prepare(config, target)
	}
	if len(config) > 0 && string(config) != "{}" {
		return nil, errors.New("it takes no config")
	}
	return h, nil
}

// Releaser is implemented by prepared handlers that must know when they are no longer
// used. A prepared handler is one that a [Preparer] has returned.
type Releaser interface {
	Handler
	// Release is called once, when the probe has ended or has another handler now. An
	// attempt may still be under way. Release must not block.
	Release()
}

// Release calls h's Release, if it has one. h may be nil.
func Release(h Handler) {
	if r, ok := find[Releaser](h); ok {
		r.Release()
	}
}

// Inheritor is implemented by prepared handlers that take state over from the handler that
// they replace, for example the key-value store that a plugin has for a probe.
type Inheritor interface {
	Handler
	// Inherit is called before the first attempt, and again if from has changed by then. from is
	// no [Wrapper]. It may be of any other type and have an attempt in flight. Locks are held: Inherit must
	// neither block nor call another handler than from.
	Inherit(from Handler)
}

// Inherit calls h's Inherit, if it has one, with the handler inside from. With a nil from it does nothing.
func Inherit(h, from Handler) {
	if heir, ok := find[Inheritor](h); ok && from != nil {
		heir.Inherit(innermost(from))
	}
}

// Trier is implemented by prepared handlers that can be tried without touching what they
// probe.
type Trier interface {
	Handler
	// Try makes an attempt that has no effect, and returns when ctx ends at the latest. Its
	// error means that the code is broken; what it would say about a target does not count.
	Try(ctx context.Context) error
}

// Try calls h's Try, if it has one.
func Try(ctx context.Context, h Handler) error {
	if t, ok := find[Trier](h); ok {
		return t.Try(ctx)
	}
	return nil
}

// SecretHolder is implemented by prepared handlers that know secrets in their config, such as the
// values that the schema of a plugin marks.
type SecretHolder interface {
	Handler
	// Secrets returns the secrets that are in the config.
	Secrets() []string
}

// SecretsOf calls h's Secrets, if it has one.
func SecretsOf(h Handler) []string {
	if s, ok := find[SecretHolder](h); ok {
		return s.Secrets()
	}
	return nil
}

// SecretChecker is implemented by prepared handlers that show parts of their config to
// others, for example in the arguments of a command.
type SecretChecker interface {
	Handler
	// CheckSecrets returns an error if one of the given fields of the config may not be
	// secret. It is called before the first attempt when the config has secrets. A field is
	// the path to a string, as in "password", "auth.token" and "users.0.password".
	CheckSecrets(fields []string) error
}

// CheckSecrets calls h's CheckSecrets, if it has one and there are fields.
func CheckSecrets(h Handler, fields []string) error {
	if c, ok := find[SecretChecker](h); ok && len(fields) > 0 {
		return c.CheckSecrets(fields)
	}
	return nil
}

// SecretKeeper is implemented by prepared handlers that write about their config outside of
// attempts. Within an attempt, [Request.Redact] removes the secrets.
type SecretKeeper interface {
	Handler
	// KeepSecret is called once, before the first attempt, when the config has secrets.
	// redact removes them from a text. It may be called concurrently and with locks held:
	// it neither blocks nor calls a handler.
	KeepSecret(redact func(text string) string)
}

// KeepSecret calls h's KeepSecret, if it has one.
func KeepSecret(h Handler, redact func(text string) string) {
	if k, ok := find[SecretKeeper](h); ok {
		k.KeepSecret(redact)
	}
}

// Describer is implemented by prepared handlers that describe their target better than [Target.Address] does.
type Describer interface {
	Handler
	// Describe returns what an attempt with req probes, for people, on one line: "GET
	// http://10.0.0.7:8080/healthz". name is the name of the handler. The text has neither headers nor the user and
	// the password of a URL. Whoever knows the secrets of the config removes them. Describe makes no
	// attempt, does not block, does not call runtime.Goexit, and is called concurrently, also after Release. req is
	// of no attempt: it has no Attempt, and its target no host while that is not known; see [UnknownHost].
	Describe(name string, req *Request) string
}

// Describe returns what an attempt of h, the handler called name, probes with req: what h describes, or
// else its name and the target, as in "redis 10.0.0.7:6379".
func Describe(h Handler, name string, req *Request) string {
	if d, ok := find[Describer](h); ok {
		return d.Describe(name, req)
	}
	return strings.TrimSpace(name + " " + req.Target.Address())
}
