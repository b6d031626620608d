package regular

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Patience is how long prober's commands wait in [Input] for the writer of a pipe.
const Patience = 30 * time.Second

// Input returns the contents of a file named on a command line. Unlike [Read], it
// also reads pipes, such as /dev/stdin or a shell's <(…). It waits for the writer of a pipe for
// at most patience, or until ctx ends. After that, the pipe stays open until its writer ends.
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
		return ReadAll(f, path, most)
	})
}

// Stream is [ReadAll], but returns when ctx ends. Then a read may continue in the background until from ends.
func Stream(ctx context.Context, from io.Reader, name string, most int64) ([]byte, error) {
	return interruptible(ctx, func() ([]byte, error) { return ReadAll(from, name, most) })
}

// interruptible returns the result of read, or the cause of the end of ctx if that comes first. It does not stop
// read: opening a pipe without a writer, or reading a terminal, cannot be interrupted.
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
