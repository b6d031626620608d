package notify_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

const (
	ok      = states.Success
	warning = states.Warning
	failure = states.Failure
	unknown = states.Unknown
)

func TestFailureAndItsEndAreSent(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.setState("web", ok)
		time.Sleep(time.Minute)
		w.expect()
		w.setState("web", failure)
		time.Sleep(time.Minute)
		w.expect("1m10s: web failure")
		time.Sleep(time.Minute)
		w.setState("web", ok)
		time.Sleep(time.Minute)
		w.expect("3m10s: web resolved")
		time.Sleep(24 * time.Hour)
		w.expect()
	})
}

func TestManyProbesAreOneMessage(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		for i := range 500 {
			w.setState(fmt.Sprintf("web-%03d", i), failure)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.letters) != 1 {
			t.Fatalf("%d letters", len(w.letters))
		}
		l := w.letters[0]
		if l.Counts.Failure != 500 || len(l.Probes) != 100 || l.Omitted != 400 || l.Title != "500 of default fail: web-499/app, web-498/app, web-497/app and 497 more" {
			t.Errorf("%+v, %d probes, %d omitted, %s", l.Counts, len(l.Probes), l.Omitted, l.Title)
		}
	})
}

func TestFlappingWithinGroupWaitSendsNothing(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		for range 5 {
			w.setState("web", failure)
			time.Sleep(4 * time.Second)
			w.setState("web", ok)
			time.Sleep(4 * time.Second)
		}
		time.Sleep(time.Hour)
		w.expect()
		w.setState("web", failure)
		time.Sleep(time.Minute)
		w.expect("1h0m50s: web failure")
		w.setState("web", ok)
		time.Sleep(5 * time.Second)
		w.setState("web", failure)
		time.Sleep(time.Hour)
		w.expect()
	})
}

// A failure that ends within the group interval is sent all the same.
func TestShortFailureWithinGroupIntervalIsSent(t *testing.T) {
	bubble(t, ", groupInterval: 5m", func(t *testing.T, w *world) {
		w.setState("a", failure)
		time.Sleep(15 * time.Second)
		w.expect("10s: a failure")
		w.setState("b", failure)
		time.Sleep(30 * time.Second)
		w.setState("b", ok)
		w.setState("a", ok)
		time.Sleep(10 * time.Minute)
		w.expect("5m10s: a resolved, b resolved")
	})
}

func TestReloadWithinWaitSendsNothing(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.setState("web", failure)
		time.Sleep(time.Minute)
		w.expect("10s: web failure")
		w.removed("web", "uid-web", false)
		time.Sleep(3 * time.Minute) // the probe exists and is undecided
		w.setState("web", failure)
		time.Sleep(time.Hour)
		w.expect()
		w.removed("web", "uid-web", true)
		time.Sleep(time.Hour)
		w.expect("1h5m10.2s: web removed")
	})
}

// The replaced pod ends after the new one of the same name began.
func TestEndOfReplacedPodSendsNothing(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.setStateOf("web", "old", failure, "")
		time.Sleep(time.Minute)
		w.expect("10s: web failure")
		w.setStateOf("web", "new", failure, "")
		w.removed("web", "old", true)
		time.Sleep(time.Hour)
		w.expect()
	})
}

func TestUnknownEndsNoFailure(t *testing.T) {
	bubble(t, ", states: [failure]", func(t *testing.T, w *world) {
		w.setState("web", failure)
		w.setState("blind", unknown)
		time.Sleep(time.Minute)
		w.expect("10s: web failure")
		w.setState("web", unknown)
		time.Sleep(time.Hour)
		w.expect()
		w.setState("web", ok)
		time.Sleep(time.Hour)
		w.expect("1h1m10s: web resolved")
	})
	bubble(t, "", func(t *testing.T, w *world) {
		w.setState("blind", unknown)
		time.Sleep(time.Minute)
		w.setState("blind", failure)
		time.Sleep(time.Minute)
		w.expect("10s: blind unknown", "1m10s: blind failure")
	})
}

// While the network's witnesses do not respond, messages do not report targets as unknown for lack of the
// network.
func TestLostNetworkSendsNoUnknownTargets(t *testing.T) {
	bubble(t, ", groupWait: 1s, groupInterval: 1s", func(t *testing.T, w *world) {
		var down atomic.Bool
		w.stop()
		w.cfg.UplinkDown = down.Load
		w.run()
		lost := func(pod, reason string) {
			w.mu.Lock()
			w.probes[key(pod)] = true
			w.mu.Unlock()
			w.Changed(&states.Change{Info: info(pod, "uid-"+pod), To: unknown, Time: time.Now(), Cause: states.Cause{Reason: reason, Text: "no network"}})
		}
		tells := func(want ...string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			var got []string
			w.mu.Lock()
			for i := range w.letters {
				got = append(got, w.letters[i].summary())
			}
			w.letters = nil
			w.mu.Unlock()
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		w.setState("web", failure)
		tells("web failure")
		down.Store(true)
		w.setState("gateway", failure)
		lost("web", "host_network")
		lost("db", "host_network")
		tells("gateway failure, web failure") // a message has all probes of its group
		lost("trapped", "trap")
		tells("gateway failure, trapped unknown, web failure")
		w.removed("db", "uid-db", true)
		down.Store(false)
		for _, pod := range []string{"gateway", "web", "trapped"} {
			w.setState(pod, ok)
		}
		tells("gateway resolved, trapped resolved, web resolved")
		lost("web", "host_network") // the witnesses respond again
		tells("web unknown")
	})
}

// Messages do not report a target as unknown because its dependency fails. They report it if it fails when the
// dependency does not.
//
// Reported as healthchecks 917; uptime-kuma 1453.
func TestFailedDependencySendsNoUnknownTargets(t *testing.T) {
	bubble(t, ", groupWait: 1s, groupInterval: 1s", func(t *testing.T, w *world) {
		w.setState("db", failure)
		w.mu.Lock()
		w.probes[key("web")] = true
		w.mu.Unlock()
		lost := func() {
			w.Changed(&states.Change{Info: info("web", "uid-web"), To: unknown, Time: time.Now(), Cause: states.Cause{Reason: "dependency", Text: "depends on db"}})
			time.Sleep(time.Minute)
		}
		lost()
		w.expect("1s: db failure")
		w.setState("db", ok)
		w.setState("web", failure)
		time.Sleep(time.Minute)
		w.expect("1m1s: db resolved, web failure")
		lost() // a target that was reported stays reported
		w.setState("web", ok)
		time.Sleep(time.Minute)
		w.expect("3m1s: web resolved")
	})
}

// A push without a report yet sends no message. A push whose last report was unknown does.
func TestUndecidedChecksSendNothing(t *testing.T) {
	bubble(t, ", groupWait: 1s, groupInterval: 1s", func(t *testing.T, w *world) {
		undecided := func(from states.State) {
			w.Changed(&states.Change{Info: info("backup", "uid-backup"), From: from, To: unknown, Time: time.Now(), Cause: states.Cause{Reason: "undecided", Text: "no report yet"}})
			time.Sleep(time.Minute)
		}
		w.mu.Lock()
		w.probes[key("backup")] = true
		w.mu.Unlock()
		undecided(unknown)
		w.expect()
		undecided(ok)
		w.expect("1m1s: backup unknown")
	})
}

// fails reports a changed state of a failing probe, with its cause.
func (w *world) fails(from states.State, reason, text string) {
	w.mu.Lock()
	w.probes[key("web")] = true
	w.mu.Unlock()
	w.Changed(&states.Change{Info: info("web", "uid-web"), From: from, To: failure, Time: time.Now(), Cause: states.Cause{Reason: reason, Text: text}})
}

// takeCauses returns "TIME: STATUS REASON TEXT" for each letter since the last call.
func (w *world) takeCauses() (all []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.letters {
		text := fmt.Sprintf("%v: %s %s %s", l.at, l.Probes[0].Status, l.Probes[0].Reason, l.Probes[0].Text)
		if l.Repeated {
			text += " again"
		}
		all = append(all, text)
	}
	w.letters = nil
	return all
}

func TestChangedCauseIsSent(t *testing.T) {
	bubble(t, ", groupInterval: 5m, repeatInterval: 1h", func(t *testing.T, w *world) {
		expect := func(want ...string) {
			t.Helper()
			if got := w.takeCauses(); !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		}
		w.fails(ok, "connect_refused", "connection refused")
		time.Sleep(time.Minute)
		expect("10s: failing connect_refused connection refused")
		w.fails(failure, "http_status", "code: 503")
		time.Sleep(time.Minute)
		w.fails(failure, "http_status", "code: 504 in 2ms") // within the group interval: one message
		time.Sleep(10 * time.Minute)
		expect("5m10s: failing http_status code: 504 in 2ms")
		w.fails(failure, "http_status", "code: 504 in 12ms")
		time.Sleep(30 * time.Minute)
		w.fails(unknown, "http_status", "code: 504 in 2s") // from a restarted agent
		time.Sleep(10 * time.Minute)
		expect()
		w.fails(failure, "body", "no match")
		time.Sleep(10 * time.Second)
		w.Changed(&states.Change{Info: info("web", "uid-web"), From: failure, To: ok, Time: time.Now(), Cause: states.Cause{Text: "fine"}, Was: states.Cause{Reason: "tls", Text: "expired"}})
		time.Sleep(10 * time.Minute)
		expect("52m0.2s: failing body no match", "57m0.2s: resolved tls expired")
	})
}

func TestChangedCauseIsSentAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ", groupInterval: 5m")
		w.stop()
		w.cfg.StateFile = filepath.Join(t.TempDir(), "state.json")
		w.run()
		w.fails(ok, "connect_refused", "connection refused")
		time.Sleep(time.Minute)
		w.takeCauses()
		w.fails(failure, "http_status", "code: 503")
		time.Sleep(time.Second)
		w.stop()
		w.run()
		time.Sleep(10 * time.Minute)
		if got := w.takeCauses(); len(got) != 1 || !strings.HasSuffix(got[0], ": failing http_status code: 503") {
			t.Errorf("got %q", got)
		}
	})
}

func TestMessageHasTheNewestCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ", repeatInterval: 30m")
		w.stop()
		var now atomic.Pointer[states.Cause]
		now.Store(&states.Cause{Reason: "http_status", Text: "code: 503"})
		w.cfg.Current = func(podUID, container string, kind probe.Kind) states.Status {
			if podUID != "uid-web" || container != "app" || kind != probe.Readiness {
				t.Error(podUID, container, kind)
			}
			return states.Status{State: failure, Cause: *now.Load()}
		}
		w.run()
		w.fails(ok, "connect_refused", "connection refused")
		time.Sleep(time.Minute)
		if alert := w.Status().Items[0].Alerts[0]; alert.Reason != "http_status" || alert.Text != "code: 503" {
			t.Errorf("alert %+v", alert)
		}
		w.fails(failure, "http_status", "code: 503") // its duration has passed, and the receiver knows it
		time.Sleep(10 * time.Minute)
		now.Store(&states.Cause{Reason: "http_status", Text: "code: 401"})
		time.Sleep(19*time.Minute + 30*time.Second)
		w.fails(failure, "http_status", "code: 401")
		time.Sleep(40 * time.Minute)
		want := []string{"10s: failing http_status code: 503", "30m10s: failing http_status code: 401", "1h0m10s: failing http_status code: 401 again"}
		if got := w.takeCauses(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// TestTextIsCutBetweenCharacters uses a character at the position where texts are cut.
func TestTextIsCutBetweenCharacters(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.fails(ok, "", "x"+strings.Repeat("é", 1000))
		time.Sleep(time.Minute)
		if got := w.takeCauses(); len(got) != 1 || strings.Contains(got[0], "\ufffd") || !strings.HasSuffix(got[0], "é") {
			t.Errorf("got %q", got)
		}
	})
}

func TestWarningIsSentAfterItsDuration(t *testing.T) {
	bubble(t, ", states: [failure, warning]", func(t *testing.T, w *world) {
		for range 100 {
			w.setState("web", warning)
			time.Sleep(10 * time.Second)
			w.setState("web", ok)
			time.Sleep(10 * time.Second)
		}
		w.expect()
		w.setState("web", warning)
		time.Sleep(2 * time.Minute)
		w.setState("web", failure)
		time.Sleep(2 * time.Minute)
		w.setState("web", warning)
		time.Sleep(2 * time.Minute)
		w.setState("web", ok)
		time.Sleep(2 * time.Minute)
		w.expect("34m30s: web warning", "35m30s: web failure", "38m30s: web warning", "39m30s: web resolved")
	})
	bubble(t, ", states: [warning], for: 0s, groupWait: 0s, groupInterval: 0s", func(t *testing.T, w *world) {
		w.setState("web", warning)
		time.Sleep(time.Minute)
		w.setState("web", failure) // which is worse, and ends no incident
		time.Sleep(time.Minute)
		w.setState("web", ok)
		time.Sleep(time.Minute)
		w.expect("200ms: web warning", "2m0.2s: web resolved")
	})
}

func TestRepeatAndResolved(t *testing.T) {
	bubble(t, ", repeatInterval: 1h, resolved: false", func(t *testing.T, w *world) {
		w.setState("web", failure)
		time.Sleep(2*time.Hour + time.Minute)
		w.expect("10s: web failure", "1h0m10s: web failure again", "2h0m10s: web failure again")
		w.setState("web", ok)
		time.Sleep(24 * time.Hour)
		w.expect()
	})
	bubble(t, ", repeatInterval: 0s", func(t *testing.T, w *world) {
		w.setState("web", failure)
		time.Sleep(48 * time.Hour)
		w.expect("10s: web failure")
	})
}

func TestSelection(t *testing.T) {
	bubble(t, ", match: [{pod: 'web-*', kind: readiness}, {namespace: prod}]", func(t *testing.T, w *world) {
		for _, pod := range []string{"web", "web-1", "db"} {
			w.setState(pod, failure)
		}
		time.Sleep(time.Minute)
		w.expect("10s: web-1 failure")
	})
}

func TestGroups(t *testing.T) {
	for fields, want := range map[string][]string{
		", groupBy: [pod]": {"10s: a failure", "10s: b failure"},
		", groupBy: []":    {"10s: a failure, b failure"},
	} {
		bubble(t, fields, func(t *testing.T, w *world) {
			w.setState("a", failure)
			w.setState("b", failure)
			time.Sleep(time.Minute)
			w.expect(want...)
		})
	}
}

// A receiver that failed for hours gets the newest state of each probe, once.
func TestOutageOfReceiver(t *testing.T) {
	t.Run("flapping", func(t *testing.T) { outageOfReceiver(t, "", "down failure, flapping failure x3", 2) })
	t.Run("without detection", func(t *testing.T) {
		outageOfReceiver(t, ", flapDetection: false", "down failure, flapping resolved x500", 1)
	})
}

func outageOfReceiver(t *testing.T, fields, want string, open int) {
	bubble(t, fields, func(t *testing.T, w *world) {
		w.answerWith(status(503))
		for i := range 1000 {
			w.setState("flapping", states.State(1+2*(i%2))) // success, failure
			time.Sleep(20 * time.Second)
			if i == 500 {
				w.setState("down", failure)
			}
		}
		w.setState("flapping", ok)
		asked := w.requests()
		if asked > 200 || asked < 50 {
			t.Errorf("%d requests in 6 hours", asked)
		}
		w.expect()
		w.answerWith(nil)
		time.Sleep(10 * time.Minute)
		got := w.takeLetters()
		if len(got) != 1 || !strings.HasSuffix(got[0], want) {
			t.Errorf("got %q", got)
		}
		if s := w.Status().Items[0]; s.State != "ok" || s.Pending != 0 || s.Open != open || s.Failed != uint64(asked) {
			t.Errorf("%+v", s)
		}
		if text := w.log.String(); strings.Count(text, "notification was not delivered") != 1 || strings.Count(text, "are delivered again") != 1 {
			t.Error(text)
		}
	})
}

func TestRetention(t *testing.T) {
	bubble(t, ", retention: 1h", func(t *testing.T, w *world) {
		w.answerWith(status(500))
		w.setState("web", failure)
		w.setState("down", failure)
		time.Sleep(time.Minute)
		w.setState("web", ok)
		time.Sleep(59 * time.Minute)
		if s := w.Status().Items[0]; s.Pending != 2 || s.Dropped != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Minute)
		if s := w.Status().Items[0]; s.Pending != 1 || s.Dropped != 1 {
			t.Errorf("%+v", s)
		}
		w.answerWith(nil)
		time.Sleep(10 * time.Minute)
		w.takeLetters()
		if s := w.Status().Items[0]; s.Pending != 0 || s.Open != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	for after, want := range map[string]string{
		"120": "2m10s: web failure", "99999999": "15m10s: web failure", "Fri, 31 Dec 1999 23:59:59 GMT": "", "-5": "", "Sat, 01 Jan 2000 00:03:10 GMT": "3m10s: web failure",
	} {
		bubble(t, "", func(t *testing.T, w *world) {
			w.answerWith(func(out http.ResponseWriter, _ *http.Request) {
				out.Header().Set("Retry-After", after)
				w.answerWith(nil)
				http.Error(out, "slow down", http.StatusTooManyRequests)
			})
			w.setState("web", failure)
			time.Sleep(time.Hour)
			got := w.takeLetters()
			if len(got) != 1 || want != "" && got[0] != want || want == "" && !strings.HasPrefix(got[0], "1") {
				t.Errorf("%s: got %q, want %q", after, got, want)
			}
		})
	}
}

func TestRefusedMessageIsNotRepeated(t *testing.T) {
	for _, code := range []int{400, 403, 404, 410, 302} {
		bubble(t, "", func(t *testing.T, w *world) {
			w.answerWith(status(code))
			w.setState("web", failure)
			time.Sleep(time.Hour)
			if n := w.requests(); n != 1 {
				t.Errorf("status %d: %d requests", code, n)
			}
			if s := w.Status().Items[0]; s.State != "refused" || s.Refused != 1 || s.Pending != 1 || !strings.Contains(s.Error, fmt.Sprint("HTTP status ", code)) {
				t.Errorf("%+v", s)
			}
			w.answerWith(nil)
			w.setState("db", failure) // a change triggers another attempt
			time.Sleep(time.Minute)
			w.expect("1h0m10s: db failure, web failure")
		})
	}
	bubble(t, "", func(t *testing.T, w *world) {
		w.answerWith(status(404))
		w.setState("web", failure)
		time.Sleep(time.Hour)
		w.answerWith(nil)
		if r, err := w.Test(t.Context(), "ops"); err != nil || !r.Delivered {
			t.Error(r, err)
		}
		time.Sleep(time.Minute)
		if got := w.takeLetters(); len(got) != 2 || !strings.HasSuffix(got[1], ": web failure") {
			t.Errorf("after a test: %q", got)
		}
	})
}

// Groups beyond the limit share a message, and none is lost.
func TestLimitOfMessages(t *testing.T) {
	bubble(t, ", groupBy: [pod], maxPerMinute: 5", func(t *testing.T, w *world) {
		for i := range 300 {
			w.setState(fmt.Sprintf("web-%03d", i), failure)
		}
		time.Sleep(5 * time.Minute)
		w.mu.Lock()
		n, probes := len(w.letters), 0
		for _, l := range w.letters {
			probes += l.Counts.Failure
		}
		w.mu.Unlock()
		if n != 5 || probes != 300 {
			t.Errorf("%d letters about %d probes", n, probes)
		}
	})
}

func TestLimitOfMessagesOfIncidents(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.conf = parse(t, "notify: {receivers: [{name: ops, webhook: {url: 'http://x', format: pagerduty, routingKeyFile: "+secretFile(t, "key")+"}, groupBy: [pod], maxPerMinute: 5}]}")
		w.Set("prober.yaml", w.conf)
		for i := range 20 {
			w.setState(fmt.Sprintf("web-%03d", i), failure)
		}
		time.Sleep(30 * time.Second)
		if n := len(w.takeLetters()); n > 8 || n < 5 {
			t.Errorf("%d events in 30 s", n)
		}
		time.Sleep(10 * time.Minute)
		if n := len(w.takeLetters()); n < 12 {
			t.Errorf("%d more events", n)
		}
		if s := w.Status().Items[0]; s.Open != 20 || s.Pending != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestChangedConfiguration(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.setState("web", failure)
		w.setState("db", failure)
		time.Sleep(time.Minute)
		w.expect("10s: db failure, web failure")
		set := func(more string) {
			w.Set("prober.yaml", parse(t, "notify: {receivers: ["+more+"]}"))
		}
		hook := "{name: ops, webhook: {url: 'http://ops.example/hook'}"
		set(hook + "}") // unchanged
		time.Sleep(time.Minute)
		set(hook + ", repeatInterval: 2h, match: [{pod: web}]}")
		time.Sleep(2 * time.Minute)
		w.expect("2m10s: db resolved, web failure") // db is not selected any more
		set(hook + ", repeatInterval: 2h, match: [{pod: web}]}, {name: new, webhook: {url: 'http://new.example'}}")
		time.Sleep(time.Minute)
		w.expect("4m0s: db failure, web failure") // a new receiver gets the failing probes
		set("{name: ops, webhook: {url: 'http://elsewhere.example'}}")
		time.Sleep(time.Minute)
		if got := w.takeLetters(); len(got) != 1 || !strings.HasSuffix(got[0], "db failure, web failure") {
			t.Errorf("new destination: %q", got)
		}
		w.Set("prober.yaml", nil)
		w.setState("web", ok)
		time.Sleep(time.Hour)
		w.expect()
	})
}

// Changes while a message is in flight are in the next message.
func TestChangesDuringDeliveryAreSentNext(t *testing.T) {
	bubble(t, "", func(t *testing.T, w *world) {
		w.answerAfter(8 * time.Second)
		w.setState("a", failure)
		time.Sleep(12 * time.Second)
		w.setState("a", ok) // the failure is in flight
		w.setState("b", failure)
		time.Sleep(2 * time.Minute)
		w.expect("10s: a failure", "1m18s: a resolved, b failure")
		w.setState("b", ok)
		time.Sleep(24 * time.Second)
		w.setState("b", failure) // the end is in flight
		time.Sleep(2 * time.Minute)
		w.mu.Lock()
		if n := len(w.letters); n != 2 || !w.letters[1].Probes[0].Since.Equal(w.start.Add(156*time.Second)) {
			t.Errorf("%+v", w.letters)
		}
		w.mu.Unlock()
		w.expect("2m26s: b resolved", "3m34s: b failure")
	})
	bubble(t, ", groupWait: 0s", func(t *testing.T, w *world) {
		w.answerAfter(8 * time.Second)
		w.setState("a", failure)
		time.Sleep(2 * time.Minute)
		w.setState("a", ok)
		time.Sleep(2 * time.Second) // the end is in flight
		w.setState("a", failure)
		time.Sleep(2 * time.Second)
		w.setState("a", ok)
		time.Sleep(2 * time.Minute)
		w.expect("200ms: a failure", "2m0.2s: a resolved", "3m8.2s: a resolved")
	})
	bubble(t, ", resolved: false, repeatInterval: 10m", func(t *testing.T, w *world) {
		w.answerAfter(8 * time.Second)
		w.setState("a", failure)
		time.Sleep(10*time.Minute + 20*time.Second)
		w.setState("a", ok) // the repetition is in flight
		time.Sleep(time.Second)
		w.setState("a", failure)
		time.Sleep(10 * time.Minute)
		if s := w.Status().Items[0]; s.Open != 1 || s.Pending != 0 {
			t.Errorf("%+v", s)
		}
		w.setState("a", ok)
		time.Sleep(10 * time.Minute)
		w.setState("a", failure)
		time.Sleep(time.Minute)
		if got := w.takeLetters(); len(got) < 3 || !strings.HasSuffix(got[len(got)-1], ": a failure") {
			t.Errorf("%q", got)
		}
	})
}
