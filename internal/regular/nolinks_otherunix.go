//go:build unix && !linux

package regular

import "golang.org/x/sys/unix"

// folderFlags open a folder to look something up in it.
const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
