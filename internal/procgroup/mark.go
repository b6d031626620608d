package procgroup

import (
	"crypto/rand"
	"slices"
	"time"
)

// NewMark returns an environment variable that no other program has. It marks a program and all
// that the program starts: a process that leaves the group, for example by a session of its own,
// keeps its environment. Longer variables that begin with the mark mark parts of what it marks.
func NewMark() string { return "PROBER_RUN_ID=" + rand.Text() + "." }

// endLimit is how long [EndMarked] goes on if processes keep starting new ones.
const endLimit = 2 * time.Second

// EndMarked kills the processes whose environment has a variable that begins with one of
// marks, and the processes that they start meanwhile. It returns how many are left. A mark
// that is empty marks nothing.
func EndMarked(marks ...string) (left int) {
	marks = slices.DeleteFunc(slices.Clone(marks), func(mark string) bool { return mark == "" })
	const rounds = 2 // that find nothing: one may miss a process that is just starting
	deadline := time.Now().Add(endLimit)
	for quiet := 0; quiet < rounds; {
		found, refused := killMarked(marks)
		switch {
		case found == 0:
			quiet++
			continue
		case found == refused, time.Now().After(deadline):
			return found
		}
		quiet = 0
		time.Sleep(time.Millisecond) // until they have ended
	}
	return 0
}
