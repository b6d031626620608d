package importcmd

import (
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
		what = "a new token of 16 to 128 letters, digits, - and _, which is in the URL /push/TOKEN,"
	}
	return p.secretFile(at, name+"-token", what)
}

// alerting reads the providers.
func (g *gatus) alerting(o *object) {
	for i := 0; i+1 < len(o.n.Content); i += 2 {
		kind := o.n.Content[i].Value
		a := o.object(kind)
		if d := a.object("default-alert"); d.isSet() {
			g.defaults[kind] = d
		}
		f := g.receiver(kind, a)
		if f == nil {
			continue
		}
		if !g.defaults[kind].sendsResolved() {
			f = f.set("resolved", false)
		}
		g.receivers[kind] = g.p.addReceiver(o.at(kind), kind, f)
		a.none("a receiver is the same for all groups: match selects probes", "overrides")
		a.ignore("messages have a form of their own", "title", "text", "mention", "message-emoji", "priority", "click", "disable-firebase", "disable-email")
		a.rest()
	}
}

// sendsResolved reports whether a default alert sends the end of failures. Without one, it is not known,
// since alerts may ask for it.
func (o *object) sendsResolved() bool {
	if o == nil || !o.isSet() {
		return true
	}
	return o.boolean("send-on-resolved", false)
}

// receiver returns the receiver of a provider; nil, and reported, if it has no equal.
func (g *gatus) receiver(kind string, a *object) fields {
	at := a.at("")
	switch kind {
	case "slack", "mattermost":
		a.text("webhook-url")
		a.ignore("the webhook selects the channel", "channel", "client")
		return g.p.webhook(at, kind, "slack")
	case "teams", "teams-workflows":
		a.text("webhook-url")
		return g.p.webhook(at, kind, "teams")
	case "discord":
		a.text("webhook-url")
		return g.p.templated(at, kind, "the URL of the webhook", message("content"))
	case "pagerduty":
		a.text("integration-key")
		return g.p.pagerDuty(at, kind)
	case "telegram":
		a.text("token")
		a.none("Telegram's own API is used", "api-url")
		return g.p.telegram(at, kind, a.text("id"))
	case "ntfy":
		return g.ntfy(kind, a)
	case "gotify":
		a.text("server-url")
		a.text("token")
		return g.p.templated(at, kind, "the URL of the server with /message?token= and the token", message("message"))
	case "email":
		return g.email(a)
	}
	g.p.noEqual(at, "there is no receiver for it: see docs/alert/message-formats.md")
	a.used["default-alert"] = true
	return nil
}

func (g *gatus) ntfy(kind string, a *object) fields {
	f := g.p.templated(a.at(""), kind, "the URL of the server", `{"topic": `+string(renderText(a.text("topic")))+`, "message": "{{.Title}}"}`)
	a.text("url")
	if a.text("token") != "" {
		hook, _ := f[0].value.(fields)
		f[0].value = hook.set("bearerTokenFile", g.p.secretFile(a.at("token"), kind+"-token", "the token"))
	}
	return f
}

func (g *gatus) email(a *object) fields {
	port := a.integer("port", 587)
	m := &mailer{at: a.at(""), name: "email", to: strings.Split(a.text("to"), ","), from: a.text("from"), host: a.text("host"), port: port}
	m.user, m.password = a.text("username"), a.text("password") != ""
	if port == 465 {
		m.tls = "tls"
	}
	a.none("the certificate of a mail server is verified", "client")
	return g.p.mail(m)
}
