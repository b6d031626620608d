//go:build !linux

package footprint

// releaseProgram does nothing: these systems do not report which pages are unchanged.
func releaseProgram() {}
