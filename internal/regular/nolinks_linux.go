package regular

import "golang.org/x/sys/unix"

// folderFlags open a folder to look something up in it, which needs no right to list it.
const folderFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
