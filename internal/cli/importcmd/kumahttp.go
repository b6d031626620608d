package importcmd

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// http is a check of an HTTP response.
func (m *kumaMonitor) http() bool {
	o := m.o
	h := &httpCheck{at: o.at("url"), name: slug(m.name, "monitor"), url: o.text("url"), bodyAt: o.at("body"), loginAt: o.at("basic_auth_pass")}
	if method := o.text("method"); method != "" && method != "GET" {
		h.config = h.config.set("method", strings.ToUpper(method))
	}
	m.body(h)
	h.headers = append(h.headers, kumaJSON(o, "headers").all()...)
	m.login(h)
	if accepted := o.strings("accepted_statuscodes"); len(accepted) > 0 {
		h.config = h.config.with("validStatusCodes", m.p.codes(o.at("accepted_statuscodes"), m.p.codeRules(o.at("accepted_statuscodes"), accepted)))
	}
	m.keyword(h)
	switch redirects := o.integer("maxredirects", 10); {
	case redirects == 0:
		h.config = h.config.set("followRedirects", false)
	case redirects != 10:
		m.p.differs(o.at("maxredirects"), "up to ten redirects are followed")
	}
	if o.boolean("expiryNotification", false) && strings.HasPrefix(h.url, "https:") {
		h.config = h.config.set("certificateAge", limit("warn", 14*24*time.Hour))
		m.warn()
	}
	if o.boolean("ignoreTls", false) {
		h.config = h.config.set("tlsConfig", fields{{"insecureSkipVerify", true}})
	}
	o.none("proxyUrl of the plugin httpcheck names a proxy", "proxyId")
	o.none("the domain is not checked", "domainExpiryNotification")
	o.none("no parameter is appended to the URL", "cacheBust")
	action, target, ok := m.p.http(h)
	if ok {
		m.set(action, target)
	}
	return ok
}

func (m *kumaMonitor) body(h *httpCheck) {
	h.body = m.o.text("body")
	if h.body == "" {
		m.o.ignore("the request has no body", "httpBodyEncoding")
		return
	}
	kind := map[string]string{"": "application/json", "json": "application/json", "xml": "text/xml; charset=utf-8", "form": "application/x-www-form-urlencoded"}[m.o.text("httpBodyEncoding")]
	if kind != "" {
		h.headers = append(h.headers, pair{"Content-Type", kind, m.o.at("httpBodyEncoding")})
	}
}

// warn lets the receivers of the monitor get warnings.
func (m *kumaMonitor) warn() {
	for _, name := range m.alerts {
		for _, r := range m.p.receivers {
			if r.name == name && r.rest.get("states") == nil {
				r.rest = r.rest.set("states", []string{"failure", "warning", "unknown"})
			}
		}
	}
}

// login sets the credentials of a request.
func (m *kumaMonitor) login(h *httpCheck) {
	o := m.o
	switch method := o.text("authMethod"); method {
	case "", "basic":
		h.user, h.password = o.text("basic_auth_user"), o.text("basic_auth_pass")
	case "mtls":
		cert, key := o.text("tlsCert"), o.text("tlsKey")
		if cert == "" || key == "" {
			m.p.noEqual(o.at("authMethod"), "the backup has no client certificate")
			return
		}
		f := fields{{"cert", m.p.secretFile(o.at("tlsCert"), h.name+"-cert", "the client certificate", cert)}, {"key", m.p.secretFile(o.at("tlsKey"), h.name+"-key", "its key", key)}}
		if o.text("tlsCa") != "" {
			f = f.set("ca", m.p.secretFile(o.at("tlsCa"), h.name+"-ca", "the authorities to trust", o.text("tlsCa")))
		}
		h.config = h.config.set("credentials", m.p.addCredentials(o.at("authMethod"), m.name, "httpcheck", f))
	case "oauth2-cc":
		h.oauth = &oauthLogin{
			at: o.at("oauth_token_url"), tokenURL: o.text("oauth_token_url"),
			secretAt: o.at("oauth_client_secret"), id: o.text("oauth_client_id"), secret: o.text("oauth_client_secret"),
			scopes: strings.Fields(o.text("oauth_scopes")), audience: o.text("oauth_audience"), inBody: o.text("oauth_auth_method") == "client_secret_post",
		}
	default:
		m.p.noEqual(o.at("authMethod"), "there is no login by %.20q", method)
		for name := range strings.FieldsSeq("basic_auth_user basic_auth_pass oauth_client_id oauth_client_secret oauth_token_url oauth_scopes oauth_audience oauth_auth_method authWorkstation authDomain") {
			o.used[name] = true
		}
	}
}

// keyword sets the check of the body.
func (m *kumaMonitor) keyword(h *httpCheck) {
	o := m.o
	switch m.kind {
	case "keyword":
		field := map[bool]string{false: "failIfBodyNotMatchesRegexp", true: "failIfBodyMatchesRegexp"}[o.boolean("invertKeyword", false)]
		h.config = h.config.set(field, []string{regexp.QuoteMeta(o.text("keyword"))})
	case "json-query":
		path := strings.TrimPrefix(strings.TrimPrefix(o.text("jsonPath"), "$"), ".")
		op, value := o.text("jsonPathOperator"), o.text("expectedValue")
		rule := fields{{"path", "$." + strings.TrimPrefix(path, ".")}}
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case !simplePath().MatchString(path):
			m.p.noEqual(o.at("jsonPath"), "%.80q is an expression: a path has names and indexes", o.text("jsonPath"))
			return
		case op == "" || op == "==":
			rule = rule.set("equals", scalar(value))
		case op == "contains":
			rule = rule.set("matches", regexp.QuoteMeta(value))
		case err == nil && (op == ">" || op == ">="):
			rule = rule.set("min", number)
		case err == nil && (op == "<" || op == "<="):
			rule = rule.set("max", number)
		default:
			m.p.noEqual(o.at("jsonPathOperator"), "a value cannot be compared by %.10q", op)
			return
		}
		m.strict(op, value)
		h.config = h.config.set("jsonPath", []fields{rule})
	}
}
