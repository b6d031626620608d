package targets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
)

const (
	maxList    = 32 << 20 // maximum size of a list of targets in bytes
	maxTargets = 100_000  // in a list, and in all groups together
)

// found is a target listed by a source. It is read-only.
type found struct {
	address string
	labels  map[string]string // shared by the targets of one entry
	file    string            // "" if it is not from a file
	line    int               // in the file; 0 if not known
}

// entry is an entry in the format of Prometheus' file_sd and http_sd.
type entry struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

var errTooMany = fmt.Errorf("there are more than %d targets", maxTargets)

// parseFile parses a file of entries. Files with the extension .yml or .yaml are YAML, and all others JSON.
func parseFile(name string, text []byte) ([]found, error) {
	if len(text) > maxList {
		return nil, fmt.Errorf("more than %d MiB", maxList>>20)
	}
	if ext := strings.ToLower(filepath.Ext(name)); ext == ".yml" || ext == ".yaml" {
		return parseYAML(name, text)
	}
	return parseJSON(name, text)
}

// parseAnswer parses the response of a service or the output of a command.
func parseAnswer(text []byte) ([]found, error) {
	if len(text) > maxList {
		return nil, fmt.Errorf("the answer has more than %d MiB", maxList>>20)
	}
	list, err := parseJSON("answer", text)
	for i := range list {
		list[i].file, list[i].line = "", 0
	}
	return list, err
}

func parseJSON(name string, text []byte) (list []found, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	lines := lineCounter{text: text}
	begin := int64(0) // offset of the present entry
	fail := func(err error) error {
		at := d.InputOffset()
		if _, ok := errors.AsType[*json.SyntaxError](err); ok { // its offset does not include earlier tokens
			var again *json.SyntaxError
			if errors.As(json.NewDecoder(bytes.NewReader(text[begin:])).Decode(new(json.RawMessage)), &again) {
				at = begin + again.Offset - 1
			}
		}
		if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			at = begin + e.Offset
		}
		return &yamlpos.Error{File: name, Line: lines.lineAt(at), Field: pathOf(err), Err: jsonError(err)}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		if err == nil {
			err = errors.New("must be a list of {targets, labels}")
		}
		return nil, fail(err)
	}
	for d.More() {
		begin = lines.next(d.InputOffset())
		at := lines.lineAt(begin)
		var e entry
		if err := d.Decode(&e); err != nil {
			return nil, fail(err)
		}
		if list = append(list, e.found(name, at)...); len(list) > maxTargets {
			return nil, fail(errTooMany)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fail(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fail(errors.New("there is more after the list"))
	}
	return list, nil
}

func (e *entry) found(file string, line int) []found {
	list := make([]found, len(e.Targets))
	for i, address := range e.Targets {
		list[i] = found{address, e.Labels, file, line}
	}
	return list
}

// lineCounter returns the line numbers of ascending offsets.
type lineCounter struct {
	text   []byte
	offset int64
	line   int
}

// next returns the offset of the first value at or after offset.
func (c *lineCounter) next(offset int64) int64 {
	for offset < int64(len(c.text)) && strings.IndexByte(" \t\r\n,", c.text[offset]) >= 0 {
		offset++
	}
	return offset
}

// lineAt returns the line of an offset, from 1.
func (c *lineCounter) lineAt(offset int64) int {
	offset = min(offset, int64(len(c.text)))
	if offset > c.offset {
		c.line += bytes.Count(c.text[c.offset:offset], []byte("\n"))
		c.offset = offset
	}
	return c.line + 1
}

// pathOf returns the field of a decoding error, or "".
func pathOf(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return e.Field
	}
	return ""
}

func jsonError(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		want := map[string]string{"targets": "a list of strings", "labels": "a mapping of strings"}[strings.SplitN(e.Field, ".", 2)[0]]
		if want == "" {
			want = "a mapping with targets and labels"
		}
		return fmt.Errorf("must be %s, not a %s", want, e.Value)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the list is not complete")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func parseYAML(name string, text []byte) (list []found, err error) {
	d := yamlpos.Decoder{File: name}
	root := d.Parse(text, maxList)
	if root == nil {
		return nil, d.Err()
	}
	d.Items(root, "", func(n *yamlpos.Node, path string) {
		var addresses []found
		labels := make(map[string]string)
		d.Mapping(n, path, yamlpos.Fields{
			"targets": d.ListOf(func(n *yamlpos.Node, path string) {
				text, _ := d.Text(n, path)
				addresses = append(addresses, found{address: text, labels: labels, file: name, line: n.Line})
			}),
			"labels": func(n *yamlpos.Node, path string) {
				d.Entries(n, path, func(key, value *yamlpos.Node, path string) { labels[key.Value], _ = d.Text(value, path) })
			},
		})
		list = append(list, addresses...)
	})
	if len(list) > maxTargets {
		d.Errorf(nil, "", "%w", errTooMany)
	}
	return list, d.Err()
}
