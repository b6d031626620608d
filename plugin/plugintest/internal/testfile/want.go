package testfile

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/field"
	"github.com/daeace23/prober/probe"
)

// Want is the wanted answer. Zero fields match anything.
type Want struct {
	Result      string // "success", …, or "error(reason)"
	Message     field.Pattern
	Metrics     map[string]Bounds
	Denied      []field.Pattern // denied dials, in order; nil for any
	VirtualTime *Bounds
	Memory      *Bounds
	KV          map[string]string // key-value store after the attempt; nil for any

	result, message place // in the file
}

// Bounds limit a number, in seconds, bytes or the metric's unit.
type Bounds struct {
	Min, Max float64
	source   string
}

func (b *Bounds) contain(v float64) bool { return b.Min <= v && v <= b.Max }

// unit is the notation of a number.
type unit int

const (
	plain unit = iota
	seconds
	bytesUnit
)

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
			return 0, fmt.Errorf("%.40q must be a number", text)
		}
		return v, nil
	}
}

// form returns the form of a number.
func (u unit) form() shape.Form {
	switch u {
	case seconds:
		return shape.SignedDuration()
	case bytesUnit:
		return shape.Size()
	default:
		return shape.Number(nil, nil)
	}
}

// Size returns a number of bytes in the form of a test file.
func Size(n uint64) string {
	for _, unit := range []struct {
		name  string
		bytes uint64
	}{{"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", n/unit.bytes, unit.name)
		}
	}
	return fmt.Sprint(n)
}

var resultForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:success|warning|failure|unknown|error\(([a-z_]+)\))$`)
})

// ReasonConfig is the reason in error(config): the plugin refuses its config.
const ReasonConfig probe.Reason = "config"

// reasons are the valid reasons of an error.
var reasons = []string{
	string(ReasonConfig), string(probe.ReasonConnectRefused), string(probe.ReasonConnectTimeout), string(probe.ReasonDeadline), string(probe.ReasonDenied),
	string(probe.ReasonDNS), string(probe.ReasonExecExit), string(probe.ReasonGuest), string(probe.ReasonInstantiate), string(probe.ReasonInternal),
	string(probe.ReasonMemory), string(probe.ReasonProtocol), string(probe.ReasonTLS), string(probe.ReasonTrap),
}

// readResult reads a result, or error(reason).
func readResult(r *field.Reader, to *string) field.Read {
	form := shape.Form{Enum: []string{"success", "warning", "failure", "unknown"}}
	for _, reason := range reasons {
		form.Enum = append(form.Enum, "error("+reason+")")
	}
	return r.Form(form, func(n *yamlpos.Node, path string) {
		*to, _ = r.Text(n, path)
		form := resultForm().FindStringSubmatch(*to)
		switch {
		case form == nil:
			r.Errorf(n, path, "%.40q must be success, warning, failure, unknown or error(reason)", *to)
		case form[1] != "" && !slices.Contains(reasons, form[1]):
			r.Errorf(n, path, "unknown reason %.40q; known: %s", form[1], strings.Join(reasons, ", "))
		}
	})
}

// decodeWant reads the field want. In a replay it adds to the want of the session.
func decodeWant(r *field.Reader, n *yamlpos.Node, path string, w *Want) {
	if w.Result == "" {
		defer r.Require(n, path, "result")
	}
	r.Mapping(n, path, yamlpos.Fields{
		"result": func(n *yamlpos.Node, path string) {
			readResult(r, &w.Result)(n, path)
			w.result = placeOf(n)
		},
		"message": func(n *yamlpos.Node, path string) {
			r.Pattern(&w.Message)(n, path)
			w.message = placeOf(n)
		},
		"metrics": func(n *yamlpos.Node, path string) {
			w.Metrics = make(map[string]Bounds)
			r.Entries(n, path, func(key, value *yamlpos.Node, at string) {
				w.Metrics[key.Value] = *decodeBounds(r, value, at, plain)
			})
		},
		"denied": func(n *yamlpos.Node, path string) {
			w.Denied = []field.Pattern{}
			r.Items(n, path, func(n *yamlpos.Node, path string) {
				var p field.Pattern
				r.Pattern(&p)(n, path)
				w.Denied = append(w.Denied, p)
			})
		},
		"virtualTime": func(n *yamlpos.Node, path string) { w.VirtualTime = decodeBounds(r, n, path, seconds) },
		"kv": func(n *yamlpos.Node, path string) {
			w.KV = make(map[string]string)
			r.Entries(n, path, func(key, value *yamlpos.Node, at string) { w.KV[key.Value], _ = r.Text(value, at) })
		},
		"memory": func(n *yamlpos.Node, path string) { w.Memory = decodeBounds(r, n, path, bytesUnit) },
	})
}

// decodeBounds reads {min, max, eq}, or the one value.
func decodeBounds(r *field.Reader, n *yamlpos.Node, path string, u unit) *Bounds {
	b := &Bounds{Min: math.Inf(-1), Max: math.Inf(1)}
	value := func(to ...*float64) field.Read {
		return func(n *yamlpos.Node, path string) {
			var v float64
			r.Form(u.form(), field.Parsed(r, &v, u.parse))(n, path)
			for _, t := range to {
				*t = v
			}
		}
	}
	if n.Kind == yamlpos.Scalar {
		value(&b.Min, &b.Max)(n, path)
		b.source = n.Value
		return b
	}
	r.Mapping(n, path, yamlpos.Fields{"min": value(&b.Min), "max": value(&b.Max), "eq": value(&b.Min, &b.Max)})
	var parts []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		parts = append(parts, n.Content[i].Value+": "+n.Content[i+1].Value)
	}
	b.source = "{" + strings.Join(parts, ", ") + "}"
	return b
}
