// Package footprint returns memory to the system that a program used only at its start.
package footprint

import "runtime/debug"

// Settle returns unused heap memory to the system, and on Linux also the resident pages of the program file,
// which are loaded from the page cache when they are used again. Call it after the start of a long-running
// program. It runs a garbage collection.
func Settle() {
	debug.FreeOSMemory()
	releaseProgram()
}
