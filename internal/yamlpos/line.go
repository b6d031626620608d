package yamlpos

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Line returns the line of the field at path below n, or of its nearest ancestor that is set.
// A path may continue inside a string with YAML, such as an annotation.
func Line(n *Node, path string) int {
	line := n.Line
	for path != "" {
		var step string
		step, path = cutStep(path)
		if n.Kind == Scalar {
			if n = embedded(n); n == nil {
				return line
			}
		}
		next, at := child(n, step)
		if next == nil {
			return line
		}
		n, line = next, at
	}
	return line
}

// cutStep splits the first step from a path like a.b[0][k.x].c.
func cutStep(path string) (step, rest string) {
	if inner, ok := strings.CutPrefix(path, "["); ok {
		step, rest, _ = strings.Cut(inner, "]")
	} else if i := strings.IndexAny(path, ".["); i >= 0 {
		step, rest = path[:i], path[i:]
	} else {
		step = path
	}
	return step, strings.TrimPrefix(rest, ".")
}

// child returns the value of n at step, and its line.
func child(n *Node, step string) (next *Node, line int) {
	switch n.Kind {
	case Mapping:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1], n.Content[i].Line
			}
		}
	case List:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i].Line
		}
	}
	return nil, 0
}

// embedded returns the YAML document in the string n, with line numbers of the file; nil if there is
// none.
func embedded(n *Node) *Node {
	if n.Tag != "!!str" {
		return nil
	}
	d := Decoder{}
	for root := range d.All([]byte(n.Value), MaxText) {
		offset := n.Line - 1
		if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			offset = n.Line
		}
		shift(root, offset, make(map[*Node]bool))
		return root
	}
	return nil
}

// shift adds lines to the line of n and of each node below it.
func shift(n *Node, lines int, done map[*Node]bool) {
	if done[n] {
		return
	}
	done[n] = true
	n.Line += lines
	for _, c := range n.Content {
		shift(c, lines, done)
	}
}
