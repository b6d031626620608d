// Package netns makes sockets in network namespaces, such as those of pods.
//
// A program opens a [Namespace] by its path and passes it on with [With]. The handlers of
// handlers/builtin and handlers/wasm make their connections, datagrams and echo requests in the
// namespace of the context of an attempt. Names are looked up in the program's own namespace, and unix
// sockets belong to none. Commands of exec probes and plugins that are programs stay where they are.
//
// In the program's own namespace there may be addresses that no target may have: see [WithGuard].
//
// Read this file first, then namespace_linux.go: [Namespace.Socket] is the only code that enters a
// namespace. There are no namespaces on other systems than Linux.
package netns

import (
	"context"

	"github.com/daeace23/prober/probe"
)

// Error is the error of a namespace. Each is inside a [probe.Error] with the reason
// [probe.ReasonHostResources]: it tells nothing about a target.
type Error struct {
	Path string // as it was opened
	Err  error
}

// Error names the path.
func (e *Error) Error() string { return "network namespace " + e.Path + ": " + e.Err.Error() }

// Unwrap returns the error inside.
func (e *Error) Unwrap() error { return e.Err }

// failed returns the error of the namespace at path.
func failed(path string, err error) error {
	return &probe.Error{Reason: probe.ReasonHostResources, Err: &Error{Path: path, Err: err}}
}

// inContext is a context with a namespace. It is no [context.WithValue], whose result costs a goroutine
// for each [context.AfterFunc] if the parent is the context of a worker's attempt.
type inContext struct {
	context.Context
	namespace *Namespace
}

// key is the key of the namespace in a context.
type key struct{}

// With returns ctx with a namespace for the sockets that are made with it. A nil Namespace stands for the
// program's own, and so does one that is the program's own.
func With(ctx context.Context, n *Namespace) context.Context {
	if n != nil && n.own {
		n = nil
	}
	if n == nil && From(ctx) == nil {
		return ctx
	}
	return &inContext{ctx, n}
}

// From returns the namespace of ctx; nil for the program's own.
func From(ctx context.Context) *Namespace {
	n, _ := ctx.Value(key{}).(*Namespace)
	return n
}

// Value implements [context.Context].
func (c *inContext) Value(k any) any {
	if k == (key{}) {
		return c.namespace
	}
	return c.Context.Value(k)
}

// AfterFunc calls f in a goroutine when c ends. The context package calls it.
func (c *inContext) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }

// Path returns the path that the namespace was opened by.
func (n *Namespace) Path() string { return n.path }
