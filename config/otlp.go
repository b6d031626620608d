package config

import (
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
)

// OTLP configures the export of metrics and traces to a collector, by OTLP over HTTP. A relative path is
// relative to the folder of the file.
type OTLP struct {
	Endpoint        string            // a URL; /v1/metrics and /v1/traces are appended
	Headers         map[string]string // of each request
	BearerTokenFile string            // "": no token
	CA              string            // path of the trusted CAs, in PEM; "": the system's
	Interval        time.Duration     // between two exports of metrics
	Traces          Traces
}

// Traces selects the ticks whose traces are exported.
type Traces string

// The values of [OTLP.Traces].
const (
	NoTraces      Traces = "none"
	FailureTraces Traces = "failures" // ticks that did not succeed, or that changed the decided result
	AllTraces     Traces = "all"
)

// DefaultOTLPInterval is the time between two exports of metrics.
const DefaultOTLPInterval = time.Minute

// Equal reports whether o and other have the same settings. Both may be nil.
func (o *OTLP) Equal(other *OTLP) bool {
	if o == nil || other == nil {
		return o == other
	}
	return o.Endpoint == other.Endpoint && o.BearerTokenFile == other.BearerTokenFile && o.CA == other.CA && o.Interval == other.Interval &&
		o.Traces == other.Traces && maps.Equal(o.Headers, other.Headers)
}

func (d *decoder) otlp(a *Agent) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		o := &OTLP{Headers: make(map[string]string), Interval: DefaultOTLPInterval, Traces: FailureTraces}
		d.Mapping(n, path, yamlpos.Fields{
			"endpoint": yamlpos.Parsed(&d.Decoder, &o.Endpoint, parseEndpoint), "headers": d.headers(o.Headers),
			"bearerTokenFile": d.NonEmpty(&o.BearerTokenFile), "ca": d.NonEmpty(&o.CA),
			"interval": d.interval(&o.Interval, time.Second, 24*time.Hour),
			"traces":   yamlpos.OneOf(&d.Decoder, &o.Traces, NoTraces, FailureTraces, AllTraces),
		}, "endpoint")
		a.OTLP = o
	}
}

func parseEndpoint(text string) (string, error) {
	endpoint, err := parseURL(text)
	if err == nil && strings.ContainsAny(endpoint, "?#") {
		err = errors.New("must not have a query or a fragment: /v1/metrics and /v1/traces are appended")
	}
	return strings.TrimRight(endpoint, "/"), err
}

// headers returns a reader of HTTP headers. Its errors do not contain header values.
func (d *decoder) headers(to map[string]string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Entries(n, path, func(key, value *yamlpos.Node, path string) {
			text, _ := d.Text(value, path)
			switch name := http.CanonicalHeaderKey(key.Value); {
			case !validHeader(key.Value):
				d.Errorf(key, path, "%.80q is not the name of a header", key.Value)
			case name == "Content-Type" || name == "Content-Encoding" || name == "Content-Length" || name == "Host":
				d.Errorf(key, path, "must not be set: prober sets it")
			case strings.ContainsAny(text, "\r\n\x00"):
				d.Errorf(value, path, "must be one line")
			default:
				to[name] = text
			}
		})
	}
}

func validHeader(name string) bool {
	return name != "" && strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
