package browser

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// noon is the constant time of the fake agent, so that pictures are reproducible. The page takes the time
// from the Date header.
var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

type object = map[string]any

// fake is an HTTP server that answers like an agent, with fixed data.
type fake struct {
	server   *httptest.Server
	probes   []object // summaries
	pods     []object
	events   []object
	reported map[string]object // fields of a report by pod, in place of others
	later    chan frame        // is sent to the stream that is open
}

// frame is an object of the stream.
type frame struct {
	kind string
	object
}

// probe adds a probe.
func (f *fake) probe(namespace, pod, container, kind, handler, state string, since time.Duration, seconds float64, text string) object {
	result := state
	if state == "warning" {
		result = "success"
	}
	p := object{
		"namespace": namespace, "pod": pod, "uid": namespace + pod, "container": container, "kind": kind, "handler": handler, "state": state,
		"stateSince": noon.Add(-since).Format(time.RFC3339Nano), "result": result, "run": 7,
		"last": object{"result": state, "text": text, "time": noon.Add(-3 * time.Second).Format(time.RFC3339Nano), "durationSeconds": seconds},
	}
	f.probes = append(f.probes, p)
	return p
}

// pod adds a running pod with containers.
func (f *fake) pod(namespace, name string, ready bool, containers ...object) {
	f.pods = append(f.pods, object{"namespace": namespace, "name": name, "uid": namespace + name, "phase": "Running", "ready": ready, "containers": containers})
}

func running(name string, restarts int, since time.Duration) object {
	return object{"name": name, "ready": true, "restarts": restarts, "state": "running", "since": noon.Add(-since).Format(time.RFC3339)}
}

func (f *fake) event(reason, kind, namespace, pod, container, message string, ago time.Duration, count int) {
	f.events = append(f.events, object{
		"metadata": object{"name": fmt.Sprint("e", len(f.events))}, "reason": reason, "type": kind, "message": message, "count": count, "lastTimestamp": noon.Add(-ago).Format(time.RFC3339),
		"involvedObject": object{"kind": "Pod", "namespace": namespace, "name": pod, "fieldPath": "spec.containers{" + container + "}"},
	})
}

const day = 24 * time.Hour

// startFake starts a fake agent with the probes of a small shop.
func startFake(t testing.TB) *fake {
	t.Helper()
	f := &fake{later: make(chan frame)}
	for i, name := range []string{"web-0", "web-1", "web-2"} {
		f.probe("shop", name, "nginx", "liveness", "http", "success", 9*day+time.Hour*time.Duration(i), 0.0021+0.0003*float64(i), "HTTP status 200")
		f.probe("shop", name, "nginx", "readiness", "http", "success", 9*day+time.Hour*time.Duration(i), 0.0026+0.0002*float64(i), "HTTP status 200")
		f.probe("shop", name, "cache", "readiness", "redis", "success", 2*day+time.Hour*time.Duration(i), 0.0004, "PONG, 3 replicas in sync")
		f.pod("shop", name, true, running("nginx", 0, 9*day), running("cache", 0, 2*day))
	}
	f.probe("shop", "checkout", "app", "readiness", "httpcheck", "failure", 4*time.Minute+12*time.Second, 0.0431, "HTTP status 503, want 2xx")
	f.probe("shop", "checkout", "app", "liveness", "tcp", "success", 26*time.Hour, 0.0002, "")
	f.pod("shop", "checkout", false, object{"name": "app", "ready": false, "restarts": 0, "state": "running", "since": noon.Add(-26 * time.Hour).Format(time.RFC3339)})
	f.probe("shop", "search", "index", "liveness", "exec", "success", 51*time.Minute, 0.0184, "index 4812, 0 pending")
	f.pod("shop", "search", true, object{
		"name": "index", "ready": true, "restarts": 3, "state": "running", "since": noon.Add(-52 * time.Minute).Format(time.RFC3339), "lastEnd": noon.Add(-53 * time.Minute).Format(time.RFC3339), "lastReason": "OOMKilled, exit code 137",
	})
	f.probe("billing", "ledger", "db", "readiness", "postgres", "failure", 38*time.Second, 1.0002, "postgres: 10.20.0.14:5432: waiting for the response to SELECT 1: timed out after 1s")
	f.probe("billing", "ledger", "db", "startup", "tcp", "success", 12*day, 0.0003, "")
	f.pod("billing", "ledger", false, running("db", 0, 12*day))
	f.probe("billing", "mailer", "smtp", "readiness", "smtp", "unknown", 2*time.Minute, 0, "plugin \"smtp\": wasm error: unreachable: queue is nil")
	f.pod("billing", "mailer", true, running("smtp", 1, 5*day))
	f.probe("billing", "invoices", "worker", "liveness", "nagios-queue", "warning", 17*time.Minute, 0.0312, "QUEUE WARNING: 412 waiting, limit 400")
	f.pod("billing", "invoices", true, running("worker", 0, 3*day))
	for i, host := range []string{"api.example.com", "cdn.example.com", "login.example.com", "shop.example.com", "status.example.com"} {
		f.probe("targets", "sites-"+strings.ReplaceAll(host, ".", "-"), "target", "readiness", "httpcheck", "success", time.Duration(i+3)*day, 0.031+0.011*float64(i), "HTTP status 200, TLS 1.3")
	}
	f.probe("targets", "certificates-mail-example-com", "target", "readiness", "tls-expiry", "warning", 6*time.Hour, 0.0472, "expires in 13 days, less than 14")
	f.event("Unhealthy", "Warning", "billing", "ledger", "db", "Readiness probe failed: timed out after 1s", 3*time.Second, 7)
	f.event("Unhealthy", "Warning", "shop", "checkout", "app", "Readiness probe failed: HTTP status 503, want 2xx", 2*time.Second, 51)
	mux := http.NewServeMux()
	f.route(mux)
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", noon.Format(http.TimeFormat))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.server.Close)
	return f
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails if the page has closed the connection
}

func (f *fake) route(mux *http.ServeMux) {
	static := http.FileServer(http.Dir(root + "/agent/page/static"))
	mux.Handle("GET /page/", http.StripPrefix("/page", static))
	mux.Handle("GET /{$}", static)
	mux.HandleFunc("GET /api/v1/stream", f.stream)
	mux.HandleFunc("GET /api/v1/agent", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, object{"version": "v1.4.0", "started": noon.Add(-12 * day).Format(time.RFC3339), "ready": true, "checks": []any{
			object{"name": "plugin smtp", "result": "warning", "text": "1 probe in quarantine until 12:00:24"},
		}})
	})
	mux.HandleFunc("GET /api/v1/plugins", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, object{"memoryBytes": 18_400_000, "items": []any{
			object{"name": "redis", "state": "running", "version": "1.3.0", "runtime": "wasm", "digest": "sha256:6e9540f79b01b1d2", "trust": "signed", "signer": "platform", "generation": 2, "probes": 3, "idle": 1, "busy": 0, "denied": 0, "changed": noon.Add(-2 * day).Format(time.RFC3339)},
		}})
	})
	mux.HandleFunc("GET /api/v1/targets", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, object{"sources": []any{}, "items": []any{}})
	})
	mux.HandleFunc("GET /api/v1/certificates", func(w http.ResponseWriter, _ *http.Request) { answer(w, object{"items": []any{}}) })
	mux.HandleFunc("GET /api/v1/slos", func(w http.ResponseWriter, _ *http.Request) { answer(w, object{"items": []any{}}) })
	mux.HandleFunc("GET /api/v1/report", f.report)
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}", f.one)
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/explain", f.explain)
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/history", f.history)
	mux.HandleFunc("GET /api/v1/probes/{namespace}/{pod}/{container}/{kind}/durations", f.durations)
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind string, o object) {
		text, _ := json.Marshal(o) // cannot fail
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, text)
	}
	for kind, all := range map[string][]object{"probe": f.probes, "pod": f.pods, "event": f.events} {
		for _, o := range all {
			send(kind, o)
		}
	}
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case next := <-f.later:
			send(next.kind, next.object)
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fake) find(r *http.Request) object {
	for _, p := range f.probes {
		if p["namespace"] == r.PathValue("namespace") && p["pod"] == r.PathValue("pod") && p["container"] == r.PathValue("container") && p["kind"] == r.PathValue("kind") {
			return p
		}
	}
	return nil
}

// wave returns reproducible numbers that look measured.
func wave(i, seed int) float64 {
	return 1 + 0.25*math.Sin(float64(i)*1.7+float64(seed)) + 0.12*math.Sin(float64(i)*0.53+float64(seed)*3)
}

// ticks returns the last ticks of a probe, the newest first.
func ticks(p object) (all []object) {
	last := p["last"].(object)
	since, _ := time.Parse(time.RFC3339Nano, p["stateSince"].(string))
	for i := range 20 {
		at := noon.Add(-3*time.Second - time.Duration(i)*5*time.Second)
		result, text := p["state"], last["text"]
		if at.Before(since) {
			result, text = "success", ""
		}
		t := object{
			"result": result, "output": text, "error": "", "attempts": 1, "time": at.Format(time.RFC3339Nano), "metrics": []any{},
			"durationSeconds": last["durationSeconds"].(float64) * wave(i, len(p["pod"].(string))),
		}
		if result == "unknown" {
			t["output"], t["error"] = "", text
		}
		all = append(all, t)
	}
	return all
}

func (f *fake) one(w http.ResponseWriter, r *http.Request) {
	p := f.find(r)
	if p == nil {
		w.WriteHeader(http.StatusNotFound)
		answer(w, object{"message": "there is no such probe"})
		return
	}
	answer(w, object{"history": ticks(p)})
}

func (f *fake) explain(w http.ResponseWriter, r *http.Request) {
	p := f.find(r)
	if p == nil {
		w.WriteHeader(http.StatusNotFound)
		answer(w, object{"message": "there is no such probe"})
		return
	}
	all := ticks(p)
	for i, t := range all {
		seconds := t["durationSeconds"].(float64)
		t["counted"], t["countedAs"], t["run"], t["threshold"], t["before"], t["after"] = true, "failure", 51-i, 3, "failure", "failure"
		t["events"] = []any{
			object{"type": "phase", "name": "dns", "detail": "checkout.shop.internal: 10.20.0.31", "durationSeconds": 0.03 * seconds},
			object{"type": "phase", "name": "connect", "detail": "10.20.0.31:8443", "durationSeconds": 0.06 * seconds},
			object{"type": "phase", "name": "tls", "detail": "TLS 1.3, checkout.shop.internal", "durationSeconds": 0.18 * seconds},
			object{"type": "phase", "name": "first byte", "detail": "503 Service Unavailable", "durationSeconds": 0.68 * seconds},
			object{"type": "phase", "name": "body", "detail": "47 bytes", "durationSeconds": 0.05 * seconds},
		}
		t["reason"] = "http_status"
	}
	all[0]["details"] = object{"body": `{"status": "down", "failed": ["payments-gateway"]}`}
	all[0]["metrics"] = []any{
		object{"name": "http_status", "value": 503}, object{"name": "certificate_expires", "value": 61, "unit": "d"}, object{"name": "body_size", "value": 51, "unit": "B"},
	}
	answer(w, object{
		"probe": object{
			"namespace": p["namespace"], "pod": p["pod"], "container": p["container"], "kind": p["kind"], "handler": p["handler"], "state": p["state"], "stateSince": p["stateSince"],
			"result": p["result"], "run": 51, "containerID": "local://7zuiausxsxoyao7xfjfuvuxf24", "next": noon.Add(2 * time.Second).Format(time.RFC3339),
			"spec": object{"initialDelay": "0s", "period": "5s", "timeout": "1s", "successThreshold": 1, "failureThreshold": 3}, "last": all[0],
		},
		"summary": "51 failures in a row: the result stays failure; one success makes it success, which makes the container ready; the next attempt is in 2s",
		"ticks":   all,
	})
}

func (f *fake) history(w http.ResponseWriter, r *http.Request) {
	p := f.find(r)
	var points []object
	for i := range 288 {
		at := noon.Add(-day + time.Duration(i)*5*time.Minute)
		failed := 0
		if i == 96 || i == 97 || i >= 287 {
			failed = 60
		}
		points = append(points, object{"time": at.Format(time.RFC3339), "success": 60 - failed, "failure": failed, "meanSeconds": 0.04, "maxSeconds": 0.046 * wave(i, 5) * (1 + 0.5*math.Exp(-math.Pow(float64(i-96)/12, 2)))})
	}
	answer(w, object{"since": noon.Add(-day).Format(time.RFC3339), "until": noon.Format(time.RFC3339), "stepSeconds": 300, "points": points, "transitions": []any{
		object{"time": p["stateSince"], "from": "success", "to": "failure", "reason": "http_status", "text": "HTTP status 503, want 2xx"},
		object{"time": noon.Add(-15*time.Hour - 50*time.Minute).Format(time.RFC3339), "from": "failure", "to": "success"},
		object{"time": noon.Add(-16 * time.Hour).Format(time.RFC3339), "from": "success", "to": "failure", "reason": "connect_refused", "text": "dial tcp 10.20.0.31:8443: connect: connection refused"},
	}})
}

// durations has an hour in which the phases were slow, and one without ticks.
func (f *fake) durations(w http.ResponseWriter, r *http.Request) {
	p := f.find(r)
	if p == nil {
		w.WriteHeader(http.StatusNotFound)
		answer(w, object{"message": "there is no such probe"})
		return
	}
	hours := map[string]int{"7d": 7 * 24, "30d": 30 * 24}[r.URL.Query().Get("since")]
	hours, step := max(hours, 24), 1
	if hours > 200 {
		step = 4
	}
	seconds := p["last"].(object)["durationSeconds"].(float64)
	track := func(name string, share float64, seed int) object {
		var points []object
		for i := 0; i <= hours; i += step {
			if i%24 == 11 {
				continue
			}
			slow := 1 + 6*math.Exp(-math.Pow(float64(i%24-7)/1.5, 2)) + 0.4*math.Sin(float64(i)/24*2*math.Pi)
			base := share * seconds * slow * wave(i, seed)
			points = append(points, object{"time": noon.Add(time.Duration(i-hours) * time.Hour).Format(time.RFC3339), "ticks": 720 * step, "p50Seconds": base, "p90Seconds": 1.6 * base, "p99Seconds": 3.1 * base})
		}
		return object{"name": name, "ticks": 720 * step * len(points), "p50Seconds": share * seconds, "p90Seconds": 2.1 * share * seconds, "p99Seconds": 8 * share * seconds, "points": points}
	}
	d := track("", 1, 1)
	d["since"], d["until"], d["stepSeconds"] = noon.Add(-time.Duration(hours)*time.Hour).Format(time.RFC3339), noon.Format(time.RFC3339), 3600*step
	d["phases"] = []any{track("dns", 0.03, 2), track("connect", 0.06, 3), track("tls", 0.18, 4), track("first byte", 0.68, 5), track("body", 0.05, 6)}
	if p["handler"] == "exec" {
		d["phases"] = []any{}
	}
	answer(w, d)
}

// partsOf returns the uptimes of the last 30 days of the probe with a number.
func partsOf(i int, p object) []any {
	parts := make([]any, 30)
	for day := 3; day < len(parts); day++ { // the agent was installed then
		parts[day] = 1.0
	}
	if i%7 == 3 {
		parts[10+i%10], parts[21] = 0.991, 0.72
	}
	if p["state"] == "failure" {
		parts[29] = 0.4
	}
	return parts
}

func (f *fake) report(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	var items []object
	for i, p := range f.probes {
		if pod := query.Get("pod"); pod != "" && (pod != p["pod"] || query.Get("container") != p["container"] || query.Get("kind") != p["kind"]) {
			continue
		}
		item := object{"namespace": p["namespace"], "pod": p["pod"], "container": p["container"], "kind": p["kind"], "handler": p["handler"], "uptime": 1.0, "seconds": object{"success": 2_592_000}, "incidents": []any{}, "incidentCount": 0}
		if p["state"] == "failure" || i%7 == 3 {
			down := 240.0 * float64(1+i%5)
			item["uptime"], item["incidentCount"], item["longestSeconds"] = 1-down/2_592_000, 1+i%3, down
			item["seconds"] = object{"success": 2_592_000 - down, "failure": down}
			incident := object{"start": noon.Add(-time.Duration(i+1) * 7 * time.Hour).Format(time.RFC3339), "durationSeconds": down, "reason": "http_status", "text": "HTTP status 503"}
			if p["state"] == "failure" {
				incident["start"] = p["stateSince"]
			} else {
				incident["end"] = noon.Add(-time.Duration(i) * 7 * time.Hour).Format(time.RFC3339)
			}
			item["incidents"] = []any{incident}
		}
		if query.Get("parts") == "30" {
			item["parts"] = partsOf(i, p)
		}
		maps.Copy(item, f.reported[p["pod"].(string)])
		items = append(items, item)
	}
	answer(w, object{"since": noon.Add(-30 * day).Format(time.RFC3339), "until": noon.Format(time.RFC3339), "items": items})
}
