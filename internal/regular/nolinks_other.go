//go:build !unix

package regular

import "os"

// openNoLinks opens the file at path. Making links needs rights of its own on Windows, and
// links on the way are followed.
func openNoLinks(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) }
