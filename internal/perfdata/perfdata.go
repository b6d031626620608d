// Package perfdata reads the output of programs that follow the convention of the Nagios
// plugins: a message, followed by a vertical bar and performance data, with items of the form
//
//	'label'=value[UOM];[warn];[crit];[min];[max]
//
// An item that cannot be read is skipped, since many programs do not follow the convention
// exactly. The fields after the first semicolon are not used.
package perfdata

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/daeace23/prober/probe"
)

// item is one item of performance data.
type item struct {
	label string
	value float64
	unit  string // as it is written: "s", "ms", "us", "%", "B", "KB", "MB", "GB", "TB", "c" or ""
}

// Split returns the message and the performance data of an output. The message is the first line
// up to its first bar, and the further lines up to their first bar.
func Split(output string) (message, numbers string) {
	first, rest, _ := strings.Cut(strings.TrimRight(output, " \t\r\n"), "\n")
	message, numbers, _ = strings.Cut(first, "|")
	message = strings.TrimSpace(message)
	long, more, _ := strings.Cut(rest, "|")
	if long = strings.TrimSpace(long); long != "" {
		message += "\n" + long
	}
	return message, numbers + " " + more
}

// parse returns the items of text. Items with the unknown value U are left out.
func parse(text string) []item {
	var items []item
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return items
		}
		label, rest, ok := cutLabel(text)
		if !ok { // skip the word
			text = rest
			continue
		}
		var fields string
		fields, text = cutWord(rest)
		number, _, _ := strings.Cut(fields, ";")
		n := numberLength(number)
		if strings.HasPrefix(number[n:], ",") { // a decimal comma: the part before it is another number
			continue
		}
		if value, err := strconv.ParseFloat(number[:n], 64); err == nil && !math.IsInf(value, 0) {
			items = append(items, item{label, value, number[n:]})
		}
	}
}

// cutLabel removes the label and the equals sign from text. If text does not begin with a label, ok is
// false and rest begins at the next space.
func cutLabel(text string) (label, rest string, ok bool) {
	if text[0] != '\'' {
		word, after := cutWord(text)
		label, _, ok = strings.Cut(word, "=")
		if !ok || label == "" {
			return "", after, false
		}
		return label, text[len(label)+1:], true
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] != '\'':
			b.WriteByte(text[i])
		case i+1 < len(text) && text[i+1] == '\'': // an escaped quote
			b.WriteByte('\'')
			i++
		case i+1 < len(text) && text[i+1] == '=' && b.Len() > 0:
			return b.String(), text[i+2:], true
		default:
			_, rest = cutWord(text[i+1:])
			return "", rest, false
		}
	}
	return "", "", false
}

// cutWord splits text at its first space.
func cutWord(text string) (word, rest string) {
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// numberLength returns the length of the decimal number at the beginning of text.
func numberLength(text string) int {
	digits := func(i int) int {
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		return i
	}
	sign := func(i int) int {
		if i < len(text) && (text[i] == '-' || text[i] == '+') {
			i++
		}
		return i
	}
	n := digits(sign(0))
	if n < len(text) && text[n] == '.' {
		n = digits(n + 1)
	}
	if n > 0 && n < len(text) && (text[n] == 'e' || text[n] == 'E') {
		if from := sign(n + 1); digits(from) > from {
			n = digits(from)
		}
	}
	return n
}

// Maximum length in bytes of a metric's name and unit.
const (
	maxName = 128
	maxUnit = 32
)

// metricName converts label to the name of a metric: [a-z_][a-z0-9_]*, at most 128 bytes.
func metricName(label string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(label) {
		letter := 'a' <= c && c <= 'z' || c == '_'
		digit := '0' <= c && c <= '9'
		switch {
		case b.Len() >= maxName:
			return b.String()
		case digit && b.Len() == 0:
			b.WriteByte('_')
			b.WriteRune(c)
		case letter || digit:
			b.WriteRune(c)
		default:
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}

// Metrics returns at most most items of performance data as metrics; more reports whether there were more. If the
// name of a metric differs from the item's label, the metric has the item's label in a label called label. redacted
// removes secrets before names are made, since it would not find them in a name.
func Metrics(text string, most int, redacted func(string) string) (metrics []probe.Metric, more bool) {
	for _, item := range parse(redacted(text)) {
		item.label = redacted(item.label) // again: escaped quotes may have hidden a secret
		if len(item.unit) > maxUnit {
			continue
		}
		if len(metrics) >= most {
			return metrics, true
		}
		m := probe.Metric{Name: metricName(item.label), Value: item.value, Unit: item.unit}
		if m.Name != item.label {
			m.Labels = map[string]string{"label": item.label}
		}
		metrics = append(metrics, m)
	}
	return metrics, false
}
