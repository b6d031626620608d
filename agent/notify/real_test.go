package notify_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/core/states"
)

// patience exceeds the duration of any expected event on the slowest machine.
const patience = 2 * time.Minute

// await waits until condition returns true.
func await(t *testing.T, done <-chan struct{}, n *notify.Notifier, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-done:
			t.Fatal("the notifier has ended")
		case <-deadline:
			t.Fatalf("%+v", n.Status())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func changeOf(pod string, to states.State, text string) *states.Change {
	return &states.Change{Info: info(pod, "uid-"+pod), To: to, Time: time.Now(), Cause: states.Cause{Reason: "body", Text: text}}
}

// secrets that must not be shown.
const (
	urlSecret   = "T000/B000/s3cr3tOfTheURL"
	tokenSecret = "s3cr3tT0ken"
)

// Responses of receivers are shown without dangerous characters, and without secrets that they repeat.
func TestAnswersOfReceivers(t *testing.T) {
	reflect := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "\x1b[31mno %s %s\u202e\n<b>", r.URL, r.Header.Get("Authorization"))
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		state  string
		text   string
	}{
		"repeats secrets": {reflect, "refused", "HTTP status 403 Forbidden: no [redacted] Bearer [redacted] <b>"},
		"never ends":      {endless, "failing", "HTTP status 500 Internal Server Error"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/"+urlSecret, http.StatusTemporaryRedirect)
		}, "refused", "redirects are not followed"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "failing", "no answer within 500ms"},
		"closes": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(200)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "ok", ""}, // the response accepted the message
		"resets": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "failing", "EOF"},
		"long header": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			w.WriteHeader(200)
		}, "failing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.answer)
			defer server.Close()
			n, done := newRealNotifier(t, fmt.Sprintf("{name: ops, groupWait: 0s, webhook: {urlFile: %s, bearerTokenFile: %s, timeout: 500ms}}",
				secretFile(t, server.URL+"/"+urlSecret), secretFile(t, tokenSecret)))
			n.Changed(changeOf("web", failure, ""))
			await(t, done, n, func() bool { return n.Status().Items[0].State != "unused" })
			r := n.Status().Items[0]
			if r.State != c.state || !strings.Contains(r.Error, c.text) {
				t.Errorf("%+v", r)
			}
			checkHarmless(t, "error", r.Error, false)
			if strings.Contains(r.Error, urlSecret) || strings.Contains(r.Error, tokenSecret) || len(r.Error) > 600 {
				t.Errorf("%d bytes: %s", len(r.Error), r.Error)
			}
		})
	}
}

func TestTLSOfReceivers(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	put(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), 0o600)
	for fields, want := range map[string]string{"": "certificate signed by unknown authority", ", ca: " + ca: "", ", ca: /dev/null": "not a regular file", ", ca: " + secretFile(t, "x"): "has no certificate"} {
		n, done := newRealNotifier(t, "{name: ops, groupWait: 0s, webhook: {url: '"+server.URL+"'"+fields+"}}")
		n.Changed(changeOf("web", failure, ""))
		await(t, done, n, func() bool { return n.Status().Items[0].State != "unused" })
		if r := n.Status().Items[0]; !strings.Contains(r.Error, want) || (r.Error == "") != (want == "") {
			t.Errorf("%s: %+v", fields, r)
		}
	}
}

// A changed secret is read at the next message. A missing file is retried.
func TestMissingSecret(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		file := filepath.Join(t.TempDir(), "url")
		w.Set("prober.yaml", parse(t, "notify: {receivers: [{name: ops, webhook: {urlFile: "+file+"}}]}"))
		w.setState("web", failure)
		time.Sleep(time.Minute)
		if r := w.Status().Items[0]; r.State != "failing" || !strings.Contains(r.Error, "urlFile: open ") {
			t.Errorf("%+v", r)
		}
		put(t, file, "no URL", 0o600)
		time.Sleep(10 * time.Minute)
		if r := w.Status().Items[0]; r.State != "refused" || r.Error != "urlFile: must contain an http:// or https:// URL" {
			t.Errorf("%+v", r)
		}
		put(t, file, "http://h/x\n", 0o600)
		if r, err := w.Test(t.Context(), "ops"); err != nil || !r.Delivered {
			t.Error(r, err)
		}
		time.Sleep(10 * time.Minute)
		if r := w.Status().Items[0]; r.State != "ok" || r.Pending != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ script, state, text string }{
		"fails":         {"echo why; echo \x1b[31mit fails >&2; exit 3", "failing", "exit code 3: why it fails"},
		"hangs":         {"sleep 1000 & echo begun; wait", "failing", "the command was killed after 500ms: begun"},
		"floods":        {"yes", "failing", "the command was killed after 500ms: y y"},
		"does not read": {"exec true", "ok", ""},
		"leaves":        {"sleep 1000 & exit 0", "ok", ""},
	} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			put(t, script, "#!/bin/sh\n"+c.script+"\n", 0o755)
			n, done := newRealNotifier(t, "{name: local, groupWait: 0s, exec: {command: ["+script+"], timeout: 500ms}}")
			n.Changed(changeOf("web", failure, strings.Repeat("x", 1000)))
			await(t, done, n, func() bool { return n.Status().Items[0].State != "unused" })
			if r := n.Status().Items[0]; r.State != c.state || !strings.HasPrefix(r.Error, c.text) {
				t.Errorf("%+v", r)
			}
		})
	}
	n, done := newRealNotifier(t, "{name: local, groupWait: 0s, exec: {command: [/no/such/program]}}")
	n.Changed(changeOf("web", failure, ""))
	await(t, done, n, func() bool { return n.Status().Items[0].State == "failing" })
}

// A change never waits for a receiver, and the memory of a hanging receiver is bounded by the number of
// probes.
func TestHangingReceiverDelaysNoChange(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	n, _ := newRealNotifier(t, "{name: ops, groupWait: 0s, webhook: {url: 'http://"+silent.Addr().String()+"'}}")
	changes := [2]*states.Change{changeOf("web", failure, strings.Repeat("x", 1000)), changeOf("web", ok, "")}
	worst := time.Duration(0)
	for i := range 200000 {
		before := time.Now()
		n.Changed(changes[i%2])
		worst = max(worst, time.Since(before))
	}
	if worst > 10*time.Second {
		t.Errorf("a change took %s", worst)
	}
	if s := n.Status().Items[0]; len(s.Alerts) > 1 {
		t.Errorf("%+v", s)
	}
	t.Logf("the slowest of 200,000 changes took %s", worst)
}

// A restart neither repeats nor loses messages.
func TestStateSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		file := filepath.Join(t.TempDir(), "notifications.json")
		restart := func() {
			w.stop()
			w.cfg.StateFile = file
			w.run()
		}
		restart()
		w.setState("a", failure)
		w.setState("gone", failure)
		time.Sleep(time.Minute)
		w.expect("10s: a failure, gone failure")
		w.mu.Lock()
		w.probes[key("gone")] = false
		w.mu.Unlock()
		restart()
		w.setState("a", failure) // the new agent's first result
		time.Sleep(time.Hour)
		w.expect("3m10s: a failure, gone removed")

		w.answerWith(status(503))
		w.setState("a", ok)
		time.Sleep(time.Minute)
		w.setState("b", failure)
		time.Sleep(time.Minute)
		w.setState("b", ok)
		restart()
		w.answerWith(nil)
		w.setState("a", ok)
		time.Sleep(20 * time.Minute)
		if got := w.takeLetters(); len(got) != 1 || !strings.HasSuffix(got[0], ": a resolved, b resolved") {
			t.Errorf("pending: %q\n%s", got, w.log)
		}

		w.setState("c", failure)
		time.Sleep(5 * time.Second)
		restart() // within the group wait
		w.setState("c", failure)
		time.Sleep(20 * time.Minute)
		if got := w.takeLetters(); len(got) != 1 || !strings.HasSuffix(got[0], ": c failure") {
			t.Errorf("waiting: %q\n%s", got, w.log)
		}
	})
}

// A killed agent has saved everything older than a second, also while a message was in flight.
func TestStateSurvivesKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		dir := t.TempDir()
		w.stop()
		w.cfg.StateFile = filepath.Join(dir, "state")
		w.run()
		killed := 0
		kill := func() { // the next agent gets a copy of the state saved so far
			time.Sleep(time.Second)
			killed++
			data, err := os.ReadFile(w.cfg.StateFile)
			if err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, fmt.Sprint(killed)), string(data), 0o600)
			w.answerWith(status(503))
			w.stop()
			w.cfg.StateFile = filepath.Join(dir, fmt.Sprint(killed))
			w.answerWith(nil)
			w.run()
		}
		for range 10 {
			w.setState("a", failure)
			kill()
			w.setState("a", failure)
			time.Sleep(2 * time.Minute)
			kill()
			w.answerWith(behaviours["hangs"])
			w.setState("a", ok)
			time.Sleep(15 * time.Second) // the message about its end is in flight
			kill()
			time.Sleep(20 * time.Minute)
			got := w.takeLetters()
			for i := range got {
				_, got[i], _ = strings.Cut(got[i], ": ")
			}
			if !slices.Equal(got, []string{"a failure", "a resolved"}) {
				t.Errorf("%q\n%s", got, w.log)
			}
		}
	})
}

// The ID of a group survives a restart: an incident of PagerDuty must be resolved.
func TestIDSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ", groupBy: [pod]")
		w.stop()
		w.cfg.StateFile = filepath.Join(t.TempDir(), "notifications.json")
		w.run()
		var ids []string
		w.raw = func(body string) {
			_, id, _ := strings.Cut(body, `"id":"`)
			id, _, _ = strings.Cut(id, `"`)
			ids = append(ids, id)
		}
		w.setState("a", failure)
		time.Sleep(time.Minute)
		w.stop()
		data, err := os.ReadFile(w.cfg.StateFile)
		if err != nil {
			t.Fatal(err)
		}
		put(t, w.cfg.StateFile, strings.ReplaceAll(string(data), ids[0], "of-another-host"), 0o600)
		w.run()
		w.setState("a", ok)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(ids) != 2 || ids[1] != "of-another-host" {
			t.Errorf("%q", ids)
		}
		if info, err := os.Stat(w.cfg.StateFile); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(info.Mode(), err)
		}
	})
}

func TestBrokenStateFileIsIgnored(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"version": 2}`, `{"version":1,"receivers":{"ops":{"items":[{"kind":"x"},{"kind":"liveness","state":"x"}],"groups":[{"name":"x"}]},"x":null}}`, `{"version":1,"receivers":{"ops":null}}`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "")
			w.stop()
			w.cfg.StateFile = filepath.Join(t.TempDir(), "notifications.json")
			put(t, w.cfg.StateFile, text, 0o600)
			w.run()
			w.setState("a", failure)
			time.Sleep(time.Minute)
			w.expect("10s: a failure")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "")
		w.stop()
		w.cfg.StateFile = filepath.Join(t.TempDir(), "missing", "notifications.json")
		w.run()
		w.setState("a", failure)
		time.Sleep(time.Minute)
		w.expect("10s: a failure")
		found := false
		for name, text := range w.Trouble(time.Now()) {
			found = found || name == "notifications" && strings.Contains(text, "their state cannot be saved")
		}
		if !found || strings.Count(w.log.String(), "cannot be saved") != 1 {
			t.Error(w.log)
		}
	})
}

// Without a state file, an agent that stops sends pending messages at once.
func TestStopSendsPendingMessages(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.setState("a", failure)
		time.Sleep(time.Second)
		w.stop()
		w.expect("1s: a failure")
	})
	bubble(t, "", func(t *testing.T, w *world) {
		w.answerWith(behaviours["hangs"])
		w.setState("a", failure)
		time.Sleep(time.Second)
		before := time.Now()
		w.stop()
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}

func TestTrouble(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.answerWith(status(503))
		w.setState("a", failure)
		texts := func() (all []string) {
			for name, text := range w.Trouble(time.Now()) {
				all = append(all, name+" "+text)
			}
			return all
		}
		time.Sleep(30 * time.Second)
		if got := texts(); len(got) != 0 {
			t.Errorf("%q", got)
		}
		time.Sleep(time.Minute)
		if got := texts(); len(got) != 1 || got[0] != "receiver ops not delivered since 2000-01-01T00:00:10Z: HTTP status 503 Service Unavailable: no" {
			t.Errorf("%q", got)
		}
	})
}

func TestUnknownReceiver(t *testing.T) {
	n := notify.New(notify.Config{Log: slog.New(slog.DiscardHandler)})
	if _, err := n.Test(context.Background(), "nobody"); err != notify.ErrNoReceiver {
		t.Error(err)
	}
}
