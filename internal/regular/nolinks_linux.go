package regular

import "golang.org/x/sys/unix"

// folderFlags open a folder for lookups, which needs no permission to list it.
const folderFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
