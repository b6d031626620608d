package plugintest

import (
	"bytes"
	"context"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/plugintest/internal/adverse"
	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// render returns a variant as an item of cases, which fails until the plugin is mended. A comment says so if a
// want cannot express the rule that the plugin breaks, or if the case depends on its position.
func (s *subject) render(ctx context.Context, v *adverse.Variant, key string) (string, error) {
	_, item, _ := s.edited(v.Edit)
	size := textSize(item)
	testfile.SetField(item, "name", text(s.c.Name+": "+v.What))
	testfile.SetField(item, "accepts", nil)
	testfile.SetField(item, "want", s.wanted(v, key, size))
	c, err := s.editor.Case(item)
	if err != nil {
		return "", err
	}
	block(item)
	out, err := s.encode(item)
	if err != nil {
		return "", err
	}
	got, err := s.run(ctx, c, s.position)
	if err != nil {
		return "", err
	}
	got.sent = size
	if other, _ := s.judge(v, c, got); other != key && key != keyRandom {
		return fmt.Sprintf("# Bytes or dates of this case depend on its position: put it in place of case %d of %s.\n", s.index+1, s.file.Path) + out, nil
	}
	if rule := inexpressible(key); rule != "" && (key == keyRandom || c.Want.Compare(got.Answer) == "") {
		return fmt.Sprintf("# This case may pass before the plugin is mended: its want cannot express that %s.\n", rule) + out, nil
	}
	return out, nil
}

// wanted returns the field want for a variant of a size.
func (s *subject) wanted(v *adverse.Variant, key string, size uint64) *yamlpos.Node {
	want := "failure"
	if v.Rule == adverse.Same {
		want = s.base.Result()
	}
	n := &yamlpos.Node{Kind: yamlpos.Mapping, Style: yaml.FlowStyle}
	testfile.SetField(n, "result", text(want))
	if key == keySize {
		limit := &yamlpos.Node{Kind: yamlpos.Mapping, Style: yaml.FlowStyle}
		testfile.SetField(limit, "max", text(testfile.Size(s.memoryLimit(size))))
		testfile.SetField(n, "memory", limit)
	}
	return n
}

func text(value string) *yamlpos.Node {
	n := &yamlpos.Node{}
	n.SetString(value)
	return n
}

// block writes the parts of an item that are long on lines of their own.
func block(item *yamlpos.Node) {
	item.Style &^= yaml.FlowStyle
	host := yamlpos.Field(item, "host")
	host.Style &^= yaml.FlowStyle
	for _, name := range []string{"net", "http", "dns"} {
		peers := yamlpos.Field(host, name)
		if peers == nil {
			continue
		}
		peers.Style &^= yaml.FlowStyle
		for _, one := range peers.Content {
			one.Style &^= yaml.FlowStyle
			if script := yamlpos.Field(one, "script"); script != nil {
				script.Style &^= yaml.FlowStyle
			}
		}
	}
}

// encoded returns a list of items.
func encoded(items []*yamlpos.Node) (string, error) {
	return encodedNode(&yamlpos.Node{Kind: yamlpos.List, Content: items})
}

func encodedNode(n *yamlpos.Node) (string, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return "", err
	}
	return b.String(), enc.Close()
}
