// Package failures has schedules of failures that two probes see alike, however they ask: the app
// of the tests is sick and well in steps of equal length, as a seed says.
package failures

import "math/rand/v2"

// Sick reports whether the app is sick in a step of the schedule of a seed. About a third of the
// steps are, in runs of one to six. Step 0 is not.
func Sick(seed uint64, step int) bool {
	r := rand.New(rand.NewPCG(seed, 0))
	for at := 0; ; {
		if at += 1 + r.IntN(10); step < at { // well
			return false
		}
		if at += 1 + r.IntN(6); step < at {
			return true
		}
	}
}
