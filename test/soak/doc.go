// Package soak runs bin/prober for a long time under load, change and faults. `make soak`
// runs it; without its flag -soak the tests skip themselves. It needs Linux.
//
// main_linux_test.go has the flags and what this binary does as a child process,
// soak_linux_test.go the long run, churn_linux_test.go what changes during it,
// watch_linux_test.go what is measured, kill_linux_test.go the kills, pipe_linux_test.go
// the reader of the log that goes away.
package soak
