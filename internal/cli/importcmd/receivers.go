package importcmd

import (
	"net/mail"
	"slices"
	"strings"

	"github.com/daeace23/prober/pods/targets"
)

// message is the template of webhooks that take a JSON object with one text.
func message(key string) string { return `{"` + key + `": "{{.Title}}"}` }

// webhook returns a receiver of a format whose URL is a secret.
func (p *plan) webhook(at position, name, format string) fields {
	return fields{{"webhook", fields{{"format", format}, {"urlFile", p.secretFile(at, name+"-url", "the URL of the webhook")}}}}
}

// templated returns a receiver with a template whose URL is a secret.
func (p *plan) templated(at position, name, url, template string) fields {
	return fields{{"webhook", fields{{"format", "template"}, {"urlFile", p.secretFile(at, name+"-url", url)}, {"template", template}}}}
}

func (p *plan) pagerDuty(at position, name string) fields {
	return fields{{"webhook", fields{{"format", "pagerduty"}, {"routingKeyFile", p.secretFile(at, name+"-key", "the integration key")}}}}
}

// telegram returns a receiver that sends to a chat of Telegram.
func (p *plan) telegram(at position, name, chat string) fields {
	return p.templated(at, name, "https://api.telegram.org/botTOKEN/sendMessage, with the token,", `{"chat_id": `+string(renderText(chat))+`, "text": "{{.Title}}"}`)
}

// renderText returns text as a JSON string that a template does not change.
func renderText(text string) []byte {
	for strings.Contains(text, "{{") {
		text = strings.ReplaceAll(text, "{{", "{ {")
	}
	return []byte(strings.TrimSpace(string(renderJSON(fields{{"x", text}}))[len(`{"x":`) : len(renderJSON(fields{{"x", text}}))-2]))
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
	password bool // a password is set

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
	if m.user != "" && m.password && m.tls != "none" {
		if m.passwordFile == "" {
			m.passwordFile = p.secretFile(m.at, m.name+"-password", "the password of the mail server")
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

// matchOf returns the field match of a receiver: the probes with an alert for it. Without any, it gets all
// probes.
func (p *plan) matchOf(name string) fields {
	var chosen selection
	all := true
	for _, g := range p.groups {
		if slices.Contains(g.alerts, name) {
			chosen.groups = append(chosen.groups, g)
		} else if !g.dropped {
			all = false
		}
	}
	for _, c := range p.pushes {
		if slices.Contains(c.alerts, name) {
			chosen.pushes = append(chosen.pushes, c)
		} else if !c.dropped {
			all = false
		}
	}
	if match := chosen.match(); !all && len(match) > 0 {
		return fields{{"match", match}}
	}
	return nil
}

// selection is groups of targets and pushes.
type selection struct {
	groups []*group
	pushes []*push
}

// match returns entries of a field match for what is not dropped.
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
	return match
}
