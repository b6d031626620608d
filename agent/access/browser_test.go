package access_test

import (
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/access"
)

const (
	firefox    = "Mozilla/5.0 (X11; Linux x86_64; rv:60.0) Gecko/20100101 Firefox/60.0"
	prometheus = "Prometheus/3.5.0"
)

// TestOtherSitesMayOnlyLinkToPage sends requests with all combinations of the headers that browsers set, and
// compares each response with the rule: other sites may only link to the page.
func TestOtherSitesMayOnlyLinkToPage(t *testing.T) {
	guard := &access.Guard{Token: access.NewToken(), Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9876}}
	const own = "http://localhost:9876"
	others := []string{"http://evil.example", "https://localhost:3000", "http://localhost", "null", "%"}
	sites := []string{"", "none", "same-origin", "same-site", "cross-site", "new-value"}
	for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
		for _, path := range []string{"/", "/probe?target=a", "/%70robe?target=a", "/api/v1/probes", "/api/v1/stream", "/metrics", "/livez", "/page/app.js"} {
			for _, site := range sites {
				for _, mode := range []string{"", "navigate", "no-cors", "cors"} {
					for _, dest := range []string{"", "document", "iframe", "image", "empty"} {
						for _, origin := range append(others, "", own) {
							for _, referer := range append(others, "", own+"/") {
								for _, agent := range []string{"", prometheus, firefox} {
									r := httptest.NewRequest(method, path, nil)
									r.Host = "localhost:9876"
									for name, value := range map[string]string{
										"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest,
										"Origin": origin, "Referer": referer, "User-Agent": agent,
									} {
										if value != "" {
											r.Header.Set(name, value)
										}
									}
									page := path == "/" && method == "GET"
									var want bool
									switch site {
									case "none", "same-origin":
										want = true
									case "":
										want = !slices.Contains(others, origin) && (page || !slices.Contains(others, referer))
										if strings.Contains(path, "robe?") && agent == firefox && origin == "" && referer == "" {
											want = false // an image without a Referer
										}
									default:
										want = page && mode == "navigate" && dest == "document"
									}
									_, refusal := guard.Check(r)
									if (refusal == nil) != want || refusal != nil && refusal.Reason != access.OtherSite {
										t.Fatalf("%s %s with %v: %v, want allowed %v", method, path, r.Header, refusal, want)
									}
								}
							}
						}
					}
				}
			}
		}
	}
}

// The requests are sent by browsers for elements of a page of another site.
func TestOtherSitesCannotScrape(t *testing.T) {
	guard := &access.Guard{Token: access.NewToken(), Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9876}}
	for _, c := range []struct {
		name, host string
		headers    []string
		want       bool
	}{
		{"Prometheus", "prober.example:9876", []string{"User-Agent", prometheus, "X-Prometheus-Scrape-Timeout-Seconds", "10"}, true},
		{"curl", "localhost:9876", []string{"User-Agent", "curl/8.14.1"}, true},
		{"a program without a name", "localhost:9876", nil, true},
		{"typed into a browser", "localhost:9876", []string{"User-Agent", firefox, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, true},
		{"own page", "localhost:9876", []string{"User-Agent", firefox, "Referer", "http://localhost:9876/"}, true},
		{"a link", "localhost:9876", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, false},
		{"a form", "localhost:9876", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Referer", "https://evil.example/"}, false},
		{"an image", "localhost:9876", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, false},
		{"a page of another port", "localhost:9876", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, false},
		{"an image, by plain HTTP to another host", "10.0.0.7:9876", []string{"User-Agent", firefox, "Referer", "http://evil.example/"}, false},
		{"an image without a Referer", "10.0.0.7:9876", []string{"User-Agent", firefox}, false},
		{"a fetch of an old browser", "10.0.0.7:9876", []string{"User-Agent", firefox, "Origin", "http://evil.example"}, false},
		{"a form of an old browser", "10.0.0.7:9876", []string{"User-Agent", firefox, "Origin", "null"}, false},
		{"a rebound name", "evil.example:9876", []string{"Sec-Fetch-Site", "same-origin"}, false},
	} {
		guard.Hosts, _ = access.ParseHosts([]string{"prober.example"})
		r := httptest.NewRequest("GET", "/probe?target=a", nil)
		r.Host = c.host
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Set(c.headers[i], c.headers[i+1])
		}
		if _, refusal := guard.Check(r); (refusal == nil) != c.want {
			t.Errorf("%s: %v", c.name, refusal)
		}
	}
}
