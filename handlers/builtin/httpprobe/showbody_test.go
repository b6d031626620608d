package httpprobe_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

// failing returns an http handler whose target answers 500 with body.
func failing(t *testing.T, cfg httpprobe.Config, body string) probe.Handler {
	t.Helper()
	_, port := rig.Serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, body)
	})
	return rig.Prepare(t, httpprobe.New(cfg), fmt.Sprintf(`{"port":%d,"host":"127.0.0.1"}`, port))
}

func TestBodyShownOnlyIfConfigured(t *testing.T) {
	const output = "HTTP probe failed with statuscode: 500" // becomes the text of an event
	for consent, wanted := range map[bool]string{false: "", true: `no \x1b[31mdatabase\n`} {
		h := failing(t, httpprobe.Config{ShowBody: consent}, "no \x1b[31mdatabase\n")
		out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
		rig.Want(t, out, err, probe.Failure, output)
		if got := rig.Detail(t, out, "body"); got != wanted {
			t.Errorf("with ShowBody %v the body is %q, want %q", consent, got, wanted)
		}
	}
}

func TestShownBodyIsRedactedBeforeCut(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	redact := strings.NewReplacer(secret, "[redacted]").Replace
	for _, before := range []int{0, 226, 240, 250, 256, 300} {
		h := failing(t, httpprobe.Config{ShowBody: true}, strings.Repeat("x", before)+secret+strings.Repeat("y", 300))
		out, err := rig.Attempt(t, h, probe.Request{Redact: redact}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		body := rig.Detail(t, out, "body")
		if len(body) > 256 || !strings.HasPrefix(body, strings.Repeat("x", min(before, 250))) {
			t.Errorf("%d bytes: %q", len(body), body)
		}
		if strings.Contains(body, secret[:4]) {
			t.Errorf("%d bytes before the secret: %q shows some of it", before, body)
		}
	}
}

func TestBodyOfSuccessNotShown(t *testing.T) {
	_, port := rig.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	h := rig.Prepare(t, httpprobe.New(httpprobe.Config{ShowBody: true}), fmt.Sprintf(`{"port":%d,"host":"127.0.0.1"}`, port))
	out, err := rig.Attempt(t, h, probe.Request{}, time.Minute)
	rig.Want(t, out, err, probe.Success, "fine")
	if out.Details != "" {
		t.Errorf("details %s", out.Details)
	}
}

func TestHangingBodyShownInPart(t *testing.T) {
	port := rig.Peer(t, func(c net.Conn) {
		_, _ = bufio.NewReader(c).ReadString('\n') // an answer before the request would be another error
		_, _ = io.WriteString(c, "HTTP/1.1 503 x\r\nContent-Length: 99\r\n\r\nstarting")
		rig.Silent(c)
	})
	for _, compat := range []probe.Compat{0, probe.CompatBodyHangIsError} {
		h := rig.Prepare(t, httpprobe.New(httpprobe.Config{ShowBody: true, Compat: compat}), fmt.Sprintf(`{"port":%d,"host":"127.0.0.1"}`, port))
		out, err := rig.Attempt(t, h, probe.Request{}, 200*time.Millisecond)
		if (err != nil) != (compat != 0) || rig.Detail(t, out, "body") != "starting" {
			t.Errorf("compat %b: got %+v, %v", compat, out, err)
		}
		if !strings.Contains(out.Output+fmt.Sprint(err), "while reading body") || strings.Contains(out.Output+fmt.Sprint(err), "starting") {
			t.Errorf("compat %b: output %q, error %v", compat, out.Output, err)
		}
	}
}
