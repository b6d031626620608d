package access_test

import (
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/access"
)

func TestGuardCheck(t *testing.T) {
	guard := &access.Guard{Token: access.NewToken(), Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9876}, Socket: "/run/s"}
	token := guard.Token.Value()
	if len(token) < 26 {
		t.Fatalf("token %q", token)
	}
	const none access.Reason = ""
	for _, c := range []struct {
		name, method, target string
		headers              []string // pairs of name and value
		want                 access.Reason
	}{
		{"a tool reads", "GET", "/api/v1/pods", nil, none},
		{"the user types the address", "GET", "/", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, none},
		{"own page reads", "GET", "/api/v1/stream", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost:9876"}, none},
		{"a link to the page", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, none},
		{"a link to the API", "GET", "/api/v1/pods", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, access.OtherSite},
		{"other page's frame", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, access.OtherSite},
		{"other page's fetch", "GET", "/api/v1/pods", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, access.OtherSite},
		{"other page's script", "GET", "/api/v1/pods", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, access.OtherSite},
		{"other page's EventSource", "GET", "/api/v1/stream", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.com"}, access.OtherSite},
		{"a page of another port", "GET", "/api/v1/stream", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:3000"}, access.OtherSite},
		{"old browser's EventSource", "GET", "/api/v1/stream", []string{"Origin", "https://evil.com"}, access.OtherSite},
		{"a sandboxed page", "GET", "/api/v1/pods", []string{"Origin", "null"}, access.OtherSite},
		{"a preflight", "OPTIONS", "/-/reload", []string{"Origin", "https://evil.com", "Access-Control-Request-Method", "POST"}, access.OtherSite},
		{"a rebound name", "GET", "/api/v1/pods", []string{"Host", "evil.com:9876"}, access.WrongHost},
		{"a rebound name acts", "POST", "/-/reload", []string{"Host", "evil.com:9876", "Origin", "http://evil.com:9876", "Authorization", "Bearer " + token}, access.WrongHost},

		{"a tool acts", "POST", "/-/reload", nil, access.NoCredentials},
		{"other methods", "PUT", "/api/v1/pods", nil, access.NoCredentials},
		{"unknown methods", "BREW", "/", nil, access.NoCredentials},
		{"profiles", "GET", "/debug/pprof/heap", nil, access.NoCredentials},
		{"profiles with the token", "GET", "/debug/pprof/heap", []string{"Authorization", "Bearer " + token}, none},
		{"the token", "POST", "/-/reload", []string{"Authorization", "bearer " + token}, none},
		{"the token beside a password", "POST", "/-/reload", []string{"Authorization", "Basic YTpi", access.TokenHeader, token}, none},
		{"the token in the query", "POST", "/-/reload?token=" + token + "&access_token=" + token, nil, access.NoCredentials},
		{"the token as password", "POST", "/-/reload", []string{"Authorization", "Basic " + token}, access.NoCredentials},
		{"the token as cookie", "POST", "/-/reload", []string{"Cookie", "token=" + token}, access.NoCredentials},
		{"no token", "POST", "/-/reload", []string{"Authorization", "Bearer "}, access.NoCredentials},
		{"another token", "POST", "/-/reload", []string{"Authorization", "Bearer " + token[1:] + "A"}, access.WrongToken},
		{"half a token", "POST", "/-/reload", []string{"Authorization", "Bearer " + token[:13]}, access.WrongToken},
		{"the token from another site", "POST", "/-/reload", []string{"Sec-Fetch-Site", "cross-site", "Authorization", "Bearer " + token}, access.OtherSite},
		{"the token from an old browser", "POST", "/-/reload", []string{"Origin", "https://evil.com", "Authorization", "Bearer " + token}, access.OtherSite},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.target, nil)
			r.Host = "localhost:9876"
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
				if c.headers[i] == "Host" {
					r.Host = c.headers[i+1]
				}
			}
			var got access.Reason
			if _, refusal := guard.Check(r); refusal != nil {
				got = refusal.Reason
			}
			if got != c.want {
				t.Errorf("refused for %q, want %q", got, c.want)
			}
		})
	}
}

// The texts of refusals are logged. A wrong path may still have the token of a push.
func TestRefusalsHidePushTokens(t *testing.T) {
	const token = "0123456789abcdef-_A"
	guard := &access.Guard{Token: access.NewToken(), Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9876}}
	for _, target := range []string{
		"//push/" + token, "/prober/push/" + token + "/start", "/PUSH/" + token, "/x/push//" + token, "/push%2f/../" + token, "/" + token, "/api/v1/push/" + token,
	} {
		for _, headers := range []string{"", "Origin", "Host"} {
			r := httptest.NewRequest("POST", "http://localhost:9876"+target, nil)
			if r.Host = "localhost:9876"; headers == "Host" {
				r.Host = "evil.com"
			}
			if headers == "Origin" {
				r.Header.Set("Origin", "https://evil.com")
			}
			if _, refusal := guard.Check(r); refusal != nil && (strings.Contains(refusal.Text, token) || refusal.Err != nil) {
				t.Errorf("%s: %s", target, refusal.Text)
			}
		}
	}
}
