package access

import (
	"net/http"
	"net/url"
	"strings"
)

// crossOrigin rejects cross-origin requests with methods that may change state.
var crossOrigin = http.NewCrossOriginProtection()

// ScrapePath is the path of scrapes: a GET that makes the agent connect to a target of the caller's choice.
const ScrapePath = "/probe"

// ownSite reports whether r comes from a page of the agent, or not from a page. A navigation from another
// site to the status page is allowed, as the other page cannot read the response.
func ownSite(r *http.Request) bool {
	if !isRead(r.Method) {
		return crossOrigin.Check(r) == nil
	}
	page := r.URL.Path == "/" && r.Method == http.MethodGet
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none":
		return true
	case "": // no browser, an old one, or plain HTTP to another host
		origin, referer := r.Header.Get("Origin"), r.Header.Get("Referer")
		if !ownURL(r, origin) || !page && !ownURL(r, referer) {
			return false
		}
		return r.URL.Path != ScrapePath || origin != "" || referer != "" || !isBrowser(r)
	default:
		return page && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	}
}

// ownURL reports whether the URL in a header is empty or belongs to the agent.
func ownURL(r *http.Request, text string) bool {
	if text == "" {
		return true
	}
	u, err := url.Parse(text)
	return err == nil && u.Host == r.Host
}

// isBrowser reports whether a browser sent r. A page of another site cannot change the User-Agent of an
// image, a form or a link, but it can suppress the Referer.
func isBrowser(r *http.Request) bool { return strings.HasPrefix(r.UserAgent(), "Mozilla/") }

// SetHeaders sets headers that prevent browsers from embedding a response in another site, and from guessing
// its type. It keeps headers that are already set.
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
