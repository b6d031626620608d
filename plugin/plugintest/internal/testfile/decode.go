package testfile

import (
	"fmt"
	"math"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/probe"
)

// defaultTimeout is the timeout of a case without one.
const defaultTimeout = time.Second

// newCase returns a case with the defaults.
func newCase() *Case {
	return &Case{Timeout: defaultTimeout, Attempt: 1, Names: make(map[string][]netip.Addr), Peers: noPeers()}
}

func parse(path string, data []byte) (*File, error) {
	r := field.NewReader(path)
	doc := r.Parse(data, maxFile)
	if doc == nil {
		return nil, r.Err()
	}
	f := &File{Path: path, Text: data}
	decodeFile(r, doc, f)
	return f, r.Err()
}

func decodeFile(r *field.Reader, n *yamlpos.Node, f *File) {
	defaults := newCase()
	var module string
	var cases *yamlpos.Node
	names := make(map[string]int)
	readCases := r.ListOf(func(n *yamlpos.Node, path string) {
		c := newCase()
		c.Line, c.Timeout, c.Grants, c.Accepts = n.Line, defaults.Timeout, defaults.Grants, defaults.Accepts
		decodeCase(r, n, path, c)
		if first, ok := names[c.Name]; ok {
			r.Errorf(n, path+".name", "the case in line %d has the name %q, too", first, c.Name)
		}
		names[c.Name] = c.Line
		f.Cases = append(f.Cases, *c)
	})
	r.Mapping(n, "", yamlpos.Fields{
		"apiVersion": r.Constant(plugin.APIVersion),
		"kind":       r.Constant("PluginTest"),
		"plugin":     r.String(&module),
		"defaults":   readDefaults(r, defaults),
		"cases":      r.Later(&cases, readCases),
	}, "apiVersion", "kind", "plugin", "cases")
	f.Plugin = module
	if !filepath.IsAbs(module) {
		f.Plugin = filepath.Join(filepath.Dir(f.Path), module)
	}
	if cases != nil {
		readCases(cases, "cases")
	}
}

// readDefaults reads the defaults of the cases of a file into c.
func readDefaults(r *field.Reader, c *Case) field.Read {
	return func(n *yamlpos.Node, path string) {
		r.Mapping(n, path, yamlpos.Fields{
			"timeout": r.PositiveDuration(&c.Timeout), "grants": readGrants(r, &c.Grants), "accepts": readAccepts(r, &c.Accepts),
		})
	}
}

func readGrants(r *field.Reader, to *[]plugin.Grant) field.Read {
	return func(n *yamlpos.Node, path string) {
		*to = nil
		r.Items(n, path, func(n *yamlpos.Node, path string) {
			var g plugin.Grant
			field.Parsed(r, &g, plugin.ParseGrant)(n, path)
			*to = append(*to, g)
		})
	}
}

func decodeCase(r *field.Reader, n *yamlpos.Node, path string, c *Case) {
	replayed := yamlpos.Field(n, "replay")
	if replayed == nil || decodeReplay(r, replayed, yamlpos.Join(path, "replay"), c) && c.Want.Result == "" {
		defer r.Require(n, path, "want")
	}
	r.Mapping(n, path, yamlpos.Fields{
		"replay":  r.Earlier(func(n *yamlpos.Node, path string) { r.Text(n, path) }),
		"name":    r.String(&c.Name),
		"timeout": r.PositiveDuration(&c.Timeout),
		"grants":  readGrants(r, &c.Grants),
		"seed":    readSeed(r, c),
		"time":    readTime(r, c),
		"accepts": readAccepts(r, &c.Accepts),
		"request": func(n *yamlpos.Node, path string) { decodeRequest(r, n, path, c) },
		"host": func(n *yamlpos.Node, path string) {
			if replayed != nil {
				r.Errorf(n, path, "the host of a replay is that of the session")
				return
			}
			decodeHost(r, n, path, c)
		},
		"want": func(n *yamlpos.Node, path string) { decodeWant(r, n, path, &c.Want) },
	}, "name")
}

func readSeed(r *field.Reader, c *Case) field.Read {
	return r.Form(shape.Form{Pattern: `^[0-9]+$`, Least: new(0), Good: []string{"0", "7"}, Bad: []string{"-1", "x"}}, field.Parsed(r, &c.Seed, func(text string) (*uint64, error) {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%.40q must be an integer from 0 to %d", text, uint64(math.MaxUint64))
		}
		return &seed, nil
	}))
}

// readTime reads the time of a clock that only moves forward from [clock.Epoch].
func readTime(r *field.Reader, c *Case) field.Read {
	return field.Parsed(r, &c.Time, func(text string) (time.Time, error) {
		t, err := time.Parse(time.RFC3339Nano, text)
		switch {
		case err != nil:
			return t, fmt.Errorf("%.40q must be a time such as 2026-01-31T12:00:00Z", text)
		case t.Before(clock.Epoch):
			return t, fmt.Errorf("must not be before %s", clock.Epoch.Format(time.RFC3339))
		}
		return t.UTC(), nil
	})
}

func decodeRequest(r *field.Reader, n *yamlpos.Node, path string, c *Case) {
	r.Mapping(n, path, yamlpos.Fields{
		"kind":       r.Form(shape.OneOf(probe.Kinds[:]...), field.Parsed(r, &c.Kind, probe.ParseKind)),
		"attempt":    r.Int(&c.Attempt, 0, math.MaxInt32),
		"lastResult": r.Form(shape.OneOf(probe.Success, probe.Warning, probe.Failure, probe.Unknown), field.Parsed(r, &c.LastResult, parseResult)),
		"config":     r.Object(&c.Config),
		"podIP":      r.String(&c.PodIP),
		"target": func(n *yamlpos.Node, path string) {
			r.Mapping(n, path, yamlpos.Fields{
				"host": r.String(&c.Target.Host), "port": r.Int(&c.Target.Port, 0, math.MaxUint16), "unix": r.String(&c.Target.Unix),
			})
		},
		"pod": func(n *yamlpos.Node, path string) {
			r.Mapping(n, path, yamlpos.Fields{
				"namespace": r.String(&c.Pod.Namespace), "name": r.String(&c.Pod.Name), "uid": r.String(&c.Pod.UID), "labels": readLabels(r, &c.Pod),
			})
		},
		"container": func(n *yamlpos.Node, path string) {
			r.Mapping(n, path, yamlpos.Fields{"name": r.String(&c.Container.Name)})
		},
	})
}

func readLabels(r *field.Reader, pod *probe.Pod) field.Read {
	return func(n *yamlpos.Node, path string) {
		pod.Labels = make(map[string]string)
		r.Entries(n, path, func(key, value *yamlpos.Node, at string) {
			pod.Labels[key.Value], _ = r.Text(value, at)
		})
	}
}

func parseResult(text string) (res probe.Result, err error) {
	err = res.UnmarshalText([]byte(text))
	return res, err
}
