package process

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A process that left the container may still have the pipe open.
func TestCopyOutputReadsRestAfterDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	lines := strings.Repeat("why it ended\n", 1000)
	if _, err := w.WriteString(lines); err != nil {
		t.Fatal(err)
	}
	_ = r.SetReadDeadline(time.Unix(1, 0))
	var got strings.Builder
	copyOutput(&got, r)
	if got.String() != lines {
		t.Errorf("got %d bytes of %d", got.Len(), len(lines))
	}
}
