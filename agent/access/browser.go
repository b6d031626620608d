package access

import (
	"net/http"
	"net/url"
)

// crossOrigin refuses requests of other origins with methods that may change something.
var crossOrigin = http.NewCrossOriginProtection()

// ownSite reports whether r comes from a page of the agent, or from no page. A link on another site
// may lead to the agent: the page with the link cannot read the response.
func ownSite(r *http.Request) bool {
	if !isRead(r.Method) {
		return crossOrigin.Check(r) == nil
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "": // no browser, an old one, or plain HTTP to another host
		return ownOrigin(r)
	default:
		return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
			r.Header.Get("Sec-Fetch-Dest") == "document"
	}
}

func ownOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}

// SetHeaders sets headers that prevent browsers from embedding a response in another site, and from
// guessing its type. It keeps headers that h has.
func SetHeaders(h http.Header) {
	for name, value := range map[string]string{
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		if h.Get(name) == "" {
			h.Set(name, value)
		}
	}
}
