package importcmd

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/daeace23/prober/internal/yamlpos"
)

// service is a check of a server by the plugin for its protocol.
type service struct {
	plugin         string
	at             position // of the check
	name           string   // begins the name of the file with the password
	user, password string
	loginAt        position
	tls, startTLS  bool
	isInsecure     bool   // the certificate is not verified
	config         fields // further fields of the plugin
}

// service returns the action of a probe. What the plugin does not have is reported.
func (p *plan) service(s *service) fields {
	var f fields
	isMail := s.plugin == "imap" || s.plugin == "pop3" || s.plugin == "smtp"
	switch {
	case s.user == "" && s.password == "":
	case s.user == "" && s.plugin != "redis", s.plugin == "ssh", s.plugin == "ntp", s.plugin == "ldap":
		p.noEqual(s.loginAt, "the probe does not log in")
	case isMail && !s.tls && !s.startTLS:
		p.noEqual(s.loginAt, "the probe does not log in without TLS")
	default:
		f = f.with("username", s.user)
		if s.password != "" {
			f = f.set("password", p.protected(s.loginAt, s.name+"-password", "the password", s.password))
		}
	}
	f = f.with("startTLS", s.startTLS).with("tls", s.tls)
	if s.isInsecure && (s.tls || s.startTLS) {
		f = f.set("tlsConfig", fields{{"insecureSkipVerify", true}})
	}
	for _, c := range s.config {
		switch c.key {
		case "preferredIpProtocol", "sourceIpAddress":
			p.noEqual(s.at, "the plugin %s has no %s", s.plugin, c.key)
		case "ipProtocolFallback":
		default:
			f = f.set(c.key, c.value)
		}
	}
	return plugin(s.plugin, f)
}

// monitPlugin returns the plugin for a protocol of monit; "" if there is none.
func monitPlugin(protocol string) string {
	switch protocol {
	case "imap", "smtp", "ssh", "redis", "mysql", "mqtt":
		return protocol
	case "pop":
		return "pop3"
	case "memcache":
		return "memcached"
	case "pgsql":
		return "postgres"
	case "ldap2", "ldap3":
		return "ldap"
	case "ntp3":
		return "ntp"
	}
	return ""
}

// service adds a group for a test of a server by a plugin.
func (c *monitCheck) service(x *connection, name string) {
	s := &service{
		plugin: name, at: x.at, name: slug(c.name, "check"), user: x.user, password: x.password, loginAt: x.loginsAt,
		tls: x.tls, isInsecure: !x.verify, config: x.config.with("latency", limit("fail", x.latency)),
	}
	switch name {
	case "ssh", "ntp":
		if s.tls {
			c.p.noEqual(x.at, "the plugin %s has no TLS", name)
			s.tls = false
		}
		if name == "ntp" {
			c.p.differs(x.at, "the plugin ntp also checks the offset of the clock")
		}
	default:
		s.config = s.config.with("certificateAge", limit("fail", x.certificate))
	}
	c.add(x.at, x.protocol, x.spec(c.p.service(s)), hostPort(x.host, x.port))
}

// smtp sets the probe of a mail server.
func (m *kumaMonitor) smtp(host string) {
	s := &service{plugin: "smtp", at: m.o.at("type"), isInsecure: m.o.boolean("ignoreTls", false)}
	switch security := m.o.text("smtpSecurity"); security {
	case "secure":
		s.tls = true
	case "starttls":
		s.startTLS = true
	case "nostarttls":
	default:
		m.p.differs(m.o.at("smtpSecurity"), "TLS is not started: startTLS of the plugin smtp requires it")
	}
	m.set(m.p.service(s), hostPort(host, m.o.integer("port", 25)))
}

// kafka sets the probe of a broker, which produces no message.
func (m *kumaMonitor) kafka() bool {
	o := m.o
	broker := m.first("kafkaProducerBrokers", "broker")
	if broker == "" {
		return false
	}
	m.p.differs(o.at("type"), "the probe asks for the topic and the leaders of its partitions, and produces no message")
	o.ignore("the probe produces no message", "kafkaProducerMessage", "kafkaProducerAllowAutoTopicCreation")
	s := &service{plugin: "kafka", at: o.at("type"), name: slug(m.name, "monitor"), tls: o.boolean("kafkaProducerSsl", false)}
	sasl := o.object("kafkaProducerSaslOptions")
	switch mechanism := strings.ToUpper(sasl.text("mechanism")); mechanism {
	case "", "NONE":
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		s.user, s.password, s.loginAt = sasl.text("username"), sasl.text("password"), sasl.at("password")
		s.config = s.config.set("mechanism", mechanism)
	default:
		m.p.noEqual(sasl.at("mechanism"), "there is no login by %.20q", mechanism)
	}
	if topic := o.text("kafkaProducerTopic"); topic != "" {
		s.config = s.config.set("topics", []string{topic})
	}
	host, port := splitHostPort(broker, 9092)
	m.set(m.p.service(s), hostPort(host, port))
	return true
}

// list returns the strings of a field, which may be a text with them as JSON.
func (m *kumaMonitor) list(name string) (all []string) {
	if n := m.o.field(name); n == nil || n.Kind != yamlpos.Scalar {
		return m.o.strings(name)
	}
	text := m.o.text(name)
	if text != "" && json.Unmarshal([]byte(text), &all) != nil {
		m.p.noEqual(m.o.at(name), "the text is not a JSON list of strings")
		return nil
	}
	return all
}

// first returns the first string of a list; "", and reported, if there is none.
func (m *kumaMonitor) first(name, what string) string {
	all := m.list(name)
	if len(all) == 0 {
		m.p.noEqual(m.o.at(name), "the monitor %s is not imported: it has no %s", m.name, what)
		return ""
	}
	if len(all) > 1 {
		m.p.differs(m.o.at(name), "the first %s is asked", what)
	}
	return all[0]
}

// rabbitMQ sets the probe of the alarms of a node, by the HTTP API for management.
func (m *kumaMonitor) rabbitMQ() bool {
	o := m.o
	node := m.first("rabbitmqNodes", "node")
	if node == "" {
		return false
	}
	action, target, ok := m.p.http(&httpCheck{
		at: o.at("rabbitmqNodes"), name: slug(m.name, "monitor"), url: strings.TrimRight(node, "/") + "/api/health/checks/alarms/",
		user: o.text("rabbitmqUsername"), password: o.text("rabbitmqPassword"), loginAt: o.at("rabbitmqPassword"),
	})
	if ok {
		m.set(action, target)
	}
	return ok
}

// mongoDB returns the action of a probe of a database by its URL.
func (m *kumaMonitor) mongoDB(u *url.URL) fields {
	at, query := m.o.at("databaseConnectionString"), u.Query()
	password, _ := u.User.Password()
	s := &service{plugin: "mongodb", at: at, name: slug(m.name, "monitor"), user: u.User.Username(), password: password, loginAt: at}
	source := query.Get("authSource")
	if source == "" {
		source = strings.Trim(u.Path, "/")
	}
	if s.user != "" && source != "" && source != "admin" {
		s.config = s.config.set("authSource", source)
	}
	s.config = s.config.with("replicaSet", query.Get("replicaSet"))
	s.tls = query.Get("tls") == "true" || query.Get("ssl") == "true"
	s.isInsecure = query.Get("tlsInsecure") == "true" || query.Get("tlsAllowInvalidCertificates") == "true"
	for _, name := range sortedKeys(query) {
		switch name {
		case "authSource", "replicaSet", "tls", "ssl", "tlsInsecure", "tlsAllowInvalidCertificates":
		default:
			m.p.noEqual(at, "the parameter %.40q of the URL has no equal", name)
		}
	}
	if command := m.o.text("databaseQuery"); command != "" && strings.Join(strings.Fields(command), "") != `{"ping":1}` {
		m.p.noEqual(m.o.at("databaseQuery"), "the probe sends ping")
	}
	m.o.none("the probe sends ping", "jsonPath", "expectedValue")
	return m.p.service(s)
}

// snmp sets the probe of an object of SNMP. Uptime Kuma has the community in the field for a password of RADIUS.
func (m *kumaMonitor) snmp(host string) bool {
	o := m.o
	config := fields{}
	switch version := o.text("snmpVersion"); version {
	case "", "2c":
	case "1":
		config = config.set("version", "v1")
	default:
		m.p.noEqual(o.at("snmpVersion"), "the monitor %s is not imported: the plugin snmp has no version %.20q", m.name, version)
		return false
	}
	if community := o.text("radiusPassword"); community != "" && community != "public" {
		config = config.set("community", m.p.secretReferenceOf(o.at("radiusPassword"), slug(m.name, "monitor")+"-community", "the community", community))
	}
	config = config.with("oid", strings.TrimPrefix(o.text("snmpOid"), "."))
	if path := o.text("jsonPath"); path != "" && path != "$" {
		m.p.noEqual(o.at("jsonPath"), "the value itself is compared")
	}
	config = config.and(m.snmpValue())
	m.set(pluginAt("snmp", 161, config), hostPort(host, o.integer("port", 161)))
	return true
}

// snmpValue returns what the value must be.
func (m *kumaMonitor) snmpValue() fields {
	op, text := m.o.text("jsonPathOperator"), m.o.text("expectedValue")
	number, err := strconv.ParseFloat(text, 64)
	switch {
	case text == "":
		return nil
	case op == "contains":
		return fields{{"contains", text}}
	case op == "" || op == "==":
		return fields{{"value", fields{{"equals", scalar(text)}}}}
	case err == nil && (op == ">" || op == ">="):
		m.strict(op, text)
		return fields{{"value", fields{{"min", number}}}}
	case err == nil && (op == "<" || op == "<="):
		m.strict(op, text)
		return fields{{"value", fields{{"max", number}}}}
	}
	m.p.noEqual(m.o.at("jsonPathOperator"), "a value cannot be compared by %.10q", op)
	return nil
}

// strict reports a comparison that excludes its limit, which no probe does.
func (m *kumaMonitor) strict(op, limit string) {
	if op == "<" || op == ">" {
		m.p.differs(m.o.at("jsonPathOperator"), "the limit %s is allowed too", limit)
	}
}
