package filestamp

import (
	"fmt"
	"os"
	"strings"
)

// identity is what the system knows of a file that nobody can choose, and its owner. It is zero on a
// system without it.
type identity struct {
	device, inode uint64 // another file with the same size and time differs in these
	owner         uint32
	changed       int64 // when it was last changed, in ns: a program that writes it can set the other time back
}

// Write adds a line with what decides whether the file at path can be used: its size, times,
// identity, mode and owner. info and err are the results of [os.Stat].
func Write(b *strings.Builder, path string, info os.FileInfo, err error) {
	if err != nil {
		fmt.Fprintf(b, "%q %v\n", path, err)
		return
	}
	id := identityOf(info)
	fmt.Fprintf(b, "%q %d %d %d %d %d %v %d\n", path, info.Size(), info.ModTime().UnixNano(), id.changed, id.device, id.inode, info.Mode(), id.owner)
}

// Of returns the stamp of the file at path, or of the file that a link at path leads to.
func Of(path string) string {
	var b strings.Builder
	info, err := os.Stat(path)
	Write(&b, path, info, err)
	return b.String()
}

// Same reports whether the file of was and is would have the same stamp. nil stands for no file.
func Same(was, is os.FileInfo) bool {
	if was == nil || is == nil {
		return was == is
	}
	return os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size() && was.Mode() == is.Mode() &&
		identityOf(was) == identityOf(is)
}
