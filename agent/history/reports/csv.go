package reports

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/internal/explain"
)

// csvForm writes a row for each probe, or for each incident.
type csvForm struct {
	out         *csv.Writer
	perIncident bool
	cells       []string
}

func newCSV(out io.Writer, perIncident bool) *csvForm {
	return &csvForm{out: csv.NewWriter(out), perIncident: perIncident}
}

var (
	probeColumns    = []string{"namespace", "pod", "container", "kind", "handler"}
	reportColumns   = []string{"uptime", "success_seconds", "warning_seconds", "failure_seconds", "unknown_seconds", "incidents", "mean_seconds", "longest_seconds"}
	incidentColumns = []string{"start", "end", "duration_seconds", "reason", "text"}
	// The last columns, since readers may use positions. A row for each incident has no maintenance: there are no
	// incidents within it.
	targetColumn      = "target"
	maintenanceColumn = "maintenance_seconds"
)

func (f *csvForm) begin(*history.Page) error {
	if f.perIncident {
		return f.out.Write(slices.Concat(probeColumns, incidentColumns, []string{targetColumn}))
	}
	return f.out.Write(slices.Concat(probeColumns, reportColumns, []string{targetColumn, maintenanceColumn}))
}

func (f *csvForm) item(i *api.ReportItem) error {
	f.cells = append(f.cells[:0], cell(i.Namespace), cell(i.Pod), cell(i.Container), i.Kind, cell(i.Handler))
	if !f.perIncident {
		uptime := ""
		if i.Uptime != nil {
			uptime = number(*i.Uptime)
		}
		return f.out.Write(append(f.cells, uptime, number(i.Seconds.Success), number(i.Seconds.Warning), number(i.Seconds.Failure),
			number(i.Seconds.Unknown), strconv.Itoa(i.IncidentCount), number(i.MeanSeconds), number(i.LongestSeconds), cell(i.Target), number(i.Seconds.Maintenance)))
	}
	for k := range i.Incidents {
		in := &i.Incidents[k]
		end := ""
		if !in.End.IsZero() {
			end = in.End.Format(time.RFC3339Nano)
		}
		if err := f.out.Write(append(f.cells, in.Start.Format(time.RFC3339Nano), end, number(in.DurationSeconds), cell(in.Reason), cell(in.Text), cell(i.Target))); err != nil {
			return err
		}
	}
	return nil
}

func (f *csvForm) end() error {
	f.out.Flush()
	return f.out.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// cell returns text as one line without control sequences of terminals. A text that a spreadsheet would take for
// a formula is quoted, as OWASP advises: a target may have written it.
func cell(text string) string {
	text = explain.OneLine(text)
	if strings.IndexFunc(text, func(r rune) bool { return strings.ContainsRune("=+-@＝＋－＠", r) }) == 0 {
		return "'" + text
	}
	return text
}
