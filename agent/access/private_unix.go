//go:build unix

package access

import (
	"fmt"
	"os"
)

// private returns an error where users other than the owner may read or write the file at
// path.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%s: mode %04o lets other users read or change it; it must be 0600", path, mode)
	}
	return nil
}
