package targets

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/yamlpos"
)

const (
	maxTemplate = 4 << 10 // maximum length of a template in bytes
	maxResult   = 4 << 10 // maximum length of a template's result in bytes
)

// step is a relabel step. Either one of its templates is set, or labels.
type step struct {
	path                string // such as relabel[0]
	name, address, drop *template.Template
	labels              map[string]*template.Template
	order               []string // sorted names of labels
}

// templateFields are the names of the data of a template.
var templateFields = []string{"address", "group", "host", "labels", "name", "port", "source"}

var templateFuncs = template.FuncMap{
	"default": func(other, text string) string {
		if text == "" {
			return other
		}
		return text
	},
	"lower":      strings.ToLower,
	"match":      func(pattern, text string) (bool, error) { return regexp.MatchString("^(?:"+pattern+")$", text) },
	"replace":    replace,
	"trimPrefix": func(prefix, text string) string { return strings.TrimPrefix(text, prefix) },
	"trimSuffix": func(suffix, text string) string { return strings.TrimSuffix(text, suffix) },
	"upper":      strings.ToUpper,

	// Functions of text/template with bounded results. checkNode refuses printf, whose format may have a width of a
	// megabyte.
	"html":     bounded(template.HTMLEscaper),
	"js":       bounded(template.JSEscaper),
	"print":    bounded(fmt.Sprint),
	"println":  bounded(fmt.Sprintln),
	"urlquery": bounded(template.URLQueryEscaper),
}

// replace returns text with each old replaced by by. It returns an error if the result would exceed maxResult bytes.
func replace(old, by, text string) (string, error) {
	if len(text)+strings.Count(text, old)*(len(by)-len(old)) > maxResult {
		return "", errTooLong
	}
	return strings.ReplaceAll(text, old, by), nil
}

// bounded wraps f, a function such as fmt.Sprint, to return an error if the arguments or the result exceed maxResult
// bytes.
func bounded(f func(args ...any) string) func(args ...any) (string, error) {
	return func(args ...any) (string, error) {
		size := 0
		for _, a := range args {
			if s, ok := a.(string); ok {
				size += len(s)
			} else {
				size += len(fmt.Sprint(a))
			}
			if size > maxResult {
				return "", errTooLong
			}
		}
		text := f(args...)
		if len(text) > maxResult {
			return "", errTooLong
		}
		return text, nil
	}
}

// compileRelabel compiles the steps of a group.
func compileRelabel(list []config.Relabel, problem func(line int, path string, err error)) (steps []step) {
	for i := range list {
		r := &list[i]
		compile := func(field, text string) *template.Template {
			if text == "" {
				return nil
			}
			t, err := compileTemplate(text)
			if err != nil {
				problem(r.Line, r.Path+"."+field, err)
			}
			return t
		}
		s := step{
			path: yamlpos.Item("relabel", i), name: compile("name", r.Name), address: compile("address", r.Address),
			drop: compile("drop", r.Drop), labels: make(map[string]*template.Template), order: slices.Sorted(maps.Keys(r.Labels)),
		}
		for _, label := range s.order {
			s.labels[label] = compile("labels."+label, r.Labels[label])
		}
		steps = append(steps, s)
	}
	return steps
}

// compileTemplate compiles a template. Loops and calls of other templates are errors, so that every template ends.
func compileTemplate(text string) (*template.Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("a template must have at most %d bytes", maxTemplate)
	}
	t, err := template.New("").Funcs(templateFuncs).Option("missingkey=zero").Parse(text)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "template: :"), "1: "))
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("a template must not define others")
	}
	if t.Tree == nil {
		return nil, errors.New("the template is empty")
	}
	return t, checkNode(t.Root, false)
}

// checkNode returns an error for a loop, a call of another template or of printf, and an unknown field.
// inner means that the dot is not the target.
func checkNode(n parse.Node, inner bool) error {
	var below []parse.Node
	switch n := n.(type) {
	case *parse.RangeNode, *parse.TemplateNode, *parse.BreakNode, *parse.ContinueNode:
		return fmt.Errorf("%.40s is not allowed in a template", n)
	case *parse.ListNode:
		if n != nil {
			below = n.Nodes
		}
	case *parse.ActionNode:
		below = []parse.Node{n.Pipe}
	case *parse.IfNode:
		below = []parse.Node{n.Pipe, n.List, n.ElseList}
	case *parse.WithNode:
		if err := checkNode(n.Pipe, inner); err != nil {
			return err
		}
		inner, below = true, []parse.Node{n.List, n.ElseList}
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			below = append(below, c.Args...)
		}
	case *parse.IdentifierNode:
		if n.Ident == "printf" {
			return errors.New("printf is not allowed in a template; print joins texts")
		}
	case *parse.ChainNode:
		below = []parse.Node{n.Node}
	case *parse.FieldNode:
		if !inner && !slices.Contains(templateFields, n.Ident[0]) {
			return fmt.Errorf("unknown field .%.40s%s", n.Ident[0], yamlpos.Known(n.Ident[0], slices.Clone(templateFields)))
		}
	}
	for _, child := range below {
		if err := checkNode(child, inner); err != nil {
			return err
		}
	}
	return nil
}

// limited is a buffer for the result of a template. Write returns an error beyond maxResult bytes.
type limited struct{ strings.Builder }

var errTooLong = fmt.Errorf("the result has more than %d bytes", maxResult)

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxResult {
		return 0, errTooLong
	}
	return l.Builder.Write(p)
}

// byRule is the prefix of the reason of a target that a relabel step drops.
const byRule = "dropped by "

// relabelled is a target while the steps of its group are applied, and afterwards.
type relabelled struct {
	name    string // "" if no step sets it
	address string
	labels  map[string]string
	dropped string // why it is dropped; "" if it is not
}

// relabel applies the steps to a target.
func relabel(steps []step, group, source, listed string, labels map[string]string) (r relabelled) {
	r = relabelled{address: listed, labels: labels}
	owned := false
	for i := range steps {
		s := &steps[i]
		run := func(t *template.Template) string {
			if t == nil || r.dropped != "" {
				return ""
			}
			var out limited
			if err := t.Execute(&out, r.data(group, source)); err != nil {
				r.dropped = s.path + ": " + templateError(err)
			}
			return strings.TrimSpace(strings.ToValidUTF8(out.String(), "\ufffd"))
		}
		switch {
		case s.name != nil:
			r.name = run(s.name)
		case s.address != nil:
			r.address = run(s.address)
		case s.drop != nil:
			switch result := run(s.drop); {
			case r.dropped != "" || result == "" || result == "false":
			case result == "true":
				r.dropped = byRule + s.path + ": " + s.drop.Root.String()
			default:
				r.dropped = fmt.Sprintf("%s: the result of drop must be true or false, not %.40q", s.path, result)
			}
		}
		for _, label := range s.order {
			if !owned {
				r.labels, owned = merged(nil, r.labels), true
			}
			if value := run(s.labels[label]); value != "" {
				r.labels[label] = value
			} else {
				delete(r.labels, label)
			}
		}
		if r.dropped != "" {
			return r
		}
	}
	return r
}

// merged returns a new map with the entries of both maps. Entries of b replace entries of a.
func merged(a, b map[string]string) map[string]string {
	all := make(map[string]string, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// data returns the data of templates.
func (r *relabelled) data(group, source string) map[string]any {
	host, port := r.address, ""
	if a, err := parseAddress(r.address); err == nil {
		host = a.Host
		if a.Port != 0 {
			port = fmt.Sprint(a.Port)
		}
	}
	return map[string]any{"address": r.address, "group": group, "host": host, "labels": r.labels, "name": r.name, "port": port, "source": source}
}

// templateError returns the text of err without the position in the template.
func templateError(err error) string {
	if errors.Is(err, errTooLong) {
		return errTooLong.Error()
	}
	text := err.Error()
	if _, rest, ok := strings.Cut(text, ">: "); ok {
		text = rest
	}
	return fmt.Sprintf("%.200s", text)
}
