package testfile_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/plugin/plugintest/internal/testfile"
)

// recorded is a session with everything that a recorder writes.
const recorded = `# What a plugin saw. A case replays it: see replay in its test file.
apiVersion: prober.dev/v1
kind: PluginSession
recorded: "2026-01-02T03:04:05Z"
timeout: 2s
grants: [dns, target]
request:
  kind: readiness
  attempt: 2
  lastResult: failure
  target: {host: db.internal, port: 5432}
  podIP: 10.0.0.7
  pod: {namespace: shop, name: db-0, uid: u1, labels: {app: db}}
  container: {name: db}
  config: {deep: {list: [1, "2", true]}, user: probe}
host:
  names:
    db.internal: [10.0.0.1, 'fd00::1']
    gone.internal: []
  net:
    - dial: tls://db.internal:5432
      latency: 20ms
      tls: {names: [db.internal], notBefore: -24h0m0s, notAfter: 720h0m0s, error: unknown authority}
      script:
        - recv: {text: "HELO\r\n"}
        - send: {hex: 00ff}
        - wait: 5ms
        - handshake: {}
        - recv:
            http:
              method: GET
              url: /a
              headers: {Accept: "1"}
              body:
                json: {b: 1}
        - recv:
            prefix: {text: '{"'}
        - send:
            hex: |-
              00000000000000000000000000000000000000000000000000000000000000000000000000000000
              00
        - close: {}
        - reset: {}
    - dial: unix:///run/db.sock
      behaviour: refuse
  http:
    - match:
        method: POST
        url: /v1
        body:
          hex: 00ff
      reply:
        status: 200
        headers:
          A: b
          Set-Cookie: [a, b]
        body: fine
        end: reset
        latency: 3ms
    - match: {}
      behaviour: timeout
  dns:
    - name: db.internal
      type: A
      server: target
      latency: 3ms
      answers:
        - {ttl: 1, data: 10.0.0.2}
        - {name: web.internal, type: CNAME, ttl: 2, data: db.internal}
    - name: gone.internal
      type: MX
      rcode: NXDOMAIN
want: {result: success} # it is fine
`

func TestWriteSessionWritesWhatReplayReads(t *testing.T) {
	dir := t.TempDir()
	first, second, file := filepath.Join(dir, "first.yaml"), filepath.Join(dir, "second.yaml"), filepath.Join(dir, "a_test.yaml")
	cases := "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: x.wasm\ncases: [{name: a, replay: first.yaml}]\n"
	for path, text := range map[string]string{first: recorded, file: cases} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := testfile.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := testfile.WriteSession(second, &f.Cases[0], at, "it is fine"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(recorded, string(got)); diff != "" {
		t.Error(diff)
	}
}
