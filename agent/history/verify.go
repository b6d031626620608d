package history

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"

	"github.com/daeace23/prober/internal/ownership"
)

// The layout of bbolt's files, version 2, in native byte order.
const (
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
	bucketValue  = 0x01 // flag of a leaf's element
	pageHeader   = 16
	pageElement  = 16
	bucketHeader = 16
	maxExtent    = 4 * (16 << 20) // bytes of a page with its overflow pages
)

// verify reads a bbolt file once, and returns [errCorrupt] if its pages are not a tree. bbolt trusts pages:
// a wrong length can take all memory, and a page that is its own child recurses without end. recover helps
// against neither. Checksums verify the values when they are read.
func verify(path string) error {
	f, err := ownership.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 { // bbolt initializes an empty file
		return err
	}
	v := verifier{in: f}
	if err := v.file(info.Size()); err != nil {
		return fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return nil
}

// verifier checks one file.
type verifier struct {
	in       io.ReaderAt
	size     uint64 // of a page
	pages    []byte // flags by page
	root     uint64
	freelist uint64
}

// Flags of pages.
const (
	isFree  = 1 << iota
	isStart // first page of a page with its overflow pages
	isChild // referenced by one other page
	isInner // overflow of a page before
)

func (v *verifier) file(size int64) error {
	if err := v.meta(size); err != nil {
		return err
	}
	if err := v.free(); err != nil {
		return err
	}
	if err := v.child(v.root); err != nil {
		return err
	}
	if err := v.child(v.freelist); err != nil {
		return err
	}
	in := bufio.NewReaderSize(io.NewSectionReader(v.in, int64(2*v.size), size-int64(2*v.size)), 1<<20)
	var extent []byte
	for id := uint64(2); id < uint64(len(v.pages)); {
		if v.pages[id]&isFree != 0 {
			if _, err := in.Discard(int(v.size)); err != nil {
				return err
			}
			id++
			continue
		}
		n, err := v.extent(in, id, &extent)
		if err != nil {
			return fmt.Errorf("page %d: %w", id, err)
		}
		id += n
	}
	for id, is := range v.pages { // pages with one parent each, and a reachable root, are a tree
		if is&isStart != 0 != (is&isChild != 0) {
			return fmt.Errorf("page %d is misplaced", id)
		}
	}
	return nil
}

// meta reads the newest valid meta page of the two.
func (v *verifier) meta(size int64) error {
	var newest, high uint64
	found := false
	v.size = uint64(os.Getpagesize())
	for i := range int64(2) {
		at := i * int64(v.size)
		var b [pageHeader + 64]byte
		if _, err := v.in.ReadAt(b[:], at); err != nil {
			return fmt.Errorf("the header cannot be read: %w", err)
		}
		m := b[pageHeader:]
		sum := fnv.New64a()
		_, _ = sum.Write(m[:56])
		if u32(m) != boltMagic || u32(m[4:]) != boltVersion || u64(m[56:]) != sum.Sum64() || found && u64(m[48:]) < newest {
			continue
		}
		found, newest = true, u64(m[48:])
		v.size, v.root, v.freelist, high = uint64(u32(m[8:])), u64(m[16:]), u64(m[32:]), u64(m[40:])
	}
	switch {
	case !found:
		return errors.New("not a database")
	case v.size < 1<<10 || v.size > 1<<16 || v.size&(v.size-1) != 0:
		return fmt.Errorf("its pages have %d bytes", v.size)
	case high < 4 || high > uint64(size)/v.size:
		return fmt.Errorf("it has %d bytes for %d pages", size, high)
	}
	v.pages = make([]byte, high)
	return nil
}

func u16(b []byte) uint64 { return uint64(binary.NativeEndian.Uint16(b)) }
func u32(b []byte) uint64 { return uint64(binary.NativeEndian.Uint32(b)) }
func u64(b []byte) uint64 { return binary.NativeEndian.Uint64(b) }

// child marks a page as referenced. A page with two parents is an error.
func (v *verifier) child(id uint64) error {
	if id < 2 || id >= uint64(len(v.pages)) || v.pages[id] != 0 && v.pages[id] != isStart {
		return fmt.Errorf("page %d is referenced twice, or does not exist", id)
	}
	v.pages[id] |= isChild
	return nil
}

// extentOf returns the number of pages that the page with this header spans.
func (v *verifier) extentOf(header []byte, id uint64) (uint64, error) {
	n := u32(header[12:]) + 1
	if u64(header) != id || n > uint64(len(v.pages))-id || n*v.size > maxExtent {
		return 0, fmt.Errorf("its header claims page %d, and %d pages", u64(header), n)
	}
	return n, nil
}

// free reads the freelist.
func (v *verifier) free() error {
	var b [pageHeader + 8]byte
	if v.freelist < 2 || v.freelist >= uint64(len(v.pages)) {
		return errors.New("its list of free pages is missing")
	}
	if _, err := v.in.ReadAt(b[:], int64(v.freelist*v.size)); err != nil {
		return err
	}
	n, err := v.extentOf(b[:], v.freelist)
	if err != nil {
		return err
	}
	list := make([]byte, n*v.size)
	if _, err := v.in.ReadAt(list, int64(v.freelist*v.size)); err != nil {
		return err
	}
	count, ids := u16(b[10:]), list[pageHeader:]
	if count == 0xFFFF {
		count, ids = u64(ids), ids[8:]
	}
	if u16(b[8:]) != freelistPage || count > uint64(len(ids)/8) {
		return errors.New("its list of free pages is damaged")
	}
	for i := range count {
		id := u64(ids[8*i:])
		if id < 2 || id >= uint64(len(v.pages)) || v.pages[id] != 0 {
			return fmt.Errorf("page %d is free twice, or does not exist", id)
		}
		v.pages[id] = isFree
	}
	return nil
}

// extent verifies the page at which in is positioned, and returns how many pages it spans.
func (v *verifier) extent(in *bufio.Reader, id uint64, buffer *[]byte) (uint64, error) {
	header, err := in.Peek(pageHeader)
	if err != nil {
		return 0, err
	}
	n, err := v.extentOf(header, id)
	if err != nil {
		return 0, err
	}
	for other := id; other < id+n; other++ {
		if is := v.pages[other]; is&isFree != 0 || other > id && is != 0 {
			return 0, fmt.Errorf("it overlaps page %d", other)
		}
		v.pages[other] |= isInner
	}
	v.pages[id] = v.pages[id]&^isInner | isStart
	if uint64(cap(*buffer)) < n*v.size {
		*buffer = make([]byte, n*v.size)
	}
	page := (*buffer)[:n*v.size]
	if _, err := io.ReadFull(in, page); err != nil {
		return 0, err
	}
	if id == v.freelist {
		return n, nil
	}
	return n, v.page(page)
}

// page verifies the elements of a page, or of the inline page of a small bucket.
func (v *verifier) page(page []byte) error {
	flags, count := u16(page[8:]), u16(page[10:])
	if flags != leafPage && flags != branchPage || pageHeader+count*pageElement > uint64(len(page)) || flags == branchPage && count == 0 {
		return fmt.Errorf("it is of type %#x, and has %d elements", flags, count)
	}
	var last []byte
	next := pageHeader + count*pageElement // bbolt leaves no gaps, which could hide an element
	for i := range count {
		at := pageHeader + i*pageElement
		e := page[at:]
		isBucket, pos, keys, values := u32(e), u32(e[4:]), u32(e[8:]), u32(e[12:])
		if flags == branchPage {
			pos, keys, values = u32(e), u32(e[4:]), 0
		}
		from := at + pos
		if from != next || keys == 0 || from+keys+values > uint64(len(page)) {
			return fmt.Errorf("element %d is misplaced", i)
		}
		next = from + keys + values
		key := page[from : from+keys]
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return fmt.Errorf("element %d is not in order", i)
		}
		last = key
		var err error
		switch {
		case flags == branchPage:
			err = v.child(u64(e[8:]))
		case isBucket == bucketValue:
			err = v.bucket(page[from+keys:][:values])
		case isBucket != 0:
			err = fmt.Errorf("element %d has flags %#x", i, isBucket)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket verifies the value of a bucket: it has the number of its root page, or an inline page.
func (v *verifier) bucket(value []byte) error {
	switch {
	case len(value) < bucketHeader:
		return errors.New("a bucket is too short")
	case u64(value) != 0:
		return v.child(u64(value))
	case len(value) < bucketHeader+pageHeader || u16(value[bucketHeader+8:]) != leafPage:
		return errors.New("a small bucket is damaged")
	default:
		return v.page(value[bucketHeader:])
	}
}
