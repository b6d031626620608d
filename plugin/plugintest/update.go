package plugintest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/regular"
)

// Update writes the result and the message that came into the file, in place of those
// that were wanted, for every case of the report that failed for them. It touches
// nothing else of the file and returns how many values it changed. The error names those that
// are written so that they have to be changed by hand; the others are changed then, too.
func Update(report *Report) (int, error) {
	edits := make(map[place]string)
	for i := range report.Results {
		r := &report.Results[i]
		if r.c == nil || r.OK() {
			continue
		}
		want, got := r.c.Want, r.got
		if want.Result != got.result() && want.result.line > 0 {
			edits[want.result] = got.result()
		}
		if want.Message.Source != "" && !want.Message.matches(got.message()) && want.message.line > 0 {
			edits[want.message] = spell(got.message())
		}
	}
	if len(edits) == 0 {
		return 0, nil
	}
	data, err := regular.Read(report.File, maxFile)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(data, report.text) { // nothing need be where it was
		return 0, fmt.Errorf("%s has changed since it was read: run the tests again", report.File)
	}
	data, left := edit(data, edits)
	var errs []error
	for _, p := range left {
		errs = append(errs, fmt.Errorf("%s:%d: the value is not plain and on one line: change it by hand", report.File, p.line))
	}
	changed := len(edits) - len(left)
	if changed == 0 {
		return 0, errors.Join(errs...)
	}
	if _, err := parse(report.File, data); err != nil {
		return 0, fmt.Errorf("after the update: %w", err)
	}
	if err := rewrite(report.File, data); err != nil {
		return 0, err
	}
	return changed, errors.Join(errs...)
}

// rewrite puts data in the place of a file, which is whole at any time.
func rewrite(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // there is none once it was renamed
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(info.Mode().Perm()), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// spell returns a YAML scalar that any place takes. JSON's strings are YAML's.
func spell(text string) string {
	if len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/' {
		text = strings.TrimSuffix(text, "/") // it would be a regular expression
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c < ' ' || c == 0x7f || c > 0x7f && !strconv.IsPrint(c):
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}

// edit replaces the scalars at the given places, and returns those that it cannot, the first
// one first.
func edit(data []byte, edits map[place]string) (edited []byte, left []place) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	places := make([]place, 0, len(edits))
	for p := range edits {
		places = append(places, p)
	}
	// From the back, so that what is to come keeps its column.
	slices.SortFunc(places, func(a, b place) int { return (b.line-a.line)<<16 + b.column - a.column })
	for _, p := range places {
		line := lines[p.line-1]
		from := columnOffset(line, p.column)
		length, ok := p.length(line[from:])
		if !ok {
			left = append(left, p)
			continue
		}
		lines[p.line-1] = slices.Concat(line[:from], []byte(edits[p]), line[from+length:])
	}
	slices.Reverse(left)
	return bytes.Join(lines, nil), left
}

// columnOffset returns where a column begins, which counts characters from 1.
func columnOffset(line []byte, column int) int {
	n := 0
	for i := range string(line) {
		if n++; n == column {
			return i
		}
	}
	return len(line)
}

// length returns how many bytes the scalar takes where it begins.
func (p place) length(line []byte) (int, bool) {
	switch {
	case p.block || len(line) == 0:
		return 0, false
	case !p.quoted:
		return len(p.text), bytes.HasPrefix(line, []byte(p.text))
	}
	quote := line[0]
	if quote != '"' && quote != '\'' {
		return 0, false // a tag or an anchor
	}
	for i := 1; i < len(line); i++ {
		switch {
		case quote == '"' && line[i] == '\\':
			i++
		case line[i] == quote && quote == '\'' && i+1 < len(line) && line[i+1] == quote:
			i++
		case line[i] == quote:
			return i + 1, true
		}
	}
	return 0, false
}
