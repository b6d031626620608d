package importcmd

import (
	"cmp"
	"net/mail"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/pods/targets"
)

// webhook returns a receiver of a format whose URL is a secret.
func (p *plan) webhook(at position, name, format, url string) fields {
	return hook(fields{{"format", format}, {"urlFile", p.secretFile(at, name+"-url", "the URL of the webhook", url)}})
}

// hook returns the fields of a receiver with a webhook.
func hook(f fields) fields { return fields{{"webhook", f}} }

// incidents has the groups of receivers for which each message is an incident: a further failure in the incident of
// a namespace would call nobody.
func incidents(receiver fields) fields {
	return receiver.set("groupBy", []string{"namespace", "pod"})
}

// pagerDuty returns a receiver with a key of PagerDuty. url is another address of its API; "" for the default.
func (p *plan) pagerDuty(at position, name, url, key string) fields {
	f := fields{{"format", "pagerduty"}}
	if url != "" && url != "https://events.pagerduty.com/v2/enqueue" {
		f = p.address(at, name, f, url)
	}
	return incidents(hook(f.set("routingKeyFile", p.secretFile(at, name+"-key", "the integration key", key))))
}

// opsgenie returns a receiver with a key of Opsgenie.
func (p *plan) opsgenie(at position, name, url, key string) fields {
	f := fields{{"format", "opsgenie"}}.with("url", url)
	return incidents(hook(f.set("apiKeyFile", p.secretFile(at, name+"-key", "the API key", key))))
}

// telegram returns a receiver that sends to a chat of Telegram.
func (p *plan) telegram(at position, name, chat, token string) fields {
	return hook(fields{{"format", "telegram"}, {"botTokenFile", p.secretFile(at, name+"-token", "the token of the bot", token)}, {"chatID", chat}})
}

// ntfy returns a receiver that sends to a topic, whose name is the only secret of many topics.
func (p *plan) ntfy(at position, name, server, topic, token string) fields {
	url := ""
	if topic != "" {
		url = strings.TrimSuffix(cmp.Or(server, "https://ntfy.sh"), "/") + "/" + topic
	}
	f := fields{{"format", "ntfy"}, {"urlFile", p.secretFile(at, name+"-url", "the URL of the topic, such as https://ntfy.sh/TOPIC,", url)}}
	if token != "" {
		f = f.set("bearerTokenFile", p.secretFile(at, name+"-token", "the access token", token))
	}
	return hook(f)
}

// gotify returns a receiver that sends to a server of Gotify.
func (p *plan) gotify(at position, name, server, token string) fields {
	f := p.address(at, name, fields{{"format", "gotify"}}, server)
	return hook(f.set("bearerTokenFile", p.secretFile(at, name+"-token", "the token of the application", token)))
}

// matrix returns a receiver that sends to a room of Matrix.
func (p *plan) matrix(at position, name, server, room, token string) fields {
	f := p.address(at, name, fields{{"format", "matrix"}}, server).set("room", room)
	return hook(f.set("bearerTokenFile", p.secretFile(at, name+"-token", "the access token", token)))
}

// address adds the URL of a server, which is in a file if it has a secret.
func (p *plan) address(at position, name string, f fields, url string) fields {
	if urlHasSecret(url) || assignsSecret(url) {
		return f.set("urlFile", p.secretFile(at, name+"-url", "the URL of the server", url))
	}
	return f.set("url", url)
}

// hookHeaders adds headers to a webhook. A secret can only be a token of the header Authorization.
func (p *plan) hookHeaders(at position, name string, f fields, headers []pair) fields {
	var plain fields
	for _, h := range headers {
		token, isBearer := strings.CutPrefix(h.value, "Bearer ")
		switch {
		case !isHeader(h):
			p.noEqual(at, "%.40q is not a header", h.key)
		case strings.EqualFold(h.key, "Authorization") && isBearer && token != "" && f.get("bearerTokenFile") == nil:
			f = f.set("bearerTokenFile", p.secretFile(at, name+"-token", "the token of the header Authorization", token))
		case isSecretName(h.key) || assignsSecret(h.value) || reference().MatchString(h.value) || environment().MatchString(h.value):
			p.noEqual(at, "the header %.40q is not imported: it may have a secret", h.key)
		default:
			plain = plain.set(h.key, h.value)
		}
	}
	return f.with("headers", plain)
}

// mailer is a mail server and the addresses of a receiver.
type mailer struct {
	at       position
	name     string
	to       []string
	from     string
	host     string
	port     int
	tls      string // "": starttls
	user     string
	password string

	passwordFile string // for further receivers of the server; "": none yet
}

// mail returns a receiver, or nothing if an address is wrong.
func (p *plan) mail(m *mailer) fields {
	var to []string
	for _, text := range m.to {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		if !isMailbox(text) {
			p.noEqual(m.at, "%.80q is not a mail address", text)
			continue
		}
		to = append(to, text)
	}
	if len(to) > maxMailboxes {
		p.noEqual(m.at, "a receiver has at most %d addresses", maxMailboxes)
		to = to[:maxMailboxes]
	}
	switch {
	case len(to) == 0:
		p.noEqual(m.at, "the receiver is not imported: it has no mail address")
		return nil
	case !isMailbox(m.from):
		p.noEqual(m.at, "the receiver is not imported: %.80q is not a mail address of the sender", m.from)
		return nil
	case m.host == "" || m.port < 1 || m.port > 65535:
		p.noEqual(m.at, "the receiver is not imported: it has no mail server")
		return nil
	}
	f := fields{{"to", to}, {"from", m.from}, {"smarthost", hostPort(m.host, m.port)}}.with("tls", m.tls)
	if m.user != "" && m.password != "" && m.tls != "none" {
		if m.passwordFile == "" {
			m.passwordFile = p.secretFile(m.at, m.name+"-password", "the password of the mail server", m.password)
		}
		f = f.set("username", m.user).set("passwordFile", m.passwordFile)
	} else if m.user != "" {
		p.noEqual(m.at, "the login at the mail server is not imported: it needs a password and TLS")
	}
	return fields{{"mail", f}}
}

// maxMailboxes is the limit of the addresses of a receiver.
const maxMailboxes = 50

func isMailbox(text string) bool {
	a, err := mail.ParseAddress(text)
	return err == nil && !strings.ContainsFunc(a.Address, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// matchOf returns the field match of a receiver: the checks with an alert for it. all is true, and match empty, if
// all checks have one. If there is none, both are empty.
func (p *plan) matchOf(name string) (match []fields, all bool) {
	var chosen selection
	all = true
	count := func(alerts []string, dropped bool) bool {
		has := slices.Contains(alerts, name)
		all = all && (has || dropped)
		return has && !dropped
	}
	for _, g := range p.groups {
		if count(g.alerts, g.dropped) {
			chosen.groups = append(chosen.groups, g)
		}
	}
	for _, c := range p.pushes {
		if count(c.alerts, c.dropped) {
			chosen.pushes = append(chosen.pushes, c)
		}
	}
	for _, e := range p.endpoints {
		if count(e.alerts, e.dropped) {
			chosen.endpoints = append(chosen.endpoints, e)
		}
	}
	match = chosen.match()
	if all && len(match) > 0 {
		return nil, true
	}
	return match, false
}

// remind says that alerts of a receiver are repeated after some time, or never for 0.
func (p *plan) remind(at position, name string, every time.Duration) {
	i := slices.IndexFunc(p.receivers, func(r *receiver) bool { return r.name == name })
	if i < 0 {
		return
	}
	r := p.receivers[i]
	if every > 0 {
		every = min(max(every, time.Minute), maxRepeat)
	}
	if r.reminds && r.repeat != every {
		if !r.mixed {
			r.mixed = true
			p.differs(at, "the receiver %s repeats all messages after one time, the shortest of its alerts", name)
		}
		if every == 0 || r.repeat > 0 && r.repeat < every {
			every = r.repeat
		}
	}
	r.reminds, r.repeat = true, every
}

// maxRepeat is the longest time of prober.yaml after which messages are repeated.
const maxRepeat = 30 * 24 * time.Hour

// selection is groups of targets, pushes and endpoints.
type selection struct {
	groups    []*group
	pushes    []*push
	endpoints []*composite
}

// match returns entries of a field match for the groups and pushes that are not dropped.
func (s *selection) match() (match []fields) {
	var names []string
	for _, g := range s.groups {
		if !g.dropped {
			names = append(names, g.name)
		}
	}
	switch len(names) {
	case 0:
	case 1:
		match = append(match, fields{{"labels", targets.GroupLabel + "=" + names[0]}})
	default:
		match = append(match, fields{{"labels", targets.GroupLabel + " in (" + strings.Join(names, ", ") + ")"}})
	}
	for _, c := range s.pushes {
		if !c.dropped {
			match = append(match, fields{}.with("namespace", c.namespace).set("pod", c.name))
		}
	}
	for _, e := range s.endpoints {
		if !e.dropped {
			match = append(match, fields{}.with("namespace", e.namespace).set("pod", e.name))
		}
	}
	return match
}
