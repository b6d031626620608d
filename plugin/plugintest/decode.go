package plugintest

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

const (
	defaultTimeout = time.Second
	day            = 24 * time.Hour
)

func parse(path string, data []byte) (*File, error) {
	doc, err := oneDocument(path, data)
	if err != nil {
		return nil, err
	}
	r := &reader{file: path}
	f := &File{Path: path, text: data}
	r.document(doc, f)
	return f, errors.Join(r.errs...)
}

func (r *reader) document(n *yaml.Node, f *File) {
	timeout := defaultTimeout
	var grants []plugin.Grant
	var module string
	var cases *yaml.Node
	r.mapping(n, "", map[string]read{
		"apiVersion": r.constant(plugin.APIVersion),
		"kind":       r.constant("PluginTest"),
		"plugin":     r.text(&module),
		"defaults": func(n *yaml.Node, path string) {
			r.mapping(n, path, map[string]read{"timeout": r.timeout(&timeout), "grants": r.grants(&grants)})
		},
		"cases": func(n *yaml.Node, _ string) { cases = n },
	}, "apiVersion", "kind", "plugin", "cases")
	f.Plugin = module
	if !filepath.IsAbs(module) {
		f.Plugin = filepath.Join(filepath.Dir(f.Path), module)
	}
	if cases == nil {
		return
	}
	names := make(map[string]int)
	r.items(cases, "cases", func(n *yaml.Node, path string) {
		c := *newCase()
		c.Line, c.Timeout, c.Grants = n.Line, timeout, grants
		r.testCase(n, path, &c)
		if first, ok := names[c.Name]; ok {
			r.failf(n, path+".name", "the case of line %d has the name %q too", first, c.Name)
		}
		names[c.Name] = c.Line
		f.Cases = append(f.Cases, c)
	})
}

func (r *reader) grants(to *[]plugin.Grant) read {
	return func(n *yaml.Node, path string) {
		*to = nil
		r.items(n, path, func(n *yaml.Node, path string) {
			var g plugin.Grant
			parsed(r, &g, plugin.ParseGrant)(n, path)
			*to = append(*to, g)
		})
	}
}

func (r *reader) testCase(n *yaml.Node, path string, c *Case) {
	required := []string{"name", "want"}
	replayed := field(n, "replay")
	if replayed != nil && (!r.replay(replayed, join(path, "replay"), c) || c.Want.Result != "") {
		required = required[:1]
	}
	r.mapping(n, path, map[string]read{
		"replay":  func(*yaml.Node, string) {},
		"name":    r.text(&c.Name),
		"timeout": r.timeout(&c.Timeout),
		"grants":  r.grants(&c.Grants),
		"request": func(n *yaml.Node, path string) { r.request(n, path, c) },
		"host": func(n *yaml.Node, path string) {
			if replayed != nil {
				r.failf(n, path, "the host of a replay is that of the session")
				return
			}
			r.host(n, path, c)
		},
		"want": func(n *yaml.Node, path string) { r.want(n, path, &c.Want) },
	}, required...)
}

func (r *reader) request(n *yaml.Node, path string, c *Case) {
	r.mapping(n, path, map[string]read{
		"kind":       parsed(r, &c.Kind, probe.ParseKind),
		"attempt":    r.number(&c.Attempt),
		"lastResult": parsed(r, &c.LastResult, parseResult),
		"config":     r.object(&c.Config),
		"podIP":      r.text(&c.PodIP),
		"target": func(n *yaml.Node, path string) {
			r.mapping(n, path, map[string]read{
				"host": r.text(&c.Target.Host), "port": r.port(&c.Target.Port), "unix": r.text(&c.Target.Unix),
			})
		},
		"pod": func(n *yaml.Node, path string) {
			r.mapping(n, path, map[string]read{
				"namespace": r.text(&c.Pod.Namespace), "name": r.text(&c.Pod.Name), "uid": r.text(&c.Pod.UID), "labels": r.labels(&c.Pod),
			})
		},
		"container": func(n *yaml.Node, path string) {
			r.mapping(n, path, map[string]read{"name": r.text(&c.Container.Name)})
		},
	})
}

func (r *reader) labels(pod *probe.Pod) read {
	return func(n *yaml.Node, path string) {
		pod.Labels = make(map[string]string)
		r.entries(n, path, func(key, value *yaml.Node, at string) {
			pod.Labels[key.Value], _ = r.scalar(value, at)
		})
	}
}

func parseResult(text string) (res probe.Result, err error) {
	err = res.UnmarshalText([]byte(text))
	return res, err
}

var resultForm = regexp.MustCompile(`^(?:success|warning|failure|unknown|error\(([a-z_]+)\))$`)

// reasons are those that an error may have. The first is of a config that is not taken.
var reasons = []string{
	"config", string(probe.ReasonConnectRefused), string(probe.ReasonConnectTimeout), string(probe.ReasonDeadline), string(probe.ReasonDenied),
	string(probe.ReasonDNS), string(probe.ReasonExecExit), string(probe.ReasonGuest), string(probe.ReasonInstantiate), string(probe.ReasonInternal),
	string(probe.ReasonMemory), string(probe.ReasonProtocol), string(probe.ReasonTLS), string(probe.ReasonTrap),
}

// result reads what a verdict is called.
func (r *reader) result(to *string) read {
	return func(n *yaml.Node, path string) {
		*to, _ = r.scalar(n, path)
		form := resultForm.FindStringSubmatch(*to)
		switch {
		case form == nil:
			r.failf(n, path, "%.40q: want success, warning, failure, unknown or error(reason)", *to)
		case form[1] != "" && !slices.Contains(reasons, form[1]):
			r.failf(n, path, "unknown reason %.40q; known: %s", form[1], strings.Join(reasons, ", "))
		}
	}
}

// want reads what is wanted, on top of what a session wants.
func (r *reader) want(n *yaml.Node, path string, w *Want) {
	var required []string
	if w.Result == "" {
		required = append(required, "result")
	}
	r.mapping(n, path, map[string]read{
		"result": func(n *yaml.Node, path string) {
			r.result(&w.Result)(n, path)
			w.result = placeOf(n)
		},
		"message": func(n *yaml.Node, path string) {
			r.pattern(&w.Message)(n, path)
			w.message = placeOf(n)
		},
		"metrics": func(n *yaml.Node, path string) {
			w.Metrics = make(map[string]Bounds)
			r.entries(n, path, func(key, value *yaml.Node, at string) {
				w.Metrics[key.Value] = *r.bounds(value, at, plain)
			})
		},
		"denied": func(n *yaml.Node, path string) {
			w.Denied = []Text{}
			r.items(n, path, func(n *yaml.Node, path string) {
				var t Text
				r.pattern(&t)(n, path)
				w.Denied = append(w.Denied, t)
			})
		},
		"virtualTime": func(n *yaml.Node, path string) { w.VirtualTime = r.bounds(n, path, seconds) },
		"kv": func(n *yaml.Node, path string) {
			w.KV = make(map[string]string)
			r.entries(n, path, func(key, value *yaml.Node, at string) { w.KV[key.Value], _ = r.scalar(value, at) })
		},
		"memory": func(n *yaml.Node, path string) { w.Memory = r.bounds(n, path, bytesUnit) },
	}, required...)
}

func placeOf(n *yaml.Node) place {
	if n.Kind != yaml.ScalarNode {
		return place{}
	}
	return place{
		line: n.Line, column: n.Column, text: n.Value,
		block: n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0, quoted: n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0,
	}
}

// pattern reads an exact text, or /a regular expression/.
func (r *reader) pattern(to *Text) read {
	return parsed(r, to, func(text string) (t Text, err error) {
		t.Source = text
		if len(text) > 1 && text[0] == '/' && text[len(text)-1] == '/' {
			t.regex, err = regexp.Compile(text[1 : len(text)-1])
		}
		return t, err
	})
}

// bounds reads {min, max, eq}, or the one value.
func (r *reader) bounds(n *yaml.Node, path string, u unit) *Bounds {
	b := &Bounds{Min: math.Inf(-1), Max: math.Inf(1), unit: u}
	value := func(to ...*float64) read {
		return func(n *yaml.Node, path string) {
			var v float64
			parsed(r, &v, u.parse)(n, path)
			for _, t := range to {
				*t = v
			}
		}
	}
	if n.Kind == yaml.ScalarNode {
		value(&b.Min, &b.Max)(n, path)
		b.source = n.Value
		return b
	}
	r.mapping(n, path, map[string]read{"min": value(&b.Min), "max": value(&b.Max), "eq": value(&b.Min, &b.Max)})
	var parts []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		parts = append(parts, n.Content[i].Value+": "+n.Content[i+1].Value)
	}
	b.source = "{" + strings.Join(parts, ", ") + "}"
	return b
}

func (u unit) parse(text string) (float64, error) {
	switch u {
	case seconds:
		d, err := time.ParseDuration(text)
		return d.Seconds(), err
	case bytesUnit:
		n, err := plugin.ParseSize(text)
		return float64(n), err
	default:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("%.40q: want a number", text)
		}
		return v, nil
	}
}
