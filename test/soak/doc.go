//go:build linux

// Command soak runs bin/prober for a long time with many probes, while everything around it
// changes and fails, and then kills it again and again. `make soak` builds and runs it; it needs
// Linux.
//
// The first phase is [runLoad], in load.go: an agent with some ten probes in each of its pods. Its
// targets are in a child process that logs every connection: targets.go, and the fault proxy in
// proxy.go. layout.go says which pods and probes there are, churn.go changes them, and readers.go
// reads the API. ledger.go compares the log of the targets with the schedule of each probe, and
// check.go compares it with what the agent tells about itself. watch.go measures the agent. odd.go
// has pods for what the others have not: local processes, and targets that always fail.
//
// The second phase is [runKills], in kill.go. The third, [runPipe], closes the log of an agent.
package main
