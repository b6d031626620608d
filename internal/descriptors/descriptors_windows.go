// Package descriptors does nothing here: on Windows, Go lets programs inherit only their three
// streams.
package descriptors

// CloseOnExec does nothing.
func CloseOnExec() {}
