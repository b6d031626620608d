package importcmd

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/daeace23/prober/internal/yamlpos"
)

// kuma imports a backup of Uptime Kuma.
type kuma struct {
	p         *plan
	receivers map[string]*kumaNotification // by ID
	groups    map[string][]string          // names of the checks of a group, by its ID
	monitors  map[string]kumaResult        // by ID
	parents   []kumaGroup
}

// kumaResult is what became of a monitor: one of the two.
type kumaResult struct {
	group *group
	push  *push
}

// kumaGroup is a monitor of the type group.
type kumaGroup struct {
	id, name, parent string
	at               position
	alerts           []string
}

func readKuma(p *plan, files []input) error {
	for _, in := range files {
		in.text = withoutSurrogates([]byte(strings.ReplaceAll(string(in.text), "\t", " "))) // YAML allows no tabs at the beginning of lines
		o, err := parseYAML(p, in)
		if err != nil {
			return err
		}
		k := &kuma{p: p, receivers: make(map[string]*kumaNotification), groups: make(map[string][]string), monitors: make(map[string]kumaResult)}
		k.file(o)
	}
	return nil
}

var surrogates = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})`)
})

// withoutSurrogates replaces pairs of surrogates of JSON, which YAML does not have.
func withoutSurrogates(text []byte) []byte {
	return surrogates().ReplaceAllFunc(text, func(pair []byte) []byte {
		high, _ := strconv.ParseUint(string(pair[2:6]), 16, 16) // the expression has matched digits
		low, _ := strconv.ParseUint(string(pair[8:12]), 16, 16)
		return []byte(string(utf16.DecodeRune(rune(high), rune(low))))
	})
}

func (k *kuma) file(o *object) {
	for _, n := range o.objects("notificationList") {
		k.receivers[n.text("id")] = &kumaNotification{o: n}
	}
	for _, m := range o.objects("monitorList") {
		k.monitor(m)
	}
	for _, n := range o.objects("notificationList") {
		if at := k.receivers[n.text("id")]; !at.isUsed {
			k.p.report(ignored, n.at(""), "no monitor has the notification %s", n.text("name"))
			at.isUsed = true
		}
	}
	k.endpoints()
	for _, m := range o.objects("maintenanceList") {
		k.maintenance(m)
	}
	o.none("there are no public status pages", "statusPageList")
	o.ignore("a monitor names its proxy", "proxyList")
	o.ignore("it does not change what is probed", "version", "settings", "tagList", "dockerHostList", "remoteBrowserList", "apiKeyList")
	o.rest()
}

// endpoints adds the groups, whose checks may be groups.
func (k *kuma) endpoints() {
	byID := make(map[string]*composite)
	for _, g := range k.parents {
		c := &composite{entry: entry{at: g.at}, name: g.name, all: k.groups[g.id], alerts: g.alerts}
		k.p.addEndpoint(c)
		byID[g.id] = c
	}
	for _, g := range k.parents {
		if parent := byID[g.parent]; parent != nil {
			parent.all = append(parent.all, byID[g.id].name)
		}
	}
}

// kumaMonitor is a monitor.
type kumaMonitor struct {
	*kuma
	o      *object
	id     string
	name   string
	kind   string
	group  *group
	retry  time.Duration
	tries  int
	alerts []string
}

func (k *kuma) monitor(o *object) {
	m := &kumaMonitor{kuma: k, o: o, id: o.text("id"), name: o.text("name"), kind: o.text("type")}
	period := o.units("interval", 60, time.Second)
	m.retry, m.tries = o.units("retryInterval", period.Seconds(), time.Second), clampCount(o.integer("maxretries", 0))
	m.notifications(period)
	m.group = &group{
		entry: entry{at: o.at("")}, name: m.name, labels: m.tags(), alerts: m.alerts,
		probe: spec{period: period, unhealthyPeriod: m.retry, timeout: m.timeout(period), failureLimit: m.tries + 1, paused: !o.boolean("active", true)},
	}
	parent := o.text("parent")
	if m.skipped() {
		return
	}
	switch {
	case m.kind == "group":
		k.parents = append(k.parents, kumaGroup{m.id, m.name, parent, o.at(""), m.alerts})
	case m.kind == "push":
		m.push(period, parent)
	case m.probe():
		if g := k.p.addGroup(m.group); g != nil {
			k.groups[parent] = append(k.groups[parent], g.name)
			k.monitors[m.id] = kumaResult{group: g}
		}
	}
	m.leftovers()
}

// skipped reports a monitor that cannot be imported at all.
func (m *kumaMonitor) skipped() bool {
	if !m.o.boolean("upsideDown", false) {
		return false
	}
	m.p.noEqual(m.o.at("upsideDown"), "the monitor %s is not imported: a probe cannot be turned upside down", m.name)
	return true
}

// timeout returns the time limit: by default Uptime Kuma takes 0.8 of the interval.
func (m *kumaMonitor) timeout(period time.Duration) time.Duration {
	d := m.o.units("timeout", 0, time.Second)
	if d == 0 {
		d = period * 8 / 10
	}
	return min(d, time.Hour).Round(time.Millisecond)
}

// tags returns the tags as labels.
func (m *kumaMonitor) tags() map[string]string {
	labels := make(map[string]string)
	for _, t := range m.o.objects("tags") {
		if name := t.text("name"); name != "" {
			labels[name] = t.text("value")
		}
	}
	return labels
}

// notifications sets the receivers of a monitor, and after which time they repeat its messages.
func (m *kumaMonitor) notifications(period time.Duration) {
	every := units(m.o.number("resendInterval", 0), period)
	for _, on := range m.o.pairs("notificationIDList") {
		n := m.receivers[on.key]
		switch {
		case on.value != "true":
		case n == nil:
			m.p.noEqual(on.at, "the backup has no notification %.20q", on.key)
		default:
			if name := m.receiverOf(n); name != "" {
				m.alerts = append(m.alerts, name)
				m.p.remind(m.o.at("resendInterval"), name, every)
			}
		}
	}
}

// pushSlack is how much later than its interval Uptime Kuma lets a push come.
const pushSlack = time.Second

func (m *kumaMonitor) push(period time.Duration, parent string) {
	c := &push{entry: m.group.entry, name: m.name, labels: m.group.labels, alerts: m.alerts}
	ttl := min(period+time.Duration(min(m.tries, 1e6))*m.retry+pushSlack, maxTTL)
	c.rest = fields{{"tokenFile", pushToken(m.p, m.o.at("pushToken"), m.name, m.o.text("pushToken"))}, {"ttl", ttl}}
	m.p.addPush(c)
	m.groups[parent] = append(m.groups[parent], c.name)
	m.monitors[m.id] = kumaResult{push: c}
	if m.group.probe.paused {
		m.p.noEqual(m.o.at("active"), "a push cannot be paused in prober.yaml: prober pause pauses it")
	}
}

// probe sets the probe and the target. It reports whether the monitor can be imported.
func (m *kumaMonitor) probe() bool {
	o := m.o
	host := o.text("hostname")
	switch m.kind {
	case "http", "keyword", "json-query":
		return m.http()
	case "websocket-upgrade":
		return m.webSocket()
	case "port":
		m.set(tcp(), hostPort(host, o.integer("port", 0)))
	case "ping":
		var config fields
		if size := o.integer("packetSize", 56); size != 56 {
			config = config.set("payloadSize", size)
		}
		m.set(plugin("icmp", config), host)
	case "dns":
		m.dns(host)
	case "postgres", "mysql", "mongodb", "redis":
		return m.database(map[string]int{"postgres": 5432, "mysql": 3306, "mongodb": 27017, "redis": 6379}[m.kind])
	case "mqtt":
		m.mqtt(host)
	case "smtp":
		m.smtp(host)
	case "kafka-producer":
		return m.kafka()
	case "rabbitmq":
		return m.rabbitMQ()
	case "snmp":
		return m.snmp(host)
	case "grpc-keyword":
		m.p.noEqual(o.at("type"), "the monitor %s is not imported: the gRPC probe asks the health service, and no other", m.name)
		return false
	case "docker":
		m.p.noEqual(o.at("type"), "the monitor %s is not imported: probe what the container %s serves", m.name, o.text("docker_container"))
		return false
	default:
		m.p.noEqual(o.at("type"), "the monitor %s is not imported: there is no probe for the type %.40q: use a plugin or a Nagios check", m.name, m.kind)
		return false
	}
	return true
}

func (m *kumaMonitor) set(action fields, target string) {
	m.group.probe.action, m.group.static = action, []string{target}
}

// hostOf returns the host of a URL or an address.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return u.Hostname()
	}
	return text
}

func (m *kumaMonitor) dns(name string) {
	server := m.o.text("dns_resolve_server")
	server, _, _ = strings.Cut(server, ",")
	check := dnsCheck{name: name, kind: m.o.text("dns_resolve_type")}
	if strings.Contains(m.o.text("dns_resolve_server"), ",") {
		m.p.differs(m.o.at("dns_resolve_server"), "the first name server is asked")
	}
	m.o.ignore("it is a result", "dns_last_result")
	m.o.none("validateAnswerRrs of the plugin dns checks records", "conditions")
	m.set(check.action(), hostPort(server, m.o.integer("port", 53)))
}

// leftovers reports fields of other types, and unknown ones.
func (m *kumaMonitor) leftovers() {
	o := m.o
	o.ignore("it does not change what is probed", "description", "pathName", "path", "childrenIDs", "weight", "maintenance", "includeSensitiveData", "forceInactive", "accepted_statuscodes_json",
		"screenshot", "tag", "user_id", "created_date")
	for i := 0; i+1 < len(o.n.Content); i += 2 {
		name := o.n.Content[i].Value
		if !o.used[name] && slices.Contains(kumaFields(), name) {
			o.used[name] = true
			if o.isMeaningful(name) {
				o.p.report(ignored, o.at(name), "the type of the monitor does not use it")
			}
		}
	}
	o.rest()
}

// isMeaningful reports whether a field has a value that is not empty.
func (o *object) isMeaningful(name string) bool {
	n := o.field(name)
	if n == nil || n.Tag == "!!null" {
		return false
	}
	if n.Kind != yamlpos.Scalar {
		return len(n.Content) > 0
	}
	return !slices.Contains([]string{"", "false", "0"}, n.Value)
}

// kumaFields returns the fields of monitors.
var kumaFields = sync.OnceValue(func() []string {
	return strings.Fields(`url method hostname port timeout keyword invertKeyword expiryNotification ignoreTls packetSize maxredirects accepted_statuscodes
		dns_resolve_type dns_resolve_server docker_container docker_host proxyId mqttTopic mqttSuccessMessage mqttUsername mqttPassword mqttCheckType mqttWebsocketPath
		databaseQuery databaseConnectionString authMethod grpcUrl grpcProtobuf grpcMethod grpcServiceName grpcEnableTls grpcBody grpcMetadata
		radiusCalledStationId radiusCallingStationId radiusUsername radiusPassword radiusSecret game gamedigGivenPortOnly httpBodyEncoding jsonPath jsonPathOperator expectedValue
		kafkaProducerTopic kafkaProducerBrokers kafkaProducerSsl kafkaProducerAllowAutoTopicCreation kafkaProducerMessage kafkaProducerSaslOptions
		headers body basic_auth_user basic_auth_pass oauth_client_id oauth_client_secret oauth_token_url oauth_scopes oauth_audience oauth_auth_method
		pushToken authWorkstation authDomain tlsCa tlsCert tlsKey remote_browser snmpOid snmpVersion snmp_oid snmp_version snmp_v3_username rabbitmqNodes rabbitmqUsername rabbitmqPassword
		cacheBust conditions smtpSecurity ipFamily ping_numeric ping_count ping_per_request_timeout retryOnlyOnStatusCodeFailure wsIgnoreSecWebsocketAcceptHeader wsSubprotocol
		domainExpiryNotification location protocol system_service_name subtype manual_status gamedigToken databaseName dns_last_result`)
})

// codeRange matches a status code, or a range of them.
var codeRange = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d{3})(?:-(\d{3}))?$`) })

// codeRules returns a rule for any of some ranges such as 200-299.
func (p *plan) codeRules(at position, ranges []string) func(int) bool {
	var rules []func(int) bool
	for _, text := range ranges {
		found := codeRange().FindStringSubmatch(strings.TrimSpace(text))
		if found == nil {
			p.noEqual(at, "%.20q is not a range of status codes", text)
			continue
		}
		from, _ := strconv.Atoi(found[1]) // three digits
		to, err := strconv.Atoi(found[2])
		if err != nil {
			to = from
		}
		rules = append(rules, func(code int) bool { return code >= from && code <= to })
	}
	return func(code int) bool {
		return slices.ContainsFunc(rules, func(in func(int) bool) bool { return in(code) })
	}
}

// kumaJSON returns the mapping in a string with JSON.
func kumaJSON(o *object, name string) *object {
	text := o.text(name)
	if text == "" {
		return newObject(o.p, o.file, join(o.path, name), &yamlpos.Node{Kind: yamlpos.Mapping, Line: o.at(name).line})
	}
	d := yamlpos.Decoder{File: o.file, Loose: true}
	root := d.Parse(withoutSurrogates([]byte(strings.ReplaceAll(text, "\t", " "))), maxInput)
	if d.Err() != nil || root.Kind != yamlpos.Mapping {
		o.p.noEqual(o.at(name), "the text is not a JSON object")
		root = &yamlpos.Node{Kind: yamlpos.Mapping}
	}
	setLine(root, o.at(name).line, 0)
	return newObject(o.p, o.file, join(o.path, name), root)
}

// setLine sets the line of n and of all below it.
func setLine(n *yamlpos.Node, line, depth int) {
	n.Line = line
	if depth > yamlpos.MaxDepth {
		return
	}
	for _, c := range n.Content {
		setLine(c, line, depth+1)
	}
}
