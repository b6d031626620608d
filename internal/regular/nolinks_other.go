//go:build !unix

package regular

import "os"

// openNoLinks opens the file at path, and follows links: on Windows, only privileged users
// create them.
func openNoLinks(path string, flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) }
