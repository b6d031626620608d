// Package seam lets the packages of core use private parts of each other's public types.
//
// A public type embeds a [Hidden], through an alias with an unexported name, and [Reveal] returns its
// private part. Only packages below core can import seam and call Reveal.
package seam

import "sync/atomic"

// Hidden is the private part of a public type, for packages of core only.
type Hidden[T any] struct{ part T }

// Hide returns a Hidden with the given part.
func Hide[T any](part T) Hidden[T] { return Hidden[T]{part} }

func (h *Hidden[T]) hidden() *T { return &h.part }

// Reveal returns the private part of a value whose type embeds a [Hidden].
func Reveal[T any](value interface{ hidden() *T }) *T { return value.hidden() }

// Owner identifies who has claimed a container; owners are compared by pointer. Parent is the key of a
// group, or nil.
type Owner[Subject any] struct {
	Subject *Subject
	Parent  atomic.Pointer[any] // nil for nothing
}

// Version is a snapshot of an entry of a group: it identifies the entry and its number of changes.
type Version struct {
	Entry  any
	Number uint32 // changes so far
}

// Keep selects the state of a probe that a change keeps.
type Keep struct {
	Run     bool // the run of equal results
	Attempt bool // a hold, and the attempt under way unless its timeout or target changes
}
