package attempt

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/daeace23/prober/internal/httpget"
	"github.com/daeace23/prober/probe"
)

// Describe returns what an attempt of the plugin called name probes, for [probe.Describer]: its target, or
// the URL in the field url of its config.
func Describe(name string, config []byte, req *probe.Request) string {
	var fields struct {
		URL any `json:"url"`
	}
	if json.Unmarshal(config, &fields) != nil {
		fields.URL = nil
	}
	return DescribeURL(name, fields.URL, req)
}

// DescribeURL is [Describe] with the value of the field url, nil without one. A URL without a host is of the
// target, as of the plugin httpcheck.
func DescribeURL(name string, field any, req *probe.Request) string {
	where := req.Target.Address()
	if text, _ := field.(string); text != "" {
		if u, err := url.Parse(text); err == nil && u.Opaque == "" {
			where = httpget.Describe(*u, where)
		}
	}
	return strings.TrimSpace(name + " " + where)
}
