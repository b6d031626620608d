package local

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	maxLine       = 8 << 10   // bytes of one line of output; the rest of it is cut
	maxOutputRate = 256 << 10 // bytes of output a second and container; more is dropped
)

// lockedWriter lets the outputs of several containers share a writer.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// lineWriter writes the lines of one container, each with a prefix, and drops those
// of a container that floods. It is used by one goroutine, and never fails: a
// container does not end because its output can not be written.
type lineWriter struct {
	w      io.Writer
	prefix string

	line    []byte // begun, without the prefix
	cut     bool   // the rest of the line is dropped
	window  time.Time
	written int // bytes in the window
	dropped int // lines since the last one that was written
}

// Write implements [io.Writer].
func (l *lineWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte{'\n'})
		if room := maxLine - len(l.line); len(part) > room {
			part, l.cut = part[:room], true
		}
		l.line = append(l.line, part...)
		if ended {
			l.flush()
		}
		b = rest
	}
	return n, nil
}

// flush writes the line that was begun, or counts it as dropped.
func (l *lineWriter) flush() {
	if now := time.Now(); now.Sub(l.window) >= time.Second {
		l.window, l.written = now, 0
	}
	if l.written+len(l.line) > maxOutputRate {
		l.dropped++
	} else {
		l.report()
		mark := ""
		if l.cut {
			mark = " [cut]"
		}
		l.written += len(l.line) + len(l.prefix)
		fmt.Fprintf(l.w, "%s%s%s\n", l.prefix, l.line, mark)
	}
	l.line, l.cut = l.line[:0], false
}

// report says how many lines were dropped.
func (l *lineWriter) report() {
	if l.dropped > 0 {
		fmt.Fprintf(l.w, "%s[%d lines dropped]\n", l.prefix, l.dropped)
		l.dropped = 0
	}
}

// close writes what is left.
func (l *lineWriter) close() {
	if len(l.line) > 0 {
		l.flush()
	}
	l.report()
}
