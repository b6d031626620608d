package filestamp

import (
	"fmt"
	"os"
	"strings"
)

// identity has the owner of a file, and properties that programs cannot set. It is zero on systems without
// them.
type identity struct {
	device, inode uint64 // differ from another file with the same size and time
	owner         uint32
	changed       int64 // change time in ns; unlike the modification time, programs cannot set it
}

// Write writes a line with the size, times, identity, mode and owner of the file at path. info and err are the
// results of [os.Stat].
func Write(b *strings.Builder, path string, info os.FileInfo, err error) {
	if err != nil {
		fmt.Fprintf(b, "%q %v\n", path, err)
		return
	}
	id := identityOf(info)
	fmt.Fprintf(b, "%q %d %d %d %d %d %v %d\n", path, info.Size(), info.ModTime().UnixNano(), id.changed, id.device, id.inode, info.Mode(), id.owner)
}

// Of returns the stamp of the file at path. It follows symbolic links.
func Of(path string) string {
	var b strings.Builder
	info, err := os.Stat(path)
	Write(&b, path, info, err)
	return b.String()
}

// Same reports whether was and is describe the same file with the same stamp. nil means no file.
func Same(was, is os.FileInfo) bool {
	if was == nil || is == nil {
		return was == is
	}
	return os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size() && was.Mode() == is.Mode() &&
		identityOf(was) == identityOf(is)
}
