package attempt

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/daeace23/prober/internal/httpget"
	"github.com/daeace23/prober/probe"
)

// URLOf returns the field url of a plugin's config without the query, because queries often contain
// tokens. It returns "" if there is no URL that can be shown.
func URLOf(config []byte) string {
	var fields map[string]json.RawMessage
	var text string
	if json.Unmarshal(config, &fields) != nil || json.Unmarshal(fields["url"], &text) != nil {
		return ""
	}
	return ShownURL(text)
}

// ShownURL returns a URL without its query, or "" if it cannot be shown.
func ShownURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return ""
	}
	u.RawQuery, u.ForceQuery = "", false
	return u.String()
}

// Describe describes an attempt of the plugin called name, for [probe.Describer]. It contains the target
// or text, a result of [URLOf]. If text has no host, the target's is used, as in the plugin httpcheck.
func Describe(name, text string, req *probe.Request) string {
	where := req.Target.Address()
	if text != "" {
		if u, err := url.Parse(text); err == nil {
			where = httpget.Describe(*u, where)
		}
	}
	return strings.TrimSpace(name + " " + where)
}
