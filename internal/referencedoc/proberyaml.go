package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/config"
)

// section is a key of the top level of prober.yaml.
type section struct {
	key, text string
	fields    []field
}

// field is a row of docs/prober-yaml.md.
type field struct {
	path string // such as targets[].http[].url
	text string
	// value is the default, where the parsed file does not have it.
	value string
}

// webhookFormats returns the formats of webhooks.
func webhookFormats() string {
	return listOf(slices.Collect(config.WebhookFormats()))
}

// formatsWithURL returns the formats whose service has one URL.
func formatsWithURL() string {
	return listOf(slices.DeleteFunc(slices.Collect(config.WebhookFormats()), func(f config.WebhookFormat) bool { return f.Rules().URL == "" }))
}

// listOf returns a list such as "`a`, `b` or `c`".
func listOf(formats []config.WebhookFormat) string {
	var text strings.Builder
	for i, f := range formats {
		switch {
		case i > 0 && i == len(formats)-1:
			text.WriteString(" or ")
		case i > 0:
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, "`%s`", f)
	}
	return text.String()
}

// proberYAML describes every field that package config reads.
var proberYAML = []section{
	{"blackbox", "Bounds the scrapes of `/probe`, which `--blackbox-config` turns on.", []field{
		{"blackbox.targets", "networks, addresses and names that a scrape may have as target. A name may begin with `*.`, and is not looked up. Redirects are bounded by the grants of `httpcheck`", "all"},
		{"blackbox.tokenFile", "file with a token of at least 16 characters, mode 0600. Each scrape over TCP needs it: `Authorization: Bearer TOKEN`, or `X-Prober-Token` beside a password. It allows nothing else", ""},
	}},
	{"credentials", "Certificates and keys that plugins use for TLS by name, without reading them.", []field{
		{"credentials[].name", "name by which plugins use it", ""},
		{"credentials[].plugins", "plugins that may use it", ""},
		{"credentials[].ca", "file with the authorities to trust, in PEM", "the system's"},
		{"credentials[].cert", "file with a client certificate, in PEM", ""},
		{"credentials[].key", "file with its key", ""},
		{"credentials[].serverName", "name in the server's certificate", "the host that is dialed"},
		{"credentials[].insecure", "accept any certificate of the server", ""},
	}},
	{"metrics", "Adds to metrics.", []field{
		{"metrics.targetLabels", "names of labels of targets that `prober_target_info` has, at most 20: `shop.example/team` is its label `label_shop_example_team`", "none"},
	}},
	{"endpoints", "Combines several checks into the state of one thing.", []field{
		{"endpoints[].name", "name, at most 40 characters, which is also the name of its pod. Groups of targets, pushes and endpoints have different names", ""},
		{"endpoints[].namespace", "namespace of its pod", ""},
		{"endpoints[].labels", "labels of its pod", ""},
		{"endpoints[].dependsOn", "names of groups, pushes and endpoints. While one of them fails (of a group: all targets), a failure here is an error instead, and nobody is [notified](alert/dependencies.md)", "none"},
		{"endpoints[].all", "checks that must all pass: names of groups of targets, pushes and endpoints, `NAMESPACE/POD`, or `NAMESPACE/POD/CONTAINER/KIND`. Each target of a group is a check", ""},
		{"endpoints[].any", "checks of which one must pass, in place of `all`", ""},
		{"endpoints[].atLeast", "checks of which some must pass, in place of `all`", ""},
		{"endpoints[].atLeast.min", "number of checks that must pass, or the sum of their weights", ""},
		{"endpoints[].atLeast.of[].check", "name of a check, which may also stand alone in the list", ""},
		{"endpoints[].atLeast.of[].weight", "its weight", "`1`"},
	}},
	{"handlers", "Bounds the attempts of a built-in handler. Plugins have `limits.instances`.", []field{
		{"handlers[].name", "`exec`, `grpc`, `http` or `tcp`", ""},
		{"handlers[].maxInFlight", "attempts of all its probes at one time", "any number"},
	}},
	{"kubernetes", "What `prober node` may do. It is read once, at the start.", []field{
		{"kubernetes.apiExec", "run exec probes through the API server where `--cri-socket` is not set. It needs the verb `create` of `pods/exec`", ""},
		{"kubernetes.breaker", "when nothing is restarted or evicted. For `share` and `lag` no condition becomes false either", ""},
		{"kubernetes.breaker.share", "share of the probes of a workload, a namespace or the node: when so many begin to fail within `window`, they are distrusted. If so many liveness and startup probes fail, however long, nothing there is restarted or evicted", ""},
		{"kubernetes.breaker.least", "failures below which `share` does not count. The failures of any one pod, workload or namespace are left out", ""},
		{"kubernetes.breaker.window", "see `share`", ""},
		{"kubernetes.breaker.lag", "delay of ticks above which all probes are distrusted", ""},
		{"kubernetes.breaker.pressure", "limits of the node's pressure stall information, in percent of the last 10 s; `100` is no limit", ""},
		{"kubernetes.breaker.pressure.cpu", "time in which some task waited for a processor. An app that spins causes it itself", ""},
		{"kubernetes.breaker.pressure.memory", "the same for memory", ""},
		{"kubernetes.breaker.pressure.io", "the same for input and output", ""},
		{"kubernetes.budgets", "how many restarts and evictions there may be", ""},
		{"kubernetes.budgets.backoff", "pause before a container's second restart in a row. It doubles up to `5m`", ""},
		{"kubernetes.budgets.node", "budget of the node. Namespaces that wait take turns", ""},
		{"kubernetes.budgets.node.burst", "restarts and evictions at once", ""},
		{"kubernetes.budgets.node.every", "time until one more", ""},
		{"kubernetes.budgets.workload", "budget of one workload, such as a Deployment", ""},
		{"kubernetes.budgets.workload.burst", "restarts and evictions at once", ""},
		{"kubernetes.budgets.workload.every", "time until one more", ""},
		{"kubernetes.conditions", "how conditions of pods are written", ""},
		{"kubernetes.conditions.qps", "patches a second", ""},
		{"kubernetes.dryRun", "log conditions, restarts and evictions instead of making them", ""},
		{"kubernetes.liveness", "what may follow when a liveness or startup probe has failed", ""},
		{"kubernetes.liveness.modes", "values that pods may give the annotation `prober.dev/liveness`: `observe`, `sidecar`, `restart`, `evict`", ""},
		{"kubernetes.liveness.onFailure", "what `restart` does with a container whose policy is OnFailure: `refuse` leaves it alone; `kill` kills it without a grace period", ""},
		{"kubernetes.maxRate", "attempts a second of one namespace on the node: the sum of 1/period of its probes. Probes above it are refused, with an event", ""},
		{"kubernetes.minPeriod", "shortest period that a pod may ask for", ""},
		{"kubernetes.namespaceLabels", "names of labels of namespaces that their pods have for `match`, `groupBy`, `-l` and the page. They replace labels of the pods. It needs the component `namespace-labels`", "none"},
		{"kubernetes.podNetwork", "allow probes in the pod's own network: `prober.dev/network: pod`", ""},
		{"kubernetes.targets", "networks, addresses and names that probes may have as target beside their pod. Link-local and metadata addresses need a network within their range; loopback is never allowed. Plugins need `plugins[].grants` for what they reach beside their target; programs are not restricted", "none"},
	}},
	{"maintenance", "[Windows](alert/silence-and-maintenance.md) in which nobody is notified of new failures. Each has `schedule` and `duration`, or `from` and `until`.", []field{
		{"maintenance[].name", "name of the window", ""},
		{"maintenance[].match[].namespace", "pattern of namespaces; `*` matches any characters. A probe that matches one entry is selected", "all probes"},
		{"maintenance[].match[].pod", "pattern of pods", ""},
		{"maintenance[].match[].container", "pattern of containers", ""},
		{"maintenance[].match[].kind", "`liveness`, `readiness` or `startup`", ""},
		{"maintenance[].match[].handler", "pattern of handlers, such as `http` or a plugin's name", ""},
		{"maintenance[].match[].labels", "labels of pods and targets, such as `app=shop,tier!=cache`", ""},
		{"maintenance[].schedule", "times at which it begins: the five fields of crontab(5), or such as `@daily`", ""},
		{"maintenance[].duration", "how long it lasts, from `1m` to `744h`", ""},
		{"maintenance[].from", "begin of a window without a schedule, such as `2026-12-24T18:00` or `2026-12-24T16:00:00Z`", ""},
		{"maintenance[].until", "end of it", ""},
		{"maintenance[].timeZone", "time zone of the schedule, or of `from` and `until`, such as `Europe/Riga`", "`UTC`"},
		{"maintenance[].reason", "reason, shown with its probes, at most 256 bytes on one line", ""},
		{"maintenance[].uptime", "`exclude`: reports count its time for no state. `count`: for the state of the probe", ""},
	}},
	{"modules", "Probes by name, for the targets of several groups.", []field{
		{"modules[].name", "letters, digits, `-`, `.` and `_`", ""},
		{"modules[].probe", "the probe, as [in the annotation](annotation.md)", ""},
	}},
	{"nagios", "Bounds the commands of plugins with `runtime: nagios`.", []field{
		{"nagios.folders", "folders of the commands. Only root and prober's user may be able to write there", "none"},
		{"nagios.env", "variables that plugins may set for their commands, such as `PGPASSWORD` and `MYSQL_*`", "none"},
	}},
	{"notify", "Who gets messages about the states of probes.", []field{
		{"notify.externalURL", "URL of the agent's page, for links in messages", "no links"},
		{"notify.receivers[].name", "name of the receiver. It has one of `webhook`, `exec` and `mail`", ""},
		{"notify.receivers[].webhook", "sends a request for each message", ""},
		{"notify.receivers[].webhook.format", webhookFormats(), ""},
		{"notify.receivers[].webhook.url", "where to send. Use `urlFile` for a URL that is a secret. For `alertmanager`, `gotify`, `matrix`, `opsgenie` and `telegram` the URL of the server, for `ntfy` of the topic", "the service for " + formatsWithURL()},
		{"notify.receivers[].webhook.urlFile", "file with the URL", ""},
		{"notify.receivers[].webhook.apiKeyFile", "file with the key of Opsgenie's API integration", ""},
		{"notify.receivers[].webhook.botTokenFile", "file with the token of Telegram's bot", ""},
		{"notify.receivers[].webhook.chatID", "Telegram's chat: a number, or `@CHANNEL`", ""},
		{"notify.receivers[].webhook.room", "ID of Matrix' room, such as `!abc:example.org`", ""},
		{"notify.receivers[].webhook.routingKeyFile", "file with PagerDuty's integration key", ""},
		{"notify.receivers[].webhook.headers", "headers of each request, without secrets", ""},
		{"notify.receivers[].webhook.bearerTokenFile", "file with a token for the webhook: of the application for `gotify`, of the user for `matrix` and `ntfy`", ""},
		{"notify.receivers[].webhook.ca", "file with the authorities to trust, in PEM", "the system's"},
		{"notify.receivers[].webhook.timeout", "time limit of a request", ""},
		{"notify.receivers[].webhook.template", "body for `format: template`, in Go's text/template", ""},
		{"notify.receivers[].webhook.templateFile", "file with it", ""},
		{"notify.receivers[].webhook.contentType", "Content-Type of that body", "`application/json`"},
		{"notify.receivers[].exec", "runs a command for each message", ""},
		{"notify.receivers[].exec.command", "absolute path of a program, and its arguments", ""},
		{"notify.receivers[].exec.timeout", "time after which it is killed", ""},
		{"notify.receivers[].mail", "sends a mail for each message", ""},
		{"notify.receivers[].mail.to", "addresses, such as `Ops <ops@example.org>`", ""},
		{"notify.receivers[].mail.from", "address of the sender", ""},
		{"notify.receivers[].mail.smarthost", "`HOST:PORT` of the mail server", ""},
		{"notify.receivers[].mail.tls", "`starttls`, which the server must offer; `tls`, as on port 465; `none`", ""},
		{"notify.receivers[].mail.ca", "file with the authorities to trust, in PEM", "the system's"},
		{"notify.receivers[].mail.username", "user of the mail server", "none"},
		{"notify.receivers[].mail.passwordFile", "file with its password", ""},
		{"notify.receivers[].mail.timeout", "time limit of a mail", ""},
		{"notify.receivers[].match[].namespace", "pattern of namespaces; `*` matches any characters. A probe that matches one entry is selected", "all probes"},
		{"notify.receivers[].match[].pod", "pattern of pods", ""},
		{"notify.receivers[].match[].container", "pattern of containers", ""},
		{"notify.receivers[].match[].kind", "`liveness`, `readiness` or `startup`", ""},
		{"notify.receivers[].match[].handler", "pattern of handlers, such as `http` or a plugin's name", ""},
		{"notify.receivers[].match[].labels", "label selector of pods and targets, as of kubectl's option `-l`: `team=shop`, `team notin (shop, pay)`, `!team`", ""},
		{"notify.receivers[].fallback", "exclude the probes that another receiver selects with its `match`", ""},
		{"notify.receivers[].quiet[].schedule", "cron schedule of when the quiet hours begin, such as `0 22 * * mon-fri`. Nothing is sent in quiet hours", ""},
		{"notify.receivers[].quiet[].duration", "how long they last, from `1m` to `744h`", ""},
		{"notify.receivers[].quiet[].from", "in place of a schedule: when they begin, such as `2026-12-24T18:00` or `2026-12-24T16:00:00Z`", ""},
		{"notify.receivers[].quiet[].until", "when they end", ""},
		{"notify.receivers[].quiet[].timeZone", "time zone of `schedule`, `from` and `until`", "that of the receiver"},
		{"notify.receivers[].states", "states to send: `failure`, `warning`, `unknown`", ""},
		{"notify.receivers[].for", "how long a state must last", "`0s`; `1m` for `warning`"},
		{"notify.receivers[].groupBy", "probes with equal values share a message: `namespace`, `pod`, `container`, `kind`, `handler`, and `label:NAME` for a label", ""},
		{"notify.receivers[].groupWait", "wait for further changes before a message", ""},
		{"notify.receivers[].groupInterval", "shortest time between two messages of a group", ""},
		{"notify.receivers[].repeatInterval", "time until a group that still fails is sent again; `0` for never", "`4h`; `1m` for `alertmanager`"},
		{"notify.receivers[].resolved", "send the end of a failure too", ""},
		{"notify.receivers[].flapDetection", "from the third failure in 30 minutes, send the end of a failure only after 15 steady minutes", ""},
		{"notify.receivers[].maxPerMinute", "messages a minute; above it, groups share messages", ""},
		{"notify.receivers[].timeZone", "time zone of the times in messages, such as `Europe/Riga`", "`UTC`"},
		{"notify.receivers[].retention", "how long prober tries to send a failure that is over", ""},
	}},
	{"otlp", "Exports metrics and traces to an OpenTelemetry collector.", []field{
		{"otlp.endpoint", "URL of the collector, to which `/v1/metrics` and `/v1/traces` are appended", ""},
		{"otlp.headers", "headers of each request, without secrets", ""},
		{"otlp.bearerTokenFile", "file with a token for the collector", ""},
		{"otlp.ca", "file with the authorities to trust, in PEM", "the system's"},
		{"otlp.interval", "time between two exports, at least `1s`", ""},
		{"otlp.traces", "ticks that are traced: `failures`, `all` or `none`", ""},
	}},
	{"plugins", "What a plugin may do, and where it comes from.", []field{
		{"plugins[].name", "name in the plugin's manifest, which is also the handler's", ""},
		{"plugins[].source", "a path, or `oci://HOST/REPOSITORY` with `:TAG` or `@sha256:DIGEST`", "the folders of `--plugins`"},
		{"plugins[].plainHTTP", "use HTTP for the registry of `source`", ""},
		{"plugins[].digest", "SHA-256 that the module or program must have", ""},
		{"plugins[].manifest", "with `digest`: SHA-256 that the manifest beside it must have", ""},
		{"plugins[].grants", "what it may reach beyond its probes' targets, as far as its manifest requests it", "none"},
		{"plugins[].limits", "[limits](abi.md) below those that its manifest requests", ""},
		{"plugins[].errorPolicy", "what an attempt with an error counts as: `error`, which keeps the result and is called `discard` in the annotation, or `failure`. An error by a fault of the host always keeps it", "the manifest's"},
		{"plugins[].shadow", "this entry is another version, at `source`, that runs beside the plugin and decides nothing. Grants, limits and policy are the plugin's unless set", ""},
		{"plugins[].promoteAfter", "when the shadow replaces the plugin", "never"},
		{"plugins[].promoteAfter.ticks", "after so many comparisons", ""},
		{"plugins[].promoteAfter.agreement", "if at least this share of them agreed, such as `0.99`", "`1`"},
	}},
	{"push", "Checks to which others report results.", []field{
		{"push[].name", "name, at most 40 characters, which is also the name of its pod", ""},
		{"push[].namespace", "namespace of its pod", ""},
		{"push[].labels", "labels of its pod", ""},
		{"push[].dependsOn", "names of groups, pushes and endpoints. While one of them fails (of a group: all targets), a failure here is an error instead, and nobody is [notified](alert/dependencies.md)", "none"},
		{"push[].tokenFile", "file with the TOKEN of `POST /push/TOKEN`, mode 0600: 16 to 128 letters, digits, `-` and `_`. It is read again by a reload", "only with the agent's credentials"},
		{"push[].ttl", "time after a report, or after the start, in which the next report must come", ""},
		{"push[].schedule", "when reports are due, in the five fields of a crontab or as `@daily`; in place of `ttl`", ""},
		{"push[].timeZone", "time zone of `schedule`, such as `Europe/Riga`", "`UTC`"},
		{"push[].grace", "how late a report may be", "`0s`"},
		{"push[].maxRun", "time in which a report must follow the start of a run", "no limit"},
		{"push[].successThreshold", "successes in a row that end a failure", "`1`"},
		{"push[].failureThreshold", "failures in a row that are a failure. A missing report is one at once", "`1`"},
		{"push[].window", "count failures among so many last reports, at most 64, rather than in a row. The failure ends when fewer than `failureThreshold` of them are failures", "in a row"},
	}},
	{"secrets", "What manifests may refer to.", []field{
		{"secrets.allow", "what `${file:PATH}` and `${env:NAME}` may name: `file:` and a path, or `env:` and a name. `*` matches all but a slash", "none"},
	}},
	{"slo", "[Objectives](alert/slo.md) for the availability of probes, with error budgets and burn rates; at most 100.", []field{
		{"slo[].name", "name of the objective", ""},
		{"slo[].objective", "percentage of the measured time that shall be good, above 0 and below 100, such as `99.9`", ""},
		{"slo[].window", "time before now that counts: hours or days, at most `92d`", "`30d`"},
		{"slo[].kinds", "kinds of probes that count: `readiness`, `liveness`, `startup`", ""},
		{"slo[].match[].namespace", "pattern of namespaces; `*` matches any characters. A probe that matches one entry is selected", "all probes"},
		{"slo[].match[].pod", "pattern of pods", ""},
		{"slo[].match[].container", "pattern of containers", ""},
		{"slo[].match[].kind", "`liveness`, `readiness` or `startup`, within `kinds`", ""},
		{"slo[].match[].handler", "pattern of handlers, such as `http` or a plugin's name", ""},
		{"slo[].match[].labels", "labels of pods and targets, such as `app=shop,tier!=cache`", ""},
		{"slo[].maintenance", "`exclude`: the time of maintenance windows is not measured, unless a window has `uptime: count`. `count`: it is", ""},
	}},
	{"targets", "Groups of targets: probes without a pod of yours.", []field{
		{"targets[].name", "name of the group, at most 40 characters, with which the names of its pods begin", ""},
		{"targets[].namespace", "namespace of its pods", ""},
		{"targets[].module", "its probe, by the name of a module", ""},
		{"targets[].probe", "its own probe, in place of a module", ""},
		{"targets[].kind", "`readiness`, `liveness` or `startup`", ""},
		{"targets[].labels", "labels of all its targets. A target's own labels replace them", ""},
		{"targets[].dependsOn", "names of groups, pushes and endpoints. While one of them fails (of a group: all targets), a failure here is an error instead, and nobody is [notified](alert/dependencies.md)", "none"},
		{"targets[].static", "`HOST`, `HOST:PORT`, `[IPV6]:PORT`, or a URL for an HTTP probe or a plugin with `url` in its config", ""},
		{"targets[].file", "files in the format of Prometheus' `file_sd`; `*` and `?` are patterns", ""},
		{"targets[].http[].url", "service that lists targets as Prometheus' `http_sd` does", ""},
		{"targets[].http[].bearerTokenFile", "file with a token for the service", ""},
		{"targets[].http[].refresh", "time between two requests, at least `1s`", ""},
		{"targets[].http[].timeout", "time limit of a request", ""},
		{"targets[].dns[].srv", "name whose SRV records are targets, such as `_http._tcp.example.com`", ""},
		{"targets[].dns[].server", "IP address of the name server, with or without a port", "the host's"},
		{"targets[].dns[].refresh", "time between two requests", ""},
		{"targets[].command[].run", "absolute path and arguments of a program that prints targets in the format of `http_sd`", ""},
		{"targets[].command[].refresh", "time between two runs", ""},
		{"targets[].command[].timeout", "time after which it is killed", ""},
		{"targets[].relabel[].name", "template for the target's name, with which its pod's name ends", "the address"},
		{"targets[].relabel[].address", "template for the address", ""},
		{"targets[].relabel[].labels", "templates for labels; an empty result removes the label", ""},
		{"targets[].relabel[].drop", "template that drops the target where it yields `true`", ""},
	}},
	{"totalMemory", "", []field{
		{"totalMemory", "bytes that the instances of all Wasm plugins may have written at one time. Their sizes may be four times as much: instances of a plugin share pages that they have not written", "`256Mi`"},
	}},
	{"trust", "Which plugins may be loaded.", []field{
		{"trust.keys", "files with public keys. A plugin with a bad signature, or one by none of them, is refused", ""},
		{"trust.require", "refuse a plugin without a signature too", ""},
	}},
	{"uplink", "", []field{
		{"uplink", "groups of targets that witness this host's network. While none of them answers, other targets are `unknown`, not failed", "none"},
	}},
}

// example is shown on the page.
const example = `apiVersion: prober.dev/v1
kind: AgentConfig
handlers:
- {name: exec, maxInFlight: 20}
totalMemory: 256Mi          # written by the instances of all Wasm plugins
plugins:
- name: redis
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  grants: ["tcp://10.0.0.0/8:6379", "!10.0.13.0/24"]
  limits: {memory: 16Mi, instances: 8}
  errorPolicy: error        # or failure
secrets:
  allow: ["file:/etc/prober/secrets/*", "env:PG_*"]
trust:
  require: false
  keys: [keys/release.pub]
`

// sample has one entry of each list whose entries have defaults.
const sample = `apiVersion: prober.dev/v1
kind: AgentConfig
kubernetes: {}
notify:
  receivers:
  - {name: webhook, webhook: {url: http://127.0.0.1}}
  - {name: exec, exec: {command: [/bin/true]}}
  - {name: mail, mail: {to: [a@example.org], from: a@example.org, smarthost: "127.0.0.1:25"}}
otlp: {endpoint: http://127.0.0.1}
maintenance:
- {name: window, from: 2026-12-24T00:00, until: 2026-12-25T00:00}
push:
- {name: push, ttl: 1h}
slo:
- {name: slo, objective: 99}
endpoints:
- {name: endpoint, all: [push]}
targets:
- name: all
  probe: {tcpSocket: {port: 80}}
  http: [{url: http://127.0.0.1}]
  dns: [{srv: _a._tcp.example.org}]
  command: [{run: [/bin/true]}]
`

// proberYAMLPage returns docs/prober-yaml.md.
func proberYAMLPage() (string, error) {
	parsed, err := config.Parse("sample", []byte(sample))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head("prober.yaml", 10, "Every field of the agent's file, with its default.", "internal/referencedoc/proberyaml.go, and its defaults from package config"))
	b.WriteString("`prober run --config FILE` and `prober node --config FILE` read this file, such as:\n\n```yaml\n" + example + "```\n\n" +
		"Relative paths are from the folder of the file. Durations are such as `500ms`, `10s` and `1h30m`, without days: 14 days are `336h`. Sizes are such as `64Mi`.\n" +
		"A field that is not listed is an error with its line. `prober validate --config FILE` checks the file.\n\n" + editorsText)
	for _, s := range proberYAML {
		fmt.Fprintf(&b, "\n## %s\n", s.key)
		if s.text != "" {
			b.WriteString(s.text + "\n")
		}
		b.WriteString("\n| field | default | meaning |\n|---|---|---|\n")
		for _, f := range s.fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.path, cmp.Or(f.value, defaultOf(parsed, f.path)), f.text)
		}
	}
	return b.String(), nil
}

// editorsText says how editors check the file.
const editorsText = "Editors with the [YAML language server](https://github.com/redhat-developer/yaml-language-server) complete and check the file as you type, with this first line:\n\n" +
	"```yaml\n# yaml-language-server: $schema=https://raw.githubusercontent.com/daeace23/prober/main/docs/schemas/config.json\n" +
	"apiVersion: prober.dev/v1\nkind: AgentConfig\n```\n\n" +
	"Without access to this address, write the schema to a file with `prober schema config > prober.schema.json`, and set `$schema=prober.schema.json`.\n" +
	"That also fits the installed version. Rules about several fields are not in the schema: `prober validate` checks them.\n"

// set are the fields that the sample sets, so that their values are no defaults.
var set = map[string]bool{
	"notify.receivers[].name": true, "notify.receivers[].webhook.url": true, "notify.receivers[].exec.command": true, "notify.receivers[].mail.to": true,
	"notify.receivers[].mail.from": true, "notify.receivers[].mail.smarthost": true, "otlp.endpoint": true, "targets[].name": true, "targets[].http[].url": true,
	"targets[].dns[].srv": true, "push[].name": true, "push[].ttl": true, "endpoints[].name": true, "endpoints[].all": true, "targets[].command[].run": true,
	"maintenance[].name": true, "slo[].name": true, "slo[].objective": true,
}

// defaultOf returns the value that a field of the sample has without being set, or "".
func defaultOf(parsed *config.Agent, path string) string {
	switch {
	case set[path]:
		return ""
	case path == "kubernetes.conditions.qps":
		path = "kubernetes.qps"
	}
	return value(reflect.ValueOf(parsed), strings.Split(path, "."))
}

// value returns the value at a path of fields, without regard to case, or "".
func value(v reflect.Value, path []string) string {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if len(path) == 0 {
		return shown(v)
	}
	name, list := strings.CutSuffix(path[0], "[]")
	switch v.Kind() {
	case reflect.Map:
		if v = v.MapIndex(reflect.ValueOf(name)); v.IsValid() {
			return value(v, path[1:])
		}
		return ""
	case reflect.Struct:
		v = v.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
	default:
		return ""
	}
	switch {
	case !v.IsValid():
		return ""
	case !list:
		return value(v, path[1:])
	}
	for i := range v.Len() { // one of them has the field, such as the receiver with mail
		if text := value(v.Index(i), path[1:]); text != "" {
			return text
		}
	}
	return ""
}

// shown returns a default as the page shows it, or "" for a zero value that says nothing.
func shown(v reflect.Value) string {
	if v.IsZero() {
		if v.Kind() == reflect.Bool {
			return "`false`"
		}
		return ""
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		text := x.String()
		if t, ok := strings.CutSuffix(text, "m0s"); ok {
			text = t + "m"
		}
		if t, ok := strings.CutSuffix(text, "h0m"); ok {
			text = t + "h"
		}
		return "`" + text + "`"
	default:
		switch v.Kind() {
		case reflect.Struct, reflect.Map:
			return ""
		case reflect.Slice:
			var items []string
			for i := range v.Len() {
				items = append(items, fmt.Sprint(v.Index(i).Interface()))
			}
			return "`[" + strings.Join(items, ", ") + "]`"
		default:
			return fmt.Sprintf("`%v`", x)
		}
	}
}
