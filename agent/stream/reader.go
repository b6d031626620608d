package stream

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

const (
	pageBytes    = 32 << 10 // approximate size of a write
	writeTimeout = 10 * time.Second
	heartbeat    = 15 * time.Second
)

// ErrBehind is returned for a reader that is slower than objects are created and removed.
var ErrBehind = errors.New("the reader is too far behind")

// Reader is a reader of a [Hub]. It buffers no versions: while it is slow, newer versions of objects replace
// older ones that it has not received.
type Reader struct {
	lane    *lane
	session *session
	wake    chan struct{} // holds a token while there may be something to send
}

// Close ends the reader.
func (r *Reader) Close() { r.lane.detach(r) }

// pages are buffers for writes.
var pages = sync.Pool{New: func() any { return new([]byte) }}

// Serve sends server-sent events to w: the present state of all objects, in pages, and then their changes. It
// returns when ctx ends, when w accepts no page for 10 seconds, or with [ErrBehind].
func (r *Reader) Serve(ctx context.Context, w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := writer{http.NewResponseController(w), w}
	if err := out.send(nil); err != nil { // the header
		return err
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var frames [][]byte
	for ctx.Err() == nil {
		var ok bool
		if frames, ok = r.session.table.next(r, frames[:0], pageBytes); !ok {
			return ErrBehind
		}
		if len(frames) > 0 {
			if err := out.send(frames); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-beat.C:
			if err := out.send([][]byte{[]byte(": heartbeat\n\n")}); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// writer writes pages to one reader.
type writer struct {
	control *http.ResponseController
	w       http.ResponseWriter
}

// send writes frames in one write, and clears them.
func (w *writer) send(frames [][]byte) error {
	if err := w.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	page := pages.Get().(*[]byte)
	defer func() {
		if cap(*page) <= 4*pageBytes { // drop pages of large objects
			pages.Put(page)
		}
	}()
	*page = (*page)[:0]
	for _, frame := range frames {
		*page = append(*page, frame...)
	}
	clear(frames) // a blocked write must not retain replaced versions
	if _, err := w.w.Write(*page); err != nil {
		return err
	}
	if err := w.control.Flush(); err != nil {
		return err
	}
	return w.control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream at its deadline, even without a write
}
