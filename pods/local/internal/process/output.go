package process

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

const (
	maxLine       = 8 << 10   // bytes of one line of output; the rest of the line is cut
	maxOutputRate = 256 << 10 // bytes of output a second and container; more is dropped
)

// Output writes the lines of one container, each with a prefix, and drops lines above a rate.
// It is not safe for concurrent use. It returns no errors, so that a failure to write the output does not end
// the container.
type Output struct {
	W      io.Writer
	Prefix string

	line    []byte // the unfinished line, without the prefix
	cut     bool   // the rest of the line is dropped
	window  time.Time
	written int // bytes in the window
	dropped int // lines since the last line that was written
}

// Write implements [io.Writer].
func (o *Output) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		if room := maxLine - len(o.line); len(part) > room {
			part, o.cut = part[:room], true
		}
		o.line = append(o.line, part...)
		if ended {
			o.flush()
		}
		b = rest
	}
	return n, nil
}

// flush writes the unfinished line, or counts it as dropped.
func (o *Output) flush() {
	if now := time.Now(); now.Sub(o.window) >= time.Second {
		o.window, o.written = now, 0
	}
	if o.written+len(o.line) > maxOutputRate {
		o.dropped++
	} else {
		o.report()
		mark := ""
		if o.cut {
			mark = " [cut]"
		}
		o.written += len(o.line) + len(o.Prefix)
		fmt.Fprintf(o.W, "%s%s%s\n", o.Prefix, o.line, mark)
	}
	o.line, o.cut = o.line[:0], false
}

// report writes how many lines were dropped.
func (o *Output) report() {
	if o.dropped > 0 {
		fmt.Fprintf(o.W, "%s[%d lines dropped]\n", o.Prefix, o.dropped)
		o.dropped = 0
	}
}

// close writes an unfinished line.
func (o *Output) close() {
	if len(o.line) > 0 {
		o.flush()
	}
	o.report()
}
