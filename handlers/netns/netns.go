// Package netns makes sockets in network namespaces, such as the network namespaces of pods.
//
// A program opens a [Namespace] by its path and adds it to a context with [With]. The handlers of
// handlers/builtin and handlers/wasm make their connections, datagrams and echo requests in the namespace of
// an attempt's context. Names are looked up in the program's own namespace, and unix sockets belong to no
// namespace. Commands of exec probes, and plugins that are programs, run in the program's own namespace.
//
// [WithGuard] protects addresses that a target must not have, such as services in the program's own
// namespace.
//
// Read this file first, then namespace_linux.go: only [Namespace.Socket] enters a namespace. Only Linux has
// network namespaces.
package netns

import (
	"context"

	"github.com/daeace23/prober/probe"
)

// Error is the error of a namespace. It is always wrapped by a [probe.Error] with the reason
// [probe.ReasonHostResources], because it says nothing about a target.
type Error struct {
	Path string // the path passed to Open
	Err  error
}

// Error returns the text of Err with the path.
func (e *Error) Error() string { return "network namespace " + e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// failed returns the error err of the namespace at path.
func failed(path string, err error) error {
	return &probe.Error{Reason: probe.ReasonHostResources, Err: &Error{Path: path, Err: err}}
}

// inContext is a context with a namespace. [context.WithValue] is not used, because each [context.AfterFunc]
// on its result would cost a goroutine if the parent is the context of a worker's attempt.
type inContext struct {
	context.Context
	namespace *Namespace
}

// key is the key of the namespace in a context.
type key struct{}

// With returns a context whose sockets are made in the namespace n. The program's own namespace is used
// if n is nil or [Namespace.IsOwn] returns true.
func With(ctx context.Context, n *Namespace) context.Context {
	if n != nil && n.own {
		n = nil
	}
	if n == nil && From(ctx) == nil {
		return ctx
	}
	return &inContext{ctx, n}
}

// From returns the namespace of ctx, or nil for the program's own.
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

// Path returns the path with which the namespace was opened.
func (n *Namespace) Path() string { return n.path }
