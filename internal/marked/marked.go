// Package marked ends processes by a variable in their environment, made by procgroup.NewMark.
//
// The shim of a container imports this package, and runs before most packages are initialized. So this package must
// have few imports.
package marked

import (
	"slices"
	"time"
)

// endLimit limits the duration of [End] if processes keep starting new ones.
const endLimit = 2 * time.Second

// End kills the processes whose environment has a variable that begins with one of
// marks, and the processes that they start meanwhile. It returns how many are left. Empty marks are
// ignored.
func End(marks ...string) (left int) {
	marks = slices.DeleteFunc(slices.Clone(marks), func(mark string) bool { return mark == "" })
	const rounds = 2 // scans without a result before it ends: one scan may miss a starting process
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
		time.Sleep(time.Millisecond) // let them end
	}
	return 0
}
