//go:build !linux

package marked

// kill finds nothing: these systems do not show the environment of a process.
func kill([]string) (found, refused int) { return 0, 0 }
