package wasm

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// backing is an image in a file without a name. Instances map it privately, so that
// they share the pages that they do not write to, and a reset touches only those that
// were written.
type backing struct {
	file    *os.File
	view    []byte   // the image, read-only
	pagemap *os.File // tells which pages were written; nil where that cannot be known
}

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
	b := &backing{file: os.NewFile(fd, "prober-guest")}
	if _, err = b.file.Write(data); err == nil {
		b.view, err = syscall.Mmap(int(fd), 0, len(data), syscall.PROT_READ, syscall.MAP_SHARED)
	}
	if err != nil {
		b.close()
		return nil
	}
	b.openPagemap()
	return b
}

// mapOver puts the image in the place of the first bytes of space, which must be the
// beginning of a mapping.
func (b *backing) mapOver(space []byte) bool {
	if b == nil || len(b.view) > len(space) {
		return false
	}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(space)))
	_, _, errno := syscall.Syscall6(syscall.SYS_MMAP, addr, uintptr(len(b.view)),
		syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_FIXED, b.file.Fd(), 0)
	return errno == 0
}

// maxRewritten is how many pages are written back one by one. With more it is cheaper
// to forget them all, and pay with page faults.
const maxRewritten = 1024

// restore makes space, over which the image was mapped, read as the image again, and
// as zeros after its end. scratch is kept between calls.
func (b *backing) restore(space []byte, scratch *[]byte) bool {
	image, rest := space[:len(b.view)], space[len(b.view):]
	if len(rest) > 0 && syscall.Madvise(rest, syscall.MADV_DONTNEED) != nil {
		return false
	}
	if b.pagemap != nil && b.rewrite(image, scratch) {
		return true
	}
	return syscall.Madvise(image, syscall.MADV_DONTNEED) == nil
}

// The bits of an entry of /proc/self/pagemap that say where a page is.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61 // still the file's own, so nobody wrote to it
)

// rewrite copies the image over the pages that were written. It reports false where
// there are too many of them, or where it cannot tell.
func (b *backing) rewrite(image []byte, scratch *[]byte) bool {
	size := os.Getpagesize()
	entries := len(image) / size
	if len(*scratch) < entries*8 {
		*scratch = make([]byte, entries*8)
	}
	buf := (*scratch)[:entries*8]
	first := uintptr(unsafe.Pointer(unsafe.SliceData(image))) / uintptr(size)
	if n, err := b.pagemap.ReadAt(buf, int64(first)*8); err != nil || n != len(buf) {
		return false
	}
	written := 0
	for i := range entries {
		entry := binary.NativeEndian.Uint64(buf[i*8:])
		if entry&(pagePresent|pageSwapped) == 0 || entry&pageOfFile != 0 {
			continue
		}
		if written++; written > maxRewritten {
			return false
		}
		copy(image[i*size:(i+1)*size], b.view[i*size:])
	}
	return true
}

// openPagemap opens the pagemap and tries whether it tells a page that was written
// from one that was read, which not every kernel lets a process know.
func (b *backing) openPagemap() {
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return
	}
	b.pagemap = pagemap
	if !b.tryPagemap() {
		_ = pagemap.Close()
		b.pagemap = nil
	}
}

func (b *backing) tryPagemap() bool {
	size := os.Getpagesize()
	if len(b.view)%size != 0 || len(b.view) < 2*size {
		return false
	}
	space, err := reserve(uint64(len(b.view)))
	if err != nil {
		return false
	}
	defer unreserve(space)
	if !b.mapOver(space) {
		return false
	}
	first := space[0]
	space[0] = ^first
	read := space[size] // maps a page that nobody has written to
	buf := make([]byte, 16)
	page := int64(uintptr(unsafe.Pointer(unsafe.SliceData(space))) / uintptr(size))
	if _, err := b.pagemap.ReadAt(buf, page*8); err != nil || read != b.view[size] {
		return false
	}
	written, clean := binary.NativeEndian.Uint64(buf), binary.NativeEndian.Uint64(buf[8:])
	return written&pagePresent != 0 && written&pageOfFile == 0 && clean&pagePresent != 0 && clean&pageOfFile != 0
}

func (b *backing) close() {
	if b == nil {
		return
	}
	_ = b.file.Close()
	if b.pagemap != nil {
		_ = b.pagemap.Close()
	}
	if b.view != nil {
		_ = syscall.Munmap(b.view)
		b.view = nil
	}
}
