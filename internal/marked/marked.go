// Package marked ends processes by a variable in their environment, which procgroup.NewMark makes.
//
// The shim of a container has it, and starts before all other packages do: it imports little.
package marked

import (
	"slices"
	"time"
)

// endLimit is how long [End] goes on if processes keep starting new ones.
const endLimit = 2 * time.Second

// End kills the processes whose environment has a variable that begins with one of
// marks, and the processes that they start meanwhile. It returns how many are left. A mark
// that is empty marks nothing.
func End(marks ...string) (left int) {
	marks = slices.DeleteFunc(slices.Clone(marks), func(mark string) bool { return mark == "" })
	const rounds = 2 // that find nothing: one may miss a process that is just starting
	deadline := time.Now().Add(endLimit)
	for quiet := 0; quiet < rounds; {
		found, refused := kill(marks)
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
