// Package suspend is how the context of an attempt lets its timeout be suspended; see probe.SuspendTimeout.
package suspend

import "context"

// Context is the context of an attempt whose timeout can be suspended. It is its own value for [Key].
type Context interface {
	context.Context
	Suspend() (resume func(), ok bool)
}

// Key is the key of a [Context] in itself, and so in the contexts derived from it.
type Key struct{}
