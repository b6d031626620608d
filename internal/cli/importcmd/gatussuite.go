package importcmd

import (
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// contextValue matches a value of the context of a suite, such as [CONTEXT].token.
var contextValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[CONTEXT\]\.([A-Za-z_][A-Za-z0-9_]{0,39})`) })

// gatusSuite is a suite of Gatus: endpoints that are checked one after another, as the steps of a journey.
type gatusSuite struct {
	*gatus
	name   string
	group  *group
	values map[string]string // the initial context
	base   *url.URL          // of the first step; nil before it
	known  map[string]bool   // the values that steps have stored

	insecure []position // of the steps that verify no certificate
}

// maxSteps is the maximum number of steps of a journey.
const maxSteps = 20

// suite makes a probe by the plugin journey.
func (g *gatus) suite(o *object) {
	s := &gatusSuite{gatus: g, name: o.text("name"), values: make(map[string]string), known: make(map[string]bool)}
	s.group = &group{
		entry: entry{at: o.at("")}, name: s.name, namespace: o.text("group"),
		probe: spec{period: o.interval("interval", 10*time.Minute), timeout: o.interval("timeout", 5*time.Minute), paused: !o.boolean("enabled", true)},
	}
	for _, v := range o.pairs("context") {
		s.values[v.key] = v.value
	}
	var steps []fields
	all := o.objects("endpoints")
	ok := len(all) > 0 && len(all) <= maxSteps
	if !ok {
		g.p.noEqual(o.at("endpoints"), "the suite is not imported: a journey has 1 to %d steps", maxSteps)
	}
	for _, e := range all {
		step, made := s.step(e)
		ok = ok && made
		steps = append(steps, step)
		e.rest()
	}
	if ok {
		config := fields{{"url", "/"}, {"steps", steps}}
		if len(s.insecure) == len(steps) {
			config = config.set("tlsConfig", fields{{"insecureSkipVerify", true}})
		} else {
			for _, at := range s.insecure {
				g.p.noEqual(at, "certificates are verified: all steps of a journey verify them, or none")
			}
		}
		s.group.probe.action = plugin("journey", config)
		s.group.static = []string{(&url.URL{Scheme: s.base.Scheme, Host: s.base.Host, Path: "/"}).String()}
		g.p.follow("journey")
		g.p.addGroup(s.group)
	}
	o.rest()
}

// step returns a step; false, and reported, if the suite cannot be imported.
func (s *gatusSuite) step(o *object) (step fields, ok bool) {
	client := o.object("client")
	c := &gatusCheck{gatus: s.gatus, o: o, name: o.text("name"), group: s.group}
	c.readConditions()
	o.ignore("the page of prober has no such options", "ui")
	o.ignore("a step is carried out with its journey", "interval", "group", "extra-labels", "enabled")
	if alerts := s.alerts(o, &s.group.alerts); s.group.probe.failureLimit == 0 {
		thresholds(alerts, &s.group.probe)
	}
	address, ok := s.address(o)
	if !ok {
		s.skip(c, client)
		return nil, false
	}
	step = fields{{"name", slug(c.name, "step")}, {"url", address}}
	if method := strings.ToUpper(o.text("method")); method != "" {
		step = step.set("method", method)
	}
	step = s.request(c, step)
	c.status()
	c.latency()
	c.bodies()
	step = append(step, c.config...)
	if client.boolean("ignore-redirect", false) {
		step = step.set("followRedirects", false)
	}
	if client.boolean("insecure", false) {
		s.insecure = append(s.insecure, client.at("insecure"))
	}
	step = step.with("timeout", client.interval("timeout", 0)).with("extract", s.extracts(o))
	if o.boolean("always-run", false) {
		step = step.set("always", true)
	}
	client.none("a step has no such option", "proxy-url", "oauth2", "identity-aware-proxy-config", "tls", "network", "dns-resolver", "tunnel")
	client.rest()
	c.done("[CONNECTED]")
	for _, left := range c.conditions {
		s.p.noEqual(left.at, "a step cannot check %s", left.left)
	}
	return step, true
}

// skip counts the fields of a step that is not imported as read.
func (s *gatusSuite) skip(c *gatusCheck, client *object) {
	c.skip()
	c.o.used["store"], c.o.used["always-run"] = true, true
	for i := 0; i < len(client.n.Content); i += 2 {
		client.used[client.n.Content[i].Value] = true
	}
}

// address returns the URL of a step, relative to the URL of the first one. false, and reported, if it has no equal.
func (s *gatusSuite) address(o *object) (string, bool) {
	text := s.expand(o.at("url"), o.text("url"))
	u, err := url.Parse(contextReference().ReplaceAllString(text, "x"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || environment().MatchString(contextReference().ReplaceAllString(text, "x")) {
		s.p.noEqual(o.at("url"), "the suite is not imported: the URL of a step must begin with http:// or https://, and have a host and neither a user nor a variable")
		return "", false
	}
	if s.base == nil {
		s.base = u
	}
	rest, own := strings.CutPrefix(text, s.base.Scheme+"://"+s.base.Host)
	switch {
	case !own || rest != "" && rest[0] != '/' && rest[0] != '?':
		return text, true
	case rest == "" || rest[0] == '?':
		return "/" + rest, true
	}
	return rest, true
}

// contextReference matches a value in a text that was expanded.
var contextReference = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[A-Za-z_]\w*\}`) })

// expand replaces values of the context: the initial ones, and those that earlier steps have stored. It reports others.
func (s *gatusSuite) expand(at position, text string) string {
	text = s.expanded(text)
	if strings.Contains(text, "[CONTEXT]") {
		s.p.noEqual(at, "no step before it stores what it has of [CONTEXT]")
	}
	return text
}

func (s *gatusSuite) expanded(text string) string {
	return contextValue().ReplaceAllStringFunc(text, func(found string) string {
		name := strings.TrimPrefix(found, "[CONTEXT].")
		if s.known[name] {
			return "${" + name + "}"
		}
		if value, ok := s.values[name]; ok {
			return value
		}
		return found
	})
}

// request adds the headers and the body of a step.
func (s *gatusSuite) request(c *gatusCheck, step fields) fields {
	h := &httpCheck{name: slug(s.name+"-"+c.name, "step"), body: s.expand(c.o.at("body"), c.expand(c.o.at("body"), c.o.text("body"))), bodyAt: c.o.at("body")}
	if c.o.boolean("graphql", false) {
		s.p.noEqual(c.o.at("graphql"), "write the query as json of the step by hand")
	}
	for _, header := range c.o.pairs("headers") {
		header.value = s.expand(header.at, c.expand(header.at, header.value))
		token, bearer := strings.CutPrefix(header.value, "Bearer ")
		if bearer && strings.EqualFold(header.key, "Authorization") && s.p.references[token] {
			step = step.set("bearerToken", token)
			continue
		}
		h.headers = append(h.headers, header)
	}
	return step.with("headers", s.p.headers(h)).with("body", s.p.body(h))
}

// extracts returns the values that a step stores.
func (s *gatusSuite) extracts(o *object) (all []fields) {
	for _, v := range o.pairs("store") {
		path, ok := strings.CutPrefix(v.value, "[BODY]")
		if !ok || !simplePath().MatchString(path) || contextValue().FindString("[CONTEXT]."+v.key) != "[CONTEXT]."+v.key {
			s.p.noEqual(v.at, "a step stores values at a path of a body of JSON")
			continue
		}
		all = append(all, fields{{"name", v.key}, {"jsonPath", "$" + path}})
		s.known[v.key] = true
		s.p.references["${"+v.key+"}"] = true
	}
	return all
}
