package importcmd

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// httpCheck is a check of an HTTP response, for the plugin httpcheck.
type httpCheck struct {
	at             position // of the URL
	name           string   // begins the names of files with secrets
	url            string
	headers        []pair
	body           string
	bodyAt         position
	user, password string
	bearer         string
	loginAt        position
	oauth          *oauthLogin // nil: none
	config         fields      // further fields of httpcheck
}

// http returns the action of a probe, and the address of its target. Secrets become references to files. ok is
// false, and reported, if the URL is not of HTTP.
func (p *plan) http(c *httpCheck) (action fields, target string, ok bool) {
	u, err := url.Parse(c.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		p.noEqual(c.at, "the URL must begin with http:// or https://, and have a host")
		return nil, "", false
	}
	if u.User != nil {
		password, _ := u.User.Password()
		c.user, c.password, c.loginAt = cmp.Or(c.user, u.User.Username()), cmp.Or(c.password, password), c.at
		u.User = nil
	}
	u.Fragment, u.RawFragment = "", ""
	if pathHasSecret(u) {
		p.noEqual(c.at, "it is not imported: the path of the URL has a secret")
		return nil, "", false
	}
	config := fields{{"url", "/"}}
	target = u.String()
	if query, secret := p.queryWithReferences(c, u); secret {
		config[0].value = u.Scheme + "://" + cmp.Or(u.EscapedPath(), "/") + "?" + query
		target = u.Host
		if u.Port() == "" {
			target = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
	}
	config = append(config, p.login(c)...)
	config = config.with("headers", p.headers(c)).with("body", p.body(c)).and(c.config)
	p.follow("httpcheck")
	return plugin("httpcheck", config), target, true
}

// oauthLogin is a login by OAuth 2.0's client credentials grant.
type oauthLogin struct {
	at, secretAt position // of the URL and of the secret
	tokenURL     string
	id, secret   string
	scopes       []string
	audience     string
	inBody       bool // the secret, rather than in a header
}

// oauth2 returns the field oauth2 of httpcheck; nil, and reported, if the token endpoint cannot be imported.
func (p *plan) oauth2(name string, l *oauthLogin) fields {
	u, err := url.Parse(l.tokenURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		p.noEqual(l.at, "the URL of the token endpoint must begin with http:// or https://, and have a host")
		return nil
	case l.id == "" || l.secret == "":
		p.noEqual(l.at, "the login needs the client's name and secret")
		return nil
	case urlHasSecret(l.tokenURL):
		p.noEqual(l.at, "the URL of the token endpoint has a secret")
		return nil
	}
	f := fields{{"tokenUrl", l.tokenURL}, {"clientId", l.id}, {"clientSecret", p.protected(l.secretAt, name+"-client", "the client's secret", l.secret)}}
	if l.inBody {
		f = f.set("authentication", "body")
	}
	f = f.with("scopes", l.scopes).with("parameters", fields{}.with("audience", l.audience))
	p.grant("httpcheck", "kv")
	return f
}

// queryWithReferences returns the query of a URL with references in place of secrets.
func (p *plan) queryWithReferences(c *httpCheck, u *url.URL) (query string, secret bool) {
	parts := strings.Split(u.RawQuery, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		if value == "" || !isSecretParameter(part) || variable().MatchString(value) {
			continue
		}
		parts[i], secret = name+"="+p.secretReference(c.at, c.name+"-"+unescaped(name), "the value of "+unescaped(name)+" in the URL"), true
	}
	return strings.Join(parts, "&"), secret
}

// login returns the fields with the user or token of a request.
func (p *plan) login(c *httpCheck) (f fields) {
	if c.user != "" || c.password != "" {
		basic := fields{{"username", c.user}}
		if c.password != "" {
			basic = basic.set("password", p.protected(c.loginAt, c.name+"-password", "the password", c.password))
		}
		f = f.set("basicAuth", basic)
	}
	if c.bearer != "" {
		f = f.set("bearerToken", p.protected(c.loginAt, c.name+"-token", "the token", c.bearer))
	}
	if c.oauth != nil {
		f = f.with("oauth2", p.oauth2(c.name, c.oauth))
	}
	return f
}

// protected returns a reference in place of a secret, unless it is a reference already.
func (p *plan) protected(at position, file, what, value string) string {
	if p.isReferred(value) {
		return value
	}
	return p.secretReference(at, file, what)
}

// headers returns the headers of a request, with references in place of secrets.
func (p *plan) headers(c *httpCheck) (f fields) {
	seen := make(map[string]bool)
	for _, h := range c.headers {
		switch {
		case seen[strings.ToLower(h.key)]:
			p.noEqual(h.at, "httpcheck sends a header once")
			continue
		case h.value == "":
			continue
		case !isHeader(h):
			p.noEqual(h.at, "it is not a header")
			continue
		case isSecretName(h.key) || assignsSecret(p.withoutReferences(h.value)):
			f = f.set(h.key, p.protected(h.at, c.name+"-"+h.key, "the value of the header "+h.key, h.value))
		default:
			f = f.set(h.key, h.value)
		}
		seen[strings.ToLower(h.key)] = true
	}
	return f
}

// body returns the body of a request, or a reference if it may have a secret.
func (p *plan) body(c *httpCheck) string {
	if mentionsSecret(p.withoutReferences(c.body)) {
		return p.secretReference(c.bodyAt, c.name+"-body", "the body of the request")
	}
	return c.body
}

// variable matches a value that is a reference.
var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\$\{(file|env):[^}]+\}$`) })

// codes returns the status codes from 200 to 599 that pass all rules; nil if they are the default of
// httpcheck, 200 to 299. Of many codes it returns the registered ones.
func (p *plan) codes(at position, rules ...func(code int) bool) (all []int) {
	for code := 200; code < 600; code++ {
		if !slices.ContainsFunc(rules, func(pass func(int) bool) bool { return !pass(code) }) {
			all = append(all, code)
		}
	}
	switch {
	case len(all) == 100 && all[0] == 200 && all[99] == 299:
		return nil
	case len(all) == 0:
		p.noEqual(at, "no status code is valid")
	case len(all) > maxCodes:
		p.differs(at, "of the status codes, those with a name in the registry of HTTP are listed")
		all = slices.DeleteFunc(all, func(code int) bool { return http.StatusText(code) == "" })
	}
	return all
}

// maxCodes is the number of status codes above which only registered ones are listed.
const maxCodes = 20

// isHeader reports whether a header can be sent.
func isHeader(h pair) bool {
	return h.key != "" && !hasControl(h.value) && !strings.ContainsFunc(h.key, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// limit returns a limit such as {fail: 300ms}.
func limit(level string, d time.Duration) fields { return fields{}.with(level, d) }
