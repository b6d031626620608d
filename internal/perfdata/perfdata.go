// Package perfdata reads the output of programs that follow the convention of the Nagios
// plugins: a message, followed by a vertical bar and performance data, with items of the form
//
//	'label'=value[UOM];[warn];[crit];[min];[max]
//
// The value is a decimal number with a point, or U for an unknown one. The unit has no digits, quotes, signs or
// punctuation: "1,334s" is not one second, "0x10" not zero and "1.2.3" not 1.2. What cannot be read is ignored, and
// named in the result. The fields after the first semicolon are not used.
package perfdata

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/daeace23/prober/internal/clip"
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

// parse returns the items of text, and the first word that is none, or "". Items with the unknown value U are left
// out.
func parse(text string) (items []item, malformed string) {
	refuse := func(word string) { malformed = cmp.Or(malformed, strings.TrimFunc(word, isSpace)) }
	for {
		text = strings.TrimLeftFunc(text, isSpace)
		if text == "" {
			return items, malformed
		}
		begin := text
		label, rest, ok := cutLabel(text)
		if !ok { // skip the word
			text = rest
			refuse(begin[:len(begin)-len(rest)])
			continue
		}
		fields, after := cutWord(rest)
		next, _ := cutWord(strings.TrimLeftFunc(after, isSpace))
		if isOpen(fields) && next != "" && !strings.Contains(next, "=") && next[0] != '\'' { // "1 334s", "10 KB"
			text = after[strings.Index(after, next)+len(next):]
			refuse(begin[:len(begin)-len(text)])
			continue
		}
		text = after
		number, _, _ := strings.Cut(fields, ";")
		if number == "U" {
			continue
		}
		n := numberLength(number)
		value, err := strconv.ParseFloat(number[:n], 64)
		if err != nil || math.IsInf(value, 0) || !isUnit(number[n:]) {
			refuse(begin[:len(begin)-len(after)])
			continue
		}
		items = append(items, item{label, value, number[n:]})
	}
}

// isSpace reports whether r separates items. Spaces that separate the digits of a number in some languages do not.
func isSpace(r rune) bool { return r < unicode.MaxASCII && unicode.IsSpace(r) }

// isOpen reports whether fields, a value with what follows it, may continue in the next word: it ends with a digit.
func isOpen(fields string) bool {
	return fields != "" && '0' <= fields[len(fields)-1] && fields[len(fields)-1] <= '9' && !strings.Contains(fields, ";")
}

// isUnit reports whether text is the unit of a number, which may be empty.
func isUnit(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsDigit(r) || unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune(`'"=,.:+-_|@~’٫٬`, r)
	})
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
	if i := strings.IndexFunc(text, isSpace); i >= 0 {
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

// Reading is performance data as metrics.
type Reading struct {
	Metrics   []probe.Metric
	More      bool   // there were more metrics than allowed
	Malformed string // the first part that is not an item, and is ignored; "" if there is none
}

// maxMalformed is the maximum length in bytes of a part in [Reading.Malformed].
const maxMalformed = 80

// Read returns at most most items of performance data as metrics. If the name of a metric differs from the item's
// label, the metric has the item's label in a label called label. redacted removes secrets before names are made, since
// it would not find them in a name.
func Read(text string, most int, redacted func(string) string) (r Reading) {
	items, malformed := parse(redacted(text))
	r.Malformed = clip.Marked(malformed, maxMalformed, "...")
	for _, item := range items {
		item.label = redacted(item.label) // again: escaped quotes may have hidden a secret
		if len(item.unit) > maxUnit {
			r.Malformed = cmp.Or(r.Malformed, clip.Marked(item.label+"="+item.unit, maxMalformed, "..."))
			continue
		}
		if r.More = len(r.Metrics) >= most; r.More {
			return r
		}
		m := probe.Metric{Name: metricName(item.label), Value: item.value, Unit: item.unit}
		if m.Name != item.label {
			m.Labels = map[string]string{"label": item.label}
		}
		r.Metrics = append(r.Metrics, m)
	}
	return r
}

// Ignored begins the text of [Reading.Ignored].
const Ignored = "performance data is ignored: "

// Ignored returns a sentence about the part that is not an item, or "" if there is none.
func (r *Reading) Ignored() string {
	if r.Malformed == "" {
		return ""
	}
	return fmt.Sprintf("%s%q is not label=number[unit]", Ignored, r.Malformed)
}
