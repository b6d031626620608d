package builtin

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

// What a command has said is not lost because the machine was too busy to read it in the
// time that is left for what has escaped.
func TestOutputReadLate(t *testing.T) {
	for name, size := range map[string]int{"little": 5, "as much as is kept": probe.MaxOutput, "more": probe.MaxOutput + 1} {
		t.Run(name, func(t *testing.T) {
			var c capture
			if err := c.open(); err != nil {
				t.Fatal(err)
			}
			said, escaped := make([]byte, size), dup(t, c.write) // somebody still may write: there is no end
			if _, err := c.write.Write(said); err != nil {
				t.Fatal(err)
			}
			_ = c.read.SetReadDeadline(time.Unix(1, 0))
			c.start()
			c.wg.Wait()
			if got := len(c.finish()); got != min(size, probe.MaxOutput) {
				t.Errorf("got %d bytes of %d", got, size)
			}
			escaped.Close()
		})
	}
}

// dup returns another descriptor of f.
func dup(t *testing.T, f *os.File) *os.File {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var again *os.File
	opened := raw.Control(func(fd uintptr) {
		again, err = os.OpenFile("/proc/self/fd/"+strconv.Itoa(int(fd)), os.O_WRONLY, 0)
	})
	if err := errors.Join(opened, err); err != nil {
		t.Fatal(err)
	}
	return again
}
