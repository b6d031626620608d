//go:build !linux

package process

// killMarked finds nobody: other systems do not show the environment of a process.
func killMarked([]string) (found, refused int) { return 0, 0 }
