package logs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// valve is a writer that blocks until it is opened.
type valve struct {
	open chan struct{}
	text strings.Builder
}

func (v *valve) Write(p []byte) (int, error) {
	<-v.open
	return v.text.Write(p)
}

func TestWriterCountsLinesWithoutRoom(t *testing.T) {
	for format, loss := range map[string]string{
		"text": `level=WARN msg="lines dropped: they could not be written, or not fast enough" count=%d`,
		"json": `{"level":"WARN","msg":"lines dropped: they could not be written, or not fast enough","count":%d}`,
	} {
		t.Run(format, func(t *testing.T) {
			out := &valve{open: make(chan struct{})}
			w := NewWriter(out, format)
			const written = 3 * maxPendingLines
			for i := range written {
				if n, err := fmt.Fprintln(w, i); n == 0 || err != nil {
					t.Fatal(n, err)
				}
			}
			close(out.open)
			w.Close()
			<-w.done // Close waits at most flushGrace for it
			kept, dropped := 0, 0
			for line := range strings.Lines(out.text.String()) {
				n := 0
				if found, _ := fmt.Sscanf(line, loss, &n); found == 0 {
					kept++
				}
				dropped += n
			}
			if dropped < written-2*maxPendingLines-1 || kept+dropped != written {
				t.Errorf("%d lines kept, %d dropped, of %d", kept, dropped, written)
			}
		})
	}
}

// failing is a writer that fails while it is shut.
type failing struct {
	shut bool
	text strings.Builder
}

func (f *failing) Write(p []byte) (int, error) {
	if f.shut {
		return 0, errors.New("nobody reads")
	}
	return f.text.Write(p)
}

// The reader of a named pipe may close it and open it again.
func TestWriterCountsFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &failing{}
		w := NewWriter(out, "text")
		for i := range 9 {
			out.shut = i >= 2 && i < 7
			fmt.Fprintf(w, "line %d\n", i)
			synctest.Wait()
		}
		w.Close()
		want := "line 0\nline 1\n" + fmt.Sprintf(textLoss, 5) + "line 7\nline 8\n"
		if got := out.text.String(); got != want || w.Dropped() != 5 {
			t.Errorf("%d dropped, and got\n%s\nwant\n%s", w.Dropped(), got, want)
		}
	})
}

func TestWriterBoundsBytes(t *testing.T) {
	out := &valve{open: make(chan struct{})}
	w := NewWriter(out, "text")
	line := []byte(strings.Repeat("x", maxPendingBytes/16) + "\n")
	for range 64 {
		_, _ = w.Write(line)
	}
	if dropped := w.Dropped(); dropped < 32 {
		t.Errorf("%d of 64 lines dropped, want 32 or more", dropped)
	}
	close(out.open)
	w.Close()
	<-w.done
}
