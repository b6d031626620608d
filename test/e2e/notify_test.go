//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
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

// hook is a server that records the bodies of requests by path.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	bodies map[string][][]byte
}

func newHook(t *testing.T) *hook {
	h := &hook{bodies: make(map[string][][]byte)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.bodies[r.URL.Path] = append(h.bodies[r.URL.Path], body)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) got(path string) [][]byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.bodies[path])
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

// TestNotificationFormats decodes an agent's messages about a hostile target with the types of slack-go and
// go-pagerduty, and with Microsoft's library for Adaptive Cards.
func TestNotificationFormats(t *testing.T) {
	decoder := filepath.Join(t.TempDir(), "receivers")
	if out, err := exec.Command("go", "build", "-C", "receivers", "-o", decoder, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cards := filepath.Join(cache, "prober/adaptivecards/node_modules/adaptivecards/dist/adaptivecards.js")
	h := newHook(t)
	manifest, well := failingPod(t)
	agent(t, "-f", manifest, "--config", file(t, "prober.yaml", fmt.Sprintf(`
apiVersion: prober.dev/v1
kind: AgentConfig
notify:
  externalURL: https://prober.example
  receivers:
  - {name: slack, groupWait: 0s, groupInterval: 1s, webhook: {format: slack, url: "%[1]s/slack"}}
  - {name: teams, groupWait: 0s, groupInterval: 1s, webhook: {format: teams, url: "%[1]s/teams"}}
  - {name: pager, groupWait: 0s, groupInterval: 1s, webhook: {format: pagerduty, url: "%[1]s/pager", routingKeyFile: %[2]s}}
`, h.URL, file(t, "key", "R0123456789"))))
	for _, path := range []string{"/slack", "/teams", "/pager"} {
		await(t, "the failure at "+path, func() bool { return len(h.got(path)) == 1 })
	}
	if err := os.WriteFile(well, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/slack", "/teams", "/pager"} {
		await(t, "the end at "+path, func() bool { return len(h.got(path)) == 2 })
	}
	for i, action := range []string{"trigger", "resolve"} {
		out := filtered(t, h.got("/slack")[i], decoder, "slack")
		if i == 0 && !strings.Contains(out, `\u0026lt;!channel\u0026gt;`) || strings.Contains(out, "<!channel>") || strings.Contains(out, `\u003c!channel`) {
			t.Errorf("Slack: %s", out)
		}
		if texts := filtered(t, h.got("/teams")[i], "node", "testdata/card.js", cards); i == 0 && !strings.Contains(texts, shownText) {
			t.Errorf("Teams: %s", texts)
		}
		var event struct {
			Action string `json:"event_action"`
			Key    string `json:"dedup_key"`
			Route  string `json:"routing_key"`
		}
		if err := json.Unmarshal([]byte(filtered(t, h.got("/pager")[i], decoder, "pagerduty")), &event); err != nil {
			t.Fatal(err)
		}
		if event.Action != action || event.Route != "R0123456789" || !strings.HasPrefix(event.Key, "prober-") || len(event.Key) > 255 {
			t.Errorf("PagerDuty: %+v", event)
		}
	}
}

// TestNotificationMail sends mail to a mail server of another project, with STARTTLS and a password.
func TestNotificationMail(t *testing.T) {
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
	body, err := io.ReadAll(quotedprintable.NewReader(m.Body))
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
