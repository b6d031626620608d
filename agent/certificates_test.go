package agent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/api"
)

// securePod returns a pod whose probe sends requests to a server with TLS. action is the action of the probe.
func securePod(namespace, name, action string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  namespace: %s
  name: %s
  annotations:
    prober.dev/probes: |
      web:
        readiness: {%s, period: 50ms, timeout: 5s}
spec:
  containers:
  - name: web
    image: none
`, namespace, name, action)
}

// awaitCertificates reads the certificates until they satisfy ok.
func (r *running) awaitCertificates(what string, ok func([]api.Certificate) bool) []api.Certificate {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var list api.CertificateList
		r.get("/api/v1/certificates", &list)
		if ok(list.Items) {
			return list.Items
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("no certificates %s: %+v", what, list.Items)
		}
	}
}

// TestCertificates has a probe that does not verify the certificate of a server, and a plugin's that does.
func TestCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	r := start(t, securePod("default", "shop", fmt.Sprintf("httpGet: {scheme: HTTPS, port: %d}", port))+"---\n"+
		securePod("other", "cart", fmt.Sprintf(`plugin: {name: httpcheck, target: {port: %d}, config: {url: "https:///"}}`, port)))
	c := r.awaitCertificates("of both", func(all []api.Certificate) bool { return len(all) == 1 && all[0].ProbeCount == 2 })[0]
	sum := sha256.Sum256(s.Certificate().Raw)
	left := int(time.Until(s.Certificate().NotAfter).Hours() / 24)
	if c.Subject != "O=Acme Co" || fmt.Sprint(c.Names) != "[example.com *.example.com 127.0.0.1 ::1]" || c.SHA256 != hex.EncodeToString(sum[:]) || c.DaysLeft != left || !c.NotAfter.Equal(s.Certificate().NotAfter) {
		t.Errorf("got %+v", c)
	}
	if c.Verification != api.NotVerified || !strings.Contains(c.Why, `certificate signed by unknown authority: self-signed certificate "O=Acme Co"`) {
		t.Errorf("got %s, %s", c.Verification, c.Why)
	}
	if p := c.Probes[0]; p.Pod != "shop" || p.Verification != api.NotChecked || p.Why != "" || p.Position != 1 || p.Sent != 1 || time.Since(p.Seen) > time.Minute {
		t.Errorf("got %+v", p)
	}
	v := newValidator(t)
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"?namespace=other":        {200, `"probeCount":1,"probes":[{"namespace":"other","pod":"cart","container":"web","kind":"readiness"`},
		"?pod=shop&container=web": {200, `"verification":"not checked","probeCount":1,`},
		"?kind=liveness":          {200, `{"items":[]}`},
		"?probes=1&limit=1":       {200, `"probeCount":2,"probes":[{"namespace":"default","pod":"shop"`},
		"?probes=0":               {200, `"probes":[]`},
		"?probes=x":               {400, `probes \"x\" must be an integer, at least 0`},
		"?kind=ready":             {400, `unknown kind \"ready\"`},
		"?state=failure":          {400, `unknown parameter \"state\"; known: container, continue, kind, limit, namespace, pod, probes`},
	} {
		status, body := r.do("GET", "/api/v1/certificates"+path)
		if err := v.check("GET", "/api/v1/certificates", status, body); err != nil || status != want.status || !strings.Contains(body, want.text) {
			t.Errorf("%s: %d, %v: %s", path, status, err, body)
		}
	}
	for series, want := range map[string]time.Time{
		`prober_certificate_not_after_timestamp_seconds{container="web",kind="readiness",namespace="default",pod="shop"}`: s.Certificate().NotAfter,
		`prober_certificate_not_before_timestamp_seconds{container="web",kind="readiness",namespace="other",pod="cart"}`:  s.Certificate().NotBefore,
	} {
		if got, err := strconv.ParseFloat(r.metric(series), 64); err != nil || int64(got) != want.Unix() {
			t.Errorf("%s is %v, want %d", series, got, want.Unix())
		}
	}
	write(t, r.manifest, securePod("default", "shop", fmt.Sprintf("httpGet: {scheme: HTTPS, port: %d}", port)))
	r.reload()
	r.awaitCertificates("of one pod", func(all []api.Certificate) bool {
		return len(all) == 1 && all[0].ProbeCount == 1 && all[0].Verification == api.NotChecked
	})
}
