package plugin

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// manifest reads the whole document.
func (d *decoder) manifest(n *yaml.Node, m *Manifest) {
	d.mapping(n, "", fields{
		"apiVersion":  d.constant(APIVersion),
		"kind":        d.constant("Plugin"),
		"name":        d.name(&m.Name),
		"version":     d.text(&m.Version),
		"description": d.text(&m.Description),
		"license":     d.text(&m.License),
		"runtime":     oneOf(d, &m.Runtime, Wasm, Process, Nagios),
		"command":     d.command(m),
		"env":         d.environment(m),
		"stdin":       d.text(&m.Stdin),

		"secretsInArguments": d.truth(&m.SecretsInArguments),

		"mode":        oneOf(d, &m.Mode, Reactor, Command),
		"abi":         d.abi(&m.ABI),
		"sdk":         d.text(&m.SDK),
		"isolation":   oneOf(d, &m.Isolation, Reset, Fresh, Pooled),
		"stateful":    d.truth(&m.Stateful),
		"exitCodes":   oneOf(d, &m.ExitCodes, NagiosCodes, ExecCodes),
		"errorPolicy": oneOf(d, &m.ErrorPolicy, PolicyError, PolicyFailure),
		"config":      d.config(m),
		"requests":    d.requests(&m.Requests),
		"limits":      d.limits(&m.Limits),
		"metrics":     d.metrics(&m.Metrics),
		"examples":    d.exampleList(m),
	}, "apiVersion", "name", "version")
	if (m.Runtime == Nagios) != (m.Command != nil) {
		d.failf(n, "command", "is for runtime: nagios, which needs one")
	}
	d.checkInput(n, m)
	if m.Isolation == Pooled && !m.Stateful {
		d.failf(n, "isolation", "pooled is for plugins with stateful: true")
	}
	for i, e := range m.Examples {
		if _, err := m.Config.Apply(e.Config); err != nil && i < len(d.examples) {
			d.fail(d.examples[i], fmt.Sprintf("examples[%d]", i), err)
		}
	}
}

func (d *decoder) name(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if !ValidName(n.Value) {
			d.failf(n, path, "%.80q is no name: want lower-case letters, digits and dashes, 63 at most", n.Value)
		}
		*to = n.Value
	}
}

func (d *decoder) abi(to *int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.number(to, 1)(n, path)
		if *to > 1 {
			d.failf(n, path, "version %d is newer than this prober, which speaks 1", *to)
		}
	}
}

func (d *decoder) config(m *Manifest) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.mapping(n, path, fields{"schema": func(n *yaml.Node, path string) {
			doc, ok := d.json(n, path)
			if !ok {
				return
			}
			schema, err := NewSchema(doc)
			if err != nil {
				d.fail(n, path, err)
				return
			}
			m.Config = schema
		}}, "schema")
	}
}

// json returns a node as JSON, whatever is in it.
func (d *decoder) json(n *yaml.Node, path string) ([]byte, bool) {
	var value any
	err := n.Decode(&value)
	var doc []byte
	if err == nil {
		doc, err = json.Marshal(value)
	}
	if err != nil {
		d.failf(n, path, "%w", err)
	}
	return doc, err == nil
}

func (d *decoder) requests(to *[]Request) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.items(n, path, func(n *yaml.Node, path string) {
			var r Request
			d.mapping(n, path, fields{
				"capability": oneOf(d, &r.Capability, CapabilityNames()...),
				"allow":      d.patterns(&r.Allow),
				"reason":     d.text(&r.Reason),
				"optional":   d.truth(&r.Optional),
			}, "capability")
			*to = append(*to, r)
		})
	}
}

// patterns reads grants, and leaves them as they are written.
func (d *decoder) patterns(to *[]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.items(n, path, func(n *yaml.Node, path string) {
			var text string
			if d.text(&text)(n, path); text != "" {
				if _, err := ParseGrant(text); err != nil {
					d.fail(n, path, err)
				}
			}
			*to = append(*to, text)
		})
	}
}

func (d *decoder) texts(to *[]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.items(n, path, func(n *yaml.Node, path string) {
			var text string
			d.text(&text)(n, path)
			*to = append(*to, text)
		})
	}
}

// command reads the command of a check: a list, or a mapping with it and the digest of
// its program.
func (d *decoder) command(m *Manifest) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind == yaml.MappingNode {
			d.mapping(n, path, fields{
				"args":   func(n *yaml.Node, path string) { d.arguments(n, path, &m.Command) },
				"digest": d.digest(&m.CommandDigest),
			}, "args")
			return
		}
		d.arguments(n, path, &m.Command)
	}
}

func (d *decoder) arguments(n *yaml.Node, path string, to *[]Argument) {
	d.items(n, path, func(n *yaml.Node, path string) {
		var a Argument
		if n.Kind == yaml.SequenceNode && len(*to) > 0 {
			d.texts(&a.Group)(n, path)
		} else {
			d.text(&a.Text)(n, path)
		}
		*to = append(*to, a)
	})
	if len(*to) == 0 || (*to)[0].Text == "" {
		d.failf(n, path, "want a program and its arguments")
	}
}

func (d *decoder) digest(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		sum, ok := strings.CutPrefix(n.Value, "sha256:")
		if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 || strings.ToLower(sum) != sum {
			d.failf(n, path, "%.80q is no digest: want sha256: and 64 hexadecimal digits in lower case", n.Value)
			return
		}
		*to = n.Value
	}
}

func (d *decoder) limits(to *Limits) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		known := make(fields)
		for _, name := range LimitNames[:LimitTotalMemory] {
			known[string(name)] = func(n *yaml.Node, path string) {
				if n.Kind != yaml.ScalarNode {
					d.failf(n, path, "want a number")
				} else if err := to.Set(name, n.Value); err != nil {
					d.failf(n, path, "%w", err)
				}
			}
		}
		d.mapping(n, path, known)
	}
}

func (d *decoder) metrics(to *[]MetricDoc) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.items(n, path, func(n *yaml.Node, path string) {
			var m MetricDoc
			d.mapping(n, path, fields{
				"name": d.text(&m.Name), "unit": d.text(&m.Unit), "help": d.text(&m.Help),
			}, "name")
			*to = append(*to, m)
		})
	}
}

// exampleList reads the examples; their configs are held against the schema when
// all of the manifest is known.
func (d *decoder) exampleList(m *Manifest) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d.items(n, path, func(n *yaml.Node, path string) {
			var e Example
			d.mapping(n, path, fields{
				"description": d.text(&e.Description),
				"config": func(n *yaml.Node, path string) {
					if n.Kind != yaml.MappingNode {
						d.failf(n, path, "want a mapping")
					} else if doc, ok := d.json(n, path); ok {
						e.Config = doc
						d.examples = append(d.examples, n)
					}
				},
			}, "config")
			if e.Config != nil {
				m.Examples = append(m.Examples, e)
			}
		})
	}
}

// ParseSize reads a size in bytes: "65536", "64Ki", "32Mi", "1Gi".
func ParseSize(text string) (uint64, error) {
	units := map[string]uint64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
	digits, unit := text, uint64(1)
	for suffix, factor := range units {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			digits, unit = rest, factor
		}
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%.40q is no size: want a number of bytes, as in 65536, 64Ki or 32Mi", text)
	}
	return n * unit, nil
}
