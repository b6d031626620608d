package plugin

import (
	"fmt"
	"os"
)

// PrivateDir makes dir if need be, and refuses one in which somebody else could put
// files: not a folder, of another user, or writable to others.
func PrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", dir)
	}
	return onlyOurs(dir, info)
}
