package clientcmd

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/explain"
)

// resource is a kind of objects that an agent has.
type resource struct {
	name       string // in the plural
	aliases    []string
	short      string
	example    string
	args       string // form of its names, for the usage
	namespaced bool   // its table has a column of namespaces
	labelled   bool   // -n and -l select its objects
	columns    []column
	event      string // type of the stream's events about its changes; "" for none
	head       listHead
	// list returns the objects that s selects.
	list func(ctx context.Context, c *client.Client, s *selection) ([]item, error)
	// decode returns the object of an event.
	decode func(data []byte) (item, error)
	// fetch, if set, replaces decode: it asks the agent for the object that an event is about. It returns nil if
	// there is none.
	fetch func(ctx context.Context, c *client.Client, s *selection, data []byte) (*item, error)
}

// listHead has the fields of a list before its items.
type listHead struct {
	Kind       string `json:"kind,omitzero"`
	APIVersion string `json:"apiVersion,omitzero"`
}

// column is a column of a table.
type column struct {
	head string
	wide bool // only with -o wide
}

// item is one object.
type item struct {
	name      string   // for -o name, after the kind
	also      []string // other names that select it
	namespace string
	pod       string
	cells     []string // one per column
	object    any      // for -o json
	recurred  string   // changes if an event is repeated with the same cells
	removed   bool
}

// table writes items like kubectl. Later rows use the column widths of the first ones.
type table struct {
	of       *resource
	wide     bool
	anywhere bool // all namespaces; adds a column for them
	out      io.Writer
	widths   []int
}

const (
	leastWidth = 3 // minimum width of a column
	gap        = 3 // between columns
)

func (t *table) write(headers bool, items []item) error {
	var rows [][]string
	if headers {
		var heads []string
		for _, c := range t.of.columns {
			heads = append(heads, c.head)
		}
		rows = append(rows, t.row("NAMESPACE", heads))
	}
	for i := range items {
		rows = append(rows, t.row(items[i].namespace, items[i].cells))
	}
	for _, row := range rows {
		t.widths = append(t.widths, make([]int, max(len(row)-len(t.widths), 0))...)
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], leastWidth, utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			text.WriteString(cell)
			if i < len(row)-1 {
				text.WriteString(strings.Repeat(" ", t.widths[i]+gap-utf8.RuneCountInString(cell)))
			}
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(t.out, text.String())
	return err
}

// row returns the cells of the shown columns.
func (t *table) row(namespace string, cells []string) (shown []string) {
	if t.anywhere && t.of.namespaced {
		shown = append(shown, line(namespace))
	}
	for i, c := range t.of.columns {
		if !c.wide || t.wide {
			shown = append(shown, line(cells[i]))
		}
	}
	return shown
}

// line returns text on one line without control characters; "-" for "".
func line(text string) string {
	return cmp.Or(explain.OneLine(text), "-")
}

// ago formats the time since t like kubectl.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(max(time.Since(t), 0))
}
