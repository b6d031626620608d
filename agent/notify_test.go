package agent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/notify/format"
)

// notifying returns a prober.yaml with receivers, and folders for secrets.
func notifying(t *testing.T, receivers string) func(*agent.Config) {
	file := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, file, configHead+"notify: {receivers: ["+receivers+"]}\n")
	return func(c *agent.Config) { c.ConfigFile = file }
}

// Receivers that accept a message and never respond delay no probe, whatever their type: all probes keep
// ticking and changing while the receivers hang.
func TestHungReceiversDelayNoProbe(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}, 10), make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case asked <- struct{}{}:
		default:
		}
		<-release
	}))
	defer hung.Close()
	defer close(release)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never responds
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	w := newTarget(t)
	var pods strings.Builder
	for i := range 20 {
		fmt.Fprintf(&pods, "%s---\n", w.external(fmt.Sprint("shop-", i)))
	}
	r := start(t, strings.TrimSuffix(pods.String(), "---\n"), notifying(t, fmt.Sprintf(`{name: hung, groupWait: 0s, webhook: {url: %q, timeout: 1m}},
{name: silent, groupWait: 0s, webhook: {url: "http://%s", format: slack, timeout: 1m}}, {name: sleeps, groupWait: 0s, exec: {command: [/bin/sleep, "1000"], timeout: 5m}},
{name: mail, groupWait: 0s, mail: {to: [a@b.c], from: a@b.c, smarthost: %q, tls: none, timeout: 5m}}`, hung.URL, silent.Addr(), silent.Addr())))
	events := r.stream()
	count := func(want func(*streamedProbe) bool) {
		left := make(map[string]bool)
		for i := range 20 {
			left[fmt.Sprint("shop-", i)] = true
		}
		for len(left) > 0 {
			p := awaitProbe(t, events, "probes", want)
			delete(left, p.Pod)
		}
	}
	count(ready)
	w.status.Store(http.StatusInternalServerError)
	count(unready)
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("the receiver was not told")
	}
	for range 3 { // while all receivers hang
		w.status.Store(http.StatusOK)
		count(ready)
		w.status.Store(http.StatusInternalServerError)
		count(unready)
	}
	var list api.NotificationList
	r.get("/api/v1/notifications", &list)
	for _, x := range list.Items {
		if x.Delivered+x.Failed+x.Refused != 0 {
			t.Errorf("%+v has an answer", x)
		}
	}
}

// A reload that changes the labels of a pod moves its incident to another receiver.
func TestReloadMovesIncidentToReceiverOfTeam(t *testing.T) {
	t.Parallel()
	type message struct{ Receiver, Status, Labels string }
	messages := make(chan message, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m format.Message
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
			return
		}
		messages <- message{m.Receiver, m.Status, fmt.Sprint(m.Probes[0].Labels)}
	}))
	defer hook.Close()
	w := newTarget(t)
	w.status.Store(http.StatusInternalServerError)
	pod := func(team string) string {
		return strings.Replace(w.external("checkout"), "  annotations:", "  labels: {team: "+team+"}\n  annotations:", 1)
	}
	receiver := func(team string) string {
		return fmt.Sprintf("{name: %s, groupWait: 0s, groupInterval: 0s, match: [{labels: team=%s}], webhook: {url: %q}}", team, team, hook.URL)
	}
	r := start(t, pod("shop"), notifying(t, receiver("shop")+", "+receiver("pay")))
	await := func(want ...message) {
		t.Helper()
		got := make(map[message]bool)
		for range want {
			select {
			case m := <-messages:
				got[m] = true
			case <-time.After(patience):
				t.Fatalf("got %v, want %v", got, want)
			}
		}
		for _, m := range want {
			if !got[m] {
				t.Errorf("got %v, want %v", got, m)
			}
		}
	}
	await(message{"shop", "failing", "map[team:shop]"})
	write(t, r.manifest, pod("pay"))
	await(message{"shop", "resolved", "map[team:shop]"}, message{"pay", "failing", "map[team:pay]"})
}

func TestNotificationsAreDescribed(t *testing.T) {
	t.Parallel()
	ops := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ops.Close()
	w := newTarget(t)
	w.status.Store(http.StatusInternalServerError)
	r := start(t, w.external("shop"), notifying(t, fmt.Sprintf(`{name: ops, groupWait: 0s, webhook: {url: %q}},
{name: away, groupWait: 0s, webhook: {url: "http://127.0.0.1:1/secret-of-the-url"}}`, ops.URL)))
	r.lines.await(t, 0, "notification was not delivered", "receiver=away")
	v := newValidator(t)
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/api/v1/notifications", 200}, {"POST", "/api/v1/notifications/ops/test", 200}, {"POST", "/api/v1/notifications/away/test", 502}, {"POST", "/api/v1/notifications/x/test", 404}} {
		status, body := r.do(c.method, c.path)
		path := strings.NewReplacer("/ops/", "/{receiver}/", "/away/", "/{receiver}/", "/x/", "/{receiver}/").Replace(c.path)
		if err := v.check(c.method, path, status, body); err != nil || status != c.status {
			t.Errorf("%s %s: %d, %v: %s", c.method, c.path, status, err, body)
		}
		if strings.Contains(body, "secret-of-the-url") {
			t.Errorf("%s shows the URL", body)
		}
	}
	r.lines.await(t, 0, "msg=action", "action=test", "object=ops", "result=ok")
	if r.lines.has("secret-of-the-url") {
		t.Error("the log shows the URL")
	}
}

func TestBadTemplateStartsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, file, configHead+"notify: {receivers: [{name: ops, webhook: {url: 'http://h', format: template, templateFile: missing}}]}\n")
	_, err := agent.New(t.Context(), agent.Config{Source: fromFiles(0), ConfigFile: file, Listen: "127.0.0.1:0"})
	if err == nil || !strings.Contains(err.Error(), file+":3: notify.receivers[0].webhook.templateFile: open ") {
		t.Error(err)
	}
}
