// Package procgroup runs programs in their own process groups, and kills all processes that they have
// started.
//
// Read group_linux.go first: [Run] kills a group before its number can be reused. capture_linux.go
// runs a command and captures its output. mark.go marks processes that may leave their group by an environment
// variable. output.go limits the output that is kept. On systems other than Linux, fewer processes are killed;
// see group_other.go.
package procgroup
