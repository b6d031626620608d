//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// hostileText is the answer of a target. None of its markup may take effect in a message.
const hostileText = "\x1b[31m<!channel> <http://evil.example|bank> `code` *b*\x1b]0;t\a\r\nBcc: all@example.org\r\n\r\n.\r\n [x](http://evil.example) {{DATE(x)}} \u202e</script>\",\"x\":\"\xff"

// shownText is the beginning of hostileText as messages show it.
const shownText = "<!channel> <http://evil.example|bank> `code` *b* Bcc: all@example.org . [x](http://evil.example)"

// failingPod returns a manifest whose probe fails and prints hostileText, until there is a file "well".
func failingPod(t *testing.T) (manifest, well string) {
	dir := t.TempDir()
	text, well := filepath.Join(dir, "text"), filepath.Join(dir, "well")
	if err := os.WriteFile(text, []byte(hostileText), 0o600); err != nil {
		t.Fatal(err)
	}
	return file(t, "pods.yaml", fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: web
    command: [sleep, "100000"]
    readinessProbe: {exec: {command: [sh, -c, "test -e %s || { cat %s; exit 1; }"]}, periodSeconds: 1, failureThreshold: 1}
`, well, text)), well
}

// hook is a server that records requests.
type hook struct {
	*httptest.Server
	mu       sync.Mutex
	requests []hookRequest
}

type hookRequest struct {
	method, path, authorization string
	body                        []byte
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.requests = append(h.requests, hookRequest{r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), body})
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(h.Close)
	return h
}

// got returns the requests for a path and those below it.
func (h *hook) got(path string) (all []hookRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.requests {
		if strings.HasPrefix(r.path+"/", path+"/") {
			all = append(all, r)
		}
	}
	return all
}

// bodies returns the bodies of all requests, one after another.
func (h *hook) bodies() (all []byte) {
	for _, r := range h.got("") {
		all = append(all, r.body...)
	}
	return all
}

// filtered returns the output of a program for input.
func filtered(t *testing.T, input []byte, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v %s\n%s", program, args, err, &said, input)
	}
	return string(out)
}

// notificationFormats has the fields of a receiver, the requests that the service expects about the failure and
// its end, as a pattern, and what shows a harmless text in the body, by format.
var notificationFormats = map[string]struct{ fields, begin, end, shows string }{
	"alertmanager": {"", "POST /alertmanager/api/v2/alerts$", "", `"endsAt"`},
	"discord":      {"", "POST /discord$", "", "shown in code"},
	"gotify":       {"bearerTokenFile: TOKEN", "POST /gotify/message Bearer R0123456789$", "", "shown"},
	"matrix":       {"room: '!abc:h.example', bearerTokenFile: TOKEN", `PUT /matrix/_matrix/client/v3/rooms/%21abc:h\.example/send/m\.room\.message/prober-[0-9a-f]{32} Bearer R0123456789$`, "", "shown"},
	"ntfy":         {"", "POST /ntfy$", "", "shown"},
	"opsgenie":     {"apiKeyFile: TOKEN", "POST /opsgenie/v2/alerts GenieKey R0123456789$", "POST /opsgenie/v2/alerts/prober-[0-9a-f]{24}/close[?]identifierType=alias GenieKey R0123456789$", "shown"},
	"pagerduty":    {"routingKeyFile: TOKEN", "POST /pagerduty$", "", `"R0123456789"`},
	"slack":        {"", "POST /slack$", "", `\u0026lt;!channel\u0026gt;`},
	"teams":        {"", "POST /teams$", "", "shown"},
	"telegram":     {"botTokenFile: TOKEN, chatID: -100123", "POST /telegram/botR0123456789/sendMessage$", "", `\u003ccode\u003eexec_exit: \u0026lt;!channel\u0026gt;`},
}

// TestNotificationFormats decodes an agent's messages about a hostile target with the types of the clients or
// servers of the services, and with Microsoft's library for Adaptive Cards.
func TestNotificationFormats(t *testing.T) {
	t.Parallel()
	decoder := filepath.Join(t.TempDir(), "receivers")
	if out, err := exec.Command("go", "build", "-C", "receivers", "-o", decoder, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	h := newHook(t)
	manifest, well := failingPod(t)
	token := file(t, "key", "R0123456789")
	var receivers strings.Builder
	for name, f := range notificationFormats {
		fields := strings.ReplaceAll(f.fields, "TOKEN", token)
		path := name
		if name == "ntfy" {
			path += "/topic"
		}
		fmt.Fprintf(&receivers, "  - {name: %s, groupWait: 0s, groupInterval: 1s, webhook: {format: %s, url: '%s/%s', %s}}\n", name, name, h.URL, path, fields)
	}
	agent(t, "-f", manifest, "--config", file(t, "prober.yaml", "apiVersion: prober.dev/v1\nkind: AgentConfig\nnotify:\n  externalURL: https://prober.example\n  receivers:\n"+receivers.String()))
	for name := range notificationFormats {
		await(t, "the failure for "+name, func() bool { return len(h.got("/"+name)) == 1 })
	}
	if err := os.WriteFile(well, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name := range notificationFormats {
		await(t, "the end for "+name, func() bool { return len(h.got("/"+name)) == 2 })
	}
	for name, f := range notificationFormats {
		for i, pattern := range []string{f.begin, cmp.Or(f.end, f.begin)} {
			r := h.got("/" + name)[i]
			if line := strings.TrimSpace(r.method + " " + r.path + " " + r.authorization); !regexp.MustCompile("^" + pattern).MatchString(line) {
				t.Errorf("%s: %s, want %s", name, line, pattern)
			}
			out := decodedNotification(t, decoder, name, i == 1, r.body)
			shows := map[string]string{"shown": shownText, "shown in code": strings.ReplaceAll(shownText, "`", "ˋ")}[f.shows]
			if i == 0 && !strings.Contains(out, cmp.Or(shows, f.shows)) {
				t.Errorf("%s: %s", name, out)
			}
		}
	}
	checkDedupKeys(t, h)
}

// decodedNotification returns a body as the types of its service have it, with the characters of HTML as they
// are if the format has texts without markup.
func decodedNotification(t *testing.T, decoder, name string, end bool, body []byte) string {
	t.Helper()
	switch {
	case name == "teams":
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		return filtered(t, body, "node", "testdata/card.js", filepath.Join(cache, "prober/adaptivecards/node_modules/adaptivecards/dist/adaptivecards.js"))
	case name == "opsgenie" && end:
		name = "opsgenie-close"
	}
	out := filtered(t, body, decoder, name)
	if name == "slack" && (strings.Contains(out, "<!channel>") || strings.Contains(out, `\u003c!channel`)) || name == "telegram" && strings.Contains(out, `\u003c!channel`) {
		t.Errorf("%s: %s", name, out)
	}
	if name == "slack" || name == "telegram" {
		return out
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(out)
}

// checkDedupKeys checks that the end of an incident has the key of its begin.
func checkDedupKeys(t *testing.T, h *hook) {
	t.Helper()
	var keys []string
	for i, action := range []string{"trigger", "resolve"} {
		var event struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
		}
		if err := json.Unmarshal(h.got("/pagerduty")[i].body, &event); err != nil || event.Action != action {
			t.Errorf("PagerDuty: %v %+v", err, event)
		}
		keys = append(keys, event.Key)
	}
	if keys[0] != keys[1] || len(keys[0]) > 255 || !strings.HasPrefix(keys[0], "prober-") {
		t.Errorf("PagerDuty: %q", keys)
	}
	var alert struct{ Alias string }
	opsgenie := h.got("/opsgenie")
	if err := json.Unmarshal(opsgenie[0].body, &alert); err != nil || !strings.Contains(opsgenie[1].path, "/"+alert.Alias+"/close") {
		t.Errorf("Opsgenie: %v %s %s", err, alert.Alias, opsgenie[1].path)
	}
}

// TestNotificationAlertmanager sends alerts to a real Alertmanager, which must notify of the failure and of its
// end.
func TestNotificationAlertmanager(t *testing.T) {
	t.Parallel()
	type group struct {
		Status string
		Alerts []struct {
			Status, GeneratorURL string
			Labels, Annotations  map[string]string
		}
	}
	h := newHook(t)
	alertmanager := freeAddress(t)
	listening(t, alertmanager, exec.Command("prometheus-alertmanager", "--cluster.listen-address=", "--web.listen-address="+alertmanager,
		"--storage.path="+t.TempDir(), "--config.file="+file(t, "alertmanager.yml", fmt.Sprintf(`
route: {receiver: test, group_by: [alertname, pod], group_wait: 0s, group_interval: 1s}
receivers: [{name: test, webhook_configs: [{url: "%s/am", send_resolved: true}]}]
`, h.URL))))
	manifest, well := failingPod(t)
	agent(t, "-f", manifest, "--config", file(t, "prober.yaml", fmt.Sprintf(`
apiVersion: prober.dev/v1
kind: AgentConfig
notify:
  externalURL: https://prober.example
  receivers: [{name: am, groupWait: 0s, groupInterval: 1s, webhook: {format: alertmanager, url: "http://%s"}}]
`, alertmanager)))
	for i, want := range []string{"firing", "resolved"} {
		await(t, want, func() bool { return len(h.got("/am")) > i })
		var g group
		if err := json.Unmarshal(h.got("/am")[i].body, &g); err != nil || g.Status != want || len(g.Alerts) != 1 {
			t.Fatalf("%v %+v", err, g)
		}
		a := g.Alerts[0]
		if a.Status != want || a.Labels["alertname"] != "ProberProbeFailing" || a.Labels["pod"] != "shop" || !strings.Contains(a.Annotations["cause"], shownText) ||
			a.GeneratorURL != "https://prober.example/#/probe/default/shop/web/readiness" {
			t.Errorf("%+v", a)
		}
		if err := os.WriteFile(well, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNotificationMail sends mail to a mail server of another project, with STARTTLS and a password.
func TestNotificationMail(t *testing.T) {
	t.Parallel()
	dir, mails := t.TempDir(), t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if out, err := exec.Command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
		"-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address := freeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	listening(t, address, exec.Command("/usr/bin/python3", "testdata/smarthost.py", port, cert, key, mails))
	receiver := func(name, more string) string {
		return fmt.Sprintf(`
  - name: %s
    groupWait: 0s
    mail: {to: ["Öps <ops@example.org>", two@example.org], from: prober@example.org, smarthost: "%s", username: prober, %s}`, name, address, more)
	}
	good, wrong := file(t, "password", "s3cret"), file(t, "password", "wr0ng")
	manifest, _ := failingPod(t)
	agentAt := agent(t, "-f", manifest, "--config", file(t, "prober.yaml", `
apiVersion: prober.dev/v1
kind: AgentConfig
notify:
  receivers:`+receiver("good", "ca: "+cert+", passwordFile: "+good)+receiver("wrong", "ca: "+cert+", passwordFile: "+wrong)+receiver("stranger", "passwordFile: "+good)+"\n"))
	var all []string
	await(t, "a mail", func() bool {
		all, _ = filepath.Glob(filepath.Join(mails, "*.mail"))
		return len(all) > 0
	})
	data, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	envelope, text, _ := bytes.Cut(data, []byte("\n\n"))
	if string(envelope) != "prober@example.org\nops@example.org\ntwo@example.org" {
		t.Errorf("envelope %q", envelope)
	}
	m, err := mail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	to, err := m.Header.AddressList("To")
	if err != nil || len(to) != 2 || to[0].Name != "Öps" || m.Header.Get("Bcc") != "" {
		t.Errorf("to %v, %v", to, err)
	}
	if subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")); err != nil || !strings.HasPrefix(subject, "[prober] shop/web readiness fails: <!channel> ") || !strings.Contains(subject, " (exec sh -c ") || len(subject) > 400 {
		t.Errorf("subject %q, %v", subject, err)
	}
	_, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	part, err := multipart.NewReader(m.Body, params["boundary"]).NextPart()
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(part)
	if err != nil || !strings.Contains(string(body), shownText) || !strings.Contains(string(body), "prober explain -n default shop/web readiness") {
		t.Errorf("%v: %s", err, body)
	}
	for name, want := range map[string]string{"wrong": "535", "stranger": "certificate signed by unknown authority"} {
		await(t, "the error of "+name, func() bool {
			var list struct {
				Items []struct{ Name, Error string }
			}
			if err := json.Unmarshal([]byte(get(t, agentAt, "/api/v1/notifications")), &list); err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(list.Items, func(r struct{ Name, Error string }) bool { return r.Name == name && strings.Contains(r.Error, want) })
		})
	}
}
