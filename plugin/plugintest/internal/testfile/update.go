package testfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/yamlpos"
)

// Change is a failed case: the wanted and the actual answer.
type Change struct {
	Want Want
	Got  *Answer
}

// Update replaces wanted results and messages in a file by the actual ones, and returns the number
// of changed values. text is the content of the file when it was read. Update cannot change values
// that are not plain scalars on one line; its error names them.
func Update(path string, text []byte, changes []Change) (int, error) {
	edits := make(map[place]string)
	for _, c := range changes {
		if c.Want.Result != c.Got.Result() && c.Want.result.line > 0 {
			edits[c.Want.result] = c.Got.Result()
		}
		if c.Want.Message.Source != "" && !c.Want.Message.Matches(c.Got.Message()) && c.Want.message.line > 0 {
			edits[c.Want.message] = quoted(c.Got.Message())
		}
	}
	if len(edits) == 0 {
		return 0, nil
	}
	data, err := regular.Read(path, maxFile)
	if err != nil {
		return 0, err
	}
	if !bytes.Equal(data, text) {
		return 0, fmt.Errorf("%s has changed since it was read: run the tests again", path)
	}
	data, left := edit(data, edits)
	var errs []error
	for _, p := range left {
		errs = append(errs, fmt.Errorf("%s:%d: the value is not plain and on one line: change it by hand", path, p.line))
	}
	changed := len(edits) - len(left)
	if changed == 0 {
		return 0, errors.Join(errs...)
	}
	if _, err := parse(path, data); err != nil {
		return 0, fmt.Errorf("after the update: %w", err)
	}
	if err := replaceFile(path, data); err != nil {
		return 0, err
	}
	return changed, errors.Join(errs...)
}

// place is the position of a scalar in a file. Line 0 means that the file does not have it.
type place struct {
	line, column  int
	quoted, block bool
	text          string
}

func placeOf(n *yamlpos.Node) place {
	if n.Kind != yamlpos.Scalar {
		return place{}
	}
	return place{
		line: n.Line, column: n.Column, text: n.Value,
		block: n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0, quoted: n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0,
	}
}

// replaceFile replaces the content of the file at path and keeps its mode. It follows links.
func replaceFile(path string, data []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return regular.ReplaceBytes(path, info.Mode().Perm(), data)
}

// quoted returns a double-quoted YAML scalar, which is valid in every context.
func quoted(text string) string {
	if len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/' {
		text = strings.TrimSuffix(text, "/") // otherwise it would be a regular expression
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

// edit replaces the scalars at the given places, and returns those that it cannot replace, in
// order.
func edit(data []byte, edits map[place]string) (edited []byte, left []place) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	places := make([]place, 0, len(edits))
	for p := range edits {
		places = append(places, p)
	}
	// From the end, so that the columns of the other places stay the same.
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

// columnOffset returns the offset of a column; columns count characters from 1.
func columnOffset(line []byte, column int) int {
	n := 0
	for i := range string(line) {
		if n++; n == column {
			return i
		}
	}
	return len(line)
}

// length returns the number of bytes of the scalar at the start of line.
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
