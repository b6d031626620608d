package wasm

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// backing is an image in a file without a name. Instances map it privately, so that
// they share the pages that they do not write to, and a reset does no more than
// forget the pages that were written.
type backing struct{ file *os.File }

// memfdCreate is the number of memfd_create, which package syscall does not have.
var memfdCreate = map[string]uintptr{"amd64": 319, "arm64": 279, "riscv64": 279, "loong64": 279}[runtime.GOARCH]

const closeOnExec = 1 // MFD_CLOEXEC

// newBacking returns nil where there can be none: images are copied then.
func newBacking(data []byte) *backing {
	if memfdCreate == 0 {
		return nil
	}
	name, err := syscall.BytePtrFromString("prober-guest")
	if err != nil {
		return nil
	}
	fd, _, errno := syscall.Syscall(memfdCreate, uintptr(unsafe.Pointer(name)), closeOnExec, 0)
	if errno != 0 {
		return nil
	}
	b := &backing{os.NewFile(fd, "prober-guest")}
	if _, err := b.file.Write(data); err != nil {
		b.close()
		return nil
	}
	return b
}

// mapOver puts the image in the place of the first size bytes of space, which must be
// the beginning of a mapping.
func (b *backing) mapOver(space []byte, size int) bool {
	if b == nil || size == 0 || size > len(space) {
		return false
	}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(space)))
	_, _, errno := syscall.Syscall6(syscall.SYS_MMAP, addr, uintptr(size),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_FIXED, b.file.Fd(), 0)
	return errno == 0
}

// forget drops what was written to space: it reads as the image again, and as zeros
// after its end.
func (b *backing) forget(space []byte) bool {
	return syscall.Madvise(space, syscall.MADV_DONTNEED) == nil
}

func (b *backing) close() {
	if b != nil {
		_ = b.file.Close()
	}
}
