// Package liveness restarts containers and evicts pods after failures of liveness and startup probes.
//
// Read decide.go first: it decides about an action in one function without side effects. actor.go has the
// goroutine that owns all state and calls decide. act.go carries out actions, and hook.go runs preStop hooks.
// Two checks follow later: claim.go checks the probe after it has claimed the workload, and act.go the
// breaker after a preStop hook. guards.go has the budgets and the back-off. breaker.go detects when the agent
// must distrust its probes.
//
// All state is in memory. A restarted agent begins with full budgets, and without the failures of the earlier
// agent: its own probes decide them again.
package liveness
