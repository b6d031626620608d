// Package perfdata reads what a program that speaks the convention of the Nagios
// plugins prints: a line for people, and after a bar the numbers that it measured,
//
//	'label'=value[UOM];[warn];[crit];[min];[max]
//
// It is lenient as the programs are sloppy: an item that it cannot read is passed over.
package perfdata

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/daeace23/prober/probe"
)

// Item is one number.
type Item struct {
	Label      string
	Value      float64
	Unit       string   // as it is written: "s", "ms", "us", "%", "B", "KB", "MB", "GB", "TB", "c" or ""
	Warn, Crit string   // ranges, as they are written
	Min, Max   *float64 // nil where they are not said
}

// Split parts what a program printed into what is for people and its numbers: of the
// first line and of those after it, each up to its first bar; everything after a bar
// that is not on the first line is numbers.
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

// Parse returns the items of text. Those whose value is unknown, U, are left out.
func Parse(text string) []Item {
	var items []Item
	for {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		if text == "" {
			return items
		}
		label, rest, ok := cutLabel(text)
		if !ok { // on to the next word
			text = rest
			continue
		}
		var fields string
		fields, text = cutWord(rest)
		if item, ok := parseItem(label, fields); ok {
			items = append(items, item)
		}
	}
}

// cutLabel takes the label and the sign of equality off text. Where there is none, rest
// is what comes after the next space.
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
		case i+1 < len(text) && text[i+1] == '\'': // a quote within
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

// cutWord cuts text at its first space.
func cutWord(text string) (word, rest string) {
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// parseItem reads value[UOM];[warn];[crit];[min];[max].
func parseItem(label, text string) (Item, bool) {
	fields := strings.Split(text, ";")
	n := numberLength(fields[0])
	value, err := strconv.ParseFloat(fields[0][:n], 64)
	if err != nil || math.IsInf(value, 0) {
		return Item{}, false
	}
	item := Item{Label: label, Value: value, Unit: fields[0][n:]}
	for i, field := range fields[1:] {
		switch i {
		case 0:
			item.Warn = field
		case 1:
			item.Crit = field
		case 2:
			item.Min = bound(field)
		case 3:
			item.Max = bound(field)
		}
	}
	return item, true
}

func bound(text string) *float64 {
	if text == "" || numberLength(text) != len(text) {
		return nil
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	return &value
}

// numberLength returns how much of the beginning of text is a decimal number.
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

// maxName is the most bytes of a metric's name and unit.
const (
	maxName = 128
	maxUnit = 32
)

// Name returns label as the name of a metric: [a-z_][a-z0-9_]*, 128 bytes at most.
func Name(label string) string {
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

// Metrics returns the items of text as metrics, most of them at most. A metric whose
// name is not the label has it in a label called label. Secrets are taken out with redacted
// before a name is made: they would not be found in it later.
func Metrics(text string, most int, redacted func(string) string) (metrics []probe.Metric, more bool) {
	for _, item := range Parse(redacted(text)) {
		item.Label = redacted(item.Label) // quotes in it were written twice
		if len(item.Unit) > maxUnit {
			continue
		}
		if len(metrics) >= most {
			return metrics, true
		}
		m := probe.Metric{Name: Name(item.Label), Value: item.Value, Unit: item.Unit}
		if m.Name != item.Label {
			m.Labels = map[string]string{"label": item.Label}
		}
		metrics = append(metrics, m)
	}
	return metrics, false
}
