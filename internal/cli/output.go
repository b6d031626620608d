package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// The formats of -o.
const (
	formatTable  = "table"
	formatJSON   = "json"
	formatYAML   = "yaml"
	formatNagios = "nagios"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value *string
	known []string
}

func (c choice) String() string { return *c.value }
func (c choice) Type() string   { return strings.Join(c.words(), "|") }

// words are the known ones but for the empty one, which is the default.
func (c choice) words() []string {
	return slices.DeleteFunc(slices.Clone(c.known), func(w string) bool { return w == "" })
}

func (c choice) Set(s string) error {
	if !slices.Contains(c.known, s) {
		return fmt.Errorf("unknown word %q; known: %s", s, strings.Join(c.words(), ", "))
	}
	*c.value = s
	return nil
}

// outputFlag adds -o to c; the first format is the default.
func outputFlag(c *cobra.Command, value *string, formats ...string) {
	*value = formats[0]
	c.Flags().VarP(choice{value, formats}, "output", "o", "format of the output")
}

// encode writes v to stdout as JSON or YAML.
func (env *Env) encode(format string, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return &exit{code: exitFailed, err: err}
	}
	text, err := b.Bytes(), error(nil)
	if format == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return &exit{code: exitFailed, err: err}
		}
	}
	_, err = env.Stdout.Write(text)
	return err
}

// verdict is what a one-shot probe found.
type verdict struct {
	Result          probe.Result    `json:"result"`
	Output          string          `json:"output"`
	Error           string          `json:"error"`
	Attempts        int             `json:"attempts"`
	DurationSeconds float64         `json:"durationSeconds"`
	Metrics         []probe.Metric  `json:"metrics"`
	Details         json.RawMessage `json:"details,omitzero"`

	handler string
}

// print writes v to stdout.
func (v *verdict) print(env *Env, format string, headers bool) error {
	switch format {
	case formatTable:
		return v.table(env.Stdout, headers)
	case formatNagios:
		_, err := fmt.Fprintln(env.Stdout, v.nagios())
		return err
	default:
		shown := *v
		shown.Metrics = slices.DeleteFunc(slices.Clone(v.Metrics), func(m probe.Metric) bool {
			return math.IsNaN(m.Value) || math.IsInf(m.Value, 0) // JSON has no word for them
		})
		if shown.Metrics == nil {
			shown.Metrics = []probe.Metric{}
		}
		return env.encode(format, shown)
	}
}

func (v *verdict) table(out io.Writer, headers bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if headers {
		fmt.Fprintln(w, "RESULT\tHANDLER\tATTEMPTS\tDURATION\tOUTPUT")
	}
	took := time.Duration(v.DurationSeconds * float64(time.Second)).Round(10 * time.Microsecond)
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", v.Result, v.handler, v.Attempts, took, oneLine(v.Output))
	if err := w.Flush(); err != nil {
		return err
	}
	if headers { // a line that scripts read stays alone
		v.explain(out, w)
	}
	if len(v.Metrics) == 0 {
		return w.Flush()
	}
	fmt.Fprintln(out)
	if headers {
		fmt.Fprintln(w, "METRIC\tVALUE\tUNIT")
	}
	for _, m := range v.Metrics {
		fmt.Fprintf(w, "%s\t%s\t%s\n", oneLine(m.Name+labelText(m.Labels)), number(m.Value), oneLine(m.Unit))
	}
	return w.Flush()
}

// explain writes what the details tell people.
func (v *verdict) explain(out io.Writer, w *tabwriter.Writer) {
	d := explain.Read(string(v.Details))
	if d == (explain.Details{}) {
		return
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "DETAIL\tVALUE")
	if d.Waiting != "" {
		fmt.Fprintf(w, "waiting\t%s\n", oneLine(d.Waiting))
	}
	if d.Body != "" {
		fmt.Fprintf(w, "body\t%s\n", oneLine(d.Body))
	}
	_ = w.Flush() // whoever flushes next gets the error, too
}

func labelText(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var pairs []string
	for k, v := range labels {
		pairs = append(pairs, k+"="+strconv.Quote(v))
	}
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}

// count returns n with a noun that takes an s where there is not one of it.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// oneLine makes text fit for a line of a terminal: what a target or plugin says must
// not move the cursor.
func oneLine(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "\ufffd")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}

var nagiosWords = map[probe.Result]string{
	probe.Success: "OK", probe.Warning: "WARNING", probe.Failure: "CRITICAL", probe.Unknown: "UNKNOWN",
}

// nagiosUnits are Nagios's spellings of units; it knows no others.
var nagiosUnits = map[string]string{
	"s": "s", "seconds": "s", "ms": "ms", "us": "us", "%": "%", "percent": "%", "B": "B", "bytes": "B", "KB": "KB", "MB": "MB", "c": "c",
}

// nagios returns v as the one line of a monitoring plugin, with performance data.
func (v *verdict) nagios() string {
	said := cmp.Or(v.Error, v.Output, v.handler)
	d := explain.Read(string(v.Details))
	if d.Waiting != "" {
		said += "; " + d.Waiting
	}
	if d.Body != "" {
		said += "; body: " + d.Body
	}
	text := strings.ReplaceAll(oneLine(said), "|", "/")
	var line strings.Builder
	line.WriteString(fmt.Sprintf("%s: %s | 'time'=%ss", nagiosWords[v.Result], text, number(v.DurationSeconds)))
	for _, m := range v.Metrics {
		if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
			continue
		}
		label := strings.NewReplacer("'", "", "=", "_", "|", "/").Replace(oneLine(m.Name))
		line.WriteString(fmt.Sprintf(" '%s'=%s%s", label, number(m.Value), nagiosUnits[m.Unit]))
	}
	return line.String()
}
