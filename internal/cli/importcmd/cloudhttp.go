package importcmd

import (
	"net/url"
	"strconv"
	"strings"
)

// http sets the action of a probe of the type HTTP. Its targets have hosts only.
func (k *cloudCheck) http(o *object) bool {
	k.address(true)
	k.port = o.integer("port", 0)
	scheme := strings.ToLower(o.text("scheme"))
	if scheme == "" {
		scheme = strings.ToLower(o.text("protocol"))
	}
	if scheme != "https" {
		scheme = "http"
	}
	if k.port == 0 {
		k.port = map[string]int{"http": 80, "https": 443}[scheme]
	}
	relative := o.text("relative_url")
	if relative != "" && !strings.HasPrefix(relative, "/") {
		relative = "/" + relative
	}
	h := &httpCheck{at: o.at("relative_url"), name: slug(k.name, "probe"), url: scheme + "://target" + relative, body: strings.Join(o.strings("body"), ""), bodyAt: o.at("body")}
	k.headers(h, o)
	if method := strings.ToUpper(o.text("method")); method != "" && method != "GET" {
		h.config = h.config.set("method", method)
	}
	k.httpOptions(h, o)
	k.validators(h)
	h.config = append(h.config, k.config...)
	action, _, ok := k.p.http(h)
	if !ok {
		return false
	}
	setURL(action, scheme, relative)
	k.group.probe.action = action
	return true
}

// setURL replaces the field url of httpcheck by a URL without a host, unless it has references.
func setURL(action fields, scheme, path string) {
	config, _ := action[0].value.(fields).get("config").(fields)
	if config[0].value != "/" { // it refers to a secret
		return
	}
	if u, err := url.Parse(path); err == nil && path != "" {
		config[0].value = u.RequestURI()
	}
	if scheme == "https" {
		config[0].value = "https://" + config[0].value.(string)
	}
}

func (k *cloudCheck) headers(h *httpCheck, o *object) {
	for _, header := range o.objects("headers") {
		h.headers = append(h.headers, pair{header.text("name"), header.text("value"), header.at("value")})
		header.rest()
	}
	h.headers = append(h.headers, o.pairs("header")...)
	if agent := o.text("user_agent"); agent != "" {
		h.headers = append(h.headers, pair{"User-Agent", agent, o.at("user_agent")})
	}
}

func (k *cloudCheck) httpOptions(h *httpCheck, o *object) {
	t := o.object("tls_config")
	tls := fields{}.with("insecureSkipVerify", o.boolean("disable_cert_validation", false) || t.boolean("disable_cert_validation", false)).with("serverName", t.text("server_name"))
	if cert, key := t.text("tls_cert_file"), t.text("tls_key_file"); cert != "" && key != "" {
		h.config = h.config.set("credentials", k.p.addCredentials(t.at(""), k.name, "httpcheck", fields{{"cert", cert}, {"key", key}}.with("ca", t.text("ca_cert_file"))))
	} else if ca := t.text("ca_cert_file"); ca != "" {
		h.config = h.config.set("credentials", k.p.addCredentials(t.at(""), k.name, "httpcheck", fields{{"ca", ca}}))
	}
	t.rest()
	h.config = h.config.with("tlsConfig", tls)
	if o.boolean("disable_http2", false) {
		h.config = h.config.set("enableHttp2", false)
	}
	switch redirects := o.integer("max_redirects", 10); {
	case redirects == 0:
		h.config = h.config.set("followRedirects", false)
	case redirects != 10:
		k.p.differs(o.at("max_redirects"), "up to ten redirects are followed")
	}
	if proxy := o.text("proxy_url"); strings.HasPrefix(proxy, "http://") && !strings.Contains(proxy, "@") {
		h.config = h.config.set("proxyUrl", proxy)
	} else if proxy != "" {
		k.p.noEqual(o.at("proxy_url"), "a proxy must begin with http://, and its password belongs into a reference")
	}
	o.none("write oauth2 of the plugin httpcheck by hand, or bearerToken with a reference", "oauth_config")
	o.none("the probe has no such option", "body_file", "resolve_first", "keep_alive", "export_response_as_metrics", "requests_per_probe", "requests_interval_msec", "proxy_connect_header", "latency_breakdown")
	o.ignore("it does not change what is probed", "max_idle_conns", "interval_between_targets_msec")
	o.rest()
}

// validators sets the checks of the response. Without any, each response is a success.
func (k *cloudCheck) validators(h *httpCheck) {
	var match []string
	var present, absent []fields
	status := false
	for _, v := range k.o.objects("validator") {
		if text := v.text("regex"); text != "" {
			if text, ok := k.p.pattern(v.at("regex"), text); ok {
				match = append(match, text)
			}
		}
		v.text("name")
		w := v.object("http_validator")
		if ranges := w.text("success_status_codes"); ranges != "" {
			status = true
			h.config = h.config.with("validStatusCodes", k.p.codes(w.at("success_status_codes"), k.p.codeRules(w.at("success_status_codes"), strings.Split(ranges, ","))))
		} else if ranges := w.text("failure_status_codes"); ranges != "" {
			status = true
			bad := k.p.codeRules(w.at("failure_status_codes"), strings.Split(ranges, ","))
			h.config = h.config.with("validStatusCodes", k.p.codes(w.at("failure_status_codes"), func(code int) bool { return !bad(code) }))
		}
		present, absent = append(present, k.header(w, "success_header")...), append(absent, k.header(w, "failure_header")...)
		w.none("the age of the page is not checked", "max_last_modified", "success_json", "failure_json")
		w.rest()
		v.none("jsonPath of the plugin httpcheck checks values", "json_validator")
		v.none("this probe has no such validator", "integrity_validator")
		v.rest()
	}
	if !status {
		k.p.differs(k.o.at(""), "the status must be 200 to 299; cloudprober checks no status without a validator")
	}
	h.config = h.config.with("failIfBodyNotMatchesRegexp", match).with("failIfHeaderNotMatches", present).with("failIfHeaderMatches", absent)
}

func (k *cloudCheck) header(w *object, name string) []fields {
	o := w.object(name)
	if !o.isSet() {
		return nil
	}
	text, ok := k.p.pattern(o.at("value_regex"), o.text("value_regex"))
	header := o.text("name")
	o.rest()
	if !ok || header == "" {
		return nil
	}
	f := fields{{"header", header}, {"regexp", text}}
	if name == "failure_header" {
		f = f.set("allowMissing", true)
	}
	return []fields{f}
}

// targets sets the targets of a group.
func (k *cloudCheck) targets(o *object) {
	g := k.group
	if name := o.text("shared_targets"); name != "" {
		shared := k.shared[name]
		if shared == nil {
			k.p.noEqual(o.at("shared_targets"), "there are no shared targets %.40q", name)
			return
		}
		o = shared
	}
	hosts := o.text("host_names")
	if !k.p.pay(o.at("host_names"), hosts) {
		return
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host = strings.TrimSpace(host); host != "" {
			k.add(o.at("host_names"), host)
		}
	}
	for _, e := range o.objects("endpoint") {
		k.endpoint(e)
	}
	if f := o.object("file_targets"); f.isSet() {
		k.p.noEqual(f.at("file_path"), "%s must be rewritten in the format of file_sd: see docs/probe/target-lists.md", f.text("file_path"))
		g.files = append(g.files, f.text("file_path"))
		f.none("a list has no such option", "filter", "format", "re_eval_sec")
	}
	if o.has("dummy_targets") {
		o.used["dummy_targets"] = true
		g.static = append(g.static, localhost)
	}
	o.none("no source of targets asks it: http and command list targets", "rds_targets", "gce_targets", "lameduck_targets", "k8s", "k8s_targets")
	o.none("relabel drops targets", "regex", "filter")
	o.ignore("there are no lame ducks", "exclude_lameducks")
	o.rest()
	if len(g.static)+len(g.files) == 0 {
		k.p.noEqual(k.o.at("targets"), "the probe %s is not imported: it has no targets", k.name)
	}
}

// add adds a host.
func (k *cloudCheck) add(at position, host string) {
	name, port := splitHostPort(host, k.port)
	if port > 0 {
		host = hostPort(name, port)
	}
	k.group.static = append(k.group.static, host)
}

// endpoint adds a target with an address of its own.
func (k *cloudCheck) endpoint(o *object) {
	name := o.text("name")
	host := o.text("ip")
	if host == "" {
		host = o.text("host")
	}
	if host == "" {
		host = name
	}
	if address := o.text("url"); address != "" {
		if urlHasSecret(address) {
			k.p.noEqual(o.at("url"), "the target is not imported: an address cannot have a password")
		} else {
			k.group.static = append(k.group.static, address)
		}
	} else {
		if port := o.integer("port", 0); port > 0 {
			host = host + ":" + strconv.Itoa(port)
		}
		k.add(o.at(""), host)
	}
	o.none("labels are those of the group", "labels")
	o.rest()
}

// alert sets the threshold and the receivers of a probe.
func (k *cloudCheck) alert(o *object) {
	c := o.object("condition")
	failures, total := c.integer("failures", 1), c.integer("total", 0)
	if total > failures {
		k.p.differs(c.at("total"), "%d failures in a row are needed, not %d of %d", failures, failures, total)
	}
	c.rest()
	k.group.probe.failureLimit = clampCount(failures)
	n := o.object("notify")
	for i := 0; i+1 < len(n.n.Content); i += 2 {
		k.notify(n, n.n.Content[i].Value)
	}
	o.ignore("messages have a form of their own", "name", "dashboard_url_template", "playbook_url_template", "summary_template", "details_template", "key", "severity", "other_info")
	o.none("set repeatInterval of the receiver", "repeat_interval_sec")
	o.rest()
}

// notify sets a receiver of an alert. Equal settings share a receiver.
func (k *cloudCheck) notify(n *object, kind string) {
	at := n.at(kind)
	if kind == "command" {
		words, ok := splitShell(n.text(kind))
		if !ok || len(words) == 0 || !strings.HasPrefix(words[0], "/") || strings.Contains(n.text(kind), "@") {
			k.p.noEqual(at, "a command needs an absolute path, and gets its message on stdin: see docs/alert/message-formats.md")
			return
		}
		k.receive(at, n.text(kind), "command", func() fields { return fields{{"exec", fields{{"command", words}}}} })
		return
	}
	o := n.object(kind)
	switch kind {
	case "slack":
		k.receive(at, o.text("webhook_url")+o.text("webhook_url_env_var"), kind, func() fields { return k.p.webhook(at, kind, "slack") })
	case "pagerduty", "pager_duty":
		k.receive(at, o.text("routing_key")+o.text("routing_key_env_var"), kind, func() fields { return k.p.pagerDuty(at, "pagerduty", "") })
	case "email":
		m := &mailer{at: at, name: "email", to: o.strings("to"), from: o.text("from"), user: o.text("smtp_username"), password: o.text("smtp_password") != ""}
		m.host, m.port = splitHostPort(o.text("smtp_server"), 587)
		k.receive(at, strings.Join(m.to, ",")+m.host, kind, func() fields { return k.p.mail(m) })
	case "http_notify", "http":
		o.none("the body is prober's own JSON: see docs/alert/message-formats.md", "method", "header", "data")
		k.receive(at, o.text("url"), kind, func() fields { return k.p.webhook(at, "http", "json") })
	default:
		k.p.noEqual(at, "there is no receiver for it: see docs/alert/message-formats.md")
		return
	}
	o.rest()
}

// receive adds a receiver to the alerts of the group.
func (k *cloudCheck) receive(at position, key, name string, create func() fields) {
	key = name + "\x00" + key
	if k.receivers[key] == "" {
		f := create()
		if f == nil {
			return
		}
		k.receivers[key] = k.p.addReceiver(at, name, f)
	}
	k.group.alerts = append(k.group.alerts, k.receivers[key])
}
