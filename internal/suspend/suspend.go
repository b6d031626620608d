// Package suspend defines the context of an attempt whose timeout can be suspended; see probe.SuspendTimeout.
package suspend

import "context"

// Context is the context of an attempt whose timeout can be suspended. It is its own value for [Key].
type Context interface {
	context.Context
	Suspend() (resume func(), ok bool)
}

// Key is the key under which a [Context] returns itself, so that derived contexts can find it.
type Key struct{}
