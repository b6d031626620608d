package format_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
)

// failing adds n failing probes with a cause to m. # in the text is the number of the probe.
func failing(m *format.Message, n int, reason, text string) {
	for range n {
		i := m.Counts.Failure
		m.Add(&format.Probe{Namespace: "shop", Pod: fmt.Sprint("web-", i), Container: "target", Kind: "readiness", Status: format.Failing, State: "failure", Reason: reason, Text: strings.ReplaceAll(text, "#", fmt.Sprint(i))})
	}
}

func TestCauses(t *testing.T) {
	for name, c := range map[string]struct {
		add   func(m *format.Message)
		title string
		want  []format.Cause
	}{
		"most first": {func(m *format.Message) {
			failing(m, 2, "http_status", "HTTP probe failed with statuscode: 503")
			failing(m, 138, "connect_refused", "dial tcp 10.0.0.#:80: connect: connection refused")
			m.Add(&format.Probe{Pod: "well", Status: format.Resolved, State: "failure", Reason: "body", Text: "no longer"})
		}, "140 of shop fail: connection refused (138), 503 (2); 1 is well again", []format.Cause{
			{"connect_refused", "connection refused", 138}, {"http_status", "HTTP probe failed with statuscode: 503", 2},
		}},
		"status codes differ": {func(m *format.Message) {
			failing(m, 2, "http_status", "HTTP probe failed with statuscode: 503")
			failing(m, 2, "http_status", "HTTP probe failed with statuscode: 500")
		}, "4 of shop fail: shop/web-0, shop/web-1, shop/web-2 and 1 more", []format.Cause{
			{"http_status", "HTTP probe failed with statuscode: 503", 2}, {"http_status", "HTTP probe failed with statuscode: 500", 2},
		}},
		"few probes have names": {func(m *format.Message) { failing(m, 9, "deadline", "timeout") }, "9 of shop fail: shop/web-0, shop/web-1, shop/web-2 and 6 more", []format.Cause{{"deadline", "timeout", 9}}},
		"no common cause": {func(m *format.Message) {
			for i := range 60 {
				failing(m, 1, fmt.Sprint("reason", string(rune('a'+i))), "text")
			}
		}, "60 of shop fail: shop/web-0, shop/web-1, shop/web-2 and 57 more", nil},
		"most have other causes": {func(m *format.Message) {
			for i := range 9 {
				failing(m, 1, fmt.Sprint("reason", string(rune('a'+i))), "text")
			}
			failing(m, 2, "deadline", "timeout")
		}, "11 of shop fail: shop/web-0, shop/web-1, shop/web-2 and 8 more", []format.Cause{
			{"deadline", "timeout", 2}, {"reasona", "text", 1}, {"reasonb", "text", 1}, {"reasonc", "text", 1}, {"reasond", "text", 1},
		}},
		"no causes": {func(m *format.Message) { failing(m, 12, "", "") }, "12 of shop fail: shop/web-0, shop/web-1, shop/web-2 and 9 more", nil},
	} {
		m := &format.Message{Group: map[string]string{"namespace": "shop"}}
		c.add(m)
		m.SetTitle()
		if m.Title != c.title {
			t.Errorf("%s: title %q, want %q", name, m.Title, c.title)
		}
		if diff := cmp.Diff(c.want, m.Causes); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

func TestFlapsInTitleAndText(t *testing.T) {
	m := &format.Message{Receiver: "ops", Group: map[string]string{}}
	failing(m, 1, "deadline", "timeout")
	m.Probes[0].Flaps = &format.Flaps{Count: 5, Since: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), State: "success"}
	if m.SetTitle(); m.Title != "shop/web-0 flaps: timeout" {
		t.Errorf("title %q", m.Title)
	}
	text, err := format.Mail(m, &config.MailReceiver{To: []string{"ops@example.org"}, From: "prober@example.org"})
	if want := "flaps: 5 failures since 2026-11-30 10:00:00 UTC, at present success"; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %s\nwant %s", err, text, want)
	}
}
