package procgroup

import "crypto/rand"

// NewMark returns a unique environment variable. It marks a program and all processes that the program
// starts: a process that leaves the group, for example by starting a session, keeps its environment. A longer
// variable that begins with the mark marks a subset. Package marked ends processes with a mark.
func NewMark() string { return "PROBER_RUN_ID=" + rand.Text() + "." }
