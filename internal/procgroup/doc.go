// Package procgroup runs programs in process groups of their own, and kills all that they have
// started.
//
// Read group_linux.go first: [Run] kills a group before its number can be reused. capture_linux.go
// runs a command whose output is wanted. mark.go marks what may leave
// its group by a variable in its environment. output.go bounds what is kept of the output of a program. On systems
// other than Linux less is killed; group_other.go says what.
package procgroup
