package memory

import (
	"bytes"
	"encoding/binary"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// backing is an image in an anonymous file. Instances map it privately: they share the pages
// that they do not write, and a reset touches only the written ones.
type backing struct {
	file    *os.File
	view    []byte    // the image, read-only
	pagemap *os.File  // shows which pages were written; nil if it cannot be used
	scratch sync.Pool // buffers of type *[]byte for reading pagemap
}

// newBacking returns a backing with data, or nil if the system does not support it. Then images are
// copied.
func newBacking(data []byte) *backing {
	fd, err := unix.MemfdCreate("prober-guest", unix.MFD_CLOEXEC)
	if err != nil {
		return nil
	}
	b := &backing{file: os.NewFile(uintptr(fd), "prober-guest")}
	if err = b.fill(data); err == nil {
		b.view, err = unix.Mmap(fd, 0, len(data), unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		b.close()
		return nil
	}
	b.openPagemap()
	return b
}

// fill writes data to the file. Pages of zeros stay holes and take no memory. In a Go guest, half of
// the image is zeros.
func (b *backing) fill(data []byte) error {
	if err := b.file.Truncate(int64(len(data))); err != nil {
		return err
	}
	size := os.Getpagesize()
	zeros := make([]byte, size)
	for begin := 0; begin < len(data); {
		end := begin
		for end < len(data) && !bytes.Equal(data[end:min(end+size, len(data))], zeros[:min(size, len(data)-end)]) {
			end += size
		}
		if end = min(end, len(data)); end > begin {
			if _, err := b.file.WriteAt(data[begin:end], int64(begin)); err != nil {
				return err
			}
		}
		begin = end + size
	}
	return nil
}

// mapOver maps the image over the beginning of space. space must begin at the start of a mapping. It
// returns false if mapping fails.
func (b *backing) mapOver(space []byte) bool {
	if b == nil || len(b.view) > len(space) {
		return false
	}
	_, err := unix.MmapPtr(int(b.file.Fd()), 0, unsafe.Pointer(unsafe.SliceData(space)), uintptr(len(b.view)),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	return err == nil
}

// maxRewritten is the maximum number of pages that are copied back one by one. If more were written,
// it is cheaper to drop them all and take the page faults.
const maxRewritten = 128

// restore resets space, over which the image was mapped: first the image, then zeros. It returns how
// many bytes of the image had been written.
func (b *backing) restore(space []byte) (written uint64, ok bool) {
	image, rest := space[:len(b.view)], space[len(b.view):]
	if len(rest) > 0 && unix.Madvise(rest, unix.MADV_DONTNEED) != nil {
		return 0, false
	}
	scratch := b.buffer()
	defer b.scratch.Put(scratch)
	pages, known := b.writtenPages(image, scratch)
	if !known {
		return uint64(len(image)), unix.Madvise(image, unix.MADV_DONTNEED) == nil
	}
	size := os.Getpagesize()
	written = uint64(len(pages) * size)
	if len(pages) > maxRewritten {
		return written, unix.Madvise(image, unix.MADV_DONTNEED) == nil
	}
	for _, page := range pages {
		copy(image[int(page)*size:int(page+1)*size], b.view[int(page)*size:])
	}
	return written, true
}

// written returns how many bytes of the image an instance has written.
func (b *backing) written(space []byte) uint64 {
	scratch := b.buffer()
	defer b.scratch.Put(scratch)
	pages, known := b.writtenPages(space[:len(b.view)], scratch)
	if !known {
		return uint64(len(b.view))
	}
	return uint64(len(pages) * os.Getpagesize())
}

// Bits of an entry of /proc/self/pagemap.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
	pageOfFile  = 1 << 61 // a page of the file, so not written
)

func (b *backing) buffer() *[]byte {
	if buf, ok := b.scratch.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

// writtenPages returns the numbers of the written pages of the mapped image. scratch is a buffer. ok is
// false if pagemap cannot be used.
func (b *backing) writtenPages(image []byte, scratch *[]byte) (pages []uint32, ok bool) {
	if b.pagemap == nil {
		return nil, false
	}
	size := os.Getpagesize()
	entries := len(image) / size
	if len(*scratch) < entries*12 {
		*scratch = make([]byte, entries*12)
	}
	buf := (*scratch)[:entries*8]
	first := uintptr(unsafe.Pointer(unsafe.SliceData(image))) / uintptr(size)
	if n, err := b.pagemap.ReadAt(buf, int64(first)*8); err != nil || n != len(buf) {
		return nil, false
	}
	pages = unsafe.Slice((*uint32)(unsafe.Pointer(&(*scratch)[entries*8])), entries)[:0]
	for i := range entries {
		entry := binary.NativeEndian.Uint64(buf[i*8:])
		if entry&(pagePresent|pageSwapped) != 0 && entry&pageOfFile == 0 {
			pages = append(pages, uint32(i))
		}
	}
	return pages, true
}

// openPagemap opens the pagemap. It tests whether the pagemap distinguishes written pages from others,
// because not every kernel permits that.
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

// tryPagemap reads one page of a mapping, writes another, and compares their entries.
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
	read := space[size] // maps the page without writing it
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
		_ = unix.Munmap(b.view)
		b.view = nil
	}
}
