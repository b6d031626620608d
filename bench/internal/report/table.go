package report

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/scenario"
)

// row is one subject under one load.
type row struct {
	subject string
	params  []record.Param
}

// param returns a parameter of the load; "" if there is none.
func (r row) param(name string) string { return (&record.Run{Params: r.params}).Param(name) }

// load returns the parameters of the load, such as "c = 16".
func (r row) load() string {
	var all []string
	for _, p := range r.params {
		all = append(all, p.Name+" = "+p.Value)
	}
	return strings.Join(all, ", ")
}

// rows returns the rows in the order of their first runs, grouped by load.
func (s *section) rows() (rows []row) {
	var loads [][]record.Param
	for _, r := range s.Runs {
		if !slices.ContainsFunc(loads, func(p []record.Param) bool { return slices.Equal(p, r.Params) }) {
			loads = append(loads, r.Params)
		}
	}
	for _, params := range loads {
		for _, r := range s.Runs {
			same := func(o row) bool { return o.subject == r.Subject && slices.Equal(o.params, r.Params) }
			if slices.Equal(r.Params, params) && !slices.ContainsFunc(rows, same) {
				rows = append(rows, row{r.Subject, params})
			}
		}
	}
	return rows
}

// table writes the table of the figures, without columns that have none or only zeros.
func (s *section) table(b *bytes.Buffer) {
	rows := s.rows()
	columns := slices.DeleteFunc(slices.Clone(s.Columns), func(c scenario.Column) bool {
		values := s.Values(c.Figure, func(*record.Run) bool { return true })
		return !slices.ContainsFunc(values, func(v float64) bool { return v != 0 })
	})
	b.WriteString("\n")
	if s.BySubject && len(columns) == 1 {
		s.bySubject(b, rows, columns[0])
		return
	}
	params := []record.Param(nil)
	if len(rows) > 0 {
		params = rows[0].params
	}
	for _, p := range params {
		fmt.Fprintf(b, "| %s ", p.Name)
	}
	b.WriteString("| subject ")
	for _, c := range columns {
		fmt.Fprintf(b, "| %s ", c.Head)
	}
	if s.Ratio != "" {
		fmt.Fprintf(b, "| ratio of %s to %s ", s.head(s.Ratio), s.Peer)
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(params)+1))
	b.WriteString(strings.Repeat("|--:", len(columns)))
	if s.Ratio != "" {
		b.WriteString("|--:")
	}
	b.WriteString("|\n")
	for _, r := range rows {
		for _, p := range r.params {
			fmt.Fprintf(b, "| %s ", p.Value)
		}
		fmt.Fprintf(b, "| %s ", r.subject)
		for _, c := range columns {
			fmt.Fprintf(b, "| %s ", cell(s.summary(c.Figure, r.subject, exactly(r.params))))
		}
		if s.Ratio != "" {
			fmt.Fprintf(b, "| %s ", s.ratio(r))
		}
		b.WriteString("|\n")
	}
}

// bySubject writes the table of one figure, with a row for each load and a column for each subject.
func (s *section) bySubject(b *bytes.Buffer, rows []row, column scenario.Column) {
	var subjects []string
	var loads []row // the first row of each load
	for _, r := range rows {
		if !slices.Contains(subjects, r.subject) {
			subjects = append(subjects, r.subject)
		}
		if len(loads) == 0 || !slices.Equal(loads[len(loads)-1].params, r.params) {
			loads = append(loads, r)
		}
	}
	if len(loads) == 0 {
		return
	}
	for _, p := range loads[0].params {
		fmt.Fprintf(b, "| %s ", p.Name)
	}
	for _, subject := range subjects {
		fmt.Fprintf(b, "| %s, %s ", subject, column.Head)
	}
	b.WriteString("|\n" + strings.Repeat("|---", len(loads[0].params)) + strings.Repeat("|--:", len(subjects)) + "|\n")
	for _, l := range loads {
		for _, p := range l.params {
			fmt.Fprintf(b, "| %s ", p.Value)
		}
		for _, subject := range subjects {
			fmt.Fprintf(b, "| %s ", cell(s.summary(column.Figure, subject, exactly(l.params))))
		}
		b.WriteString("|\n")
	}
}

// exactly returns params, or an empty slice instead of nil, which would match all loads.
func exactly(params []record.Param) []record.Param {
	if params == nil {
		return []record.Param{}
	}
	return params
}

func (s *section) head(figure string) string {
	i := slices.IndexFunc(s.Columns, func(c scenario.Column) bool { return c.Figure == figure })
	if i < 0 {
		return figure
	}
	return s.Columns[i].Head
}

func (s *section) ratio(r row) string {
	ratio := measure.Ratio(s.summary(s.Ratio, r.subject, exactly(r.params)), s.summary(s.Ratio, s.Peer, exactly(r.params)))
	if math.IsNaN(ratio) {
		return ""
	}
	return number(ratio)
}

// spread is the part of a median by which the least or the highest value must differ to be shown.
const spread = 0.05

// cell returns "median (least–highest)", or the median alone if both are close to it.
func cell(s measure.Summary) string {
	median, least, highest := number(s.Median), number(s.Min), number(s.Max)
	switch {
	case s.N == 0:
		return ""
	case least == highest, s.Median-s.Min < spread*s.Median && s.Max-s.Median < spread*s.Median:
		return median
	default:
		return fmt.Sprintf("%s (%s–%s)", median, least, highest)
	}
}

// number formats a number with three significant digits, and with commas between thousands.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsInf(v, 0):
		return "lost"
	case a >= 100:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 1:
		return trim(strconv.FormatFloat(v, 'f', 2, 64))
	case a < 0.0005:
		return "0"
	default:
		return trim(strconv.FormatFloat(v, 'f', 3, 64))
	}
}

// trim removes trailing zeros after the decimal point.
func trim(text string) string { return strings.TrimRight(strings.TrimRight(text, "0"), ".") }

func thousands(text string) string {
	sign := ""
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = "-", rest
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// label names a run.
func label(r *record.Run) string {
	var text strings.Builder
	text.WriteString(r.Subject)
	for _, p := range r.Params {
		fmt.Fprintf(&text, ", %s %s", p.Name, p.Value)
	}
	return text.String()
}
