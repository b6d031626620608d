package procgroup_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/daeace23/prober/internal/procgroup"
)

func TestHeadKeepsFirstBytes(t *testing.T) {
	for _, c := range []struct{ size, limit, chunk int }{
		{0, 10, 1}, {1, 10, 1}, {10, 10, 1}, {11, 10, 1}, {100, 10, 1},
		{10, 10, 3}, {11, 10, 3}, {100, 10, 100}, {100, 100, 7}, {100, 1000, 33},
		{100, 0, 10}, {0, 0, 1}, {100, -1, 10}, {10 << 10, 1 << 10, 10 << 10},
	} {
		t.Run(fmt.Sprintf("#101 %d bytes in chunks of %d, limit %d", c.size, c.chunk, c.limit), func(t *testing.T) {
			h := procgroup.Head{Limit: c.limit}
			text := strings.Repeat("0123456789", c.size/10+1)[:c.size]
			for rest := text; rest != ""; {
				n := min(c.chunk, len(rest))
				// Unlike upstream, there is no short write, which would end the copying and block the program.
				if wrote, err := h.Write([]byte(rest[:n])); wrote != n || err != nil {
					t.Fatalf("wrote %d, %v; want %d", wrote, err, n)
				}
				rest = rest[n:]
			}
			if want := text[:max(0, min(c.size, c.limit))]; string(h.Bytes) != want || h.More != (want != text) {
				t.Errorf("kept %q, more %t; want %q", h.Bytes, h.More, want)
			}
		})
	}
}

func TestHeadNotesOpenStream(t *testing.T) {
	h := procgroup.Head{Limit: 10}
	if _, err := h.ReadFrom(iotest.ErrReader(os.ErrClosed)); err == nil || !h.Open {
		t.Errorf("got %v, open %t", err, h.Open)
	}
}
