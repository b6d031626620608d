package procgroup

import (
	"crypto/rand"
	"time"
)

// variable marks a program, and with it all that the program starts: whoever leaves its group,
// in a session of its own for example, keeps its environment.
const variable = "PROBER_RUN_ID="

// NewMark returns a variable that no other program has in its environment. A mark that begins
// with this one marks a part of what it marks.
func NewMark() string { return variable + rand.Text() + "." }

// endLimit is how long marked processes are killed for, if there are ever more of them.
const endLimit = 2 * time.Second

// EndMarked kills the processes whose environment has a variable that begins with one of
// marks, and those that they start meanwhile. It returns how many are left.
func EndMarked(marks ...string) (left int) {
	const rounds = 2 // with nothing found: a process that starts during one may be in neither list
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
