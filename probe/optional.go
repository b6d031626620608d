package probe

import (
	"context"
	"errors"
)

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
	// attempt that was cancelled may still be under way. Release must not block.
	Release()
}

// Release calls h's Release, if it has one. h may be nil.
func Release(h Handler) {
	if r, ok := h.(Releaser); ok {
		r.Release()
	}
}

// Inheritor is implemented by prepared handlers that take state over from the handler that
// they replace, for example the key-value store that a plugin has for a probe.
type Inheritor interface {
	Handler
	// Inherit is called before the first attempt, and again if from has changed by then.
	// from may be of any type and have an attempt in flight. Locks are held: Inherit must
	// neither block nor call another handler than from.
	Inherit(from Handler)
}

// Inherit calls h's Inherit, if it has one. With a nil from it does nothing.
func Inherit(h, from Handler) {
	if heir, ok := h.(Inheritor); ok && from != nil {
		heir.Inherit(from)
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
	if t, ok := h.(Trier); ok {
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
	if s, ok := h.(SecretHolder); ok {
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
	if c, ok := h.(SecretChecker); ok && len(fields) > 0 {
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
	if k, ok := h.(SecretKeeper); ok {
		k.KeepSecret(redact)
	}
}
