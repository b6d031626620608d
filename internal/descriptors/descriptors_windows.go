// Package descriptors does nothing on Windows: Go lets child processes inherit only the three standard
// streams.
package descriptors

// CloseOnExec does nothing.
func CloseOnExec() {}
