// Package liveness acts on liveness and startup failures of pods: it decides whether a container
// is restarted or its pod evicted, and does it.
//
// Read decide.go first: it is the whole rule, a function without side effects. actor.go has the one
// goroutine that owns all state and asks decide; act.go is what an action does, and hook.go its preStop
// hook. guards.go has the budgets and the back-off, breaker.go when the agent distrusts its own probes.
//
// All state is in memory. An agent that is restarted begins with full budgets, and with the failures that
// its own probes find.
package liveness
