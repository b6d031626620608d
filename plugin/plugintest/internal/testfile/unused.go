package testfile

import (
	"regexp"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
)

// dropUnused removes the names of scripts that no later step uses, as after an edit that cuts a script.
func dropUnused(item *yamlpos.Node) {
	host := yamlpos.Field(item, "host")
	if host == nil {
		return
	}
	servers := yamlpos.Field(host, "net")
	if servers == nil {
		return
	}
	for _, server := range servers.Content {
		script := yamlpos.Field(server, "script")
		if script == nil || script.Kind != yamlpos.List {
			continue
		}
		var u uses
		for _, step := range slices.Backward(script.Content) {
			u.step(step)
		}
		script.Content = slices.DeleteFunc(script.Content, func(step *yamlpos.Node) bool {
			let := yamlpos.Field(step, "let")
			return let != nil && len(let.Content) == 0
		})
	}
}

// uses has the texts of the steps behind the present one, in which their names are.
type uses struct{ text strings.Builder }

// has reports whether a later step has the name.
func (u *uses) has(name string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(u.text.String())
}

// step removes the unused names of a step.
func (u *uses) step(step *yamlpos.Node) {
	if recv := yamlpos.Field(step, "recv"); recv != nil {
		u.field(recv, "as")
		if frame := yamlpos.Field(recv, "lengthPrefix"); frame != nil {
			u.field(frame, "body")
		}
		if regex := yamlpos.Field(recv, "regex"); regex != nil {
			regex.Value = groupName.ReplaceAllStringFunc(regex.Value, func(group string) string {
				if u.has(groupName.FindStringSubmatch(group)[1]) {
					return group
				}
				return "("
			})
		}
	}
	if let := yamlpos.Field(step, "let"); let != nil {
		u.let(let)
		return
	}
	u.add(step)
}

var groupName = regexp.MustCompile(`\(\?P?<(\w+)>`)

// field removes a name from a field, unless it is used.
func (u *uses) field(n *yamlpos.Node, field string) {
	if name := yamlpos.Field(n, field); name != nil && !u.has(name.Value) {
		SetField(n, field, nil)
	}
}

// let removes the unused values, from the last one on.
func (u *uses) let(n *yamlpos.Node) {
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		if name := n.Content[i].Value; !u.has(name) {
			n.Content = slices.Delete(n.Content, i, i+2)
			continue
		}
		u.add(n.Content[i+1])
	}
}

// add adds the texts of a node.
func (u *uses) add(n *yamlpos.Node) {
	u.text.WriteString(n.Value + "\n")
	for _, child := range n.Content {
		u.add(child)
	}
}
