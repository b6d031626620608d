package blackbox

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/yamlpos"
)

// The handlers of modules.
const (
	httpHandler = "httpcheck"
	tcpHandler  = "expect"
	dnsHandler  = "dns"
	icmpHandler = "icmp"
	grpcHandler = "grpc"
)

// convert sets the handler and the config of the module.
func (r *reader) convert() error {
	m := r.module
	m.config = make(map[string]any)
	switch f := &m.fields; f.Prober {
	case "http":
		m.handler = httpHandler
		return r.http(&f.HTTP)
	case "tcp":
		m.handler = tcpHandler
		r.ip(f.TCP.PreferredIPProtocol, f.TCP.IPProtocolFallback, f.TCP.SourceIPAddress)
		r.set("tls", f.TCP.TLS)
		r.set("queryResponse", queries(f.TCP.QueryResponse))
		r.refuse(slices.ContainsFunc(f.TCP.QueryResponse, func(q queryResponse) bool { return q.ExpectBytes != nil }), "tcp.query_response.expect_bytes")
		return r.tls(&f.TCP.TLSConfig)
	case "dns":
		m.handler = dnsHandler
		return r.dns(&f.DNS)
	case "icmp":
		m.handler = icmpHandler
		r.ip(f.ICMP.PreferredIPProtocol, f.ICMP.IPProtocolFallback, f.ICMP.SourceIPAddress)
		r.set("payloadSize", f.ICMP.PayloadSize)
		r.set("dontFragment", f.ICMP.DontFragment)
		r.set("ttl", f.ICMP.TTL)
		return nil
	case "grpc":
		m.handler = grpcHandler
		r.set("service", f.GRPC.Service)
		if f.GRPC.TLS {
			m.config["mode"] = "TLS"
		}
		r.refuse(f.GRPC.Metadata != nil, "grpc.metadata")
		if t := &f.GRPC.TLSConfig; f.GRPC.TLS && *t != (tlsFields{InsecureSkipVerify: true}) {
			r.unsupported("grpc.tls", "prober's gRPC probe does not verify certificates; only tls_config: {insecure_skip_verify: true} is supported")
		}
		return nil
	case "unix":
		r.unsupported("prober", "unix (the plugin expect can have a unix socket as its target) is not supported")
		return nil
	case "":
		return errors.New("prober: the field is required")
	default:
		return fmt.Errorf("prober: %.80q is unknown; known: dns, grpc, http, icmp, tcp", f.Prober)
	}
}

// set sets a field of the config, unless the value is the zero value, nil or empty.
func (r *reader) set(name string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			return
		}
	case bool:
		if !v {
			return
		}
	case int:
		if v == 0 {
			return
		}
	case *bool:
		if v == nil {
			return
		}
		value = *v
	case []int:
		if len(v) == 0 {
			return
		}
	case []string:
		if len(v) == 0 {
			return
		}
	case []map[string]any:
		if len(v) == 0 {
			return
		}
	}
	r.module.config[name] = value
}

// secret sets a secret field in a mapping of the config.
func (r *reader) secret(in map[string]any, name, value string) {
	if value != "" {
		in[name] = value
		r.module.secrets = append(r.module.secrets, value)
	}
}

// sensitive reports whether the value of a header is a secret, judged by the header's name.
func sensitive(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc([]string{"auth", "cookie", "token", "key", "secret", "password", "session", "signature"},
		func(word string) bool { return strings.Contains(header, word) })
}

// secretOrFile is textOrFile for a secret.
func (r *reader) secretOrFile(text, field, file string) string {
	if r.references != nil && file == "" && text != "" {
		return r.references.Secret(r.module.Name, field)
	}
	return r.textOrFile(text, field+"_file", file)
}

// protected returns headers. References stand for those that are secrets.
func (r *reader) protected(field string, headers map[string]string) map[string]string {
	if r.references == nil {
		return headers
	}
	made := maps.Clone(headers)
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if sensitive(name) {
			made[name] = r.references.Secret(r.module.Name, yamlpos.Join(field, name))
		}
	}
	return made
}

// textOrFile returns text, or the contents of the file of a field without surrounding spaces.
func (r *reader) textOrFile(text, field, file string) string {
	if file == "" {
		return text
	}
	return strings.TrimSpace(r.text(field, file))
}

func (r *reader) ip(preferred string, fallback *bool, source string) {
	r.set("preferredIpProtocol", preferred)
	r.set("ipProtocolFallback", fallback)
	r.set("sourceIpAddress", source)
}

// minSecretBody is the minimum length of the contents of a body_file that count as a secret. A shorter one, such as {},
// occurs in texts by chance.
const minSecretBody = 8

func (r *reader) http(f *httpFields) error {
	r.ip(f.PreferredIPProtocol, f.IPProtocolFallback, "")
	r.set("validStatusCodes", f.ValidStatusCodes)
	r.set("validHTTPVersions", f.ValidHTTPVersions)
	r.set("method", f.Method)
	if len(f.Headers) > 0 {
		r.module.config["headers"] = r.protected("http.headers", f.Headers)
	}
	for name, value := range f.Headers {
		if sensitive(name) {
			r.module.secrets = append(r.module.secrets, value)
		}
	}
	body := f.Body
	if f.BodyFile != "" {
		body = r.text("http.body_file", f.BodyFile)
		if len(body) >= minSecretBody {
			r.module.secrets = append(r.module.secrets, body)
		}
	}
	r.set("body", body)
	r.set("bodySizeLimit", int(f.BodySizeLimit))
	r.set("compression", f.Compression)
	follow := f.FollowRedirects
	if f.NoFollowRedirects != nil { // the older name takes precedence, as in blackbox_exporter
		follow = new(!*f.NoFollowRedirects)
	}
	r.set("followRedirects", follow)
	r.set("failIfSSL", f.FailIfSSL)
	r.set("failIfNotSSL", f.FailIfNotSSL)
	r.set("failIfBodyMatchesRegexp", f.FailIfBodyMatchesRegexp)
	r.set("failIfBodyNotMatchesRegexp", f.FailIfBodyNotMatchesRegexp)
	r.set("failIfHeaderMatches", matches(f.FailIfHeaderMatches))
	r.set("failIfHeaderNotMatches", matches(f.FailIfHeaderNotMatches))
	r.set("enableHttp2", f.EnableHTTP2)
	r.httpUnsupported(f)
	if err := r.proxy(f); err != nil {
		return err
	}
	r.login(f)
	return r.tls(&f.TLSConfig)
}

// httpUnsupported rejects modules with features that prober does not support.
func (r *reader) httpUnsupported(f *httpFields) {
	r.refuse(f.FailIfBodyJSONMatchesCEL != "" || f.FailIfBodyJSONNotMatchesCEL != "", "http.fail_if_body_json_matches_cel (jsonPath of the plugin httpcheck checks values in JSON)")
	r.refuse(f.HTTPHeaders != nil, "http.http_headers (headers has headers with one value)")
	r.refuse(f.OAuth2 != nil, "http.oauth2")
	r.refuse(f.EnableHTTP3, "http.enable_http3")
	r.refuse(f.Compression == "br", "http.compression: br")
	r.refuse(f.ProxyFromEnvironment, "http.proxy_from_environment")
	r.refuse(f.NoProxy != "", "http.no_proxy")
	r.refuse(f.ProxyURL != "" && f.SkipResolvePhaseWithProxy, "http.skip_resolve_phase_with_proxy")
}

// refuse marks a module as unsupported if it uses a feature that prober does not support. what begins with the
// field.
func (r *reader) refuse(asked bool, what string) {
	if asked {
		field, _, _ := strings.Cut(what, " ")
		r.refused(strings.TrimSuffix(field, ":"), what+" is not supported", fmt.Errorf("%s is not supported", what))
	}
}

// unsupported is like refuse, with a reason.
func (r *reader) unsupported(field, why string) {
	r.refused(field, why, fmt.Errorf("%s: %s", field, why))
}

// refused keeps all reasons. Users of /probe see the first one.
func (r *reader) refused(field, why string, err error) {
	r.module.refused = append(r.module.refused, refusal{field, why})
	r.module.unsupported = cmp.Or(r.module.unsupported, err)
}

func (r *reader) proxy(f *httpFields) error {
	if f.ProxyURL == "" {
		return nil
	}
	u, err := url.Parse(f.ProxyURL)
	if err != nil || u.Host == "" {
		return fmt.Errorf("http.proxy_url: %.80q is not a URL", f.ProxyURL)
	}
	r.refuse(u.Scheme != "http", "http.proxy_url: "+u.Scheme+"://")
	r.module.config["proxyUrl"] = f.ProxyURL
	if password, ok := u.User.Password(); ok {
		r.module.secrets = append(r.module.secrets, password)
		if r.references != nil {
			r.module.config["proxyUrl"] = r.references.Secret(r.module.Name, "http.proxy_url")
		}
	}
	if len(f.ProxyConnectHeader) > 0 {
		headers := make(map[string]string, len(f.ProxyConnectHeader))
		for name, values := range f.ProxyConnectHeader {
			headers[name] = strings.Join(values, ", ")
			r.module.secrets = append(r.module.secrets, values...)
		}
		r.module.config["proxyConnectHeader"] = r.protected("http.proxy_connect_header", headers)
	}
	return nil
}

// login sets the credentials of requests.
func (r *reader) login(f *httpFields) {
	if b := f.BasicAuth; b != nil {
		user := r.textOrFile(b.Username, "http.basic_auth.username_file", b.UsernameFile)
		password := r.secretOrFile(b.Password, "http.basic_auth.password", b.PasswordFile)
		basic := map[string]any{"username": user}
		r.secret(basic, "password", password)
		r.module.secrets = append(r.module.secrets, user+":"+password) // encoded together in base64
		r.module.config["basicAuth"] = basic
	}
	r.secret(r.module.config, "bearerToken", r.secretOrFile(f.BearerToken, "http.bearer_token", f.BearerTokenFile))
	if a := f.Authorization; a != nil {
		credentials := r.secretOrFile(a.Credentials, "http.authorization.credentials", a.CredentialsFile)
		fields := map[string]any{"type": cmp.Or(a.Type, "Bearer")}
		r.secret(fields, "credentials", credentials)
		r.module.config["authorization"] = fields
	}
}

func matches(list []headerMatch) (all []map[string]any) {
	for _, m := range list {
		all = append(all, map[string]any{"header": m.Header, "regexp": m.Regexp, "allowMissing": m.AllowMissing})
	}
	return all
}

func queries(list []queryResponse) (all []map[string]any) {
	for _, q := range list {
		step := make(map[string]any)
		if q.Expect != "" {
			step["expect"] = q.Expect
		}
		if q.Send != "" {
			step["send"] = q.Send
		}
		if q.StartTLS {
			step["starttls"] = true
		}
		if len(q.Labels) > 0 {
			step["labels"] = q.Labels
		}
		all = append(all, step)
	}
	return all
}

func (r *reader) dns(f *dnsFields) error {
	r.ip(f.PreferredIPProtocol, f.IPProtocolFallback, f.SourceIPAddress)
	r.set("transportProtocol", f.TransportProtocol)
	r.set("dnsOverTls", f.DNSOverTLS)
	r.set("queryName", f.QueryName)
	r.set("queryType", f.QueryType)
	r.set("queryClass", f.QueryClass)
	r.set("recursionDesired", f.RecursionDesired)
	r.set("validRcodes", f.ValidRcodes)
	for name, v := range map[string]*rrs{
		"validateAnswerRrs": f.ValidateAnswer, "validateAuthorityRrs": f.ValidateAuthority, "validateAdditionalRrs": f.ValidateAdditional,
	} {
		if v == nil {
			continue
		}
		all := make(map[string]any)
		for rule, list := range map[string][]string{
			"failIfMatchesRegexp": v.FailIfMatchesRegexp, "failIfAllMatchRegexp": v.FailIfAllMatchRegexp,
			"failIfNotMatchesRegexp": v.FailIfNotMatchesRegexp, "failIfNoneMatchesRegexp": v.FailIfNoneMatchesRegexp,
		} {
			if len(list) > 0 {
				all[rule] = list
			}
		}
		r.module.config[name] = all
	}
	if f.QueryName == "" {
		return errors.New("dns.query_name: the field is required")
	}
	return r.tls(&f.TLSConfig)
}

// tls sets the TLS config of a plugin. A client certificate becomes credentials, which the plugin refers to
// by name and cannot read.
func (r *reader) tls(f *tlsFields) error {
	if *f == (tlsFields{}) {
		return nil
	}
	if f.Cert != "" || f.Key != "" {
		r.unsupportedTLS("tls_config.cert and key are not supported: use cert_file and key_file")
	}
	if f.CertFile != "" || f.KeyFile != "" {
		return r.clientCertificate(f)
	}
	fields := make(map[string]any)
	ca := f.CA
	if f.CAFile != "" {
		ca = r.text("tls_config.ca_file", f.CAFile)
	}
	for name, value := range map[string]string{"ca": ca, "serverName": f.ServerName, "minVersion": f.MinVersion, "maxVersion": f.MaxVersion} {
		if value != "" {
			fields[name] = value
		}
	}
	if f.InsecureSkipVerify {
		fields["insecureSkipVerify"] = true
	}
	r.module.config["tlsConfig"] = fields
	return nil
}

// unsupportedTLS refuses a field of tls_config.
func (r *reader) unsupportedTLS(why string) {
	r.refused(r.module.fields.Prober+".tls_config", why, errors.New(why))
}

func (r *reader) clientCertificate(f *tlsFields) error {
	if f.CertFile == "" || f.KeyFile == "" {
		return errors.New("tls_config: cert_file and key_file must be set together")
	}
	if r.module.credentials != "" { // they exist, and are read again when their files have changed
		r.module.config["credentials"] = r.module.credentials
		r.versions(f)
		return nil
	}
	if f.CA != "" {
		r.unsupportedTLS("tls_config.ca together with cert_file is not supported: use ca_file")
	}
	if r.references != nil {
		c := config.Credentials{CA: f.CAFile, Cert: f.CertFile, Key: f.KeyFile, ServerName: f.ServerName, Insecure: f.InsecureSkipVerify}
		r.module.config["credentials"] = r.references.Credentials(r.module.Name, r.module.fields.Prober+".tls_config", r.module.handler, c)
		r.versions(f)
		return nil
	}
	// The name is random, as the credentials are only for /probe.
	c := config.Credentials{
		Name: "blackbox " + r.module.Name + " " + rand.Text(), ServerName: f.ServerName, Insecure: f.InsecureSkipVerify, Plugins: []string{r.module.handler},
	}
	for _, p := range []struct {
		to   *string
		path string
	}{{&c.CA, f.CAFile}, {&c.Cert, f.CertFile}, {&c.Key, f.KeyFile}} {
		if p.path == "" {
			continue
		}
		path, err := filepath.Abs(p.path)
		if err != nil {
			return err
		}
		*p.to = path
	}
	r.file.Credentials = append(r.file.Credentials, c)
	r.module.config["credentials"], r.module.credentials = c.Name, c.Name
	r.versions(f)
	return nil
}

// versions sets the TLS versions for a module with credentials.
func (r *reader) versions(f *tlsFields) {
	versions := make(map[string]any)
	for name, value := range map[string]string{"minVersion": f.MinVersion, "maxVersion": f.MaxVersion} {
		if value != "" {
			versions[name] = value
		}
	}
	if len(versions) > 0 {
		r.module.config["tlsConfig"] = versions
	}
}
