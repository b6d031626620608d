package filestamp

import (
	"fmt"
	"os"
	"strings"
)

// Write adds a line with what may decide whether the file at path can be used: its size and
// times, and who may read, run and change it. info is that of the file, or of what a link leads to.
func Write(b *strings.Builder, path string, info os.FileInfo) {
	number, owner := inode(info)
	fmt.Fprintf(b, "%q %d %d %d %v %d\n", path, info.Size(), info.ModTime().UnixNano(), number, info.Mode(), owner)
}

// Of returns the stamp of the file at path, or of what a link there leads to. It is another
// one when there is no such file.
func Of(path string) string {
	var b strings.Builder
	if info, err := os.Stat(path); err != nil {
		fmt.Fprintf(&b, "%q %v\n", path, err)
	} else {
		Write(&b, path, info)
	}
	return b.String()
}
