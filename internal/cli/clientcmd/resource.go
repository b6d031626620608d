package clientcmd

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/daeace23/prober/agent/client"
	"github.com/daeace23/prober/internal/cli/command"
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
	narrow     []int  // indices of the columns that -o wide omits
	event      string // type of the stream's events about its changes; "" for none
	head       listHead
	every      time.Duration // how often list is called for changes, if there are no events; 0: never
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
	node      string   // "" if only one agent is asked
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
	nodes    bool // adds a column for nodes
	out      io.Writer
	widths   []int
	columns  int    // of the terminal, at which rows are cut; 0 for no limit
	ellipsis string // end of a row that is cut
}

// newTable returns a table on stdout. Its rows fit on the terminal, unless it is wide.
func newTable(env *command.Env, of *resource, wide, anywhere bool) *table {
	t := &table{of: of, wide: wide, anywhere: anywhere, out: env.Stdout, ellipsis: "~"}
	if isUTF8(env.LookupEnv) {
		t.ellipsis = "…"
	}
	if f, ok := env.Stdout.(*os.File); ok && !wide {
		if columns, _, err := term.GetSize(f.Fd()); err == nil { // a terminal
			t.columns = columns
		}
	}
	return t
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
		rows = append(rows, t.row("NODE", "NAMESPACE", heads))
	}
	for i := range items {
		rows = append(rows, t.row(items[i].node, items[i].namespace, items[i].cells))
	}
	for _, row := range rows {
		t.widths = append(t.widths, make([]int, max(len(row)-len(t.widths), 0))...)
		for i, cell := range row {
			t.widths[i] = max(t.widths[i], leastWidth, utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", t.widths[i]+gap-utf8.RuneCountInString(cell)))
			}
		}
		text.WriteString(t.cut(line.String()))
		text.WriteByte('\n')
	}
	_, err := io.WriteString(t.out, text.String())
	return err
}

// cut returns a row that fits on the terminal.
func (t *table) cut(line string) string {
	if t.columns <= 0 {
		return line
	}
	return ansi.Truncate(line, t.columns, t.ellipsis)
}

// row returns the cells of the shown columns.
func (t *table) row(node, namespace string, cells []string) (shown []string) {
	if t.nodes {
		shown = append(shown, line(node))
	}
	if t.anywhere && t.of.namespaced {
		shown = append(shown, line(namespace))
	}
	for i, c := range t.of.columns {
		if (!c.wide || t.wide) && !(t.wide && slices.Contains(t.of.narrow, i)) {
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
