// Package soak runs bin/prober for a long time under load, change and faults. It needs
// Linux, and is built with the tag soak, as `make soak` does.
//
// main_linux_test.go has the flags and the child processes, soak_linux_test.go the long run,
// churn_linux_test.go the changes during it, and watch_linux_test.go the measurements.
// kill_linux_test.go kills agents, and pipe_linux_test.go closes the log of one.
package soak
