package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/window"
	"github.com/daeace23/prober/internal/yamlpos"
	"github.com/daeace23/prober/plugin"
)

func (d *decoder) notify(a *Agent) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		notify := &Notify{}
		d.Mapping(n, path, yamlpos.Fields{
			"externalURL": yamlpos.Parsed(&d.Decoder, &notify.ExternalURL, parseExternalURL),
			"receivers":   d.ListOf(d.receiver(&notify.Receivers)),
		}, "receivers")
		if len(notify.Receivers) > maxReceivers {
			d.Errorf(n, yamlpos.Join(path, "receivers"), "must have at most %d items", maxReceivers)
		}
		named := make(map[string]int)
		for _, r := range notify.Receivers {
			if first, ok := named[r.Name]; ok && r.Name != "" {
				d.ErrorAt(r.Line, r.Path+".name", fmt.Errorf("%q is set twice, first on line %d", r.Name, first))
			}
			named[r.Name] = r.Line
		}
		notify.setExcept()
		a.Notify = notify
	}
}

func parseExternalURL(text string) (string, error) {
	external, err := parseURL(text)
	if err == nil && strings.ContainsAny(external, "?#") {
		err = errors.New("must not have a query or a fragment: the path of the page is appended")
	}
	return strings.TrimRight(external, "/"), err
}

func (d *decoder) receiver(to *[]Receiver) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		r := Receiver{
			States: []NotifyState{NotifyFailure, NotifyUnknown}, GroupBy: []string{"namespace"}, GroupWait: DefaultGroupWait,
			GroupInterval: DefaultGroupInterval, Resolved: true, FlapDetection: true, MaxPerMinute: DefaultMaxPerMinute,
			Retention: DefaultRetention, Line: n.Line, Path: path,
		}
		d.Mapping(n, path, yamlpos.Fields{
			"name": d.NonEmpty(&r.Name), "webhook": d.webhook(&r.Webhook), "exec": d.execReceiver(&r.Exec), "mail": d.mail(&r.Mail),
			"match": d.ListOf(d.probeMatch(&r.Match)), "fallback": d.Bool(&r.Fallback), "quiet": d.ListOf(d.quiet(&r.Quiet, yamlpos.Field(n, "timeZone"))), "states": d.notifyStates(&r.States), "groupBy": d.groupBy(&r.GroupBy),
			"for": func(n *yamlpos.Node, path string) {
				r.For = new(time.Duration)
				d.interval(r.For, 0, 24*time.Hour)(n, path)
			},
			"groupWait":      d.interval(&r.GroupWait, 0, time.Hour),
			"groupInterval":  d.interval(&r.GroupInterval, 0, 24*time.Hour),
			"repeatInterval": d.repeatInterval(&r.RepeatInterval),
			"resolved":       d.Bool(&r.Resolved),
			"flapDetection":  d.Bool(&r.FlapDetection),
			"timeZone":       yamlpos.Parsed(&d.Decoder, &r.TimeZone, parseTimeZone),
			"maxPerMinute":   d.Int(&r.MaxPerMinute, 1, 600),
			"retention":      d.interval(&r.Retention, time.Minute, 30*24*time.Hour),
		}, "name")
		if r.Name != "" && !plugin.ValidName(r.Name) {
			d.Errorf(n, path+".name", "%.80q is not a name: must be at most 63 lower-case letters, digits and dashes", r.Name)
		}
		set := 0
		for _, field := range []string{"webhook", "exec", "mail"} {
			if yamlpos.Field(n, field) != nil {
				set++
			}
		}
		if set != 1 {
			d.Errorf(n, path, "must have exactly one of exec, mail, webhook")
		}
		d.setRepeatInterval(n, path, &r)
		if quiet := yamlpos.Field(n, "quiet"); quiet != nil && !r.Quiet.Ends() {
			d.Errorf(quiet, path+".quiet", "the quiet hours never end: together they leave no gap")
		}
		*to = append(*to, r)
	}
}

// quiet returns a reader of quiet hours. zone is the time zone of the receiver; nil: UTC.
func (d *decoder) quiet(to *window.List, zone *yamlpos.Node) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		var f windowFields
		fields := d.windowFields(&f, make(yamlpos.Fields))
		if zone != nil {
			if _, err := parseTimeZone(zone.Value); err == nil { // otherwise it is reported
				f.zone = zone.Value
			}
		}
		d.Mapping(n, path, fields)
		*to = append(*to, d.window(n, path, &f))
		if len(*to) == maxQuiet+1 {
			d.Errorf(n, path, "must be one of at most %d items", maxQuiet)
		}
	}
}

// setRepeatInterval sets the default of the repeat interval.
func (d *decoder) setRepeatInterval(n *yamlpos.Node, path string, r *Receiver) {
	var rules FormatRules
	if r.Webhook != nil {
		rules = r.Webhook.Format.Rules()
	}
	set := yamlpos.Field(n, "repeatInterval")
	switch {
	case set == nil:
		r.RepeatInterval = cmp.Or(rules.RepeatInterval, DefaultRepeatInterval)
	case rules.MustRepeat && r.RepeatInterval == 0:
		d.Errorf(set, path+".repeatInterval", "must not be 0 with format: %s, which ends an alert that is not sent again", rules.Name)
	}
}

func (d *decoder) repeatInterval(to *time.Duration) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Duration(to)(n, path)
		if *to != 0 && *to < time.Minute || *to > 30*24*time.Hour {
			d.Errorf(n, path, "must be 0, which means never, or from 1m to 720h")
		}
	}
}

func (d *decoder) notifyStates(to *[]NotifyState) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		*to = nil
		d.Items(n, path, func(n *yamlpos.Node, path string) {
			var s NotifyState
			yamlpos.OneOf(&d.Decoder, &s, NotifyFailure, NotifyWarning, NotifyUnknown)(n, path)
			*to = append(*to, s)
		})
		if n.Kind == yamlpos.List && len(n.Content) == 0 {
			d.Errorf(n, path, "must not be empty")
		}
	}
}

func (d *decoder) groupBy(to *[]string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		*to = []string{}
		form := shape.Form{Types: []string{"string"}, Pattern: "^(" + strings.Join(groupFields, "|") + "|" + LabelPrefix + ".+)$", Good: append([]string{LabelPrefix + "team"}, groupFields...), Bad: []string{"", LabelPrefix, "node"}}
		d.Items(n, path, d.Form(form, func(n *yamlpos.Node, path string) {
			field, _ := d.Text(n, path)
			if field != "" || n.Kind == yamlpos.Scalar { // otherwise reported
				if err := CheckGroupField(field); err != nil {
					d.Errorf(n, path, "%v", err)
				}
			}
			if slices.Contains(*to, field) {
				d.Errorf(n, path, "%q is set twice", field)
			}
			*to = append(*to, field)
		}))
	}
}

func (d *decoder) webhook(to **Webhook) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		w := &Webhook{Format: JSONFormat, Headers: make(map[string]string), Timeout: DefaultNotifyTimeout}
		d.Mapping(n, path, yamlpos.Fields{
			"format": yamlpos.OneOf(&d.Decoder, &w.Format, slices.Collect(WebhookFormats())...),
			"url":    yamlpos.Parsed(&d.Decoder, &w.URL, parseWebhookURL), "urlFile": d.NonEmpty(&w.URLFile), "routingKeyFile": d.NonEmpty(&w.RoutingKeyFile),
			"apiKeyFile": d.NonEmpty(&w.APIKeyFile), "botTokenFile": d.NonEmpty(&w.BotTokenFile),
			"chatID": d.Form(shape.Form{Pattern: chatID().String()}, yamlpos.Parsed(&d.Decoder, &w.ChatID, parseChatID)), "room": d.Form(shape.Form{Pattern: roomID().String()}, yamlpos.Parsed(&d.Decoder, &w.Room, parseRoom)),
			"headers": d.headers(w.Headers), "bearerTokenFile": d.NonEmpty(&w.BearerTokenFile), "ca": d.NonEmpty(&w.CA),
			"timeout": d.interval(&w.Timeout, 100*time.Millisecond, time.Minute), "template": d.NonEmpty(&w.Template), "templateFile": d.NonEmpty(&w.TemplateFile),
			"contentType": d.oneLine(&w.ContentType),
		})
		if n.Kind == yamlpos.Mapping {
			d.checkWebhook(n, path, w)
		}
		*to = w
	}
}

// checkWebhook reports fields that are missing or contradict each other, and sets defaults of the format.
func (d *decoder) checkWebhook(n *yamlpos.Node, path string, w *Webhook) {
	has := func(field string) bool { return yamlpos.Field(n, field) != nil }
	rules := w.Format.Rules()
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i].Value
		if with := formatsWith(key); len(with) > 0 && !slices.Contains(with, w.Format) {
			d.Errorf(n.Content[i+1], path+"."+key, "needs format: %s", with[0])
		}
	}
	for _, field := range rules.Required {
		if !has(field) {
			d.Errorf(n, path+"."+field, "the field is required with format: %s", w.Format)
		}
	}
	if w.Format == TemplateFormat {
		d.checkTemplate(n, path, w)
	}
	switch {
	case has("url") && has("urlFile"), !has("url") && !has("urlFile") && rules.URL == "":
		d.Errorf(n, path, "must have exactly one of url, urlFile")
	case !has("url") && !has("urlFile"):
		w.URL = rules.URL
	}
	if w.BearerTokenFile != "" && (w.Headers["Authorization"] != "" || w.APIKeyFile != "") {
		other := "the header Authorization"
		if w.APIKeyFile != "" {
			other = "apiKeyFile"
		}
		d.Errorf(n, path+".bearerTokenFile", "must not be set together with %s", other)
	}
}

// checkTemplate reports errors of the fields of a template, and sets their defaults.
func (d *decoder) checkTemplate(n *yamlpos.Node, path string, w *Webhook) {
	text, file := yamlpos.Field(n, "template"), yamlpos.Field(n, "templateFile")
	if (text == nil) == (file == nil) {
		d.Errorf(n, path, "must have exactly one of template, templateFile")
	}
	if set := cmp.Or(text, file); set != nil {
		w.TemplateLine = set.Line
	}
	w.ContentType = cmp.Or(w.ContentType, "application/json")
}

var (
	chatID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(-?[1-9][0-9]{0,18}|@[A-Za-z0-9_]{1,64})$`) })
	roomID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^![^\s/?#]{1,254}$`) })
)

func parseChatID(text string) (string, error) {
	if !chatID().MatchString(text) {
		return "", fmt.Errorf("%.80q is not the ID of a chat, such as -1001234567890 or @channel", text)
	}
	return text, nil
}

func parseRoom(text string) (string, error) {
	if !roomID().MatchString(text) {
		return "", fmt.Errorf("%.80q is not the ID of a room, such as !abc:example.org; an alias such as #ops:example.org is not an ID", text)
	}
	return text, nil
}

// parseTimeZone returns a time zone by its name.
func parseTimeZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" { // Local differs between hosts
		return nil, fmt.Errorf("%.80q is not the name of a time zone, such as Europe/Riga", name)
	}
	return zone, nil
}

// parseWebhookURL parses a URL without a fragment. Its errors do not show the URL, because many webhook
// URLs contain a secret.
func parseWebhookURL(text string) (string, error) {
	target, err := parseURL(text)
	if u, _ := url.Parse(target); err == nil && u.Fragment != "" {
		err = errors.New("must not have a fragment")
	}
	return target, err
}

// oneLine returns a reader of a nonempty string without control characters.
func (d *decoder) oneLine(to *string) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.NonEmpty(to)(n, path)
		if strings.ContainsFunc(*to, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			d.Errorf(n, path, "must be one line")
		}
	}
}

func (d *decoder) execReceiver(to **ExecReceiver) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		e := &ExecReceiver{Timeout: DefaultNotifyTimeout}
		d.Mapping(n, path, yamlpos.Fields{
			"command": d.ListOf(d.Append(&e.Command)), "timeout": d.interval(&e.Timeout, 100*time.Millisecond, 5*time.Minute),
		}, "command")
		if command := yamlpos.Field(n, "command"); command != nil && (len(e.Command) == 0 || !filepath.IsAbs(e.Command[0])) {
			d.Errorf(command, path+".command", "must begin with the absolute path of a program")
		}
		for i, arg := range e.Command {
			if strings.ContainsRune(arg, 0) {
				d.Errorf(n, yamlpos.Item(path+".command", i), "must not contain a NUL character")
			}
		}
		*to = e
	}
}

func (d *decoder) mail(to **MailReceiver) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		m := &MailReceiver{TLS: StartTLS, Timeout: 3 * DefaultNotifyTimeout}
		d.Mapping(n, path, yamlpos.Fields{
			"to": d.ListOf(func(n *yamlpos.Node, path string) {
				var address string
				yamlpos.Parsed(&d.Decoder, &address, parseMailbox)(n, path)
				m.To = append(m.To, address)
			}),
			"from":      yamlpos.Parsed(&d.Decoder, &m.From, parseMailbox),
			"smarthost": yamlpos.Parsed(&d.Decoder, &m.Smarthost, parseSmarthost),
			"tls":       yamlpos.OneOf(&d.Decoder, &m.TLS, StartTLS, ImplicitTLS, NoTLS),
			"ca":        d.NonEmpty(&m.CA), "username": d.oneLine(&m.Username), "passwordFile": d.NonEmpty(&m.PasswordFile),
			"timeout": d.interval(&m.Timeout, time.Second, 5*time.Minute),
		}, "to", "from", "smarthost")
		if list := yamlpos.Field(n, "to"); list != nil && list.Kind == yamlpos.List && (len(m.To) == 0 || len(m.To) > maxMailboxes) {
			d.Errorf(list, path+".to", "must have from 1 to %d items", maxMailboxes)
		}
		if (m.Username == "") != (m.PasswordFile == "") {
			d.Errorf(n, path+".passwordFile", "a username needs a passwordFile, and a passwordFile a username")
		}
		if m.Username != "" && m.TLS == NoTLS {
			d.Errorf(n, path+".tls", "must not be none with a username: the password would be sent in the clear")
		}
		*to = m
	}
}

const maxMailboxes = 50

// parseMailbox parses an address such as "Prober <prober@example.org>", and returns its normal form.
func parseMailbox(text string) (string, error) {
	address, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(address.Address, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("%.80q is not a mail address such as ops@example.org", text)
	}
	return address.String(), nil
}

func parseSmarthost(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || number == 0 || number > math.MaxUint16 {
		return "", fmt.Errorf("%.80q must be host:port of a mail server, such as mail.example.org:587", text)
	}
	return text, nil
}
