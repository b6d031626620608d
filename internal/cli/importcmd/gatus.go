package importcmd

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
)

// gatus imports one or more files of Gatus.
type gatus struct {
	p          *plan
	defaults   map[string]*object // default alerts, by type
	providers  []*provider
	providerOf map[providerKey]*provider
}

func readGatus(p *plan, files []input) error {
	g := &gatus{p: p, defaults: make(map[string]*object), providerOf: make(map[providerKey]*provider)}
	roots := make([]*object, 0, len(files))
	for _, in := range files {
		o, err := parseYAML(p, in)
		if err != nil {
			return err
		}
		roots = append(roots, o)
	}
	for _, o := range roots {
		g.alerting(o.object("alerting"))
	}
	for _, o := range roots {
		g.file(o)
	}
	g.providersDone()
	return nil
}

// file reads a file, without its alerting.
func (g *gatus) file(o *object) {
	for _, e := range o.objects("endpoints") {
		g.endpoint(e)
		e.rest()
	}
	for _, e := range o.objects("suites") {
		g.suite(e)
	}
	for _, e := range o.objects("external-endpoints") {
		g.external(e)
		e.rest()
	}
	g.connectivity(o.object("connectivity"))
	if m := o.object("maintenance"); m.isSet() {
		if w := g.window(m, "maintenance"); w != nil {
			w.all = true
			g.p.addWindow(w)
		}
		m.rest()
	}
	o.none("an agent shows its own probes only", "remote")
	o.none("there are no announcements", "announcements")
	o.none("set it with flags of prober run: --listen, --web.config.file", "web", "security")
	o.ignore("prober run --state-dir keeps the history", "storage")
	o.ignore("Gatus does not read it", extensions(o)...)
	o.ignore("it does not change what is probed", "ui", "metrics", "debug", "skip-invalid-config-update", "disable-monitoring-lock", "concurrency", "tunneling")
	o.rest()
}

// extensions returns the names of fields that only have anchors, such as default-endpoint in the README of Gatus.
func extensions(o *object) (names []string) {
	for i := 0; i+1 < len(o.n.Content); i += 2 {
		if name := o.n.Content[i].Value; strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "default-") {
			names = append(names, name)
		}
	}
	return names
}

// connectivity makes a group that witnesses the network of the host.
func (g *gatus) connectivity(o *object) {
	c := o.object("checker")
	if target := c.text("target"); target != "" {
		added := g.p.addGroup(&group{
			entry: entry{at: c.at("target")}, name: "connectivity",
			probe:  spec{action: tcp(), period: c.interval("interval", time.Minute), timeout: 2 * time.Second, failureLimit: 1},
			static: []string{target},
		})
		if added != nil {
			g.p.uplink = append(g.p.uplink, added.name)
		}
	}
	c.rest()
	o.rest()
}

// gatusCheck is an endpoint of Gatus.
type gatusCheck struct {
	*gatus
	o          *object
	name       string
	group      *group
	conditions []condition
	config     fields // of the plugin, by conditions
}

func (g *gatus) endpoint(o *object) {
	c := &gatusCheck{gatus: g, o: o, name: o.text("name")}
	client := o.object("client")
	c.group = &group{
		entry: entry{at: o.at("")}, name: c.name, namespace: o.text("group"), labels: make(map[string]string),
		probe: spec{period: o.interval("interval", time.Minute), timeout: client.interval("timeout", 10*time.Second), paused: !o.boolean("enabled", true)},
	}
	for _, l := range o.pairs("extra-labels") {
		c.group.labels[l.key] = l.value
	}
	c.readConditions()
	o.ignore("the page of prober has no such options", "ui")
	o.none("each check is a probe of its own", "store", "always-run")
	thresholds(g.alerts(o, &c.group.alerts), &c.group.probe)
	var added *group
	if c.target(client) {
		for _, left := range c.conditions {
			g.p.noEqual(left.at, "this probe cannot check %s", left.left)
		}
		added = g.p.addGroup(c.group)
	}
	if added != nil {
		g.windowsOf(o, added.name, selection{groups: []*group{added}})
	} else {
		o.ignore("the endpoint is not imported", "maintenance-windows")
	}
	client.rest()
}

// readConditions reads the conditions of an endpoint.
func (c *gatusCheck) readConditions() {
	for i, n := range c.o.items("conditions") {
		at := position{c.o.file, n.Line, yamlpos.Item(join(c.o.path, "conditions"), i)}
		switch parsed, ok := parseCondition(n.Value, at); {
		case !ok:
			c.p.noEqual(at, "%.80q is not a condition", n.Value)
		case environment().MatchString(n.Value):
			c.p.noEqual(at, "a condition cannot refer to a variable")
		case strings.Contains(n.Value, "[CONTEXT]"):
			c.p.noEqual(at, "a condition cannot refer to the context of a suite")
		default:
			c.conditions = append(c.conditions, parsed)
		}
	}
}

// thresholds has the thresholds of the alerts of an endpoint; 0 for none.
type gatusThresholds struct{ failures, successes int }

func thresholds(t gatusThresholds, s *spec) {
	s.failureLimit = t.failures
	if t.successes > 1 {
		s.successThreshold = t.successes
	}
}

// alerts reads the alerts of an endpoint. It returns the lowest thresholds.
func (g *gatus) alerts(o *object, names *[]string) (t gatusThresholds) {
	for _, a := range o.objects("alerts") {
		kind := a.text("type")
		without := g.defaults[kind]
		if without == nil {
			without = newObject(g.p, o.file, "", &yamlpos.Node{Kind: yamlpos.Mapping})
		}
		on := a.boolean("enabled", without.boolean("enabled", true))
		failures := a.integer("failure-threshold", without.integer("failure-threshold", 3))
		successes := a.integer("success-threshold", without.integer("success-threshold", 2))
		reminder := a.interval("minimum-reminder-interval", without.interval("minimum-reminder-interval", 0))
		if a.has("send-on-resolved") && a.boolean("send-on-resolved", false) != without.sendsResolved() {
			g.p.differs(a.at("send-on-resolved"), "it is resolved of the receiver, for all probes")
		}
		a.ignore("messages have the state, the cause and the output of the probe", "description")
		a.none("a receiver is the same for all probes", "provider-override")
		a.rest()
		if !on {
			g.p.report(ignored, a.at(""), "the alert is not enabled")
			continue
		}
		if name := g.receiverOf(kind, o.text("group")); name != "" {
			*names = append(*names, name)
			g.p.remind(a.at("minimum-reminder-interval"), name, reminder)
		} else {
			g.p.noEqual(a.at("type"), "there is no receiver for %.40q", kind)
		}
		if t.failures != 0 && (t.failures != failures || t.successes != successes) {
			g.p.differs(a.at(""), "a probe has one threshold: the lowest of its alerts")
		}
		if t.failures == 0 || failures < t.failures {
			t = gatusThresholds{failures, successes}
		}
	}
	return t
}

// target sets the probe and the target. It reports whether the endpoint can be imported.
func (c *gatusCheck) target(client *object) bool {
	address := c.o.text("url")
	if environment().MatchString(address) {
		c.p.noEqual(c.o.at("url"), "the endpoint is not imported: a target cannot refer to a variable")
		return false
	}
	if c.o.has("dns") {
		return c.dns(address, client)
	}
	scheme, rest, _ := strings.Cut(address, "://")
	rest, _, _ = strings.Cut(rest, "/")
	switch strings.ToLower(scheme) {
	case "http", "https":
		return c.http(address, client)
	case "tcp", "tls", "starttls":
		return c.connection(strings.ToLower(scheme), rest, client)
	case "ws", "wss":
		return c.webSocket(address, client)
	case "icmp":
		c.noOptions(client)
		c.latency()
		c.set(plugin("icmp", c.config), rest)
		c.done("[CONNECTED]")
	case "ssh":
		host, port := splitHostPort(rest, 22)
		c.noOptions(client)
		c.o.none("the probe does not log in", "ssh", "body")
		c.latency()
		c.set(plugin("ssh", c.config), hostPort(host, port))
		c.done("[CONNECTED]", "[STATUS]")
	case "grpc":
		c.noOptions(client)
		c.set(fields{{"grpc", fields{}}}, rest)
		c.done("[CONNECTED]", "[STATUS]")
	case "grpcs":
		s := &service{plugin: "grpc-health", tls: true, isInsecure: client.boolean("insecure", false)}
		c.noOptions(client)
		c.latency()
		s.config = c.config
		host, port := splitHostPort(rest, 443)
		c.set(c.p.service(s), hostPort(host, port))
		c.done("[CONNECTED]", "[STATUS]")
	default:
		c.p.noEqual(c.o.at("url"), "the endpoint is not imported: there is no probe for %.20q: use a plugin", scheme)
		c.skip()
		return false
	}
	return true
}

// skip counts the fields of an endpoint that is not imported as read.
func (c *gatusCheck) skip() {
	for _, name := range []string{"method", "body", "headers", "graphql", "ssh", "dns"} {
		c.o.used[name] = true
	}
}

func (c *gatusCheck) set(action fields, target string) {
	c.group.probe.action, c.group.static = action, []string{target}
}

// noOptions reports options of the client that only HTTP has.
func (c *gatusCheck) noOptions(client *object) {
	client.none("this probe has no such option", "ignore-redirect", "proxy-url", "oauth2", "identity-aware-proxy-config", "tls", "network", "dns-resolver", "tunnel")
	if !client.used["insecure"] {
		client.none("this probe has no such option", "insecure")
	}
	c.o.none("this probe has no such option", "method", "headers", "graphql")
}

// connection is a check of a TCP or TLS server.
func (c *gatusCheck) connection(scheme, address string, client *object) bool {
	host, port := splitHostPort(address, map[string]int{"tls": 443, "starttls": 25}[scheme])
	if scheme == "starttls" {
		c.starttls(hostPort(host, port), client)
		return true
	}
	var config fields
	if scheme == "tls" {
		config = config.set("tls", true)
	}
	if client.boolean("insecure", false) && scheme != "tcp" {
		config = config.set("tlsConfig", fields{{"insecureSkipVerify", true}})
	}
	c.noOptions(client)
	c.latency()
	c.certificate()
	config = append(config, c.config...)
	body := c.placeholders(c.o.at("body"), c.expand(c.o.at("body"), c.o.text("body")))
	if steps := c.bodySteps(body); len(steps) > 0 {
		config = config.set("queryResponse", steps)
	}
	if len(config) == 0 {
		c.set(tcp(), hostPort(host, port))
	} else {
		c.set(plugin("expect", config), hostPort(host, port))
	}
	c.done("[CONNECTED]")
	return true
}

// bodySteps returns the steps of expect that send the body and wait for an answer.
func (c *gatusCheck) bodySteps(body string) (steps []fields) {
	if body != "" {
		steps = append(steps, fields{{"send", body}})
	}
	c.take("[BODY]", func(x condition) bool {
		text, ok := x.expression()
		if !ok || x.op != "==" {
			return false
		}
		steps = append(steps, fields{{"expect", text}})
		return true
	})
	return steps
}

func (c *gatusCheck) dns(server string, client *object) bool {
	d := c.o.object("dns")
	host, port := splitHostPort(strings.TrimPrefix(server, "dns://"), 53)
	kind := strings.ToUpper(d.text("query-type"))
	check := dnsCheck{name: d.text("query-name"), kind: kind}
	d.rest()
	c.noOptions(client)
	c.o.none("this probe has no such option", "body")
	c.latency()
	c.take("[DNS_RCODE]", func(x condition) bool {
		values := x.values()
		if x.op != "==" || len(values) == 0 {
			return false
		}
		c.config = c.config.set("validRcodes", values)
		return true
	})
	var patterns []string
	c.take("[BODY]", func(x condition) bool {
		switch {
		case x.op != "==":
			return false
		case x.function() == "":
			patterns = append(patterns, answer(x.right))
		case x.function() == "pat":
			text := strings.TrimSuffix(glob(x.argument()), "$")
			if rest, ok := strings.CutPrefix(text, "^"); ok {
				text = `\t(\d+ )?` + rest
			}
			patterns = append(patterns, text+`\.?$`)
		default:
			return false
		}
		return true
	})
	if len(patterns) > 0 {
		c.config = c.config.set("validateAnswerRrs", fields{{"failIfNoneMatchesRegexp", patterns}})
	}
	check.config = c.config
	c.set(check.action(), hostPort(host, port))
	c.done("[CONNECTED]")
	return true
}

// http is a check of an HTTP response.
func (c *gatusCheck) http(address string, client *object) bool {
	h := &httpCheck{at: c.o.at("url"), name: slug(c.name, "endpoint"), url: address, body: c.o.text("body"), bodyAt: c.o.at("body")}
	if c.o.boolean("graphql", false) {
		query, _ := json.Marshal(map[string]string{"query": h.body}) // a string can be encoded
		h.body = string(query)
		h.headers = append(h.headers, pair{"Content-Type", "application/json", c.o.at("graphql")})
	}
	h.body = c.placeholders(h.bodyAt, c.expand(h.bodyAt, h.body))
	for _, header := range c.o.pairs("headers") {
		header.value = c.expand(header.at, header.value)
		h.headers = append(h.headers, header)
	}
	if method := strings.ToUpper(c.o.text("method")); method != "" && method != "GET" {
		h.config = h.config.set("method", method)
	}
	c.status()
	c.latency()
	c.certificate()
	c.bodies()
	h.config = append(h.config, c.config...)
	if client.boolean("ignore-redirect", false) {
		h.config = h.config.set("followRedirects", false)
	}
	h.config = h.config.with("tlsConfig", fields{}.with("insecureSkipVerify", client.boolean("insecure", false)))
	c.clientTLS(h, client.object("tls"))
	if proxy := client.text("proxy-url"); proxy != "" {
		c.proxy(h, proxy, client.at("proxy-url"))
	}
	c.oauth2(h, client.object("oauth2"))
	client.none("there is no such login", "identity-aware-proxy-config")
	client.none("prober uses the name servers of the host", "dns-resolver")
	client.none("there are no tunnels", "tunnel")
	if network := client.text("network"); network == "ip4" || network == "ip6" {
		h.config = h.config.set("preferredIpProtocol", network).set("ipProtocolFallback", false)
	}
	action, target, ok := c.p.http(h)
	if !ok {
		return false
	}
	c.set(action, target)
	c.done("[CONNECTED]")
	return true
}

func (c *gatusCheck) oauth2(h *httpCheck, o *object) {
	if !o.isSet() {
		return
	}
	h.oauth = &oauthLogin{at: o.at("token-url"), secretAt: o.at("client-secret"), tokenURL: o.text("token-url")}
	h.oauth.id, h.oauth.secret = c.expand(o.at("client-id"), o.text("client-id")), c.expand(o.at("client-secret"), o.text("client-secret"))
	for _, n := range o.items("scopes") {
		h.oauth.scopes = append(h.oauth.scopes, n.Value)
	}
	o.rest()
}

func (c *gatusCheck) clientTLS(h *httpCheck, o *object) {
	cert, key := o.text("certificate-file"), o.text("private-key-file")
	if cert != "" && key != "" {
		h.config = h.config.set("credentials", c.p.addCredentials(o.at(""), c.name, "httpcheck", fields{{"cert", cert}, {"key", key}}))
	}
	o.none("the other side may not renegotiate", "renegotiation")
	o.rest()
}

func (c *gatusCheck) proxy(h *httpCheck, text string, at position) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http":
		c.p.noEqual(at, "a proxy must begin with http://")
	case u.User != nil:
		h.config = h.config.set("proxyUrl", c.p.secretReferenceOf(at, c.name+"-proxy", "the URL of the proxy", text))
	default:
		h.config = h.config.set("proxyUrl", text)
	}
}

// expand replaces variables of the environment, as Gatus does.
func (c *gatusCheck) expand(at position, text string) string {
	return environment().ReplaceAllStringFunc(text, func(found string) string {
		if found == "$$" {
			return "$"
		}
		return c.p.variableReference(at, strings.Trim(found, "${}"))
	})
}

// placeholders replaces what Gatus replaces in a body.
func (c *gatusCheck) placeholders(at position, body string) string {
	size := len(body)
	values := []string{"[ENDPOINT_NAME]", c.name, "[ENDPOINT_GROUP]", c.group.namespace, "[ENDPOINT_URL]", c.o.text("url")}
	for i := 0; i < len(values); i += 2 {
		size += strings.Count(body, values[i]) * len(values[i+1])
	}
	if size > maxBody {
		c.p.noEqual(at, "placeholders in a body of more than %d KiB are not replaced", maxBody>>10)
		return body
	}
	for _, name := range []string{"[LOCAL_ADDRESS", "[RANDOM_STRING"} {
		if strings.Contains(body, name) {
			c.p.noEqual(at, "a body has no placeholder %s]", name)
		}
	}
	return strings.NewReplacer(values...).Replace(body)
}

// maxBody is the length of a body above which its placeholders are not replaced, in bytes.
const maxBody = 64 << 10

var environment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\$|\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*`) })

// take calls use with each condition about left, and keeps those for which it returns false.
func (c *gatusCheck) take(left string, use func(condition) bool) {
	c.conditions = slices.DeleteFunc(c.conditions, func(x condition) bool { return x.left == left && use(x) })
}

// done removes conditions that are true of each success.
func (c *gatusCheck) done(lefts ...string) {
	for _, left := range lefts {
		c.take(left, func(x condition) bool { return x.op == "==" && (x.right == "true" || x.right == "0") })
	}
}

// latency uses conditions about the response time.
func (c *gatusCheck) latency() {
	c.take("[RESPONSE_TIME]", func(x condition) bool {
		ms, err := strconv.Atoi(x.right)
		if err != nil || ms < 1 || ms > 1e9 || x.op != "<" && x.op != "<=" || c.config.get("latency") != nil {
			return false
		}
		c.config = c.config.set("latency", limit("fail", time.Duration(ms)*time.Millisecond))
		return true
	})
}

// certificate uses conditions about the expiration of certificates.
func (c *gatusCheck) certificate() {
	c.take("[CERTIFICATE_EXPIRATION]", func(x condition) bool {
		d, err := time.ParseDuration(x.right)
		if err != nil || d <= 0 || d > 100*maxTTL || x.op != ">" && x.op != ">=" || c.config.get("certificateAge") != nil {
			return false
		}
		c.config = c.config.set("certificateAge", limit("fail", d))
		return true
	})
}

// status uses conditions about the status code.
func (c *gatusCheck) status() {
	var rules []func(int) bool
	c.take("[STATUS]", func(x condition) bool {
		rule, ok := x.number()
		if ok {
			rules = append(rules, rule)
		}
		return ok
	})
	if len(rules) == 0 {
		c.p.differs(c.o.at(""), "the status must be 200 to 299; Gatus checks no status without a condition about it")
		return
	}
	c.config = c.config.with("validStatusCodes", c.p.codes(c.o.at("conditions"), rules...))
}

// starttls is a check of a mail server and its certificate.
func (c *gatusCheck) starttls(target string, client *object) {
	s := &service{plugin: "smtp", startTLS: true, isInsecure: client.boolean("insecure", false)}
	c.noOptions(client)
	c.latency()
	c.certificate()
	s.config = c.config
	c.o.none("the probe sends no text of its own", "body")
	c.set(c.p.service(s), target)
	c.done("[CONNECTED]")
}
