package notify_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/config"
)

// withHook adds the URL of the world and further fields of a receiver to a webhook of formats.
func withHook(hook, fields string) string {
	return "notify: {receivers: [{name: ops, webhook: " + strings.Replace(hook, "{", "{url: 'http://h', ", 1) + fields + "}]}"
}

// Alertmanager ends an alert that is not sent again before its endsAt.
func TestAlertmanagerAlertsLastUntilTheirEnd(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		type alert struct {
			Labels           map[string]string
			StartsAt, EndsAt time.Time
		}
		until := make(map[string]time.Time) // by state
		late := 0
		w.raw = func(body string) {
			var alerts []alert
			if err := json.Unmarshal([]byte(body), &alerts); err != nil {
				t.Error(err)
			}
			for _, a := range alerts {
				name := a.Labels["alertname"]
				if last, ok := until[name]; ok && time.Now().After(last) {
					late++
				}
				until[name] = a.EndsAt
			}
		}
		w.answerWith(func(http.ResponseWriter, *http.Request) {})
		w.Set("prober.yaml", parse(t, withHook("{format: alertmanager}", ", states: [failure, warning], for: 0s")))
		w.setState("web", failure)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.requests(); n < 58 || n > 62 || late > 0 || !until["ProberProbeFailing"].After(time.Now()) {
			t.Errorf("%d requests in an hour, %d too late; until %s", n, late, until)
		}
		w.answerWith(status(503)) // for as long as an alert lasts
		time.Sleep(3 * time.Minute)
		w.answerWith(func(http.ResponseWriter, *http.Request) {})
		w.setState("web", warning)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if until["ProberProbeFailing"].After(time.Now()) || !until["ProberProbeWarning"].After(time.Now()) {
			t.Errorf("after a change: %s", until)
		}
		w.setState("web", ok)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for name, end := range until {
			if end.After(time.Now()) {
				t.Errorf("%s lasts until %s", name, end)
			}
		}
	})
}

// A message about more probes than other formats list has all alerts.
func TestAlertmanagerGetsAllAlerts(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		n := 0
		w.raw = func(body string) { n = strings.Count(body, `"alertname"`) }
		w.answerWith(func(http.ResponseWriter, *http.Request) {})
		w.Set("prober.yaml", parse(t, withHook("{format: alertmanager}", "")))
		for i := range 500 {
			w.setState(fmt.Sprint("web-", i), failure)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n != 500 {
			t.Errorf("%d alerts", n)
		}
	})
}

// The alert of a test is closed, and each group has an alert of its own.
func TestOpsgenieAlertsAreClosed(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		var paths []string
		w.answerWith(func(out http.ResponseWriter, r *http.Request) {
			paths = append(paths, r.URL.Path)
			out.WriteHeader(http.StatusAccepted)
		})
		w.Set("prober.yaml", parse(t, withHook(formats(t)["opsgenie"], ", groupBy: [pod]")))
		if r, err := w.Test(t.Context(), "ops"); err != nil || !r.Delivered {
			t.Error(r, err)
		}
		w.setState("a", failure)
		w.setState("b", failure)
		time.Sleep(time.Minute)
		w.setState("a", ok)
		w.setState("b", ok)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		var opened, closed int
		for _, p := range paths {
			if p == "/v2/alerts" {
				opened++
			} else if strings.HasSuffix(p, "/close") {
				closed++
			}
		}
		slices.Sort(paths)
		if opened != 3 || closed != 3 || len(slices.Compact(paths)) != 4 {
			t.Errorf("%q", paths)
		}
	})
}

// An answer that repeats the request shows no secret.
func TestSecretsOfFormatsAreHidden(t *testing.T) {
	for name, hook := range formats(t) {
		if !strings.Contains(hook, "File:") {
			continue
		}
		bubble(t, "", func(t *testing.T, w *world) {
			var body, seen string
			w.raw = func(b string) { body = b }
			w.answerWith(func(out http.ResponseWriter, r *http.Request) {
				seen = r.URL.String() + " " + r.Header.Get("Authorization") + " " + body
				http.Error(out, seen[:min(len(seen), 150)], http.StatusForbidden)
			})
			w.Set("prober.yaml", parse(t, withHook(hook, "")))
			w.setState("web", failure)
			time.Sleep(time.Minute)
			synctest.Wait()
			r := w.Status().Items[0]
			if !strings.Contains(seen, tokenSecret) || strings.Contains(r.Error+w.log.String(), tokenSecret) || !strings.Contains(r.Error, "[redacted]") {
				t.Errorf("%s: %s\n%s", name, r.Error, seen)
			}
		})
	}
}

// Times of messages are in the zone of the receiver.
func TestTimeZone(t *testing.T) {
	if _, err := time.LoadLocation("Asia/Kathmandu"); err != nil {
		t.Fatalf("the tests need zone files: %v", err)
	}
	bubble(t, ", timeZone: Asia/Kathmandu", func(t *testing.T, w *world) {
		w.setState("web", failure)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.letters) != 1 || !strings.Contains(w.letters[0].raw, `"since":"2000-01-01T05:45:00+05:45"`) || !strings.Contains(w.letters[0].raw, `"time":"2000-01-01T05:45:10`) {
			t.Errorf("%+v", w.letters)
		}
	})
}

// Each format that package config knows can be sent.
func TestAllFormatsAreSent(t *testing.T) {
	all := formats(t)
	for f := range config.WebhookFormats() {
		bubble(t, "", func(t *testing.T, w *world) {
			w.answerWith(func(http.ResponseWriter, *http.Request) {})
			w.Set("prober.yaml", parse(t, withHook(all[string(f)], "")))
			if r, err := w.Test(t.Context(), "ops"); err != nil || !r.Delivered {
				t.Errorf("%s: the test: %v %+v", f, err, r)
			}
			w.setState("web", failure)
			time.Sleep(time.Minute)
			w.setState("web", ok)
			time.Sleep(2 * time.Minute)
			if s := w.Status().Items[0]; s.Delivered < 2 || s.Error != "" || s.Open != 0 || s.Type != "webhook "+string(f) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// The error of a connection has a URL, which shows no token.
func TestTokenInURLIsHidden(t *testing.T) {
	n, done := newRealNotifier(t, "{name: ops, groupWait: 0s, webhook: {format: telegram, url: 'http://127.0.0.1:1', chatID: 1, botTokenFile: "+secretFile(t, "123456:"+tokenSecret)+"}}")
	n.Changed(changeOf("web", failure, ""))
	await(t, done, n, func() bool { return n.Status().Items[0].State == "failing" })
	if r := n.Status().Items[0]; strings.Contains(r.Error, tokenSecret) || !strings.Contains(r.Error, "connection refused") {
		t.Error(r.Error)
	}
}
