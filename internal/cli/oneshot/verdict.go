package oneshot

import (
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

	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/probe"
)

// verdict is the result of a one-shot probe.
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
func (v *verdict) print(env *command.Env, format string, headers bool) error {
	switch format {
	case command.Table:
		return v.table(env.Stdout, headers)
	case command.Nagios:
		_, err := fmt.Fprintln(env.Stdout, v.nagios())
		return err
	default:
		shown := *v
		shown.Metrics = slices.DeleteFunc(slices.Clone(v.Metrics), func(m probe.Metric) bool {
			return math.IsNaN(m.Value) || math.IsInf(m.Value, 0) // JSON cannot represent them
		})
		if shown.Metrics == nil {
			shown.Metrics = []probe.Metric{}
		}
		return env.Encode(format, shown)
	}
}

func (v *verdict) table(out io.Writer, headers bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if headers {
		fmt.Fprintln(w, "RESULT\tHANDLER\tATTEMPTS\tDURATION\tOUTPUT")
	}
	took := time.Duration(v.DurationSeconds * float64(time.Second)).Round(10 * time.Microsecond)
	fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", v.Result, v.handler, v.Attempts, took, explain.OneLine(v.Output))
	if err := w.Flush(); err != nil {
		return err
	}
	if headers { // --no-headers gives scripts a single line
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
		fmt.Fprintf(w, "%s\t%s\t%s\n", explain.OneLine(m.Name+labelText(m.Labels)), number(m.Value), explain.OneLine(m.Unit))
	}
	return w.Flush()
}

// explain prints the details.
func (v *verdict) explain(out io.Writer, w *tabwriter.Writer) {
	d := explain.Read(string(v.Details))
	if d == (explain.Details{}) {
		return
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "DETAIL\tVALUE")
	if d.Waiting != "" {
		fmt.Fprintf(w, "waiting\t%s\n", explain.OneLine(d.Waiting))
	}
	if d.Body != "" {
		fmt.Fprintf(w, "body\t%s\n", explain.OneLine(d.Body))
	}
	_ = w.Flush() // the next flush returns the same error
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

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

var nagiosWords = map[probe.Result]string{
	probe.Success: "OK", probe.Warning: "WARNING", probe.Failure: "CRITICAL", probe.Unknown: "UNKNOWN",
}

// nagiosUnits are the units that Nagios accepts.
var nagiosUnits = map[string]string{
	"s": "s", "seconds": "s", "ms": "ms", "us": "us", "%": "%", "percent": "%", "B": "B", "bytes": "B", "KB": "KB", "MB": "MB", "c": "c",
}

// nagios returns v as the output line of a monitoring plugin, with performance data.
func (v *verdict) nagios() string {
	said := cmp.Or(v.Error, v.Output, v.handler)
	d := explain.Read(string(v.Details))
	if d.Waiting != "" {
		said += "; " + d.Waiting
	}
	if d.Body != "" {
		said += "; body: " + d.Body
	}
	text := strings.ReplaceAll(explain.OneLine(said), "|", "/")
	var line strings.Builder
	line.WriteString(fmt.Sprintf("%s: %s | 'time'=%ss", nagiosWords[v.Result], text, number(v.DurationSeconds)))
	for _, m := range v.Metrics {
		if math.IsNaN(m.Value) || math.IsInf(m.Value, 0) {
			continue
		}
		label := strings.NewReplacer("'", "", "=", "_", "|", "/").Replace(explain.OneLine(m.Name))
		line.WriteString(fmt.Sprintf(" '%s'=%s%s", label, number(m.Value), nagiosUnits[m.Unit]))
	}
	return line.String()
}
