package procgroup

import (
	"io"
	"time"
)

// OutputGrace is the WaitDelay of a command: how long its output is read after its group was killed. Only
// a process that has left the group can write after that kill.
const OutputGrace = 500 * time.Millisecond

// Head is the Stdout or Stderr of an [exec.Cmd]. It keeps the first Limit bytes and drops the
// rest, so that the program does not block. The other fields may be read after [Run].
type Head struct {
	Limit int
	Bytes []byte
	More  bool // bytes were dropped
	Open  bool // a process still held the stream open at the end of OutputGrace

	pace Pace
}

// ReadFrom implements [io.ReaderFrom] with a smaller buffer than [io.Copy] uses.
func (h *Head) ReadFrom(r io.Reader) (read int64, err error) {
	part := make([]byte, 4<<10)
	for {
		n, err := r.Read(part)
		read += int64(n)
		_, _ = h.Write(part[:n])
		if err == io.EOF {
			return read, nil
		}
		if err != nil {
			h.Open = true
			return read, err
		}
	}
}

// Write implements [io.Writer]. It returns no error.
func (h *Head) Write(p []byte) (int, error) {
	kept := min(max(0, h.Limit-len(h.Bytes)), len(p))
	h.Bytes = append(h.Bytes, p[:kept]...)
	if kept < len(p) {
		h.More = true
		h.pace.Drop(len(p) - kept)
	}
	return len(p), nil
}

// paceBytes is the number of dropped bytes between two sleeps of a millisecond.
const paceBytes = 64 << 10

// Pace slows down the reading of dropped output, so that a program with much output does not keep a
// CPU of the reader busy. The zero value is ready to use.
type Pace struct{ dropped int }

// Drop counts n dropped bytes, and sleeps after every paceBytes bytes.
func (p *Pace) Drop(n int) {
	if p.dropped += n; p.dropped >= paceBytes {
		p.dropped = 0
		time.Sleep(time.Millisecond)
	}
}
