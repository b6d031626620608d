package notify_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"
	"unicode/utf16"
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
	"card template":   "{{{DATE(2017-02-14T06:08:39Z, SHORT)}} ${secret} $root @{body('x')}",
	"shell":           "$(reboot) `reboot` ; rm -rf / # ' \" \\",
	"format":          "%s%n%d %!x(MISSING)",
	"long":            strings.Repeat("long ", 10000),
	"long and wide":   strings.Repeat("\U0001f4a9", 5000),
	"a cut escape":    strings.Repeat("x", 299) + `\" "`,
	"only characters": "\u202e\x1b[31m\u200b",
}

// formats returns the configuration of a receiver for each format.
func formats(t *testing.T) map[string]string {
	all := map[string]string{
		"template": `{format: template, template: '{"t": "{{.Title}}", "p": [{{range $i, $p := .Probes}}{{if $i}}, {{end}}"{{.Text}}", {{json .Text}}, "{{printf "%.30s" .Text}}", "{{slice .Text 0 0}}{{html .Text}}"{{end}}]}'}`,
		"plain":    `{format: template, contentType: text/plain, template: '{{range .Probes}}{{.Text}}{{end}}'}`,
	}
	values := map[string]string{"chatID": "-100123", "room": "'!abc:h.example'"}
	for f := range config.WebhookFormats() {
		if f == config.TemplateFormat {
			continue
		}
		var hook strings.Builder
		hook.WriteString("{format: " + string(f))
		for _, field := range f.Rules().Required {
			value := values[field]
			if value == "" {
				value = secretFile(t, tokenSecret)
			}
			hook.WriteString(", " + field + ": " + value)
		}
		all[string(f)] = hook.String() + "}"
	}
	return all
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

// linesIn has the fields with several lines, by format.
var linesIn = map[string]string{
	"slack": "/text", "ntfy": "/message", "gotify": "/message", "telegram": "/text", "discord": "/value", "opsgenie": "/description", "matrix": "/body",
}

func checkShown(t *testing.T, format string, all map[string]string) {
	for path, text := range all {
		checkHarmless(t, path, text, linesIn[format] != "" && strings.HasSuffix(path, linesIn[format]))
		if strings.Contains(text, tokenSecret) != (path == "/routing_key") {
			t.Errorf("%s has or lacks the secret: %s", path, text)
		}
		if check := shownBy[format]; check != nil {
			check(t, path, text, all)
		}
	}
}

// shownBy checks a text of a message by the markup of its service.
var shownBy = map[string]func(t *testing.T, path, text string, all map[string]string){
	"slack": func(t *testing.T, path, text string, all map[string]string) {
		isLink := strings.HasPrefix(text, "<https://p.example/#/probe/") && strings.HasSuffix(text, "|show the probe>")
		if !isLink && strings.ContainsAny(text, "<>") {
			t.Errorf("%s has markup: %s", path, text)
		}
		if all[strings.TrimSuffix(path, "/text")+"/type"] == "mrkdwn" && !isLink {
			t.Errorf("%s is mrkdwn: %s", path, text)
		}
	},
	"teams": func(t *testing.T, path, text string, all map[string]string) {
		if kind := all[strings.TrimSuffix(path, "/text")+"/type"]; strings.HasSuffix(path, "/text") && kind != "TextRun" || strings.Contains(text, "{{") || strings.Contains(text, "${") {
			t.Errorf("%s may be markup, %s: %s", path, kind, text)
		}
	},
	"template": func(t *testing.T, path, _ string, _ map[string]string) {
		if !strings.HasPrefix(path, "/p/") && path != "/t" {
			t.Errorf("a text has made the field %s", path)
		}
	},
	"telegram": func(t *testing.T, path, text string, _ map[string]string) {
		if path == "/text" {
			checkHTML(t, text, "b", "code", "a")
		}
	},
	"matrix": func(t *testing.T, path, text string, _ map[string]string) {
		if path == "/formatted_body" {
			checkHTML(t, text, "p", "br", "strong", "font", "code", "a")
		}
	},
	"gotify": func(t *testing.T, path, text string, _ map[string]string) {
		if strings.HasSuffix(path, "/contentType") && text != "text/plain" {
			t.Errorf("%s is %s", path, text)
		}
	},
	"discord": func(t *testing.T, path, text string, _ map[string]string) {
		rest := regexp.MustCompile("\\\\.|`[^`\n]*`|\\[show the probe\\]\\(https://p\\.example/#/probe/[!-'*-~]*\\)").ReplaceAllString(text, "")
		if (strings.HasSuffix(path, "/title") || strings.HasSuffix(path, "/name") || strings.HasSuffix(path, "/value")) && strings.ContainsAny(rest, "*_~`|<>[]\\") {
			t.Errorf("%s has markup: %s", path, rest)
		}
	},
}

// checkHTML checks that text has only the given elements, without attributes of others.
func checkHTML(t *testing.T, text string, elements ...string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader("<root>" + strings.ReplaceAll(text, "<br>", "<br/>") + "</root>"))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Errorf("%v: %s", err, text)
			return
		}
		e, ok := token.(xml.StartElement)
		if !ok || e.Name.Local == "root" {
			continue
		}
		if !slices.Contains(elements, e.Name.Local) {
			t.Errorf("element %s in %s", e.Name.Local, text)
		}
		for _, a := range e.Attr {
			color := e.Name.Local == "font" && regexp.MustCompile("^#[0-9a-f]{6}$").MatchString(a.Value)
			style := a.Name.Local == "style" && !strings.ContainsAny(a.Value, "()<>")
			if link := a.Name.Local == "href" && strings.HasPrefix(a.Value, "https://p.example/#/probe/"); !link && !color && !style {
				t.Errorf("attribute %s=%s of %s", a.Name.Local, a.Value, e.Name.Local)
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

// longest has documented limits of texts, in characters, by format or field.
var longest = map[string]int{
	"slack": 3000, "telegram text": 4096, "discord title": 256, "discord name": 256, "discord value": 1024, "discord text": 2048, "ntfy message": 4096,
	"opsgenie message": 130, "opsgenie description": 15000, "opsgenie alias": 512, "opsgenie entity": 512, "opsgenie source": 100, "opsgenie": 1000,
	"gotify message": 32 << 10, "matrix": 64 << 10,
}

// Messages about hundreds of probes with long texts stay within the limits of the services.
func TestSizeOfMessages(t *testing.T) {
	for format, most := range map[string]int{
		"slack": 100 << 10, "teams": 28 << 10, "pagerduty": 512 << 10, "json": 256 << 10, "ntfy": 4096, "gotify": 32 << 10, "telegram": 5 << 10, "discord": 6000,
		"opsgenie": 20 << 10, "matrix": 64 << 10, "alertmanager": 8 << 20,
	} {
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
				limit := cmp.Or(longest[format+" "+path[strings.LastIndex(path, "/")+1:]], longest[format], 4000)
				if n := len(utf16.Encode([]rune(text))); n > limit || strings.HasPrefix(path, "/blocks/0/") && n > 150 {
					t.Errorf("%s: %s has %d characters", format, path, n)
				}
			}
			if more := "more: prober get probes"; !strings.Contains(body, more) && format != "json" && format != "pagerduty" && format != "alertmanager" {
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
					if !slices.Contains([]string{"From", "To", "Subject", "Date", "Message-Id", "References", "Auto-Submitted", "Mime-Version", "Content-Type"}, field) {
						t.Errorf("field %s", field)
					}
				}
				subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
				if err != nil || !strings.HasPrefix(subject, "[prober] web/app readiness fails: ") || !strings.HasSuffix(subject, " for 10 s") {
					t.Errorf("subject %q, %v", subject, err)
				}
				checkHarmless(t, "subject", subject, false)
				plain, page := mailParts(t, m)
				checkHarmless(t, "text", plain, true)
				checkHarmless(t, "HTML", page, true)
				checkHTML(t, strings.TrimPrefix(page, "<!DOCTYPE html>"), "html", "body", "h2", "div", "strong", "br", "p", "code")
				for line := range strings.SplitSeq(data, "\r\n") {
					if len(line) > 998 || strings.ContainsAny(line, "\r\n") {
						t.Errorf("a line of %d bytes", len(line))
					}
				}
			})
		})
	}
}

// mailParts returns the alternatives of a mail.
func mailParts(t *testing.T, m *mail.Message) (plain, page string) {
	t.Helper()
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("%s %v %v", kind, params, err)
	}
	parts := multipart.NewReader(m.Body, params["boundary"])
	texts := make([]string, 2)
	for i, want := range []string{"text/plain; charset=utf-8", "text/html; charset=utf-8"} {
		part, err := parts.NextPart() // decodes quoted-printable
		if err != nil || part.Header.Get("Content-Type") != want {
			t.Fatalf("%v, want %s", err, want)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	if _, err := parts.NextPart(); err != io.EOF {
		t.Errorf("a third part: %v", err)
	}
	return texts[0], texts[1]
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
