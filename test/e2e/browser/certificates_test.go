package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// secureServer starts a server with a self-signed certificate for names that ends after left. It returns its address.
func secureServer(t *testing.T, left time.Duration, subject string, names ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x0a1b2c), Subject: pkix.Name{CommonName: subject}, DNSNames: names,
		NotBefore: time.Now().Add(-60 * day), NotAfter: time.Now().Add(left),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

const certificatesConfig = `
apiVersion: prober.dev/v1
kind: AgentConfig
targets:
- {name: shop, labels: {team: shop}, probe: {httpGet: {scheme: HTTPS}, periodSeconds: 1, timeoutSeconds: 10}, static: [%q]}
- {name: bank, probe: {plugin: {name: httpcheck, config: {url: "https:///"}}, periodSeconds: 1, timeoutSeconds: 10}, static: [%q]}
- {name: evil, probe: {httpGet: {scheme: HTTPS}, periodSeconds: 1, timeoutSeconds: 10}, static: [%q]}
- {name: old, probe: {httpGet: {scheme: HTTPS}, periodSeconds: 1, timeoutSeconds: 10}, static: [%q]}
`

// TestCertificates checks the view of the certificates of four real servers, and the section on the page of a probe.
func TestCertificates(t *testing.T) {
	evil := `<img src=x onerror="violations.push('evil')">` + "\x07"
	a := runAgent(t, prepare(t, map[string]string{"prober.yaml": fmt.Sprintf(certificatesConfig,
		secureServer(t, 5*day+time.Hour, "shop", "shop.example.com", "www.shop.example.com"), secureServer(t, 300*day, "bank", "bank.example.com"),
		secureServer(t, 200*day, evil+"\u202e", evil), secureServer(t, -3*day-time.Hour, "old", "old.example.com"))}), "--config", "prober.yaml")
	b := open(t, a.url("#/certificates"), desktop)
	const rows = `[...document.querySelectorAll(".certificates .space .line:not([hidden])")].sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((e) => e.innerText.replace(/\s+/g, " "))`
	b.wait(`document.querySelectorAll(".certificates .space .line:not([hidden])").length === 4`)
	var shown []string
	b.eval(rows, &shown)
	for i, want := range []string{
		"old.example.com ended 3 d 1 h ago not checked targets/old-127-0-0-1-", "shop.example.com in 5 d 0 h not checked targets/shop-127-0-0-1-",
		"<img src=x onerror=", "bank.example.com in 299 d 23 h not verified tls: failed to verify certificate: x509: cannot validate",
	} {
		if !strings.HasPrefix(shown[i], want) {
			t.Errorf("row %d is %q, want %q", i, shown[i], want)
		}
	}
	b.shot("certificates")
	if said := a.prober("get", "certificates"); !strings.Contains(said, "old.example.com") {
		t.Errorf("the client says %s", said)
	}

	b.eval(`(location.hash = "#/certificates?q=team%3Dshop", true)`, new(bool))
	const card = `document.querySelector(".certificate")?.innerText.replace(/\s+/g, " ")`
	b.wait(card + `?.startsWith("shop.example.com ends in 5 d 0 h not checked") && document.querySelectorAll(".certificate").length === 1`)
	b.wait(card + `.includes("Names shop.example.com, www.shop.example.com Subject CN=shop Issuer CN=shop Serial 0a1b2c SHA-256 ") && ` + card + `.includes("1 of 1 · not checked")`)
	b.shot("certificates-search")
	b.click(".certificate a")
	const section = `document.querySelector("section[aria-label=Certificates]")`
	b.wait(`location.hash.startsWith("#/probe/targets/shop-") && ` + section + `?.checkVisibility()`)
	b.wait(section + `.innerText.replace(/\s+/g, " ").startsWith("Certificates shop.example.com ends in 5 d 0 h not checked · 1 of 1")`)
	b.eval(`(`+section+`.scrollIntoView(), true)`, new(bool))
	b.shot("certificates-probe")
	var probe string
	b.eval(`location.hash`, &probe)
	t.Run("accessible", func(t *testing.T) { certificatesAreAccessible(t, b, probe) })
}

// certificatesAreAccessible runs axe-core on the view and on the page of a probe.
func certificatesAreAccessible(t *testing.T, b *tab, probe string) {
	script := axe(t)
	b.t = t
	for _, l := range []view{desktop, {1280, 800, true, false}, phone} {
		b.run(l.set())
		for _, v := range []struct{ name, hash, ready string }{
			{"all", "#/certificates", `document.querySelectorAll(".certificates .space .line:not([hidden])").length >= 4`},
			{"some", "#/certificates?q=bank", `document.querySelectorAll(".certificate").length === 1`},
			{"probe", probe, `document.querySelector("section[aria-label=Certificates]")?.checkVisibility()`},
		} {
			b.eval(fmt.Sprintf(`(location.hash = %s, true)`, quote(v.hash)), new(bool))
			b.wait(v.ready)
			b.audit(script, "")
			var wide bool
			if b.eval(`document.documentElement.scrollWidth > innerWidth`, &wide); wide {
				t.Errorf("%s is wider than %d", v.hash, l.width)
			}
			b.shot(fmt.Sprintf("certificates-%s-%d-dark=%v", v.name, l.width, l.dark))
		}
	}
}
