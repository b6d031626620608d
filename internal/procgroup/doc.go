// Package procgroup starts programs in process groups of their own, and ends all that they
// have started.
//
// Read group_linux.go first: [Start] and [Wait] end a group before its number can be another's.
// mark.go finds what has left its group by a variable in its environment. On other systems
// than Linux less is ended; group_other.go says what.
package procgroup
