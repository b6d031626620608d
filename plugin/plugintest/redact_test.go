package plugintest_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/probe"
)

// TestRecordReplacesSecretsOfConfig checks that no form of a secret is in the session, and that the
// session still replays.
func TestRecordReplacesSecretsOfConfig(t *testing.T) {
	t.Parallel()
	const secret = "hunter 2&3"
	target := serve(t, func(c net.Conn) {
		buf := make([]byte, 1000)
		n, _ := c.Read(buf)
		fmt.Fprintf(c, "%d bytes with %s", n, buf[:n])
	})
	coded := base64.StdEncoding.EncodeToString([]byte("\x00probe\x00" + secret))
	redact := func(text string) string { return strings.ReplaceAll(text, secret, "[redacted]") }
	path, out := record(t, attempt{target: target, redact: redact, config: `{"do":"talks","says":["AUTH ` + coded + `","PASS [` + secret + `]"],"say":"the ` + secret + `!"}`})
	if out.Result != probe.Success || !strings.Contains(out.Output, secret) {
		t.Fatalf("got %+v", out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter") || strings.Contains(string(text), coded) || strings.Contains(string(text), "aHVudGVy") {
		t.Errorf("a secret:\n%s", text)
	}
	contents(t, path, "PASS [xxxxxxxxxx]", "the xxxxxxxxxx!")
	f := load(t, fmt.Sprintf("- name: x\n  replay: %s\n", path))
	if r := run(t, f, plugintest.Config{CasesOnly: true}).Results[0]; !r.OK() {
		t.Errorf("%q\n%s\n%s", r.Failures, r.Diff, text)
	}
}

// TestRecordRedactsSecretsOfPeers checks that a secret which is not in the config is redacted too.
// Its replacement may have another length.
func TestRecordRedactsSecretsOfPeers(t *testing.T) {
	t.Parallel()
	target := serve(t, func(c net.Conn) {
		buf := make([]byte, 1000)
		n, _ := c.Read(buf)
		_, _ = c.Write(buf[:n])
	})
	redact := func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") }
	cfg := wasm.Config{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &secretive{conn}, err
	}}
	path, out := record(t, attempt{cfg: cfg, target: target, redact: redact, config: `{"say":"hello"}`})
	if !strings.Contains(out.Output, "hunter2") {
		t.Fatalf("got %+v", out)
	}
	contents(t, path, "my [redacted]")
	if text, _ := os.ReadFile(path); strings.Contains(string(text), "hunter2") || strings.Contains(string(text), base64.StdEncoding.EncodeToString([]byte("hunter2"))) {
		t.Errorf("a secret:\n%s", text)
	}
}

// A secret whose replacement has another length moves the nonces of a message.
func TestRecordRedactsSecretsAroundNonces(t *testing.T) {
	t.Parallel()
	target := serve(t, func(c net.Conn) {
		nonce, _ := bufio.NewReader(c).ReadString('\n')
		fmt.Fprintf(c, "hunter2 hunter2 %s hunter2 %[1]s!\n", strings.TrimSpace(nonce))
	})
	for hidden, want := range map[string]string{
		"[redacted]": `"[redacted] [redacted] ${nonce1} [redacted] ${nonce1}!\n"`,
		"-":          `"- - ${nonce1} - ${nonce1}!\n"`,
	} {
		redact := func(text string) string { return strings.ReplaceAll(text, "hunter2", hidden) }
		path, out := record(t, attempt{target: target, redact: redact, config: `{"do":"nonce"}`})
		if !strings.Contains(out.Output, "hunter2") {
			t.Fatalf("got %+v", out)
		}
		contents(t, path, want)
	}
}

// secretive is a connection whose reads return a secret in place of the data received.
type secretive struct{ net.Conn }

func (s *secretive) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	return copy(p, "my hunter2 "+base64.StdEncoding.EncodeToString([]byte("hunter2"))), err
}
