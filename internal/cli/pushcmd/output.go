package pushcmd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/internal/clip"
	"github.com/daeace23/prober/internal/procgroup"
)

// stream passes the output of a command through, and keeps two lines of it.
type stream struct {
	from  *os.File // read end of a pipe
	to    io.Writer
	done  chan struct{} // closed after the last write
	lines lines
	err   error // of the first write that failed; read after done
}

// pipe returns a stream to w, and the end of its pipe for the command.
func pipe(w io.Writer) (s *stream, end *os.File, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	return &stream{from: read, to: w, done: make(chan struct{})}, write, nil
}

// pass copies the output until its end. The output of processes that outlive the command is copied until
// [stream.stop].
func (s *stream) pass() {
	defer close(s.done)
	defer s.from.Close()
	part := make([]byte, 32<<10)
	for {
		n, err := s.from.Read(part)
		if _, broken := s.Write(part[:n]); broken != nil {
			return // and the command gets SIGPIPE, as it would from the reader of prober's output
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			procgroup.Drain(s.from, s, pipeSize)
			return
		}
		if err != nil {
			return
		}
	}
}

// pipeSize is the capacity of a pipe.
const pipeSize = 64 << 10

// Write implements [io.Writer]. It returns an error only if nobody reads the output. After another error,
// such as a full disk, it drops the output, so that the command can go on.
func (s *stream) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.lines.add(p)
	if s.err == nil {
		_, s.err = s.to.Write(p)
	}
	if errors.Is(s.err, syscall.EPIPE) {
		return 0, s.err
	}
	return len(p), nil
}

// stop ends the stream soon: the command has ended, and a process that still has the pipe may keep it open.
func (s *stream) stop() { _ = s.from.SetReadDeadline(time.Now().Add(procgroup.OutputGrace)) }

// sameFile reports whether two writers are the same file, such as after 2>&1.
func sameFile(a, b io.Writer) bool {
	x, ok := a.(*os.File)
	y, also := b.(*os.File)
	if !ok || !also {
		return false
	}
	i, err := x.Stat()
	if err != nil {
		return false
	}
	j, err := y.Stat()
	return err == nil && os.SameFile(i, j)
}

const (
	// maxLine is the maximum length of a kept line in bytes.
	maxLine = 1 << 10
	// maxRaw is the same before its control characters are removed.
	maxRaw = 4 << 10
)

// lines keeps the first and the last line with visible text. It is safe for concurrent use.
type lines struct {
	mu          sync.Mutex
	first, last []byte
	part        []byte // the beginning of the line that has not ended, at most maxRaw bytes
}

// add adds output. A carriage return ends a line too, as progress bars use it.
func (l *lines) add(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			l.appendLocked(p)
			return
		}
		l.appendLocked(p[:end])
		l.endLocked()
		p = p[end+1:]
	}
}

func (l *lines) appendLocked(p []byte) {
	l.part = append(l.part, p[:min(len(p), maxRaw-len(l.part))]...)
}

func (l *lines) endLocked() {
	if visible(l.part) {
		l.last = append(l.last[:0], l.part...)
		if l.first == nil {
			l.first = bytes.Clone(l.part)
		}
	}
	l.part = l.part[:0]
}

// kept returns the lines as text. The output need not have ended.
func (l *lines) kept() (first, last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, last = clean(l.first), clean(l.last)
	if visible(l.part) {
		last = clean(l.part)
		if l.first == nil {
			first = last
		}
	}
	return first, last
}

// visible reports whether a line has more than spaces and escape sequences.
func visible(line []byte) bool {
	if bytes.IndexByte(line, '\x1b') < 0 {
		return len(bytes.TrimSpace(line)) > 0
	}
	return clean(line) != ""
}

// clean returns a line without control characters, in at most maxLine bytes.
func clean(line []byte) string { return clip.Text(format.Clean(string(line), maxRaw), maxLine) }
