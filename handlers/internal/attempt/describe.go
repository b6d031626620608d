package attempt

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/daeace23/prober/internal/httpget"
	"github.com/daeace23/prober/probe"
)

// URLOf returns the field url of the config of a plugin, without its query: an agent shows no values of the
// configs of plugins, and a query is the place of tokens. It is "" if there is none that can be shown.
func URLOf(config []byte) string {
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal(config, &fields) != nil || json.Unmarshal(fields["url"], &text) != nil {
		return ""
	}
	return ShownURL(text)
}

// ShownURL returns a field url without its query; "" for one that cannot be shown.
func ShownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return ""
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// Describe returns what an attempt of the plugin called name probes, for [probe.Describer]: its target, or
// a URL of its config, see [URLOf]. A URL without a host is of the target, as of the plugin httpcheck.
func Describe(name, text string, req *probe.Request) string {
	where := req.Target.Address()
	if text != "" {
		if u, err := url.Parse(text); err == nil {
			where = httpget.Describe(*u, where)
		}
	}
	return strings.TrimSpace(name + " " + where)
}
