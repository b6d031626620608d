// Package seam lets the packages of core use what a public type of another one keeps from everybody else.
//
// The public type embeds a [Hidden], by an alias whose name is not exported, and [Of] returns the part. Only
// packages that can import this one can call Of.
package seam

import "sync/atomic"

// Hidden is the part of a public type that only packages of core use.
type Hidden[T any] struct{ part T }

// Hide returns a Hidden with the given part.
func Hide[T any](part T) Hidden[T] { return Hidden[T]{part} }

func (h *Hidden[T]) hidden() *T { return &h.part }

// Of returns the hidden part of a value whose type embeds a [Hidden].
func Of[T any](value interface{ hidden() *T }) *T { return value.hidden() }

// Owner is who has claimed a container, by its pointer. Of is what the owner belongs to: a key of a group.
type Owner[Subject any] struct {
	Subject *Subject
	Of      atomic.Pointer[any] // nil for nothing
}

// Version is a value that others can change, as it was at one moment.
type Version struct {
	Of     any
	Number uint32 // of changes before
}

// Keep is what a change of a probe keeps.
type Keep struct {
	Run     bool // of equal results
	Attempt bool // under way, unless its timeout or target is another one; and a hold
}
