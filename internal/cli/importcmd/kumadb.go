package importcmd

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// database sets the probe of a database, whose port is by default port.
func (m *kumaMonitor) database(port int) bool {
	o := m.o
	u, err := url.Parse(o.text("databaseConnectionString"))
	if err != nil || u.Hostname() == "" {
		m.p.noEqual(o.at("databaseConnectionString"), "the monitor %s is not imported: it has no URL", m.name)
		return false
	}
	first, others, _ := strings.Cut(u.Host, ",")
	if others != "" {
		m.p.differs(o.at("databaseConnectionString"), "the first server is asked")
	}
	host, number := splitHostPort(first, port)
	var action fields
	switch m.kind {
	case "redis":
		o.none("the probe sends PING", "databaseQuery")
		action = plugin("redis", m.redis(u))
	case "mongodb":
		action = m.mongoDB(u)
	default:
		action = plugin(m.kind, m.sql(u))
	}
	m.set(action, hostPort(host, number))
	return true
}

// databaseLogin returns the user of a URL, and a reference to a file for the password.
func (m *kumaMonitor) databaseLogin(u *url.URL, password string) (config fields) {
	if user := u.User.Username(); user != "" {
		config = config.set("username", user)
	}
	if own, _ := u.User.Password(); own != "" || password != "" {
		config = config.set("password", m.p.secretReferenceOf(m.o.at("databaseConnectionString"), slug(m.name, "monitor")+"-password", "the password of the database", cmp.Or(password, own)))
	}
	return config
}

func (m *kumaMonitor) redis(u *url.URL) fields {
	config := m.databaseLogin(u, "")
	if config.get("password") == nil {
		config = nil // redis has no user without a password
	}
	if number, err := strconv.ParseUint(strings.Trim(u.Path, "/"), 10, 16); err == nil && number > 0 {
		config = config.set("database", int(number))
	}
	if u.Scheme == "rediss" {
		config = config.set("tls", true)
		if m.o.boolean("ignoreTls", false) {
			config = config.set("tlsConfig", fields{{"insecureSkipVerify", true}})
		}
	}
	return config
}

func (m *kumaMonitor) sql(u *url.URL) fields {
	password := ""
	if m.kind == "mysql" {
		password = m.o.text("radiusPassword") // the field of Uptime Kuma for the password of MySQL
	}
	config := m.databaseLogin(u, password)
	query := m.o.text("databaseQuery")
	if config.get("username") == nil && m.kind == "mysql" {
		if query != "" {
			m.p.noEqual(m.o.at("databaseQuery"), "a query needs a user in the URL")
		}
		return nil
	}
	if name := strings.Trim(u.Path, "/"); name != "" {
		config = config.set("database", name)
	}
	config = m.databaseTLS(u, config)
	if query != "" {
		config = config.set("query", query)
	}
	return config
}

// databaseTLS adds what the parameters of a URL say about TLS. As in the library of Uptime Kuma, all modes but disable
// and no-verify verify the certificate.
func (m *kumaMonitor) databaseTLS(u *url.URL, config fields) fields {
	parameters := u.Query()
	mode, on := parameters.Get("sslmode"), parameters.Get("ssl")
	switch {
	case mode == "disable", mode == "" && !slices.Contains([]string{"true", "1"}, on):
	case mode == "no-verify":
		config = config.set("tls", true).set("tlsConfig", fields{{"insecureSkipVerify", true}})
	default:
		config = config.set("tls", true)
	}
	for _, name := range sortedKeys(parameters) {
		if name != "sslmode" && (name != "ssl" || !slices.Contains([]string{"", "true", "1", "false", "0"}, on)) {
			m.p.noEqual(m.o.at("databaseConnectionString"), "the parameter %.40q of the URL has no equal", name)
		}
	}
	return config
}

// mqtt sets the probe of a broker.
func (m *kumaMonitor) mqtt(host string) {
	o := m.o
	target := hostPort(hostOf(host), o.integer("port", 1883))
	if scheme, _, _ := strings.Cut(host, "://"); scheme == "ws" || scheme == "wss" {
		o.none("the probe connects only, and not over WebSocket", "mqttTopic", "mqttSuccessMessage", "mqttUsername", "mqttPassword", "mqttCheckType", "mqttWebsocketPath")
		m.set(tcp(), target)
		return
	}
	var config fields
	if user := o.text("mqttUsername"); user != "" {
		config = config.set("username", user)
		if o.text("mqttPassword") != "" {
			config = config.set("password", m.p.secretReferenceOf(o.at("mqttPassword"), slug(m.name, "monitor")+"-password", "the password of the broker", o.text("mqttPassword")))
		}
	}
	if strings.HasPrefix(host, "mqtts://") {
		config = config.set("tls", true)
	}
	message := fields{{"topic", o.text("mqttTopic")}}
	switch check, text := o.text("mqttCheckType"), o.text("mqttSuccessMessage"); {
	case check != "" && check != "keyword":
		m.p.noEqual(o.at("mqttCheckType"), "a message is not checked by %.20q", check)
	case text != "":
		message = message.set("contains", text)
	}
	if o.text("mqttTopic") != "" {
		config = config.set("message", message)
	}
	o.ignore("the probe does not use it", "mqttWebsocketPath")
	m.set(plugin("mqtt", config), target)
}
