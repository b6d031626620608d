package format_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// target returns a target that has been in state for 4 minutes.
func target(name, state string) format.Probe {
	return format.Probe{
		Namespace: "targets", Pod: name, Container: "target", Kind: "readiness", Handler: "http", Target: "GET https://shop.example/" + name, Status: format.Failing, State: state,
		Since: noon.Add(-4 * time.Minute), DurationSeconds: 240, Reason: "http_status", Text: "HTTP probe failed with statuscode: 503",
		Explain: "prober explain -n targets " + name + "/target readiness", Pause: "prober pause -n targets " + name + "/target readiness --for 1h",
	}
}

// message returns a message about probes, with its title.
func message(probes ...format.Probe) *format.Message {
	m := &format.Message{Version: format.Version, Receiver: "ops", ID: "prober-0123456789", Status: format.Resolved, Host: "db1", Time: noon, Group: map[string]string{"namespace": "shop"}}
	for i := range probes {
		m.Add(&probes[i])
	}
	m.SetTitle()
	return m
}

// with returns p with a change.
func with(p format.Probe, change func(*format.Probe)) format.Probe {
	change(&p)
	return p
}

func TestTitles(t *testing.T) {
	well := with(target("shop-checkout", "failure"), func(p *format.Probe) { p.Status, p.Ended = format.Resolved, noon })
	pod := with(target("web", "failure"), func(p *format.Probe) {
		p.Namespace, p.Container, p.Kind = "prod", "app", "liveness"
		p.Target, p.Reason, p.Text = "GET http://10.0.0.7:80/", "connect_refused", `Get "http://10.0.0.7:80/": dial tcp 10.0.0.7:80: connect: connection refused`
	})
	silent := with(target("job", "unknown"), func(p *format.Probe) {
		p.Container, p.Handler, p.Target, p.Reason, p.Text, p.DurationSeconds = "push", "push", "", "", "", 7500
	})
	for want, m := range map[string]*format.Message{
		"shop-checkout is down: 503 from GET https://shop.example/shop-checkout for 4 min":       message(target("shop-checkout", "failure")),
		"shop-checkout warns: 503 from GET https://shop.example/shop-checkout for 4 min":         message(target("shop-checkout", "warning")),
		"shop-checkout is up again after 4 min: 503 from GET https://shop.example/shop-checkout": message(well),
		"prod/web/app liveness fails: connection refused (GET http://10.0.0.7:80/) for 4 min":    message(pod),
		"job is unknown for 2 h 5 min": message(silent),
		"2 of shop fail: a, b":         message(target("a", "failure"), target("b", "failure")),
		"a is down: 503 from GET https://shop.example/a for 4 min; 1 is unknown; 1 warns; 1 is well again": message(target("a", "failure"), silent, target("c", "warning"), well),
		"4 of shop fail: a, b, c; 1 is well again":                                                         message(target("a", "failure"), target("b", "failure"), target("b", "failure"), target("c", "failure"), well),
		"4 of shop fail: a, b, c and 1 more":                                                               message(target("a", "failure"), target("b", "failure"), target("c", "failure"), target("d", "failure")),
		"2 of shop are removed: a, b":                                                                      message(with(target("a", "failure"), gone), with(target("b", "failure"), gone)),
		"db is down: " + strings.Repeat("x", 99) + "… (GET https://shop.example/" + strings.Repeat("y", 59-25) + ") for 4 min": message(with(target("db", "failure"), func(p *format.Probe) {
			p.Text, p.Target = strings.Repeat("x", 300), "GET https://shop.example/"+strings.Repeat("y", 59-25)
		})),
	} {
		if m.Title != want {
			t.Errorf("got  %s\nwant %s", m.Title, want)
		}
	}
	m := message(target("a", "failure"))
	m.Repeated = true
	if m.SetTitle(); !strings.HasPrefix(m.Title, "a is still down: ") {
		t.Error(m.Title)
	}
	m = message(target("a", "failure"), target("b", "failure"))
	m.Repeated, m.Group = true, nil
	if m.SetTitle(); m.Title != "2 probes still fail: a, b" {
		t.Error(m.Title)
	}
}

func gone(p *format.Probe) { p.Status = format.Removed }

const secret = "s3cr3t/T0ken"

// encode returns the request for m, in a format.
func encode(t testing.TB, f config.WebhookFormat, m *format.Message) *format.Request {
	t.Helper()
	at, err := url.Parse("https://h.example/base/topic?q=1")
	if err != nil {
		t.Fatal(err)
	}
	r, err := format.Encode(&format.Input{
		Message: m, URL: at, Secret: secret, Repeat: time.Minute,
		Spec: &config.Webhook{Format: f, ChatID: "-100123", Room: "!a/b:h.example", ContentType: "application/json"}, Template: `{"text": {{json .Title}}}`,
	})
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	return r
}

func TestRequests(t *testing.T) {
	open, ended := message(target("a", "failure")), message(with(target("a", "failure"), func(p *format.Probe) { p.Status, p.Ended = format.Resolved, noon }))
	for f, want := range map[config.WebhookFormat][2]string{
		config.AlertmanagerFormat: {"POST https://h.example/base/topic/api/v2/alerts?q=1", ""},
		config.DiscordFormat:      {"POST https://h.example/base/topic?q=1", ""},
		config.GotifyFormat:       {"POST https://h.example/base/topic/message?q=1", ""},
		config.MatrixFormat:       {"PUT https://h.example/base/topic/_matrix/client/v3/rooms/%21a%2Fb:h.example/send/m.room.message/prober-", ""},
		config.NtfyFormat:         {"POST https://h.example/base?q=1", ""},
		config.OpsgenieFormat:     {"POST https://h.example/base/topic/v2/alerts?q=1", "POST https://h.example/base/topic/v2/alerts/prober-0123456789/close?identifierType=alias&q=1"},
		config.TelegramFormat:     {"POST https://h.example/base/topic/bots3cr3t%2FT0ken/sendMessage?q=1", ""},
	} {
		for i, m := range []*format.Message{open, ended} {
			r := encode(t, f, m)
			if got := r.Method + " " + r.URL.String(); !strings.HasPrefix(got, want[i]) {
				t.Errorf("%s: %s, want %s", f, got, want[i])
			}
		}
	}
}

// A message that is sent again after a lost answer has the same transaction. Another one has another.
func TestMatrixTransactions(t *testing.T) {
	later := func(m *format.Message) *format.Message {
		c := *m
		c.Time = m.Time.Add(time.Hour)
		return &c
	}
	open := message(target("a", "failure"))
	repeated := message(target("a", "failure"))
	repeated.Repeated = true
	again := message(with(target("a", "failure"), func(p *format.Probe) { p.Since = p.Since.Add(time.Minute) }))
	cause := message(with(target("a", "failure"), func(p *format.Probe) { p.Text = "HTTP probe failed with statuscode: 502" }))
	id := func(m *format.Message) string { return encode(t, config.MatrixFormat, m).URL.Path }
	if id(open) != id(later(open)) {
		t.Error("a retry has another transaction")
	}
	ids := []string{id(open), id(repeated), id(later(repeated)), id(again), id(cause)}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 5 {
		t.Errorf("%d different transactions of 5", n)
	}
}

// An alert lasts for four repeat intervals. The alert of a former state ends, and so do all at the end.
func TestAlertmanagerTimes(t *testing.T) {
	ended := with(target("a", "failure"), func(p *format.Probe) { p.Status, p.Ended = format.Resolved, noon.Add(-time.Minute) })
	first := with(target("a", "failure"), func(p *format.Probe) { p.New = true })
	repeated := message(target("a", "warning"))
	repeated.Repeated = true
	for name, c := range map[string]struct {
		m    *format.Message
		want string
	}{
		"new":      {message(first), "ProberProbeFailing 4m0s"},
		"changed":  {message(target("a", "warning")), "ProberProbeFailing 0s, ProberProbeUnknown 0s, ProberProbeWarning 4m0s"},
		"repeated": {repeated, "ProberProbeWarning 4m0s"},
		"ended":    {message(ended), "ProberProbeFailing -1m0s, ProberProbeUnknown -1m0s, ProberProbeWarning -1m0s"},
	} {
		var alerts []struct {
			Labels           map[string]string
			StartsAt, EndsAt time.Time
		}
		if err := json.Unmarshal(encode(t, config.AlertmanagerFormat, c.m).Body, &alerts); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range alerts {
			got = append(got, a.Labels["alertname"]+" "+a.EndsAt.Sub(noon).String())
			if !a.StartsAt.Equal(noon.Add(-4 * time.Minute)) {
				t.Errorf("%s starts at %s", name, a.StartsAt)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", name, text, c.want)
		}
	}
}

// Every format has every fact: the name, the target, the cause, the time, and the commands.
func TestAllFormatsHaveTheFacts(t *testing.T) {
	riga := time.FixedZone("EET", 2*60*60)
	p := with(target("checkout", "failure"), func(p *format.Probe) {
		p.Since, p.URL = p.Since.In(riga), "https://p.example/#/probe/x"
		p.Labels = map[string]string{"team": "payments", "runbook": "https://wiki.example/checkout", "app.kubernetes.io/name": "shop", "alertname": "x"}
	})
	for f := range config.WebhookFormats() {
		if f == config.TemplateFormat {
			continue
		}
		body := string(encode(t, f, message(p)).Body)
		for _, fact := range []string{"checkout is down", "GET https://shop.example/checkout", "503", "13:56:00", p.Explain, p.Pause, p.URL, "payments", "https://wiki.example/checkout"} {
			if !strings.Contains(body, fact) {
				t.Errorf("%s lacks %q: %s", f, fact, body)
			}
		}
	}
	data, err := format.Mail(message(p), &config.MailReceiver{From: "a@example.org", To: []string{"b@example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	texts := mailTexts(t, data)
	if link := `<a href="https://wiki.example/checkout">`; !strings.Contains(texts[1], link) {
		t.Errorf("the mail lacks %s: %s", link, texts[1])
	}
	for _, text := range texts {
		for _, fact := range []string{"checkout is down", "GET https://shop.example/checkout", "503", "13:56:00 EET", p.Explain, p.Pause, p.URL, "payments", "https://wiki.example/checkout", "🔴"} {
			if !strings.Contains(text, fact) {
				t.Errorf("the mail lacks %q: %s", fact, text)
			}
		}
	}
}

// An alert has the labels of its target, with valid names. None of them replaces a label of the probe.
func TestAlertmanagerLabels(t *testing.T) {
	p := with(target("a", "failure"), func(p *format.Probe) {
		p.New, p.Labels = true, map[string]string{"team": "payments", "app.kubernetes.io/name": "shop", "9": "x", "alertname": "x", "pod": "x", "ü": "x"}
	})
	var alerts []struct{ Labels map[string]string }
	if err := json.Unmarshal(encode(t, config.AlertmanagerFormat, message(p)).Body, &alerts); err != nil || len(alerts) != 1 {
		t.Fatalf("%v: %+v", err, alerts)
	}
	want := map[string]string{
		"alertname": "ProberProbeFailing", "severity": "warning", "namespace": "targets", "pod": "a", "container": "target", "kind": "readiness", "handler": "http",
		"instance": "db1", "team": "payments", "app_kubernetes_io_name": "shop", "_9": "x", "_": "x",
	}
	if !maps.Equal(alerts[0].Labels, want) {
		t.Errorf("got  %v\nwant %v", alerts[0].Labels, want)
	}
}

// mailTexts returns the alternatives of a mail.
func mailTexts(t testing.TB, data []byte) (texts []string) {
	t.Helper()
	m, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := parts.NextPart()
		if err == io.EOF {
			return texts
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
}

// bodyLimits has the limits of bodies in bytes, of the services or ours below them.
var bodyLimits = map[config.WebhookFormat]int{
	config.AlertmanagerFormat: 8 << 20, config.DiscordFormat: 6000, config.GotifyFormat: 32 << 10, config.JSONFormat: 256 << 10, config.MatrixFormat: 64 << 10,
	config.NtfyFormat: 4096, config.OpsgenieFormat: 24 << 10, config.PagerDutyFormat: 512 << 10, config.SlackFormat: 100 << 10, config.TeamsFormat: 28 << 10,
	config.TelegramFormat: 8 << 10, config.TemplateFormat: 256 << 10,
}

// FuzzFormats encodes hostile texts in every format.
func FuzzFormats(f *testing.F) {
	for _, text := range []string{
		"", "</code><script>x</script>", "`_*[x](http://evil.example)", "\x1b[31m\x00\u202e\xff", "&amp;&#60;", "\"\\{{.Title}}${x}", strings.Repeat("<\U0001f4a9&`\"", 3000),
		"--\r\nContent-Type: text/html\r\n\r\n<b>", "]]>", "<!channel>", "\ufffe\uffff", "@everyone <@1>", strings.Repeat("\u0301", 50),
	} {
		f.Add(text, text, byte(1))
		f.Add(text, "x", byte(120))
	}
	f.Fuzz(func(t *testing.T, text, name string, n byte) {
		var probes []format.Probe
		for i := range n {
			p := with(target(format.Clean(name, format.MaxName)+fmt.Sprint(i), []string{"failure", "warning", "unknown"}[i%3]), func(p *format.Probe) {
				p.Text, p.Target, p.Reason = format.Clean(text, format.MaxText), format.Clean(name+text, format.MaxText), format.Clean(name, format.MaxName)
				p.URL = "https://p.example/#/probe/" + url.QueryEscape(p.Pod)
			})
			probes = append(probes, p)
		}
		m := message(probes...)
		for f := range config.WebhookFormats() {
			checkBody(t, f, encode(t, f, m).Body)
		}
		data, err := format.Mail(m, &config.MailReceiver{From: "a@example.org", To: []string{"b@example.org"}})
		if err != nil || len(data) > 300<<10 {
			t.Fatalf("mail: %d bytes, %v", len(data), err)
		}
		texts := mailTexts(t, data)
		if len(texts) != 2 {
			t.Fatalf("%d parts", len(texts))
		}
		checkHTML(t, strings.TrimPrefix(texts[1], "<!DOCTYPE html>"))
	})
}

// checkBody checks that a body is within its limit, is JSON, and has no dangerous characters and no secret.
func checkBody(t *testing.T, f config.WebhookFormat, body []byte) {
	if len(body) > bodyLimits[f] {
		t.Errorf("%s: %d bytes", f, len(body))
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		t.Fatalf("%s: %v: %s", f, err, body)
	}
	var walk func(name string, v any)
	walk = func(name string, v any) {
		switch v := v.(type) {
		case string:
			if !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Cf, r) }) {
				t.Errorf("%s: %s has dangerous characters: %q", f, name, v)
			}
			if strings.Contains(v, secret) && name != "routing_key" {
				t.Errorf("%s: %s has the secret", f, name)
			}
			if name == "formatted_body" || f == config.TelegramFormat && name == "text" {
				checkHTML(t, v)
			}
		case []any:
			for _, x := range v {
				walk(name, x)
			}
		case map[string]any:
			for k, x := range v {
				walk(k, x)
			}
		}
	}
	walk("", value)
}

// checkHTML checks that text has only elements that formats make, and only links to the page.
func checkHTML(t *testing.T, text string) {
	d := xml.NewDecoder(strings.NewReader("<root>" + strings.ReplaceAll(text, "<br>", "<br/>") + "</root>"))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains([]string{"root", "html", "body", "h2", "div", "p", "br", "b", "strong", "font", "code", "a"}, e.Name.Local) {
			t.Errorf("element %s in %s", e.Name.Local, text)
		}
		for _, a := range e.Attr {
			if a.Name.Local == "href" && !strings.HasPrefix(a.Value, "https://p.example/#/probe/") {
				t.Errorf("link to %s", a.Value)
			}
		}
	}
}

// A target that writes an encoded word does not change the subject that a mail program shows.
func TestSubjectHasNoEncodedWordOfTarget(t *testing.T) {
	for _, text := range []string{"220 =?utf-8?B?4oCuZ25w?=", "=?=?utf-8?Q?=E2=80=AE?=", "é =?utf-8?B?4oCuZ25w?="} {
		m := message(with(target("a", "failure"), func(p *format.Probe) { p.Text = text }))
		raw, err := format.Mail(m, &config.MailReceiver{From: "p@h.example", To: []string{"o@h.example"}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := mail.ReadMessage(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
		if err != nil || strings.ContainsRune(subject, '\u202e') || !strings.Contains(subject, "= ?utf-8?") {
			t.Errorf("%q: subject %q, %v", text, subject, err)
		}
	}
}
