//go:build !linux

package footprint

// releaseProgram does nothing: these systems do not say which pages are unchanged.
func releaseProgram() {}
