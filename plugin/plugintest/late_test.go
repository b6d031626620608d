package plugintest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest"
)

// TestGuestAfterDeadlineReachesNoPeer repeats cases in which the guest runs on after its deadline.
// How far it gets varies, but the result must not.
func TestGuestAfterDeadlineReachesNoPeer(t *testing.T) {
	t.Parallel()
	const ask = "timeout: 300ms, grants: [target, dns], request: {target: {host: web.internal, port: 80}, config: {do: late}}"
	for net, want := range map[string]string{
		"{dial: \"tcp://web.internal:80\", behaviour: timeout}":          "[]",
		"{dial: \"tcp://web.internal:80\", script: [{recv: {text: x}}]}": `[line 5: tcp://web.internal:80 still waits for "x"; got ""]`,
	} {
		f := load(t, "\n- {name: x, "+ask+", host: {net: ["+net+"]}, want: {result: failure, message: timed out after 300ms, denied: []}}\n")
		f.Cases = slices.Repeat(f.Cases, 32)
		got := make(map[string]int)
		for _, r := range run(t, f, plugintest.Config{CasesOnly: true}).Results {
			got[fmt.Sprint(r.Failures)+r.Diff]++
		}
		if got[want] != len(f.Cases) {
			t.Errorf("%s: got %v, want %s each time", net, got, want)
		}
	}
}

// TestRecordIncludesErrorsAfterDeadline records dials and handshakes that fail shortly after the
// deadline of their attempt.
func TestRecordIncludesErrorsAfterDeadline(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(50 * time.Millisecond)
		return os.ErrDeadlineExceeded
	}
	dials := wasm.Config{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return nil, slow(ctx) }}
	shakes := wasm.Config{Handshake: func(ctx context.Context, _ net.Conn, _ *tls.Config) (net.Conn, error) { return nil, slow(ctx) }}
	listening := serve(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	const ask = `{"do":"http","request":"{\"url\":\"%s:///\"}"}`
	for _, c := range []struct {
		cfg    wasm.Config
		config string
		want   string
	}{
		{dials, `{}`, "behaviour: timeout"},
		{dials, fmt.Sprintf(ask, "http"), "http:\n    - match: {}\n      behaviour: timeout"},
		{shakes, `{"network":"tls"}`, "error: i/o timeout}\n"},
		{shakes, fmt.Sprintf(ask, "https"), "error: i/o timeout}\n      reply:"},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			path, out := record(t, attempt{cfg: c.cfg, target: listening, config: c.config, timeout: 3 * time.Second})
			if out.Output != "timed out after 3s" {
				t.Errorf("got %+v", out)
			}
			contents(t, path, c.want)
		})
	}
}
