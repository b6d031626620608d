// Package footprint gives back the memory that only the start of a program took.
package footprint

import "runtime/debug"

// Settle gives unused memory of the heap back to the system, and on Linux the pages of the program file
// that are in memory: pages that are used again come back from the page cache. Call it when a program
// that runs for long has started. It takes a garbage collection.
func Settle() {
	debug.FreeOSMemory()
	releaseProgram()
}
