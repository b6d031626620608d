// Package failures has schedules of failures for test/kube/testapp. The app is sick or well for steps of
// equal length, so that two probers with the same period see the same failures. A seed determines the
// schedule.
package failures

import "math/rand/v2"

// Sick reports whether the app is sick in a step of the schedule for a seed. It is sick in about 40 % of the
// steps, in runs of one to six. It is well in step 0.
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
