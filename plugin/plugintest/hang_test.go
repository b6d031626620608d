package plugintest_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin/plugintest"
)

func TestHangReportsCallAndPeer(t *testing.T) {
	t.Parallel()
	const target = ", request: {target: {host: web.internal, port: 80}}, want: {result: success}}"
	for _, c := range []struct {
		name, text string
		want       []string // lines of the report
	}{
		{"script waits for more",
			`{name: a, host: {net: [{dial: "tcp://web.internal:80", script: [{recv: {text: "hello\n"}}, {recv: {text: "more"}}]}]}` + target,
			[]string{
				"guest: wait read for 1s, tcp 10.99.0.1:80: 6 bytes sent, 0 received; in ",
				`peer: tcp://web.internal:80 (line 5): waits for "more" (line 5); got ""`,
			}},
		{"script has ended",
			`{name: a, host: {net: [{dial: "tcp://web.internal:80", script: [{recv: {text: "hello\n"}}, {send: {text: "hi"}}]}]}` + target,
			[]string{"6 bytes sent, 2 received", "peer: tcp://web.internal:80 (line 5): its script has ended, it sends nothing more"}},
		{"answer is too late",
			`{name: a, host: {net: [{dial: "tcp://web.internal:80", script: [{wait: 3s}, {send: {text: "hi"}}]}]}` + target,
			[]string{"0 received", "peer: tcp://web.internal:80 (line 5): sends on 2s later"}},
		{"black hole", `{name: a, host: {net: [{dial: "tcp://web.internal:80", behaviour: timeout}]}` + target,
			[]string{
				"guest: wait dial for 1s, tcp://web.internal:80: no answer to the SYN from 10.99.0.1:80",
				"peer: tcp://web.internal:80 (line 5): behaviour timeout: it is never connected",
			}},
		{"sleep", `{name: a, request: {config: {do: sleep, for: 1h}}, want: {result: success}}`, []string{"guest: wait guest for 1s, sleeping; poll_oneoff of WASI"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := run(t, load(t, "- "+c.text), plugintest.Config{Plugin: guest, CasesOnly: true})
			for _, format := range plugintest.Formats {
				var out bytes.Buffer
				if err := plugintest.Write(&out, format, []*plugintest.Report{report}); err != nil {
					t.Fatal(err)
				}
				text := strings.NewReplacer("&#34;", `"`, `\"`, `"`, "&#xA;", "\n", `\\`, `\`).Replace(out.String())
				for _, line := range c.want {
					if format == "json" { // where the prefix is the name of a field
						line = strings.TrimPrefix(strings.TrimPrefix(line, "guest: "), "peer: ")
					}
					if !strings.Contains(text, line) {
						t.Errorf("%s: no %q in\n%s", format, line, text)
					}
				}
			}
		})
	}
}

func TestHangReportsSpinAsComputing(t *testing.T) {
	t.Parallel()
	f := load(t, `- {name: a, request: {config: {do: spin}}, want: {result: success}}`)
	r := run(t, f, plugintest.Config{Plugin: guest, CasesOnly: true, Stuck: 2 * time.Second}).Results[0]
	if trace := strings.Join(r.Trace, "\n"); !strings.Contains(trace, "wait guest computing; no host call since ") &&
		!strings.Contains(trace, "wait guest computing; one host call that did not wait") {
		t.Errorf("trace %s", trace)
	}
}
