package importcmd

import (
	"cmp"
	"strings"
	"time"
)

// external is a check to which others report.
func (g *gatus) external(o *object) {
	c := &push{entry: entry{at: o.at("")}, name: o.text("name"), namespace: o.text("group")}
	token := o.text("token")
	beat := o.object("heartbeat").interval("interval", 0)
	if !o.boolean("enabled", true) {
		g.p.noEqual(o.at("enabled"), "the endpoint is not imported: a push cannot be disabled")
		o.ignore("the endpoint is not imported", "alerts", "ui", "maintenance-windows")
		return
	}
	if beat == 0 {
		g.p.differs(o.at(""), "without a heartbeat, a report is due within 366 days")
		beat = maxTTL
	}
	t := g.alerts(o, &c.alerts)
	c.rest = fields{{"tokenFile", pushToken(g.p, o.at("token"), c.name, token)}, {"ttl", max(beat, time.Second)}}
	c.rest = c.rest.with("failureThreshold", clampCount(t.failures))
	if t.successes > 1 {
		c.rest = c.rest.set("successThreshold", clampCount(t.successes))
	}
	o.ignore("the page of prober has no such options", "ui")
	g.p.addPush(c)
	g.windowsOf(o, c.name, selection{pushes: []*push{c}})
}

// pushToken returns the path of a file for the token of a push.
func pushToken(p *plan, at position, name, token string) string {
	what := "the token, which is in the URL /push/TOKEN"
	if len(token) < 16 || len(token) > 128 || strings.ContainsFunc(token, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) {
		what, token = "a new token of 16 to 128 letters, digits, - and _, which is in the URL /push/TOKEN,", ""
	}
	return p.secretFile(at, name+"-token", what, token)
}

// alerting reads the providers.
func (g *gatus) alerting(o *object) {
	for i := 0; i+1 < len(o.n.Content); i += 2 {
		kind := o.n.Content[i].Value
		a := o.object(kind)
		if d := a.object("default-alert"); d.isSet() {
			g.defaults[kind] = d
			d.ignore("messages have the state, the cause and the output of the probe", "description")
			for _, name := range []string{"enabled", "failure-threshold", "success-threshold", "send-on-resolved", "minimum-reminder-interval"} {
				d.used[name] = true // alerts read it
			}
			d.rest()
		}
		g.addProvider(&provider{kind: kind, at: o.at(kind), own: a, fields: a})
		for _, override := range a.objects("overrides") {
			if group := override.text("group"); group != "" {
				g.addProvider(&provider{kind: kind, group: group, at: override.at(""), own: override, fields: override.over(a)})
			}
		}
	}
}

// providerKey is a type of alerts and a group of endpoints; "" for all others.
type providerKey struct{ kind, group string }

// provider is where alerts of a type are sent: those of the endpoints of a group, or all others for "".
type provider struct {
	kind, group string
	at          position
	own         *object // its own fields
	fields      *object // with those of the type
	isUsed      bool
	receiver    string // its name; "" for none
}

func (g *gatus) addProvider(p *provider) {
	g.providers, g.providerOf[providerKey{p.kind, p.group}] = append(g.providers, p), p
}

// receiverOf returns the name of the receiver of a type for an endpoint of a group; "" if there is none. The first
// alert makes the receiver.
func (g *gatus) receiverOf(kind, group string) string {
	p := cmp.Or(g.providerOf[providerKey{kind, group}], g.providerOf[providerKey{kind: kind}])
	if p == nil {
		return ""
	}
	if p.isUsed {
		return p.receiver
	}
	p.isUsed = true
	name := kind
	if p.group != "" {
		name += "-" + p.group
	}
	name = slug(name, kind)
	if f := g.receiver(kind, name, p.fields); f != nil {
		if !g.defaults[kind].sendsResolved() {
			f = f.set("resolved", false)
		}
		p.receiver = g.p.addReceiver(p.at, name, f)
	}
	return p.receiver
}

// providersDone reports the providers that no alert uses, and the fields of others that nobody has read.
func (g *gatus) providersDone() {
	for _, p := range g.providers {
		switch {
		case !p.isUsed:
			g.p.report(ignored, p.at, "no alert uses it")
		case p.receiver != "":
			p.own.ignore("messages have a form of their own", "title", "text", "mention", "message-emoji", "message-content", "priority", "click", "disable-firebase", "disable-email")
			p.own.rest()
		}
	}
}

// over returns the fields of o and, in addition, those of below that o does not have.
func (o *object) over(below *object) *object {
	n := *o.n
	n.Content = n.Content[:len(n.Content):len(n.Content)]
	for i := 0; i+1 < len(below.n.Content); i += 2 {
		if name := below.n.Content[i].Value; !o.has(name) && name != "overrides" && name != "default-alert" {
			n.Content = append(n.Content, below.n.Content[i], below.n.Content[i+1])
		}
	}
	made := newObject(o.p, o.file, o.path, &n)
	made.used = o.used
	return made
}

// sendsResolved reports whether a default alert sends the end of failures. Without one, it is not known,
// since alerts may ask for it.
func (o *object) sendsResolved() bool {
	if o == nil || !o.isSet() {
		return true
	}
	return o.boolean("send-on-resolved", false)
}

// receiver returns the receiver of a provider; nil, and reported, if it has no equal. name begins the names of its
// files.
func (g *gatus) receiver(kind, name string, a *object) fields {
	at := a.at("")
	switch kind {
	case "slack", "mattermost":
		a.ignore("the webhook selects the channel", "channel", "client")
		return g.p.webhook(at, name, "slack", a.text("webhook-url"))
	case "teams", "teams-workflows":
		return g.p.webhook(at, name, "teams", a.text("webhook-url"))
	case "discord":
		return g.p.webhook(at, name, "discord", a.text("webhook-url"))
	case "pagerduty":
		return g.p.pagerDuty(at, name, "", a.text("integration-key"))
	case "opsgenie":
		a.ignore("messages have a form of their own", "source", "entity-prefix", "alias-prefix", "tags")
		return g.p.opsgenie(at, name, "", a.text("api-key"))
	case "telegram":
		a.none("Telegram's own API is used", "api-url")
		a.none("a message has no topic", "topic-id")
		return g.p.telegram(at, name, a.text("id"), a.text("token"))
	case "ntfy":
		return g.p.ntfy(at, name, a.text("url"), a.text("topic"), a.text("token"))
	case "gotify":
		return g.p.gotify(at, name, a.text("server-url"), a.text("token"))
	case "matrix":
		server := a.text("server-url")
		if server == "" {
			server = "https://matrix-client.matrix.org"
		}
		return g.p.matrix(at, name, server, a.text("internal-room-id"), a.text("access-token"))
	case "email":
		return g.email(name, a)
	case "custom":
		return g.custom(at, name, a)
	}
	g.p.noEqual(at, "there is no receiver for it: see docs/alert/message-formats.md")
	return nil
}

func (g *gatus) email(name string, a *object) fields {
	port := a.integer("port", 587)
	m := &mailer{at: a.at(""), name: name, to: strings.Split(a.text("to"), ","), from: a.text("from"), host: a.text("host"), port: port}
	m.user, m.password = a.text("username"), a.text("password")
	if port == 465 {
		m.tls = "tls"
	}
	a.none("the certificate of a mail server is verified", "client")
	return g.p.mail(m)
}
