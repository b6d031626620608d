package notify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
)

// hostileTexts has texts that a malicious target may send.
var hostileTexts = map[string]string{
	"ANSI":            "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\alink\x1b]8;;\a \x1b]0;title\x1b\\ \u009b2J \x1bPdcs\x1b\\ end",
	"control":         "a\x00b\x07c\bd\x7fe\u0085f",
	"lines":           "one\r\ntwo\nthree\u2028four\u2029five\vsix",
	"directions":      "\u202egnp.exe\u202c \u2066x\u2069 \u200fy \u061cz",
	"invisible":       "a\u200bb\u2060c\ufeffd\u00ade\U000e0041f",
	"marks":           "z" + strings.Repeat("\u0301", 200),
	"not UTF-8":       "a\xff\xfe\xc3(b\xed\xa0\x80c",
	"Slack":           "<!channel> <@U123> <http://evil.example|bank> <!subteam^S1> &lt;!here&gt; `code` *bold* ```block",
	"Markdown":        "[click](http://evil.example) **bold** # head\n- item <at>everyone</at> ![x](http://evil.example/i.png)",
	"HTML":            `<script>alert(1)</script><img src=x onerror=alert(1)>"><a href="javascript:x">&amp;`,
	"JSON":            `","text":"injected","x":"\u0022 \ }]}`,
	"mail":            "x\r\nBcc: all@example.org\r\n\r\n.\r\nMAIL FROM:<x@y.z>",
	"Go template":     `{{.Receiver}} {{printf "%s" .}} {{template "x"}}`,
	"card template":   "{{DATE(2017-02-14T06:08:39Z, SHORT)}} ${secret} $root @{body('x')}",
	"shell":           "$(reboot) `reboot` ; rm -rf / # ' \" \\",
	"format":          "%s%n%d %!x(MISSING)",
	"long":            strings.Repeat("long ", 10000),
	"long and wide":   strings.Repeat("\U0001f4a9", 5000),
	"a cut escape":    strings.Repeat("x", 299) + `\" "`,
	"only characters": "\u202e\x1b[31m\u200b",
}

// formats returns the configuration of a receiver for each format.
func formats(t *testing.T) map[string]string {
	return map[string]string{
		"json": "{format: json}", "slack": "{format: slack}", "teams": "{format: teams}", "pagerduty": "{format: pagerduty, routingKeyFile: " + secretFile(t, "key") + "}",
		"template": `{format: template, template: '{"t": "{{.Title}}", "p": [{{range $i, $p := .Probes}}{{if $i}}, {{end}}"{{.Text}}", {{json .Text}}, "{{printf "%.30s" .Text}}", "{{slice .Text 0 0}}{{html .Text}}"{{end}}]}'}`,
		"plain":    `{format: template, contentType: text/plain, template: '{{range .Probes}}{{.Text}}{{end}}'}`,
	}
}

// jsonStrings returns all strings in a JSON value, keyed by path.
func jsonStrings(t *testing.T, body string) map[string]string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	all := make(map[string]string)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case string:
			all[path] = v
		case []any:
			for i := range v {
				walk(fmt.Sprint(path, "/", i), v[i])
			}
		case map[string]any:
			for k := range v {
				walk(path+"/"+k, v[k])
			}
		}
	}
	walk("", value)
	return all
}

// checkHarmless checks that a text has no dangerous characters. lines allows line breaks.
func checkHarmless(t *testing.T, where, text string, lines bool) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", where, text)
	}
	for _, r := range text {
		if unicode.IsControl(r) && !(lines && r == '\n') || unicode.Is(unicode.Cf, r) || unicode.In(r, unicode.Zl, unicode.Zp) {
			t.Errorf("%s has %U: %.200q", where, r, text)
			return
		}
	}
	if strings.Count(text, "\u0301") > 20 {
		t.Errorf("%s has a pile of marks", where)
	}
}

func TestHostileTextsAreHarmless(t *testing.T) {
	for format, hook := range formats(t) {
		for name, text := range hostileTexts {
			t.Run(format+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body, header := sentBody(t, hook, text)
					if len(body) > 28<<10 {
						t.Errorf("%d bytes", len(body))
					}
					if format == "plain" {
						checkHarmless(t, "body", body, false)
						return
					}
					if ct := header.Get("Content-Type"); ct != "application/json" {
						t.Errorf("Content-Type %s", ct)
					}
					checkShown(t, format, jsonStrings(t, body))
				})
			})
		}
	}
}

// sentBody returns the body and headers of the request about a probe whose target sent text.
func sentBody(t *testing.T, hook, text string) (string, http.Header) {
	w := newWorld(t, "")
	got := make(chan *http.Request, 1)
	var body string
	w.answerWith(func(_ http.ResponseWriter, r *http.Request) { got <- r })
	w.raw = func(b string) { body = b }
	w.Set("prober.yaml", parse(t, "notify: {externalURL: 'https://p.example', receivers: [{name: ops, webhook: "+strings.Replace(hook, "{", "{url: 'http://h', ", 1)+"}]}"))
	w.setStateOf("web", "uid", failure, text)
	select {
	case r := <-got:
		synctest.Wait()
		return body, r.Header
	case <-time.After(time.Minute):
		t.Fatalf("nothing was sent: %s", w.log)
		return "", nil
	}
}

func checkShown(t *testing.T, format string, all map[string]string) {
	for path, text := range all {
		lines := format == "slack" && strings.HasSuffix(path, "/text")
		checkHarmless(t, path, text, lines)
		switch format {
		case "slack":
			isLink := strings.HasPrefix(text, "<https://p.example/#/probe/") && strings.HasSuffix(text, "|show the probe>")
			if !isLink && strings.ContainsAny(text, "<>") {
				t.Errorf("%s has markup: %s", path, text)
			}
			if all[strings.TrimSuffix(path, "/text")+"/type"] == "mrkdwn" && !isLink {
				t.Errorf("%s is mrkdwn: %s", path, text)
			}
		case "teams":
			if kind := all[strings.TrimSuffix(path, "/text")+"/type"]; strings.HasSuffix(path, "/text") && kind != "TextRun" || strings.Contains(text, "{{") || strings.Contains(text, "${") {
				t.Errorf("%s may be markup, %s: %s", path, kind, text)
			}
		case "template":
			if !strings.HasPrefix(path, "/p/") && path != "/t" {
				t.Errorf("a text has made the field %s", path)
			}
		}
	}
}

// All formats show a harmless text.
func TestPlainTextIsShown(t *testing.T) {
	for format, hook := range formats(t) {
		synctest.Test(t, func(t *testing.T) {
			const text = `größer als 5 % "und" so: 日本 ✓`
			body, _ := sentBody(t, hook, text)
			found := strings.Contains(body, text)
			if format != "plain" {
				for _, s := range jsonStrings(t, body) {
					found = found || strings.Contains(s, text)
				}
			}
			if !found {
				t.Errorf("%s: %s", format, body)
			}
		})
	}
}

// Messages about hundreds of probes with long texts stay within the limits of the services.
func TestSizeOfMessages(t *testing.T) {
	for format, most := range map[string]int{"slack": 100 << 10, "teams": 28 << 10, "pagerduty": 512 << 10, "json": 256 << 10} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "")
			var body string
			w.answerWith(func(http.ResponseWriter, *http.Request) {})
			w.raw = func(b string) { body = b }
			w.Set("prober.yaml", parse(t, "notify: {externalURL: 'https://p.example', receivers: [{name: ops, webhook: "+strings.Replace(formats(t)[format], "{", "{url: 'http://h', ", 1)+"}]}"))
			for i := range 300 {
				w.setStateOf(fmt.Sprintf("web-%d-%s", i, strings.Repeat("x", 240)), "uid", failure, strings.Repeat("<\U0001f4a9&", 500))
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(body) == 0 || len(body) > most {
				t.Errorf("%s: %d bytes", format, len(body))
			}
			for path, text := range jsonStrings(t, body) {
				if n := utf8.RuneCountInString(text); format == "slack" && (n > 3000 || strings.HasPrefix(path, "/blocks/0/") && n > 150) || n > 4000 {
					t.Errorf("%s: %s has %d characters", format, path, n)
				}
			}
			if more := "more: prober get probes"; (format == "slack" || format == "teams") && !strings.Contains(body, more) {
				t.Errorf("%s does not say that there are more", format)
			}
		})
	}
}

func TestHostileTextsInMail(t *testing.T) {
	for name, text := range hostileTexts {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				data := sentMail(t, text)
				m, err := mail.ReadMessage(strings.NewReader(data))
				if err != nil {
					t.Fatal(err)
				}
				for field := range m.Header {
					if !slices.Contains([]string{"From", "To", "Subject", "Date", "Message-Id", "References", "Auto-Submitted", "Mime-Version", "Content-Type", "Content-Transfer-Encoding"}, field) {
						t.Errorf("field %s", field)
					}
				}
				subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
				if err != nil || subject != "[prober] failure: default/web app readiness" {
					t.Errorf("subject %q, %v", subject, err)
				}
				if kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type")); err != nil || kind != "text/plain" || params["charset"] != "utf-8" {
					t.Errorf("%s %v %v", kind, params, err)
				}
				body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
				if err != nil {
					t.Error(err)
				}
				checkHarmless(t, "body", strings.ReplaceAll(string(body), "\r\n", "\n"), true)
				for line := range strings.SplitSeq(data, "\r\n") {
					if len(line) > 998 || strings.ContainsAny(line, "\r\n") {
						t.Errorf("a line of %d bytes", len(line))
					}
				}
			})
		})
	}
}

func TestHostileTextsInCommands(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	script := filepath.Join(dir, "hook")
	put(t, script, "#!/bin/sh\nenv > "+out+".env\ncat > "+out+"\n", 0o755)
	for name, text := range hostileTexts {
		t.Run(name, func(t *testing.T) {
			n, done := newRealNotifier(t, "{name: local, exec: {command: ["+script+"]}, groupWait: 0s}")
			n.Changed(changeOf("web", failure, text))
			await(t, done, n, func() bool { return n.Status().Items[0].Delivered == 1 })
			body, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			var m format.Message
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(&m); err != nil || len(m.Probes) != 1 {
				t.Fatalf("%v: %s", err, body)
			}
			checkHarmless(t, "text", m.Probes[0].Text, false)
			if n := utf8.RuneCountInString(m.Probes[0].Text); n > 300 {
				t.Errorf("%d characters", n)
			}
			env, err := os.ReadFile(out + ".env")
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(env)) {
				name, _, _ := strings.Cut(line, "=")
				if !slices.Contains([]string{"PATH", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "PROBER_RECEIVER", "PROBER_STATUS", "PROBER_SEVERITY", "PROBER_TITLE", "PROBER_ID"}, name) {
					t.Errorf("variable %s", line)
				}
			}
		})
	}
}

func TestTemplateErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{{.Nothing}}`:                        "can't evaluate field Nothing",
		`{{`:                                  "unclosed action",
		`{"a": {{.Title}}}`:                   "the result is not valid JSON",
		`{{range 99999999}}xxxxxxxxxx{{end}}`: "the result is too long",
		`{{template "self"}}`:                 `template "self" not defined`,
		`{{define "self"}}{{template "self"}}{{end}}{{template "self"}}`: "exceeded maximum template depth",
	} {
		quoted, _ := json.Marshal(text)
		c := parse(t, "notify: {receivers: [{name: a, webhook: {url: 'http://h', format: template, template: "+string(quoted)+"}}]}")
		errs := notify.Check("dir/prober.yaml", c)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) || !strings.HasPrefix(errs[0].Error(), "dir/prober.yaml:3: notify.receivers[0].webhook.template: ") {
			t.Errorf("%s: %v, want %s", text, errs, want)
		}
	}
	c := &config.Notify{Receivers: []config.Receiver{{Name: "a", Path: "notify.receivers[0]", Webhook: &config.Webhook{Format: config.TemplateFormat, TemplateFile: "missing", TemplateLine: 7}}}}
	if errs := notify.Check("prober.yaml", c); len(errs) != 1 || errs[0].Error() != "prober.yaml:7: notify.receivers[0].webhook.templateFile: open missing: no such file or directory" {
		t.Error(errs)
	}
}
