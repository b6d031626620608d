package agent

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/daeace23/prober/probe"
)

// valve is a writer that is shut until it is opened.
type valve struct {
	open chan struct{}
	text strings.Builder
}

func (v *valve) Write(p []byte) (int, error) {
	<-v.open
	return v.text.Write(p)
}

func TestLinesThatFindNoRoomAreCounted(t *testing.T) {
	for format, loss := range map[string]string{
		"text": `level=WARN msg="lines dropped: they came faster than they could be written" count=%d`,
		"json": `{"level":"WARN","msg":"lines dropped: they came faster than they could be written","count":%d}`,
	} {
		t.Run(format, func(t *testing.T) {
			out := &valve{open: make(chan struct{})}
			w := newLogWriter(out, format)
			const written = 3 * maxPendingLines
			for i := range written {
				if n, err := fmt.Fprintln(w, i); n == 0 || err != nil {
					t.Fatal(n, err)
				}
			}
			close(out.open)
			w.Close()
			<-w.done // which Close waits for no longer than a while
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

func TestMetricsFitJSON(t *testing.T) {
	measured := []probe.Metric{{Name: "a", Value: math.Inf(1)}, {Name: "b", Value: 2}, {Name: "c", Value: math.NaN()}}
	text, err := json.Marshal(finite(measured))
	if err != nil || string(text) != `[{"name":"b","value":2}]` {
		t.Errorf("got %s, %v", text, err)
	}
	if measured[0].Name != "a" {
		t.Error("what the handler measured was changed")
	}
}
