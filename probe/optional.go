package probe

// Releaser is implemented by the handlers that a [Preparer] returns and that want to
// know when they are no longer used.
type Releaser interface {
	Handler
	// Release is called once, when the probe has ended or has another handler now. An
	// attempt that was cancelled may still be under way.
	Release()
}

// Release calls h's Release, if it has one. h may be nil.
func Release(h Handler) {
	if r, ok := h.(Releaser); ok {
		r.Release()
	}
}

// Inheritor is implemented by the handlers that a [Preparer] returns and that take something
// over from the one that they replace: what a plugin keeps for a probe, say.
type Inheritor interface {
	Handler
	// Inherit is called before the first attempt, and again where from has changed by then.
	// from may have an attempt under way, goes on where the replacement fails after all, and
	// is of any type. Inherit must not block.
	Inherit(from Handler)
}

// Inherit calls h's Inherit, if it has one. from may be nil: then there is nothing to take.
func Inherit(h, from Handler) {
	if heir, ok := h.(Inheritor); ok && from != nil {
		heir.Inherit(from)
	}
}

// SecretChecker is implemented by the handlers that a [Preparer] returns and that show parts
// of their config to others, in the arguments of a command for example.
type SecretChecker interface {
	Handler
	// CheckSecrets says why the given fields of the config may not be secret. It is called
	// before the first attempt when the config has secrets. A field is the path to a string,
	// as in "password", "auth.token" and "users.0.password".
	CheckSecrets(fields []string) error
}

// CheckSecrets calls h's CheckSecrets, if it has one and there are fields.
func CheckSecrets(h Handler, fields []string) error {
	if c, ok := h.(SecretChecker); ok && len(fields) > 0 {
		return c.CheckSecrets(fields)
	}
	return nil
}

// SecretKeeper is implemented by the handlers that a [Preparer] returns and that tell of
// their config outside of attempts, whose [Request] says what is secret.
type SecretKeeper interface {
	Handler
	// KeepSecret is called once, before the first attempt, when the config has secrets.
	// redact takes them out of a text. It is called by any number of goroutines, also
	// with locks held: it must neither block nor call a handler.
	KeepSecret(redact func(text string) string)
}
