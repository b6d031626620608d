package config_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/config"
)

func TestNotify(t *testing.T) {
	got, err := config.Parse("f", []byte(head+`notify:
  externalURL: https://prober.example/base/
  receivers:
  - name: ops
    webhook: {format: slack, urlFile: slack-url}
  - name: pager
    webhook: {format: pagerduty, routingKeyFile: key}
    match: [{namespace: prod, kind: readiness, pod: "web-*"}]
    states: [failure]
    for: 2m
    groupBy: [namespace, pod]
    repeatInterval: 0s
  - name: mail
    mail: {to: ["Ops <ops@example.org>"], from: prober@example.org, smarthost: "mail.example.org:587"}
    resolved: false
  - name: local
    exec: {command: [/usr/bin/logger, -t, prober]}
`))
	if err != nil {
		t.Fatal(err)
	}
	base := config.Receiver{
		States: []config.NotifyState{"failure", "unknown"}, GroupBy: []string{"namespace"}, GroupWait: 10 * time.Second, GroupInterval: time.Minute,
		RepeatInterval: 4 * time.Hour, Resolved: true, FlapDetection: true, MaxPerMinute: 20, Retention: 24 * time.Hour,
	}
	ops, pager, mail, local := base, base, base, base
	ops.Name, ops.Line, ops.Path = "ops", 6, "notify.receivers[0]"
	ops.Webhook = &config.Webhook{Format: "slack", URLFile: "slack-url", Headers: map[string]string{}, Timeout: 10 * time.Second}
	pager.Name, pager.Line, pager.Path = "pager", 8, "notify.receivers[1]"
	pager.Webhook = &config.Webhook{Format: "pagerduty", URL: "https://events.pagerduty.com/v2/enqueue", RoutingKeyFile: "key", Headers: map[string]string{}, Timeout: 10 * time.Second}
	pager.Match, pager.States = []config.ProbeMatch{{Namespace: "prod", Pod: "web-*", Kind: "Readiness"}}, []config.NotifyState{"failure"}
	pager.Match[0].Kind = "readiness"
	pager.For, pager.GroupBy, pager.RepeatInterval = new(2*time.Minute), []string{"namespace", "pod"}, 0
	mail.Name, mail.Line, mail.Path, mail.Resolved = "mail", 15, "notify.receivers[2]", false
	mail.Mail = &config.MailReceiver{To: []string{`"Ops" <ops@example.org>`}, From: "<prober@example.org>", Smarthost: "mail.example.org:587", TLS: "starttls", Timeout: 30 * time.Second}
	local.Name, local.Line, local.Path = "local", 18, "notify.receivers[3]"
	local.Exec = &config.ExecReceiver{Command: []string{"/usr/bin/logger", "-t", "prober"}, Timeout: 10 * time.Second}
	want := &config.Notify{ExternalURL: "https://prober.example/base", Receivers: []config.Receiver{ops, pager, mail, local}}
	if diff := gocmp.Diff(want, got.Notify); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestNotifyErrors(t *testing.T) {
	const hook, to = "name: a, webhook: {url: 'http://h'}", "name: a, mail: {to: [a@b.c], from: a@b.c, smarthost: 'h:25'"
	for text, want := range map[string]string{
		"{}":                       "notify.receivers: the field is required",
		"{receivers: [{name: a}]}": "notify.receivers[0]: must have exactly one of exec, mail, webhook",
		"{receivers: [{name: A b, webhook: {url: 'http://h'}}]}":                                                              `notify.receivers[0].name: "A b" is not a name: must be at most 63 lower-case letters, digits and dashes`,
		"{receivers: [{" + hook + ", exec: {command: [/x]}}]}":                                                                "notify.receivers[0]: must have exactly one of exec, mail, webhook",
		"{receivers: [{" + hook + "}, {" + hook + "}]}":                                                                       `notify.receivers[1].name: "a" is set twice, first on line 3`,
		"{receivers: [{name: a, webhook: {}}]}":                                                                               "notify.receivers[0].webhook: must have exactly one of url, urlFile",
		"{receivers: [{name: a, webhook: {url: 'http://secret@h'}}]}":                                                         "notify.receivers[0].webhook.url: must not have a user or a password: use bearerTokenFile",
		"{receivers: [{name: a, webhook: {url: 'http://h/#x'}}]}":                                                             "notify.receivers[0].webhook.url: must not have a fragment",
		"{receivers: [{name: a, webhook: {url: ftp}}]}":                                                                       "notify.receivers[0].webhook.url: must be an http:// or https:// URL",
		"{receivers: [{name: a, webhook: {format: slak, url: 'http://h'}}]}":                                                  `notify.receivers[0].webhook.format: unknown value "slak"; known: alertmanager, discord, gotify, json, matrix, ntfy, opsgenie, pagerduty, slack, teams, telegram, template (did you mean "slack"?)`,
		"{receivers: [{name: a, webhook: {format: pagerduty}}]}":                                                              "notify.receivers[0].webhook.routingKeyFile: the field is required with format: pagerduty",
		"{receivers: [{name: a, webhook: {url: 'http://h', routingKeyFile: k}}]}":                                             "notify.receivers[0].webhook.routingKeyFile: needs format: pagerduty",
		"{receivers: [{name: a, webhook: {url: 'http://h', template: x}}]}":                                                   "notify.receivers[0].webhook.template: needs format: template",
		"{receivers: [{name: a, webhook: {url: 'http://h', format: template}}]}":                                              "notify.receivers[0].webhook: must have exactly one of template, templateFile",
		"{receivers: [{name: a, webhook: {url: 'http://h', format: template, template: x, contentType: \"a\\nb\"}}]}":         "notify.receivers[0].webhook.contentType: must be one line",
		"{receivers: [{name: a, webhook: {url: 'http://h', bearerTokenFile: t, headers: {authorization: x}}}]}":               "notify.receivers[0].webhook.bearerTokenFile: must not be set together with the header Authorization",
		"{receivers: [{name: a, webhook: {format: telegram, botTokenFile: t, chatID: ops}}]}":                                 `notify.receivers[0].webhook.chatID: "ops" is not the ID of a chat, such as -1001234567890 or @channel`,
		"{receivers: [{name: a, webhook: {format: telegram, chatID: -1}}]}":                                                   "notify.receivers[0].webhook.botTokenFile: the field is required with format: telegram",
		"{receivers: [{name: a, webhook: {format: matrix, url: 'http://h', bearerTokenFile: t, room: '#a:b'}}]}":              `notify.receivers[0].webhook.room: "#a:b" is not the ID of a room`,
		"{receivers: [{name: a, webhook: {format: gotify, url: 'http://h'}}]}":                                                "notify.receivers[0].webhook.bearerTokenFile: the field is required with format: gotify",
		"{receivers: [{name: a, webhook: {format: opsgenie, apiKeyFile: k, bearerTokenFile: t}}]}":                            "notify.receivers[0].webhook.bearerTokenFile: must not be set together with apiKeyFile",
		"{receivers: [{name: a, webhook: {format: slack, url: 'http://h', room: '!a'}}]}":                                     "notify.receivers[0].webhook.room: needs format: matrix",
		"{receivers: [{name: a, webhook: {format: alertmanager, url: 'http://h'}, repeatInterval: 0s}]}":                      "notify.receivers[0].repeatInterval: must not be 0 with format: alertmanager, which ends an alert that is not sent again",
		"{receivers: [{" + hook + ", timeZone: Riga}]}":                                                                       `notify.receivers[0].timeZone: "Riga" is not the name of a time zone, such as Europe/Riga`,
		"{receivers: [{" + hook + ", timeZone: Local}]}":                                                                      `notify.receivers[0].timeZone: "Local" is not the name of a time zone, such as Europe/Riga`,
		"{receivers: [{name: a, exec: {command: [logger]}}]}":                                                                 "notify.receivers[0].exec.command: must begin with the absolute path of a program",
		"{receivers: [{name: a, exec: {command: [/x, \"\\0\"]}}]}":                                                            "notify.receivers[0].exec.command[1]: must not contain a NUL character",
		"{receivers: [{name: a, mail: {to: [\"a@b.c\\r\\nBcc: x@y.z\"], from: a@b.c, smarthost: 'h:25'}}]}":                   `notify.receivers[0].mail.to[0]: "a@b.c\r\nBcc: x@y.z" is not a mail address such as ops@example.org`,
		"{receivers: [{name: a, mail: {to: [], from: a@b.c, smarthost: 'h:25'}}]}":                                            "notify.receivers[0].mail.to: must have from 1 to 50 items",
		"{receivers: [{name: a, mail: {to: [a@b.c], from: a@b.c, smarthost: h}}]}":                                            `notify.receivers[0].mail.smarthost: "h" must be host:port of a mail server, such as mail.example.org:587`,
		"{receivers: [{" + to + ", username: u}}]}":                                                                           "notify.receivers[0].mail.passwordFile: a username needs a passwordFile, and a passwordFile a username",
		"{receivers: [{" + to + ", username: u, passwordFile: p, tls: none}}]}":                                               "notify.receivers[0].mail.tls: must not be none with a username: the password would be sent in the clear",
		"{receivers: [{" + hook + ", states: []}]}":                                                                           "notify.receivers[0].states: must not be empty",
		"{receivers: [{" + hook + ", states: [success]}]}":                                                                    `notify.receivers[0].states[0]: unknown value "success"; known: failure, unknown, warning`,
		"{receivers: [{" + hook + ", groupBy: [pod, pod]}]}":                                                                  `notify.receivers[0].groupBy[1]: "pod" is set twice`,
		"{receivers: [{" + hook + ", groupBy: [team]}]}":                                                                      `notify.receivers[0].groupBy[0]: unknown value "team"; known: container, handler, kind, label:team, namespace, pod`,
		"{receivers: [{" + hook + ", groupBy: ['label:']}]}":                                                                  "notify.receivers[0].groupBy[0]: must have a name of at most 317 characters after label:",
		"{receivers: [{" + hook + ", quiet: [{schedule: 0 18 * * *, duration: 14h}, {schedule: 0 8 * * *, duration: 10h}]}]}": "notify.receivers[0].quiet: the quiet hours never end: together they leave no gap",
		"{receivers: [{" + hook + ", match: [{}]}]}":                                                                          "notify.receivers[0].match[0]: must have at least one field; without match all probes are selected",
		"{receivers: [{" + hook + ", match: [{pod: '['}]}]}":                                                                  `notify.receivers[0].match[0].pod: "[": syntax error in pattern`,
		"{receivers: [{" + hook + ", repeatInterval: 1s}]}":                                                                   "notify.receivers[0].repeatInterval: must be 0, which means never, or from 1m to 720h",
		"{receivers: [{" + hook + ", retention: 1s}]}":                                                                        "notify.receivers[0].retention: must be from 1m0s to 720h0m0s",
		"{receivers: [{" + hook + ", maxPerMinute: 0}]}":                                                                      "notify.receivers[0].maxPerMinute: must be at least 1",
		"{externalURL: 'http://h/?a', receivers: []}":                                                                         "notify.externalURL: must not have a query or a fragment: the path of the page is appended",
		"{receivers: [" + strings.Repeat("{"+hook+"},", 51) + "]}":                                                            "notify.receivers: must have at most 50 items",
	} {
		_, err := config.Parse("f", []byte(head+"notify: "+text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "f:3: ") {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v shows a secret", text, err)
		}
	}
}

// The fields of each format are enough, and its default URL and repeat interval are set.
func TestFormatsOfWebhooks(t *testing.T) {
	values := map[string]string{"chatID": "'@ops'", "room": "'!a:h.example'"}
	for f := range config.WebhookFormats() {
		rules, fields := f.Rules(), ""
		if rules.Name != f {
			t.Errorf("%s: %+v", f, rules)
		}
		for _, field := range rules.Required {
			fields += ", " + field + ": " + cmp.Or(values[field], "file")
		}
		if rules.URL == "" {
			fields += ", url: 'http://h'"
		}
		if f == config.TemplateFormat {
			fields += ", template: x"
		}
		got, err := config.Parse("f", []byte(head+"notify: {receivers: [{name: a, webhook: {format: "+string(f)+fields+"}}]}\n"))
		if err != nil {
			t.Errorf("%s: %v", f, err)
			continue
		}
		r := got.Notify.Receivers[0]
		field, path := r.Webhook.SecretFile()
		if r.Webhook.URL != cmp.Or(rules.URL, "http://h") || r.RepeatInterval != cmp.Or(rules.RepeatInterval, 4*time.Hour) || slices.Contains(rules.Required, field) != (path == "file") {
			t.Errorf("%s: %+v, %s %s", f, r, field, path)
		}
	}
}
