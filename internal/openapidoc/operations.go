package main

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/daeace23/prober/agent/api"
)

const about = "The agent answers over TCP, and over its unix socket. Over TCP, requests that change something need the agent's token; " +
	"the socket needs none.\n\n" +
	"Paths and fields are added and never renamed: clients ignore fields that they do not know. " +
	"Pods and events are those of Kubernetes."

var tags = []any{
	object{"name": "state", "description": "What the agent knows"},
	object{"name": "actions", "description": "Change what the agent does"},
	object{"name": "monitoring", "description": "For Prometheus and supervisors"},
}

// operation describes a method of a path.
type operation struct {
	method, path string
	id, tag      string
	summary      string
	query        []parameter
	body         any      // of the request; nil for none
	answer       any      // a type of agent/api, a [kubernetes], or a [media]
	also         []string // other media types of the answer, all texts
	codes        []int
}

// parameter is a parameter of the query.
type parameter struct {
	name, about string
	values      []string
	kind        string // "": a string
}

// kubernetes is a list of the Kubernetes API.
type kubernetes struct{ kind, item string }

// media is a response that is not JSON.
type media struct{ mediaType, about string }

var (
	namespace  = parameter{name: "namespace", about: "Only of this namespace."}
	pod        = parameter{name: "pod", about: "Only of pods of this name."}
	container  = parameter{name: "container", about: "Only of containers of this name."}
	limit      = parameter{name: "limit", about: "The maximum number of items; 0 for all.", kind: "integer"}
	goOn       = parameter{name: "continue", about: "The metadata.continue of the page before."}
	untilNow   = parameter{name: "until", about: "As since; now by default."}
	verbose    = parameter{name: "verbose", about: "Show all checks.", kind: "flag"}
	kinds      = []string{"liveness", "readiness", "startup"}
	plain      = media{"text/plain", ""}
	oneProbe   = "/api/v1/probes/{namespace}/{pod}/{container}/{kind}"
	probesOf   = "The probes of that name: one, and two while their pod is replaced."
	checkTexts = media{"text/plain", "\"ok\", or a line for each check."}
)

// The parameters of reports to pushes.
var (
	reportResult  = parameter{name: "result", about: "The result; success by default.", values: []string{"success", "warning", "failure", "unknown"}}
	reportMessage = parameter{name: "message", about: "What happened, of which 1 KiB is kept."}
)

// pushOperation returns a request with a report whose path has a token. below is the rest of the path.
func pushOperation(method, id, below string) operation {
	o := operation{
		method: method, path: "/push/{token}" + below, id: id, tag: "actions",
		summary: "Report a result to the push of a token, without other credentials. The parameters are also those of Uptime Kuma: status=up or down, msg, ping.",
		query:   []parameter{reportResult, reportMessage}, answer: plain, codes: []int{400, 404, 503},
	}
	if below != "" {
		o.summary = "As /push/{token}; `what` is start, fail, log or an exit code, as at healthchecks.io."
	}
	if method == "post" {
		o.body = plain
	}
	return o
}

// operations are what an agent serves, but for /debug/. A test of package agent compares it with the
// paths that an agent has.
var operations = []operation{
	{method: "get", path: "/", id: "index", tag: "state", summary: "List the paths; show the status page to browsers, which accept text/html.", answer: plain, also: []string{"text/html"}},
	{method: "get", path: "/page/{file}", id: "page", tag: "state", summary: "Send a file of the status page.", answer: media{"text/javascript", "A script, a style sheet or an image."}, also: []string{"text/css", "image/svg+xml"}, codes: []int{404}},
	{method: "get", path: "/docs/{file}", id: "docs", tag: "state", summary: "Send a file of the documents of this version; `/docs/` is the first page. A program that was not built for a release has none.", answer: media{"text/html", "A page, a script, a style sheet or an image."}, also: []string{"text/javascript", "text/css", "image/svg+xml", "image/png"}, codes: []int{404}},
	{method: "get", path: "/api/v1/", id: "apiIndex", tag: "state", summary: "List the paths.", answer: plain},
	{method: "get", path: "/openapi.json", id: "openapi", tag: "state", summary: "Describe the API: this document.", answer: object{}},
	{
		method: "get", path: "/api/v1/pods", id: "listPods", tag: "state", summary: "List pods with their live status.",
		query: []parameter{namespace, pod, limit, goOn}, answer: kubernetes{"PodList", "Pod"}, codes: []int{400, 503},
	},
	{
		method: "get", path: "/api/v1/probes", id: "listProbes", tag: "state", summary: "List probes with decided results, last ticks and history.",
		query: []parameter{
			namespace, pod, container, {name: "kind", about: "Only of this kind.", values: kinds}, {name: "handler", about: "Only of this handler, such as http, or the name of a plugin."},
			{name: "state", about: "Only in this state; a paused probe is paused, and one in a maintenance window maintenance, in whatever state.", values: api.States},
			{name: "result", about: "Only with this decided result.", values: []string{"success", "failure", "unknown"}}, limit, goOn,
		},
		answer: api.ProbeList{}, codes: []int{400, 503},
	},
	{
		method: "get", path: oneProbe, id: "getProbe", tag: "state",
		summary: "Show one probe: the one that ticked last, if there are two while its pod is replaced.", answer: api.ProbeStatus{}, codes: []int{400, 404},
	},
	{
		method: "get", path: "/api/v1/incidents", id: "listIncidents", tag: "state",
		summary: "List incidents: failing probes, grouped by what they share. The open incident with the most failing probes is first.",
		query:   []parameter{namespace, {name: "state", about: "Only in this state.", values: []string{api.IncidentOpen, api.IncidentEnded}}, {name: "parts", about: "The maximum number of parts of each incident, the earliest ones; all by default.", kind: "integer"}},
		answer:  api.IncidentList{}, codes: []int{400, 503},
	},
	{
		method: "get", path: "/api/v1/incidents/{id}", id: "getIncident", tag: "state", summary: "Show one incident.",
		answer: api.IncidentStatus{}, codes: []int{400, 404},
	},
	{
		method: "post", path: "/api/v1/incidents/{id}/notes", id: "addNote", tag: "actions", summary: "Add a note to an incident.",
		body: api.NoteRequest{}, answer: api.IncidentStatus{}, codes: []int{400, 404, 409},
	},
	{
		method: "get", path: "/api/v1/certificates", id: "listCertificates", tag: "state",
		summary: "List the certificates that servers show in TLS handshakes of probes. The first one to end comes first.",
		query: []parameter{
			namespace, pod, container, {name: "kind", about: "Only of probes of this kind.", values: kinds},
			{name: "probes", about: "The maximum number of probes of each certificate; all by default.", kind: "integer"}, limit, goOn,
		},
		answer: api.CertificateList{}, codes: []int{400, 503},
	},
	{
		method: "get", path: "/api/v1/targets", id: "listTargets", tag: "state", summary: "List the targets of prober.yaml, also those that are dropped or gone.",
		query: []parameter{
			{name: "group", about: "Only of this group."}, namespace, pod, {name: "state", about: "Only in this state.", values: []string{"probed", "dropped", "gone"}}, limit, goOn,
		},
		answer: api.TargetList{}, codes: []int{400, 503},
	},
	{
		method: "get", path: "/api/v1/endpoints", id: "listEndpoints", tag: "state", summary: "List the endpoints of prober.yaml with their checks, and its pushes.",
		query: []parameter{
			namespace, {name: "name", about: "Only of this name."}, {name: "type", about: "Only of this type.", values: []string{api.TypeEndpoint, api.TypePush}},
			{name: "state", about: "Only in this state.", values: []string{"success", "warning", "failure", "unknown"}}, limit, goOn,
		},
		answer: api.EndpointList{}, codes: []int{400, 503},
	},
	{
		method: "get", path: oneProbe + "/explain", id: "explainProbe", tag: "state",
		summary: "Say why the result of a probe is what it is, and what happened inside its ticks.", answer: api.Explanation{}, codes: []int{400, 404},
	},
	{
		method: "get", path: oneProbe + "/history", id: "probeHistory", tag: "state",
		summary: "Show the changes of the state of a probe, and the aggregates of its ticks. An agent without --state-dir has none.",
		query:   []parameter{{name: "since", about: "A duration before now such as 30d or 12h, or a time; 24h by default."}, untilNow}, answer: api.ProbeHistory{}, codes: []int{400, 404, 503},
	},
	{
		method: "get", path: oneProbe + "/durations", id: "probeDurations", tag: "state",
		summary: "Show percentiles of the durations of a probe's ticks and their phases, by hour. An agent without --state-dir has none.",
		query:   []parameter{{name: "since", about: "A duration before now such as 30d or 12h, or a time; 24h by default."}, untilNow}, answer: api.ProbeDurations{}, codes: []int{400, 404, 503},
	},
	{
		method: "get", path: "/api/v1/report", id: "report", tag: "state",
		summary: "Say how available probes were. An agent without --state-dir does not know.",
		query: []parameter{
			{name: "since", about: "A duration before now such as 30d or 12h, or a time; 30d by default."}, untilNow, namespace, pod, container,
			{name: "kind", about: "Only of this kind.", values: kinds}, limit, goOn,
			{name: "format", about: "JSON by default, or CSV as with Accept: text/csv.", values: []string{"json", "csv"}},
			{name: "incidents", about: "List incidents: the default of JSON. CSV has a line for each then, and without them for each probe. newest lists the newest of each probe.", values: []string{"true", "false", "newest"}},
			{name: "parts", about: "Also the uptime in so many equal parts of the time, in JSON: an integer from 1 to 100."},
		},
		answer: api.Report{}, also: []string{"text/csv"}, codes: []int{400, 404, 503},
	},
	{
		method: "get", path: "/api/v1/changes", id: "listChanges", tag: "state",
		summary: "List the changes of the states of probes, oldest first. An agent without --state-dir has none.",
		query: []parameter{
			{name: "since", about: "A duration before now such as 30d or 12h, or a time; 30d by default."}, untilNow, namespace, pod, container,
			{name: "kind", about: "Only of this kind.", values: kinds},
		},
		answer: api.StateChanges{}, codes: []int{400, 404, 503},
	},
	{
		method: "get", path: "/api/v1/events", id: "listEvents", tag: "state", summary: "List the newest events, the last one at the end.",
		query: []parameter{
			namespace, pod, container, {name: "reason", about: "Only with this reason, such as Unhealthy."},
			{name: "type", about: "Only of this type.", values: []string{"Normal", "Warning"}}, limit, goOn,
		},
		answer: kubernetes{"EventList", "Event"}, codes: []int{400, 503},
	},
	{
		method: "get", path: "/api/v1/stream", id: "stream", tag: "state", summary: "Send the present state, and then changes.",
		answer: media{"text/event-stream", "Server-sent events called probe, pod and event, with a ProbeStatus without history, a v1.Pod or a v1.Event " +
			"as their data. An object that is gone is sent once more with \"removed\": true. view=summary has less of probes and pods: " +
			"a ProbeSummary and a PodSummary."},
		query: []parameter{{name: "view", about: "How much of each object; full by default.", values: []string{"full", "summary"}}},
		codes: []int{400, 503},
	},
	{method: "get", path: "/api/v1/agent", id: "getAgent", tag: "state", summary: "Show the version of the agent, and what is wrong with it.", answer: api.AgentStatus{}},
	{method: "get", path: "/api/v1/plugins", id: "listPlugins", tag: "state", summary: "List plugins, and which versions run.", answer: api.PluginList{}},
	{
		method: "post", path: oneProbe + "/pause", id: "pauseProbe", tag: "actions", summary: "Stop the attempts of a probe. It keeps its result.",
		query: []parameter{
			{name: "for", about: "How long, such as 10m or 1h30m; until it is resumed if absent."}, {name: "reason", about: "Shown with the probe."},
		},
		body: api.PauseRequest{}, answer: api.ProbeList{}, codes: []int{400, 404, 409},
	},
	{
		method: "post", path: oneProbe + "/force", id: "forceProbe", tag: "actions", summary: "Give a readiness probe a state, and stop its attempts.",
		query: []parameter{
			{name: "state", about: "The state: success, failure, or the present one with the result failure.", values: []string{"up", "down", "drained"}},
			{name: "for", about: "How long, such as 10m or 1h30m; until it is resumed if absent."}, {name: "reason", about: "Shown with the probe."},
		},
		body: api.ForceRequest{}, answer: api.ProbeList{}, codes: []int{400, 404, 409},
	},
	{method: "post", path: oneProbe + "/resume", id: "resumeProbe", tag: "actions", summary: "End a pause, or a forced state.", answer: api.ProbeList{}, codes: []int{400, 404}},
	{
		method: "post", path: oneProbe + "/trigger", id: "triggerProbe", tag: "actions",
		summary: "Have a probe make an attempt now, and do not wait for it.", answer: api.ProbeList{}, codes: []int{400, 404},
	},
	{
		method: "post", path: "/api/v1/plugins/{name}/promote", id: "promotePlugin", tag: "actions",
		summary: "Let the shadow of a plugin take its place.", answer: api.PluginStatus{}, codes: []int{404, 409},
	},
	{
		method: "get", path: "/api/v1/notifications", id: "listNotifications", tag: "state",
		summary: "List the receivers of notifications, and what they know.", answer: api.NotificationList{},
	},
	{
		method: "post", path: "/api/v1/notifications/{receiver}/test", id: "testNotification", tag: "actions",
		summary: "Send a test message to a receiver, and show its answer.", answer: api.NotificationTest{}, codes: []int{404, 502},
	},
	{
		method: "get", path: "/api/v1/slos", id: "listSLOs", tag: "state",
		summary: "List the SLOs of prober.yaml, or of one probe: their error budgets and burn rates.",
		query: []parameter{
			{name: "namespace", about: "Only SLOs that select one probe: its namespace."}, {name: "pod", about: "Its pod."},
			{name: "container", about: "Its container."}, {name: "kind", about: "Its kind.", values: kinds},
		},
		answer: api.SLOList{}, codes: []int{400},
	},
	{
		method: "get", path: "/api/v1/maintenance", id: "listMaintenance", tag: "state",
		summary: "List the maintenance windows.", answer: api.MaintenanceList{}, codes: []int{400},
	},
	{
		method: "post", path: "/api/v1/maintenance", id: "startMaintenance", tag: "actions", summary: "Start a maintenance window.",
		body: api.MaintenanceRequest{}, answer: api.MaintenanceWindow{}, codes: []int{400, 409},
	},
	{
		method: "delete", path: "/api/v1/maintenance/{name}", id: "endMaintenance", tag: "actions",
		summary: "End a maintenance window that a client has started.", answer: media{}, codes: []int{404, 409},
	},
	{
		method: "post", path: "/-/reload", id: "reload", tag: "actions",
		summary: "Read all files again, and wait until they are applied or refused.", answer: media{}, codes: []int{500},
	},
	{
		method: "post", path: "/api/v1/push/{name}", id: "reportPush", tag: "actions", summary: "Report a result to a push. The body is the message if the query has none.",
		query: []parameter{reportResult, reportMessage, {name: "started", about: "Whether a run has begun whose report will follow.", values: []string{"true", "false"}}},
		body:  plain, answer: api.PushReply{}, codes: []int{400, 404, 503},
	},
	{
		method: "post", path: "/api/v1/push", id: "reportLines", tag: "actions",
		summary: "Report results to pushes. Each line of the body is `[HOST<TAB>]NAME<TAB>CODE<TAB>OUTPUT`, as send_nsca reads them; CODE is 0 to 3.",
		body:    plain, answer: api.PushReply{}, codes: []int{400, 413, 503},
	},
	pushOperation("get", "pushByToken", ""), pushOperation("post", "postByToken", ""),
	pushOperation("get", "pushEndByToken", "/{what}"), pushOperation("post", "postEndByToken", "/{what}"),
	{
		method: "get", path: "/metrics", id: "metrics", tag: "monitoring", summary: "Show the metrics, in the format that is asked for.",
		answer: media{"text/plain", "Prometheus' text format, or OpenMetrics."},
	},
	{
		method: "get", path: "/probe", id: "probe", tag: "monitoring", summary: "Make one attempt at a target, as blackbox_exporter does, with a module of --blackbox-config.",
		query: []parameter{
			{name: "module", about: "The module; http_2xx by default."}, {name: "target", about: "The target, as the module needs it: a URL, HOST:PORT or HOST."},
			{name: "hostname", about: "The name in the Host header and of the certificate, in place of that of the target."}, {name: "debug", about: "Show what happened, in place of the metrics.", values: []string{"true"}},
		},
		answer: media{"text/plain", "Prometheus' text format, or OpenMetrics."}, codes: []int{-400, -503},
	},
	{method: "get", path: "/healthz", id: "healthz", tag: "monitoring", summary: "Say that the agent responds.", query: []parameter{verbose}, answer: checkTexts},
	{method: "get", path: "/livez", id: "livez", tag: "monitoring", summary: "Say that the agent responds.", query: []parameter{verbose}, answer: checkTexts},
	{method: "get", path: "/-/healthy", id: "healthy", tag: "monitoring", summary: "Say that the agent responds.", query: []parameter{verbose}, answer: checkTexts},
	{
		method: "get", path: "/readyz", id: "readyz", tag: "monitoring", summary: "Say whether the pods are applied, and warn of trouble.",
		query: []parameter{verbose}, answer: checkTexts, codes: []int{-503},
	},
	{
		method: "get", path: "/-/ready", id: "ready", tag: "monitoring", summary: "Say whether the pods are applied, and warn of trouble.",
		query: []parameter{verbose}, answer: checkTexts, codes: []int{-503},
	},
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

// describe returns the operation object of OpenAPI.
func (o *operation) describe(s *schemas) object {
	var parameters []any
	for _, m := range pathParameter.FindAllStringSubmatch(o.path, -1) {
		schema := object{"type": "string"}
		if m[1] == "kind" {
			schema["enum"] = kinds
		}
		parameters = append(parameters, object{"name": m[1], "in": "path", "required": true, "schema": schema})
	}
	for _, p := range o.query {
		parameters = append(parameters, p.describe())
	}
	description := object{
		"operationId": o.id, "tags": []string{o.tag}, "summary": strings.TrimSuffix(o.summary, "."), "responses": o.responses(s),
		"security": []any{object{}, object{"user": []string{}}},
	}
	if parameters != nil {
		description["parameters"] = parameters
	}
	if o.body != nil {
		description["requestBody"] = object{"content": object{"application/json": object{"schema": s.typeSchema(reflect.TypeOf(o.body))}}}
	}
	if o.method != "get" {
		description["security"] = []any{
			object{"token": []string{}}, object{"tokenHeader": []string{}}, object{"tokenHeader": []string{}, "user": []string{}},
		}
	}
	return description
}

func (p *parameter) describe() object {
	schema := object{"type": "string"}
	d := object{"name": p.name, "in": "query", "description": p.about, "schema": schema}
	switch {
	case p.kind == "integer":
		schema["type"], schema["minimum"] = "integer", 0
	case p.kind == "flag":
		d["allowEmptyValue"] = true
	case p.values != nil:
		schema["enum"] = p.values
	}
	return d
}

// responses returns the responses object of OpenAPI.
func (o *operation) responses(s *schemas) object {
	failed := object{"application/json": object{"schema": s.typeSchema(reflect.TypeFor[api.Status]())}}
	all := object{
		"200": o.answered(s),
		"401": object{"description": "The request has no credentials that are valid.", "content": failed},
		"403": object{"description": "Another web site sent the request, or it names another host.", "content": failed},
		"429": object{"description": "Too many wrong credentials came from this address.", "content": failed},
	}
	if o.method == "get" { // exporter-toolkit sends this response
		all["401"] = object{"description": "The request has no user that is valid.", "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
	}
	if o.method != "get" {
		all["413"] = object{"description": "The body has more than 4 KiB.", "content": failed}
	}
	for _, code := range o.codes {
		switch text := map[int]string{
			400: "A parameter is wrong.", 404: "There is no such object.", 409: "The state of the object does not allow it.",
			500: "The files were refused.", 502: "The receiver has not taken the message; the error says why.", 503: "Too many callers are reading.", -503: "The pods are not applied, or are being stopped.",
		}[code]; {
		case code < 0:
			all[strconv.Itoa(-code)] = object{"description": text, "content": object{"text/plain": object{"schema": object{"type": "string"}}}}
		default:
			all[strconv.Itoa(code)] = object{"description": text, "content": failed}
		}
	}
	return all
}

// answered returns the response object of a request that was successful.
func (o *operation) answered(s *schemas) object {
	describe := func(about, mediaType string, schema object) object {
		content := object{mediaType: object{"schema": schema}}
		for _, other := range o.also {
			content[other] = object{"schema": object{"type": "string"}}
		}
		return object{"description": about, "content": content}
	}
	switch a := o.answer.(type) {
	case media:
		if a.mediaType == "" {
			return object{"description": "Done; the response is empty."}
		}
		if a.about == "" {
			a.about = "A text."
		}
		return describe(a.about, a.mediaType, object{"type": "string"})
	case kubernetes:
		return describe("A v1."+a.kind+" of Kubernetes.", "application/json", s.kubernetes(a))
	case object:
		return describe("A document of OpenAPI 3.1.", "application/json", object{"type": "object"})
	case api.ProbeList:
		if o.method == "post" {
			return describe(probesOf, "application/json", s.typeSchema(reflect.TypeFor[api.ProbeList]()))
		}
	}
	t := reflect.TypeOf(o.answer)
	return describe(s.comments[t.Name()], "application/json", s.typeSchema(t))
}

// kubernetes returns the schema of a list of Kubernetes objects, which are described elsewhere.
func (s *schemas) kubernetes(k kubernetes) object {
	s.components[k.item] = object{
		"type": "object", "description": "A v1." + k.item + " of the Kubernetes API, which describes its fields. Values of environment variables and " +
			"of what looks like a secret are masked in pods.",
		"properties": object{"metadata": object{"type": "object"}}, "required": []string{"metadata"}, "additionalProperties": true,
		"x-kubernetes-group-version-kind": []any{object{"group": "", "version": "v1", "kind": k.item}},
	}
	s.components[k.kind] = object{
		"type": "object", "description": "A page of a v1." + k.kind + " of the Kubernetes API.",
		"properties": object{
			"kind": object{"type": "string", "enum": []string{k.kind}}, "apiVersion": object{"type": "string", "enum": []string{"v1"}},
			"metadata": s.typeSchema(reflect.TypeFor[api.ListMeta]()),
			"items":    object{"type": "array", "items": object{"$ref": "#/components/schemas/" + k.item}},
		},
		"required": []string{"apiVersion", "items", "kind", "metadata"},
	}
	return object{"$ref": "#/components/schemas/" + k.kind}
}
