//go:build unix && !linux

package regular

import "golang.org/x/sys/unix"

// folderFlags open a folder for lookups.
const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
