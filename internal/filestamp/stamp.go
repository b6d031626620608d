package filestamp

import (
	"fmt"
	"os"
	"strings"
)

// Write adds a line with what decides whether the file at path can be used: its size, times,
// mode and owner. info and err are the results of [os.Stat].
func Write(b *strings.Builder, path string, info os.FileInfo, err error) {
	if err != nil {
		fmt.Fprintf(b, "%q %v\n", path, err)
		return
	}
	number, owner := inode(info)
	fmt.Fprintf(b, "%q %d %d %d %v %d\n", path, info.Size(), info.ModTime().UnixNano(), number, info.Mode(), owner)
}

// Of returns the stamp of the file at path, or of the file that a link at path leads to.
func Of(path string) string {
	var b strings.Builder
	info, err := os.Stat(path)
	Write(&b, path, info, err)
	return b.String()
}
