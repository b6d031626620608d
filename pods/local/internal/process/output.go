package process

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

// SharedWriter is a writer for the outputs of several containers.
type SharedWriter struct {
	W io.Writer // guarded by mu

	mu sync.Mutex
}

// Write implements [io.Writer].
func (l *SharedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.W.Write(b)
}

// Output writes the lines of one container, each with a prefix, and drops lines above a rate.
// It is for one goroutine. It never fails: a container does not end because its output cannot
// be written.
type Output struct {
	W      io.Writer
	Prefix string

	line    []byte // the unfinished line, without the prefix
	cut     bool   // the rest of the line is dropped
	window  time.Time
	written int // bytes in the window
	dropped int // lines since the last one that was written
}

// Write implements [io.Writer].
func (l *Output) Write(b []byte) (int, error) {
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

// flush writes the unfinished line, or counts it as dropped.
func (l *Output) flush() {
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
		l.written += len(l.line) + len(l.Prefix)
		fmt.Fprintf(l.W, "%s%s%s\n", l.Prefix, l.line, mark)
	}
	l.line, l.cut = l.line[:0], false
}

// report writes how many lines were dropped.
func (l *Output) report() {
	if l.dropped > 0 {
		fmt.Fprintf(l.W, "%s[%d lines dropped]\n", l.Prefix, l.dropped)
		l.dropped = 0
	}
}

// close writes an unfinished line.
func (l *Output) close() {
	if len(l.line) > 0 {
		l.flush()
	}
	l.report()
}
