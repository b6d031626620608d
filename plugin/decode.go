package plugin

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin/schema"
)

// MaxManifest is the maximum size of a manifest, in bytes.
const MaxManifest = 256 << 10

// FieldError is an error with its position in a file. Its fields are File, Line (from 1), Field,
// such as "config.schema", and Err.
type FieldError = yamlpos.Error

// ParseManifest parses a plugin.yaml. Its errors are [FieldError]s with this file name, joined if
// there are several.
func ParseManifest(file string, data []byte) (*Manifest, error) {
	d := decoder{Decoder: yamlpos.Decoder{File: file}}
	m := Minimal("")
	if root := d.Parse(data, MaxManifest); root != nil {
		d.manifest(root, m)
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// ManifestSchema returns a JSON Schema (2020-12) of plugin.yaml for editors. It has the fields and types that
// [ParseManifest] accepts; rules about several fields are not in it. describe returns the description of a field by its
// path, such as "requests[].allow", or "".
func ManifestSchema(describe func(path string) string) ([]byte, error) {
	d := new(decoder)
	s := d.Describe(func(n *yamlpos.Node, _ string) { d.manifest(n, Minimal("")) })
	s.Describe("", describe)
	return shape.Encode(s.Schema())
}

// decoder reads a manifest.
type decoder struct {
	yamlpos.Decoder

	examples []*yamlpos.Node // the configs of the examples, in order
}

// manifest reads the document.
func (d *decoder) manifest(n *yamlpos.Node, m *Manifest) {
	d.Mapping(n, "", yamlpos.Fields{
		"apiVersion":  d.Constant(APIVersion),
		"kind":        d.Constant("Plugin"),
		"name":        d.name(&m.Name),
		"version":     d.String(&m.Version),
		"description": d.String(&m.Description),
		"license":     d.String(&m.License),
		"runtime":     yamlpos.OneOf(&d.Decoder, &m.Runtime, Wasm, Process, Nagios),
		"command":     d.command(m),
		"env":         d.environment(&m.Env),
		"stdin":       d.String(&m.Stdin),

		"secretsInArguments": d.Bool(&m.SecretsInArguments),

		"mode":        yamlpos.OneOf(&d.Decoder, &m.Mode, Reactor, Command),
		"abi":         d.abi(&m.ABI),
		"sdk":         d.String(&m.SDK),
		"isolation":   yamlpos.OneOf(&d.Decoder, &m.Isolation, Reset, Fresh, Pooled),
		"stateful":    d.Bool(&m.Stateful),
		"exitCodes":   yamlpos.OneOf(&d.Decoder, &m.ExitCodes, NagiosCodes, ExecCodes),
		"errorPolicy": yamlpos.OneOf(&d.Decoder, &m.ErrorPolicy, PolicyError, PolicyFailure),
		"config":      d.config(&m.Config),
		"requests":    d.requests(&m.Requests),
		"limits":      yamlpos.Settings(&d.Decoder, LimitNames[:LimitTotalMemory], m.Limits.Set),
		"budgets":     yamlpos.Settings(&d.Decoder, BudgetNames(), m.Budgets.Set),
		"metrics":     d.metrics(&m.Metrics),
		"examples":    d.exampleList(&m.Examples),
	}, "apiVersion", "name", "version")
	if (m.Runtime == Nagios) != (m.Command != nil) {
		d.Errorf(n, "command", "must be set for runtime: nagios, and for no other")
	}
	d.checkInput(n, m)
	if m.Isolation == Pooled && !m.Stateful {
		d.Errorf(n, "isolation", "pooled needs stateful: true")
	}
	for i, e := range m.Examples {
		if _, err := m.Config.Apply(e.Config); err != nil && i < len(d.examples) {
			d.Error(d.examples[i], fmt.Sprintf("examples[%d]", i), err)
		}
	}
}

// name reads the name of the plugin.
func (d *decoder) name(to *string) yamlpos.Reader {
	form := shape.Form{Pattern: `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, MaxLength: 63, Good: []string{"a", "redis-2"}, Bad: []string{"", "-a", "a-", "A", "a.b"}}
	return d.Form(form, func(n *yamlpos.Node, path string) {
		name, ok := d.Text(n, path)
		if ok && !ValidName(name) {
			d.Errorf(n, path, "%.80q is not a name: must be at most 63 lower-case letters, digits and dashes", name)
		}
		*to = name
	})
}

// abiVersion is the newest supported version of the ABI.
const abiVersion = 1

func (d *decoder) abi(to *int) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Int(to, 1, math.MaxInt)(n, path)
		if *to > abiVersion {
			d.Errorf(n, path, "version %d is newer than the version %d of this prober", *to, abiVersion)
		}
	}
}

func (d *decoder) config(to **schema.Schema) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Mapping(n, path, yamlpos.Fields{"schema": func(n *yamlpos.Node, path string) {
			var doc []byte
			if d.JSON(&doc)(n, path); doc == nil {
				return
			}
			s, err := schema.New(doc)
			if err != nil {
				d.Error(n, path, err)
				return
			}
			*to = s
		}}, "schema")
	}
}

func (d *decoder) requests(to *[]Request) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		var r Request
		d.Mapping(n, path, yamlpos.Fields{
			"capability": yamlpos.OneOf(&d.Decoder, &r.Capability, CapabilityNames()...),
			"allow":      d.ListOf(d.pattern(&r.Allow)),
			"reason":     d.String(&r.Reason),
			"optional":   d.Bool(&r.Optional),
		}, "capability")
		*to = append(*to, r)
	})
}

// pattern returns a reader that appends the text of a grant.
func (d *decoder) pattern(to *[]string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		text, ok := d.Text(n, path)
		if ok && text != "" {
			if _, err := ParseGrant(text); err != nil {
				d.Error(n, path, err)
			}
		}
		*to = append(*to, text)
	}
}

// command reads the command of a check: a list, or a mapping with the list and the digest of the
// program.
func (d *decoder) command(m *Manifest) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		if n.Kind == yamlpos.Mapping {
			d.Mapping(n, path, yamlpos.Fields{"args": d.arguments(&m.Command), "digest": d.Digest(&m.CommandDigest)}, "args")
			return
		}
		d.arguments(&m.Command)(n, path)
	}
}

// arguments reads a program and its arguments. An argument is a string, or a list of
// strings that are left out together.
func (d *decoder) arguments(to *[]Argument) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Items(n, path, func(n *yamlpos.Node, path string) {
			var a Argument
			if n.Kind == yamlpos.List && len(*to) > 0 {
				d.Items(n, path, d.Append(&a.Group))
			} else {
				a.Text, _ = d.Text(n, path)
			}
			*to = append(*to, a)
		})
		if len(*to) == 0 || (*to)[0].Text == "" {
			d.Errorf(n, path, "must be a program and its arguments")
		}
	}
}

func (d *decoder) metrics(to *[]MetricDoc) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		var m MetricDoc
		d.Mapping(n, path, yamlpos.Fields{"name": d.String(&m.Name), "unit": d.String(&m.Unit), "help": d.String(&m.Help)}, "name")
		*to = append(*to, m)
	})
}

// exampleList reads the examples. Their configs are validated later, when the schema is known.
func (d *decoder) exampleList(to *[]Example) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		var e Example
		d.Mapping(n, path, yamlpos.Fields{
			"description": d.String(&e.Description),
			"config": func(n *yamlpos.Node, path string) {
				if d.Object(&e.Config)(n, path); e.Config != nil {
					d.examples = append(d.examples, n)
				}
			},
		}, "config")
		if e.Config != nil {
			*to = append(*to, e)
		}
	})
}

// ParseSize parses a size in bytes, such as "65536", "64Ki", "32Mi" or "1Gi".
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
		return 0, fmt.Errorf("%.40q is not a size: must be a number of bytes such as 65536, 64Ki or 32Mi", text)
	}
	return n * unit, nil
}
