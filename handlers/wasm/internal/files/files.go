// Package files reads files of this machine for guests. It checks a path twice: as the guest names it, and after
// all symbolic links of it are followed. A call that hangs, such as one to a network mount, does not block its guest
// beyond the deadline.
//
// Read System.Do first, then open_linux.go, and walk.go for systems without openat2.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/abi"
)

// Op is an operation.
type Op string

// The operations, by the names of their host functions.
const (
	Stat   Op = "stat"
	Statfs Op = "statfs"
	Read   Op = "read"
	List   Op = "list"
)

// Request asks for one file, folder or file system.
type Request struct {
	Op      Op
	Path    string // absolute and clean
	Offset  int64  // of Read
	Most    int    // bytes of Read, or entries of List
	Pattern string // the grant of Path; calls that hang are counted by it

	// Allowed returns an error if the grants do not allow a path. The path that Path leads to must be
	// allowed too.
	Allowed func(path string) error
}

// Reply is the answer to a [Request]. It has the field of its operation.
type Reply struct {
	Info       abi.FileInfo
	Filesystem abi.FilesystemInfo
	Data       []byte // fewer than Most bytes only at the end of the file
	List       abi.FileList
}

// LinkError is the error of a path with a symbolic link to a path that is not allowed.
type LinkError struct {
	Path, To string
	Err      error
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s leads to %s: %v", e.Path, e.To, e.Err)
}

func (e *LinkError) Unwrap() error { return e.Err }

// HangError is the error of a call whose predecessor has not returned.
type HangError struct {
	Op    Op
	Path  string
	Since time.Duration
}

func (e *HangError) Error() string {
	return fmt.Sprintf("%s %s has not returned for %v: the disk or the network mount hangs", e.Op, e.Path, e.Since.Round(time.Second))
}

// Errors of files that are not read.
var (
	ErrType    = errors.New("neither a regular file nor a folder")
	ErrFolder  = errors.New("a folder, not a regular file")
	ErrFile    = errors.New("not a folder")
	ErrEntries = errors.New("the folder has too many entries")
	errMoved   = errors.New("the path changed while it was opened")
)

const (
	maxRunning = 64      // calls at a time
	maxHung    = 4       // calls without an answer of one grant
	maxRead    = 1 << 20 // bytes of one Read
)

// System reads the files of this machine. The zero value is ready for use, by several goroutines.
type System struct {
	mu      sync.Mutex
	running int
	hung    map[*call]bool // calls whose guest has stopped waiting
}

// call is one running operation.
type call struct {
	op      Op
	path    string
	pattern string
	began   time.Time
	done    chan struct{} // closed at the end
	reply   Reply
	err     error
}

// Do carries out a request. It returns when ctx ends, although the operation may hang; later requests for the same
// path then fail at once.
func (s *System) Do(ctx context.Context, r Request) (Reply, error) {
	c := &call{op: r.Op, path: r.Path, pattern: r.Pattern, began: time.Now(), done: make(chan struct{})}
	if err := s.begin(c); err != nil {
		return Reply{}, err
	}
	go func() {
		defer s.end(c)
		c.reply, c.err = do(&r)
	}()
	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
		s.abandon(c)
		return Reply{}, fmt.Errorf("%s %s: no answer: %w", r.Op, r.Path, context.Cause(ctx))
	}
}

// begin counts a call. It returns an error if the call would probably hang as others do.
func (s *System) begin(c *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var same, oldest *call
	n := 0
	for h := range s.hung {
		if oldest == nil || h.began.Before(oldest.began) {
			oldest = h
		}
		if h.path == c.path {
			same = h
		}
		if h.pattern == c.pattern {
			n++
		}
	}
	if same == nil && (n >= maxHung || s.running >= maxRunning) {
		same = oldest
	}
	switch {
	case same != nil:
		return &HangError{same.op, same.path, time.Since(same.began)}
	case s.running >= maxRunning:
		return fmt.Errorf("%s %s: %d calls for files run already", c.op, c.path, s.running)
	}
	s.running++
	return nil
}

func (s *System) end(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	delete(s.hung, c)
	close(c.done)
}

// abandon records that a call hangs, unless it has ended now.
func (s *System) abandon(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-c.done:
		return
	default:
	}
	if s.hung == nil {
		s.hung = make(map[*call]bool)
	}
	s.hung[c] = true
}

// node is an opened path.
type node struct {
	info   fs.FileInfo
	open   func() (file, error) // of a regular file or a folder, for reading
	statfs func() (abi.FilesystemInfo, error)
	close  func()
}

// file is a regular file or a folder that can be read.
type file interface {
	io.ReaderAt
	io.Closer
	ReadDir(n int) ([]fs.DirEntry, error)
}

// do carries out a request, and waits for it.
func do(r *Request) (Reply, error) { return doBy(openNode, r) }

// doBy is like do with a function that opens paths.
func doBy(open func(path string, allowed func(string) error) (*node, error), r *Request) (reply Reply, err error) {
	n, err := open(r.Path, r.Allowed)
	if err != nil {
		return reply, wrap(r, err)
	}
	defer n.close()
	switch r.Op {
	case Stat:
		reply.Info = describe(n.info)
	case Statfs:
		reply.Filesystem, err = n.statfs()
	case Read:
		reply.Data, err = n.read(r.Offset, r.Most)
	case List:
		reply.List.Entries, err = n.list(r.Most)
	}
	return reply, wrap(r, err)
}

// wrap adds the operation and the path to an error, instead of those that package os adds.
func wrap(r *Request, err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		err = inner.Err
	}
	if _, ok := errors.AsType[*LinkError](err); ok || err == nil {
		return err
	}
	return fmt.Errorf("%s %s: %w", r.Op, r.Path, err)
}

// typeName returns the name of the type of a file.
func typeName(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return abi.TypeFile
	case mode.IsDir():
		return abi.TypeDirectory
	case mode&fs.ModeSymlink != 0:
		return abi.TypeSymlink
	case mode&fs.ModeNamedPipe != 0:
		return abi.TypeFIFO
	case mode&fs.ModeSocket != 0:
		return abi.TypeSocket
	case mode&fs.ModeDevice != 0:
		return abi.TypeDevice
	}
	return abi.TypeOther
}

func describe(info fs.FileInfo) abi.FileInfo {
	i := abi.FileInfo{Type: typeName(info.Mode()), Size: info.Size(), Mode: int(info.Mode().Perm()), Modified: info.ModTime()}
	i.UID, i.GID = owner(info)
	return i
}

// reader opens the file for reading.
func (n *node) reader() (file, error) {
	if mode := n.info.Mode(); !mode.IsRegular() && !mode.IsDir() {
		return nil, fmt.Errorf("%w: a %s", ErrType, typeName(mode))
	}
	return n.open()
}

// read returns at most most bytes from an offset on.
func (n *node) read(offset int64, most int) ([]byte, error) {
	if n.info.IsDir() {
		return nil, ErrFolder
	}
	f, err := n.reader()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most = min(most, maxRead)
	size := most
	if left := n.info.Size() - offset; left > 0 && left < int64(most) {
		size = int(left) + 1 // files of /proc have the size 0
	}
	data := make([]byte, 0, min(size, most))
	for len(data) < most {
		data = slices.Grow(data, 1)
		got, err := f.ReadAt(data[len(data):min(cap(data), most)], offset+int64(len(data)))
		data = data[:len(data)+max(got, 0)]
		if err == io.EOF || err == nil && got == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// list returns the entries of a folder.
func (n *node) list(most int) ([]abi.FileEntry, error) {
	if !n.info.IsDir() {
		return nil, ErrFile
	}
	f, err := n.reader()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(most + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(entries) > most {
		return nil, ErrEntries
	}
	all := make([]abi.FileEntry, 0, len(entries))
	for _, e := range entries {
		all = append(all, abi.FileEntry{Name: e.Name(), Type: typeName(e.Type())})
	}
	slices.SortFunc(all, func(a, b abi.FileEntry) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

var _ file = (*os.File)(nil)

// The documents of a [Reply].
type (
	Info       = abi.FileInfo
	Filesystem = abi.FilesystemInfo
	Listing    = abi.FileList
	Entry      = abi.FileEntry
)
