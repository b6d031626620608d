package procgroup

import "crypto/rand"

// NewMark returns an environment variable that no other program has. It marks a program and all
// that the program starts: a process that leaves the group, for example by a session of its own,
// keeps its environment. Longer variables that begin with the mark mark parts of what it marks.
// Package marked ends processes that have it.
func NewMark() string { return "PROBER_RUN_ID=" + rand.Text() + "." }
