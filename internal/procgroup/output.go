package procgroup

import (
	"io"
	"time"
)

// OutputGrace is the WaitDelay of a command: how long its output is still read after its group
// was killed. Only a process that has left the group can write longer.
const OutputGrace = 500 * time.Millisecond

// Head is the Stdout or Stderr of an [exec.Cmd]. It keeps the first Limit bytes and drops the
// rest, so that the program is never blocked. The other fields may be read after [Run].
type Head struct {
	Limit int
	Bytes []byte
	More  bool // bytes were dropped
	Open  bool // a process still held the stream open when OutputGrace was over

	pace Pace
}

// ReadFrom implements [io.ReaderFrom] with a smaller buffer than that of [io.Copy].
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

// paceBytes is how many dropped bytes are read in a millisecond.
const paceBytes = 64 << 10

// Pace slows down the reading of output that is dropped, so that a program that floods its
// output does not occupy a processor here. The zero value is ready to use.
type Pace struct{ dropped int }

// Drop counts n dropped bytes, and sleeps once there are many.
func (p *Pace) Drop(n int) {
	if p.dropped += n; p.dropped >= paceBytes {
		p.dropped = 0
		time.Sleep(time.Millisecond)
	}
}
