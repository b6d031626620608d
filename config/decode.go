package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

// decoder reads prober.yaml.
type decoder struct {
	yamlpos.Decoder
	selectors []Selector
}

// agent reads the document.
func (d *decoder) agent(n *yamlpos.Node, a *Agent) {
	d.Mapping(n, "", yamlpos.Fields{
		"apiVersion": d.Constant(APIVersion),
		"kind":       d.Constant(Kind),
		"handlers": d.ListOf(func(n *yamlpos.Node, path string) {
			h := Handler{Line: n.Line}
			d.Mapping(n, path, yamlpos.Fields{"name": d.NonEmpty(&h.Name), "maxInFlight": d.Int(&h.MaxInFlight, 1, math.MaxInt32)}, "name", "maxInFlight")
			a.Handlers = append(a.Handlers, h)
		}),
		"plugins": d.ListOf(func(n *yamlpos.Node, path string) {
			p := Plugin{Line: n.Line}
			d.plugin(n, path, &p)
			a.Plugins = append(a.Plugins, p)
		}),
		"modules":     d.modules(a),
		"targets":     d.targets(a),
		"push":        d.pushes(a),
		"endpoints":   d.endpoints(a),
		"uplink":      d.uplink(a),
		"kubernetes":  d.kubernetes(a),
		"blackbox":    d.blackbox(a),
		"otlp":        d.otlp(a),
		"maintenance": d.maintenance(a),
		"metrics":     d.metrics(a),
		"slo":         d.slos(a),
		"notify":      d.notify(a),
		"totalMemory": d.Form(shape.Size(), yamlpos.Parsed(&d.Decoder, &a.TotalMemory, plugin.ParseSize)),
		"nagios": func(n *yamlpos.Node, path string) {
			d.Mapping(n, path, yamlpos.Fields{"folders": d.stringList(&a.Nagios.Folders), "env": d.ListOf(d.variable(&a.Nagios.Env))})
		},
		"secrets": func(n *yamlpos.Node, path string) {
			d.Mapping(n, path, yamlpos.Fields{"allow": d.ListOf(d.secret(&a.Secrets.Allow))})
		},
		"credentials": d.ListOf(func(n *yamlpos.Node, path string) {
			c := Credentials{Line: n.Line}
			d.credentials(n, path, &c)
			a.Credentials = append(a.Credentials, c)
		}),
		"trust": func(n *yamlpos.Node, path string) {
			a.Trust.Line = n.Line
			d.Mapping(n, path, yamlpos.Fields{"require": d.Bool(&a.Trust.Require), "keys": d.stringList(&a.Trust.Keys)})
		},
	}, "apiVersion", "kind")
}

// stringList returns a reader of a list of nonempty strings.
func (d *decoder) stringList(to *[]string) yamlpos.Reader {
	return d.ListOf(func(n *yamlpos.Node, path string) {
		var text string
		d.NonEmpty(&text)(n, path)
		*to = append(*to, text)
	})
}

// secret returns a reader of a pattern of [Secrets.Allow].
func (d *decoder) secret(to *[]string) yamlpos.Reader {
	return func(n *yamlpos.Node, at string) {
		var text string
		d.NonEmpty(&text)(n, at)
		isFile, isEnv := strings.HasPrefix(text, SecretFile), strings.HasPrefix(text, SecretEnv)
		_, name, _ := strings.Cut(text, ":")
		_, err := path.Match(name, "")
		switch {
		case text == "": // reported by NonEmpty
		case !isFile && !isEnv || name == "":
			d.Errorf(n, at, `%q is not a pattern of secrets: must be such as "file:/etc/prober/secrets/*" or "env:PG_*"`, text)
		case err != nil:
			d.Errorf(n, at, "%q: %w", text, err)
		case isFile && slices.Contains(strings.Split(name, "/"), ".."):
			d.Errorf(n, at, "%q must not contain ..", text)
		}
		*to = append(*to, text)
	}
}

// variable returns a reader of a pattern of variable names.
func (d *decoder) variable(to *[]string) yamlpos.Reader {
	return func(n *yamlpos.Node, at string) {
		var name string
		d.NonEmpty(&name)(n, at)
		if _, err := path.Match(name, ""); err != nil || strings.ContainsAny(name, "=/ ") {
			d.Errorf(n, at, "%q is not the name of a variable", name)
		}
		*to = append(*to, name)
	}
}

func (d *decoder) credentials(n *yamlpos.Node, path string, c *Credentials) {
	d.Mapping(n, path, yamlpos.Fields{
		"name":       d.NonEmpty(&c.Name),
		"ca":         d.NonEmpty(&c.CA),
		"cert":       d.NonEmpty(&c.Cert),
		"key":        d.NonEmpty(&c.Key),
		"serverName": d.NonEmpty(&c.ServerName),
		"insecure":   d.Bool(&c.Insecure),
		"plugins":    d.stringList(&c.Plugins),
	}, "name", "plugins")
	if c.Name != "" && !plugin.ValidName(c.Name) {
		d.Errorf(n, path+".name", "%.80q is not a name: must be at most 63 lower-case letters, digits and dashes", c.Name)
	}
	if (c.Cert == "") != (c.Key == "") {
		d.Errorf(n, path+".key", "a certificate needs its key, and a key its certificate")
	}
	for i, name := range c.Plugins {
		if !plugin.ValidName(name) {
			d.Errorf(n, yamlpos.Item(path+".plugins", i), "%.80q is not the name of a plugin", name)
		}
	}
}

func (d *decoder) plugin(n *yamlpos.Node, path string, p *Plugin) {
	d.Mapping(n, path, yamlpos.Fields{
		"name":         d.NonEmpty(&p.Name),
		"source":       d.source(&p.Source),
		"plainHTTP":    d.Bool(&p.PlainHTTP),
		"digest":       d.Digest(&p.Digest),
		"manifest":     d.Digest(&p.Manifest),
		"grants":       d.ListOf(d.grant(&p.Grants)),
		"limits":       yamlpos.Settings(&d.Decoder, plugin.LimitNames[:plugin.LimitTotalMemory], p.Limits.Set),
		"errorPolicy":  yamlpos.OneOf(&d.Decoder, &p.ErrorPolicy, plugin.PolicyError, plugin.PolicyFailure),
		"shadow":       d.Bool(&p.Shadow),
		"promoteAfter": d.promoteAfter(&p.PromoteAfter),
	}, "name")
	if p.Name != "" && !plugin.ValidName(p.Name) {
		d.Errorf(n, path+".name", "%.80q is not the name of a plugin: must be at most 63 lower-case letters, digits and dashes", p.Name)
	}
	if p.Manifest != "" && p.Digest == "" {
		d.Errorf(n, path+".manifest", "needs a digest: alone it would pin the manifest of a program, and not the program")
	}
	if plain := yamlpos.Field(n, "plainHTTP"); plain != nil && !strings.HasPrefix(p.Source, plugin.OCIScheme) {
		d.Errorf(plain, path+".plainHTTP", "needs a source that begins with %s", plugin.OCIScheme)
	}
}

// source returns a reader of a path or a registry reference.
func (d *decoder) source(to *string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.NonEmpty(to)(n, path)
		if !strings.Contains(*to, "://") {
			return
		}
		if _, err := plugin.ParseReference(*to); err != nil {
			d.Error(n, path, err)
		}
	}
}

func (d *decoder) promoteAfter(to *PromoteAfter) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		to.Agreement = 1
		d.Mapping(n, path, yamlpos.Fields{
			"ticks":     d.Int(&to.Ticks, 1, math.MaxInt),
			"agreement": d.Form(shape.Number(new(0), new(1)), yamlpos.Parsed(&d.Decoder, &to.Agreement, parseFraction)),
		}, "ticks")
	}
}

func parseFraction(text string) (float64, error) {
	part, err := strconv.ParseFloat(text, 64)
	if err != nil || !(part > 0 && part <= 1) {
		return 0, errors.New("must be a number above 0 and at most 1")
	}
	return part, nil
}

func (d *decoder) grant(to *[]plugin.Grant) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		var g plugin.Grant
		yamlpos.Parsed(&d.Decoder, &g, plugin.ParseGrant)(n, path)
		*to = append(*to, g)
	}
}

// validate reports entries and fields that contradict each other.
func (d *decoder) validate(root *yamlpos.Node, a *Agent) {
	type entry struct {
		name   string
		shadow bool
	}
	limited := make(map[string]int)
	for i, h := range a.Handlers {
		if first, ok := limited[h.Name]; ok {
			d.ErrorAt(h.Line, yamlpos.Item("handlers", i)+".name", fmt.Errorf("%q is set twice, first on line %d", h.Name, first))
			continue
		}
		limited[h.Name] = h.Line
	}
	named := make(map[string]int)
	for i, c := range a.Credentials {
		if first, ok := named[c.Name]; ok {
			d.ErrorAt(c.Line, yamlpos.Item("credentials", i)+".name", fmt.Errorf("%q is set twice, first on line %d", c.Name, first))
			continue
		}
		named[c.Name] = c.Line
	}
	lines := make(map[entry]int)
	for i, p := range a.Plugins {
		path, e := yamlpos.Item("plugins", i), entry{p.Name, p.Shadow}
		if first, ok := lines[e]; ok {
			d.ErrorAt(p.Line, path+".name", fmt.Errorf("%q is set twice, first on line %d", p.Name, first))
			continue
		}
		lines[e] = p.Line
		switch {
		case p.Shadow && p.Source == "":
			d.ErrorAt(p.Line, path+".source", errors.New("the field is required: a shadow needs the version to run beside the plugin"))
		case !p.Shadow && p.PromoteAfter.Ticks > 0:
			d.ErrorAt(p.Line, path+".promoteAfter", errors.New("needs shadow: true"))
		}
	}
	d.validateTargets(a)
	d.validateDependencies(a)
	if a.Trust.Require && len(a.Trust.Keys) == 0 {
		d.ErrorAt(cmp.Or(a.Trust.Line, root.Line), "trust.keys", errors.New("trust.require needs at least one key"))
	}
}
