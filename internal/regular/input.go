package regular

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Patience is how long [Input] waits for the writer of a pipe.
const Patience = 30 * time.Second

// Input returns the contents of a file that a person has named on a command line. Unlike
// the file of [Read] it may be a pipe, such as /dev/stdin or a shell's <(…). It waits for
// the writer of a pipe for at most patience, and no longer than ctx lasts.
//
// A pipe whose writer is given up stays open until the writer ends or the process does.
func Input(ctx context.Context, path string, most int64, patience time.Duration) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().IsRegular() || info.IsDir() {
		return Read(path, most)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s: its writer did not end within %s", path, patience))
	defer cancel()
	return interruptible(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readAll(f, path, most)
	})
}

// Stream returns what is left in from, whose name is for errors. It waits no longer than
// ctx lasts; a read that is given up goes on until from ends.
func Stream(ctx context.Context, from io.Reader, name string, most int64) ([]byte, error) {
	return interruptible(ctx, func() ([]byte, error) { return readAll(from, name, most) })
}

// interruptible returns what read does, or the cause of ctx's end: nothing interrupts the
// open of a pipe without a writer, or every read of a terminal.
func interruptible(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		data, err := read()
		answers <- answer{data, err}
	}()
	select {
	case a := <-answers:
		return a.data, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
