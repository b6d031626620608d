package plugin

import (
	"os"
	"runtime"
)

// maxSocketFolder is how long the path of a folder may be for what is made in it: the path
// of a socket has 103 bytes on some systems, and 38 of them are go-plugin's.
const maxSocketFolder = 64

// SocketTemp is the folder in which those of unix sockets are made: the one for temporary
// files or, where that has too long a path, /tmp.
func SocketTemp() string {
	if dir := os.TempDir(); len(dir) <= maxSocketFolder || runtime.GOOS == "windows" {
		return dir
	}
	return "/tmp"
}
