package probe

import (
	"context"
	"errors"
	"strings"
)

// Wrapper is implemented by handlers that delegate their attempts to another handler, for example to count
// or limit them. If a Wrapper does not implement one of the optional interfaces below, the functions of
// this package use the implementation of the wrapped handler.
type Wrapper interface {
	Handler
	// Unwrap returns the wrapped handler.
	Unwrap() Handler
}

// maxWrappers limits how many wrappers are unwrapped, in case an Unwrap returns itself.
const maxWrappers = 100

// find returns the first T among h and the handlers that it wraps.
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

// ContextPreparer is a [Preparer] whose preparation may take long, and which a context can end.
type ContextPreparer interface {
	Preparer
	PrepareContext(ctx context.Context, config []byte, target Target) (Handler, error)
}

// Prepare binds h to config and target. A handler that is not a [Preparer] is returned unchanged, and an
// error if it has a config. The end of ctx ends the preparation of a [ContextPreparer].
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

// Releaser is implemented by prepared handlers that must be notified when they are not used any more. A
// prepared handler is one that a [Preparer] has returned.
type Releaser interface {
	Handler
	// Release is called once, when the probe has ended or has got another handler. An attempt may still be
	// under way. Release must not block.
	Release()
}

// Release calls h's Release, if it has one. h may be nil.
func Release(h Handler) {
	if r, ok := find[Releaser](h); ok {
		r.Release()
	}
}

// Inheritor is implemented by prepared handlers that take over state from the handler that they replace,
// for example the key-value store of a plugin's probe.
type Inheritor interface {
	Handler
	// Inherit is called before the first attempt, and again if from has changed by then. from is not a
	// [Wrapper]. It may have any other type, and an attempt in flight. The caller holds locks, so Inherit
	// must neither block nor call a handler other than from.
	Inherit(from Handler)
}

// Inherit calls h's Inherit, if it has one, with the handler inside all wrappers of from. It does nothing
// if from is nil.
func Inherit(h, from Handler) {
	if heir, ok := find[Inheritor](h); ok && from != nil {
		heir.Inherit(innermost(from))
	}
}

// Trier is implemented by prepared handlers that can be tested without an effect on their target.
type Trier interface {
	Handler
	// Try makes an attempt without an effect. It must return when ctx ends, or earlier. An error means that
	// the code is broken; a verdict about a target is ignored.
	Try(ctx context.Context) error
}

// Try calls h's Try, if it has one.
func Try(ctx context.Context, h Handler) error {
	if t, ok := find[Trier](h); ok {
		return t.Try(ctx)
	}
	return nil
}

// SecretHolder is implemented by prepared handlers that know secrets in their config, such as values that
// are marked in the schema of a plugin.
type SecretHolder interface {
	Handler
	// Secrets returns the secrets in the config.
	Secrets() []string
}

// SecretsOf calls h's Secrets, if it has one.
func SecretsOf(h Handler) []string {
	if s, ok := find[SecretHolder](h); ok {
		return s.Secrets()
	}
	return nil
}

// SecretChecker is implemented by prepared handlers that expose parts of their config, for example in the
// arguments of a command.
type SecretChecker interface {
	Handler
	// CheckSecrets returns an error if one of the given fields of the config must not be secret. It is
	// called before the first attempt if the config has secrets. A field is the path of a string, such as
	// "password", "auth.token" or "users.0.password".
	CheckSecrets(fields []string) error
}

// CheckSecrets calls h's CheckSecrets, if it has one and there are fields.
func CheckSecrets(h Handler, fields []string) error {
	if c, ok := find[SecretChecker](h); ok && len(fields) > 0 {
		return c.CheckSecrets(fields)
	}
	return nil
}

// SecretKeeper is implemented by prepared handlers that write about their config outside of attempts, for
// example to a log. Within an attempt, [Request.Redact] removes the secrets.
type SecretKeeper interface {
	Handler
	// KeepSecret is called once, before the first attempt, if the config has secrets. redact removes them
	// from a text. redact may be called concurrently and with locks held: it neither blocks nor calls a
	// handler.
	KeepSecret(redact func(text string) string)
}

// KeepSecret calls h's KeepSecret, if it has one.
func KeepSecret(h Handler, redact func(text string) string) {
	if k, ok := find[SecretKeeper](h); ok {
		k.KeepSecret(redact)
	}
}

// Describer is implemented by prepared handlers that can describe their target better than
// [Target.Address].
type Describer interface {
	Handler
	// Describe returns a one-line description of the target of an attempt with req, such as "GET
	// http://10.0.0.7:8080/healthz". name is the name of the handler. The text must not contain headers, or
	// the user and password of a URL. The caller removes other secrets of the config.
	//
	// Describe must not make an attempt, block or call runtime.Goexit. It is called concurrently, even
	// after Release. req belongs to no attempt: Attempt is 0, and the target has no host while that is
	// unknown; see [UnknownHost].
	Describe(name string, req *Request) string
}

// Describe returns a description of the target of an attempt with req. It is h's own description, or else
// the name of the handler and the target's address, such as "redis 10.0.0.7:6379".
func Describe(h Handler, name string, req *Request) string {
	if d, ok := find[Describer](h); ok {
		return d.Describe(name, req)
	}
	return strings.TrimSpace(name + " " + req.Target.Address())
}
