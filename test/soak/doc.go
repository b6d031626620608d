// Package soak runs bin/prober for a long time under load, change and faults. It needs
// Linux, and is built with the tag soak, as `make soak` does.
//
// main_linux_test.go has the flags and what this binary does as a child process,
// soak_linux_test.go the long run, churn_linux_test.go what changes during it,
// watch_linux_test.go what is measured, kill_linux_test.go the kills, pipe_linux_test.go
// the reader of the log that goes away.
package soak
