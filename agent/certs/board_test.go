package certs_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/agent/certs"
	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/internal/certificates"
	"github.com/daeace23/prober/internal/handshake"
	"github.com/daeace23/prober/probe"
)

const day = 24 * time.Hour

var serial int64

// issue returns a self-signed certificate that is valid for left from now.
func issue(t testing.TB, left time.Duration, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "shop.test"}, DNSNames: []string{"shop.test"},
		NotBefore: time.Now().Add(-day), NotAfter: time.Now().Add(left),
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// serve starts a server that shows the certificates that show returns.
func serve(t testing.TB, show func() tls.Certificate) (port int) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{show()}}, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// ticks is an observer that sends the number of each tick's attempts.
type ticks chan int

func (c ticks) Observe(worker.Info) worker.ProbeObserver { return c }
func (c ticks) Tick(t *worker.Tick)                      { c <- t.Attempts }
func (ticks) Skipped(worker.SkipReason, int)             {}
func (ticks) Close()                                     {}

// all returns the certificates on a board, the first to end first.
func all(b *certs.Board) (list []api.Certificate) {
	for _, l := range b.Certificates(func(*certs.Probe) bool { return true }) {
		list = append(list, l.API(100, time.Now()))
	}
	slices.SortFunc(list, func(a, b api.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	return list
}

// TestCertificatesFollowServer has a probe of a real server, which renews its certificate.
func TestCertificatesFollowServer(t *testing.T) {
	old, renewed := issue(t, 3*day+time.Hour, nil), issue(t, 90*day+time.Hour, nil)
	shown := make(chan tls.Certificate, 1)
	shown <- old
	port := serve(t, func() tls.Certificate { c := <-shown; shown <- c; return c })
	board, ticked := certs.New(), make(ticks)
	g, err := group.New[string](group.Config{Observers: []worker.Observer{board, ticked}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Shutdown(context.Background())
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Host: "127.0.0.1", Port: port, Scheme: "HTTPS"})
	if err != nil {
		t.Fatal(err)
	}
	task := &worker.Task{Subject: results.Subject{Namespace: "default", Pod: "shop", PodUID: "1", Container: "web"}}
	task.SetState(worker.Running("1", time.Now()))
	if err := g.Add("shop", group.Probe{Task: task, Kind: probe.Readiness, Spec: probe.Spec{Period: 10 * time.Millisecond}, Name: "http", Handler: h}); err != nil {
		t.Fatal(err)
	}
	<-ticked // its observers are called one after the other, the board first
	got := all(board)
	if len(got) != 1 {
		t.Fatalf("%d certificates, want one: %+v", len(got), got)
	}
	c := got[0]
	want := api.Certificate{
		Subject: "CN=shop.test", Names: []string{"shop.test"}, Issuer: "CN=shop.test", NotBefore: old.Leaf.NotBefore, NotAfter: old.Leaf.NotAfter, DaysLeft: 3,
		Serial: fmt.Sprintf("%02x", old.Leaf.SerialNumber), SHA256: fmt.Sprintf("%x", certificates.Describe(old.Leaf).SHA256), Verification: api.NotChecked, ProbeCount: 1,
		Probes: []api.CertificateProbe{{
			Namespace: "default", Pod: "shop", Container: "web", Kind: "readiness", Position: 1, Sent: 1, Verification: api.NotChecked, Seen: c.Probes[0].Seen,
		}},
	}
	if has, wants := text(t, c), text(t, want); has != wants {
		t.Errorf("got  %s\nwant %s", has, wants)
	}
	if since := time.Since(c.Probes[0].Seen); since < 0 || since > time.Minute {
		t.Errorf("seen %v ago", since)
	}
	<-shown
	shown <- renewed
	<-ticked // may have begun before
	<-ticked
	if got := all(board); len(got) != 1 || got[0].DaysLeft != 90 {
		t.Errorf("after the renewal: %+v", got)
	}
	go func() {
		for range ticked { // of ticks under way
		}
	}()
	if err := g.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(ticked)
	if got := all(board); len(got) != 0 {
		t.Errorf("after the end of the probe: %+v", got)
	}
}

func text(t *testing.T, c any) string {
	t.Helper()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// observer returns the observer of a probe with a name.
func observer(b *certs.Board, name string) (worker.ProbeObserver, certificates.Observer) {
	o := b.Observe(worker.Info{Subject: results.Subject{Namespace: "default", Pod: name, PodUID: name, Container: "web"}, Kind: probe.Liveness})
	return o, o.(certificates.Observer)
}

var (
	succeeded = &worker.Tick{Outcome: probe.Outcome{Result: probe.Success}}
	failed    = &worker.Tick{Outcome: probe.Outcome{Result: probe.Failure}}
)

func show(certs ...tls.Certificate) certificates.Shown {
	var s certificates.Shown
	for i := range certs {
		s.Sent = append(s.Sent, certs[i].Leaf)
	}
	return s
}

func TestProbeLosesCertificates(t *testing.T) {
	one, other := issue(t, day, nil), issue(t, 2*day, nil)
	for _, c := range []struct {
		name string
		then func(worker.ProbeObserver, certificates.Observer)
		want int
	}{
		{"a failure without a handshake keeps them", func(o worker.ProbeObserver, _ certificates.Observer) { o.Tick(failed) }, 1},
		{"an error without a handshake keeps them", func(o worker.ProbeObserver, _ certificates.Observer) {
			o.Tick(&worker.Tick{Err: errors.New("no slot"), Outcome: succeeded.Outcome})
		}, 1},
		{"a success without a handshake drops them", func(o worker.ProbeObserver, _ certificates.Observer) { o.Tick(succeeded) }, 0},
		{"others replace them", func(o worker.ProbeObserver, s certificates.Observer) { s.Handshook(show(other)); o.Tick(failed) }, 1},
		{"both are kept if both are shown", func(o worker.ProbeObserver, s certificates.Observer) {
			s.Handshook(show(one))
			s.Handshook(show(other))
			o.Tick(succeeded)
		}, 2},
		{"the end of the probe drops them", func(o worker.ProbeObserver, _ certificates.Observer) { o.Close() }, 0},
		{"a late handshake is ignored", func(o worker.ProbeObserver, s certificates.Observer) { o.Close(); s.Handshook(show(other)) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			board := certs.New()
			o, s := observer(board, "shop")
			s.Handshook(show(one))
			o.Tick(succeeded)
			c.then(o, s)
			if got := all(board); len(got) != c.want {
				t.Errorf("%d certificates, want %d", len(got), c.want)
			}
		})
	}
}

func TestProbesShareCertificate(t *testing.T) {
	leaf, inter := issue(t, day, nil), issue(t, 2*day, nil)
	board := certs.New()
	for _, name := range []string{"b", "a", "c"} {
		_, s := observer(board, name)
		s.Handshook(show(leaf, inter))
	}
	_, s := observer(board, "d")
	s.Handshook(show(inter))
	got := all(board)
	if len(got) != 2 || got[0].ProbeCount != 3 || got[1].ProbeCount != 4 {
		t.Fatalf("got %+v", got)
	}
	var names []string
	for _, p := range got[1].Probes {
		names = append(names, fmt.Sprintf("%s %d/%d", p.Pod, p.Position, p.Sent))
	}
	if want := "[a 2/2 b 2/2 c 2/2 d 1/1]"; fmt.Sprint(names) != want {
		t.Errorf("got %v, want %s", names, want)
	}
	some := board.Certificates(func(p *certs.Probe) bool { return p.Pod.Name == "d" })
	if len(some) != 1 || some[0].API(100, time.Now()).ProbeCount != 1 {
		t.Errorf("of one probe: %d", len(some))
	}
	if cut := board.Certificates(func(*certs.Probe) bool { return true })[0].API(2, time.Now()); len(cut.Probes) != 2 || cut.ProbeCount < 3 {
		t.Errorf("with a limit: %+v", cut)
	}
}

// TestVerification has one probe that rejects a certificate, one that verifies it, and one that does not care.
func TestVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leaf := issue(t, 2*day+time.Hour, nil)
		verified := certificates.Shown{Sent: show(leaf).Sent, Verified: [][]*x509.Certificate{show(leaf).Sent}}
		rejected := certificates.ShownIn(nil, &tls.CertificateVerificationError{
			UnverifiedCertificates: show(leaf).Sent, Err: x509.CertificateInvalidError{Cert: leaf.Leaf, Reason: x509.Expired},
		})
		board := certs.New()
		expect := func(verification, why string) {
			t.Helper()
			if got := all(board); len(got) != 1 || got[0].Verification != verification || !strings.HasSuffix(got[0].Why, why) || (why == "") != (got[0].Why == "") {
				t.Errorf("got %+v, want %s, %s", got, verification, why)
			}
		}
		o, s := observer(board, "careless")
		s.Handshook(show(leaf))
		o.Tick(succeeded)
		expect(api.NotChecked, "")
		o, s = observer(board, "careful")
		s.Handshook(verified)
		o.Tick(succeeded)
		expect(api.Verified, "")
		time.Sleep(5 * day)
		s.Handshook(rejected)
		s.Handshook(show(leaf)) // to learn more
		o.Tick(failed)
		expect(api.NotVerified, `: certificate "CN=shop.test" ended 2 days ago`)
		if got := all(board)[0]; got.DaysLeft != -3 {
			t.Errorf("%d days left, want -3", got.DaysLeft)
		}
		s.Handshook(verified)
		o.Tick(succeeded)
		expect(api.Verified, "")
		o.Close()
		expect(api.NotChecked, "")
	})
}

func TestEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			life, left time.Duration
			want       bool
		}{
			{90 * day, 15 * day, false},
			{90 * day, 13 * day, true},
			{90 * day, -day, true},
			{6 * day, 3 * day, false},
			{6 * day, day, true},
		} {
			board := certs.New()
			_, s := observer(board, "shop")
			s.Handshook(show(issue(t, c.left, func(x *x509.Certificate) { x.NotBefore = x.NotAfter.Add(-c.life) })))
			if got := all(board); got[0].EndsSoon != c.want {
				t.Errorf("%v of %v left: %t", c.left, c.life, got[0].EndsSoon)
			}
		}
	})
}

// TestSpans has the certificate that ends first.
func TestSpans(t *testing.T) {
	leaf, soon := issue(t, 9*day, nil), issue(t, 5*day, nil)
	board := certs.New()
	o, s := observer(board, "shop")
	observer(board, "plain")
	s.Handshook(show(leaf, issue(t, time.Hour, func(c *x509.Certificate) { c.Subject.CommonName = "unrelated" })))
	s.Handshook(show(soon))
	o.Tick(succeeded)
	spans := slices.Collect(board.Spans())
	if len(spans) != 1 || spans[0].Pod.Name != "shop" || !spans[0].NotAfter.Equal(soon.Leaf.NotAfter) || !spans[0].NotBefore.Equal(soon.Leaf.NotBefore) {
		t.Errorf("got %+v", spans)
	}
}

// TestHostileServer shows new certificates without end, in long chains, and with long texts.
func TestHostileServer(t *testing.T) {
	long := strings.Repeat("\x1b<b>\u202e", 50)
	huge := func(c *x509.Certificate) {
		c.Subject.CommonName, c.Subject.Organization, c.SerialNumber = long, slices.Repeat([]string{long}, 5), new(big.Int).Lsh(big.NewInt(serial), 150)
		c.DNSNames = nil
		for i := range 1000 {
			c.DNSNames = append(c.DNSNames, fmt.Sprintf("%s-%d.test", strings.Repeat("x", 200), i))
		}
	}
	some := make([]tls.Certificate, 25)
	for i := range some {
		some[i] = issue(t, day, huge)
	}
	board := certs.New()
	o, s := observer(board, "hostile")
	for i := range 200 {
		chain := slices.Repeat(append(slices.Clone(some[i%25:]), some[:i%25]...), 4)
		s.Handshook(show(chain...))
		if i%50 == 49 {
			o.Tick(failed)
		}
	}
	got := all(board)
	if len(got) == 0 || len(got) > 20 {
		t.Errorf("%d certificates of one probe", len(got))
	}
	for _, c := range got {
		if size := len(text(t, c)); size > 8<<10 || len(c.Names) != 16 || c.MoreNames != 1000-16 || c.Probes[0].Sent != 100 {
			t.Errorf("%d bytes, %d names, %d more, %d sent", size, len(c.Names), c.MoreNames, c.Probes[0].Sent)
		}
	}
	o.Close()
	if got := all(board); len(got) != 0 {
		t.Errorf("%d certificates without a probe", len(got))
	}
}

func TestUnchangedCertificateAllocatesNothing(t *testing.T) {
	o, s := observer(certs.New(), "shop")
	shown := show(issue(t, day, nil), issue(t, day, nil))
	s.Handshook(shown)
	if n := testing.AllocsPerRun(100, func() {
		s.Handshook(shown)
		o.Tick(succeeded)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkUnchanged has a chain of three certificates.
func BenchmarkUnchanged(b *testing.B) {
	o, s := observer(certs.New(), "shop")
	shown := show(issue(b, day, nil), issue(b, day, nil), issue(b, day, nil))
	b.ReportAllocs()
	for b.Loop() {
		s.Handshook(shown)
		o.Tick(succeeded)
	}
}

// BenchmarkHTTPS makes attempts of the http handler at a server on loopback, with and without a board.
func BenchmarkHTTPS(b *testing.B) {
	leaf := issue(b, 90*day, nil)
	port := serve(b, func() tls.Certificate { return leaf })
	h, err := httpprobe.New(httpprobe.Config{}).Bind(httpprobe.Action{Host: "127.0.0.1", Port: port, Scheme: "HTTPS"})
	if err != nil {
		b.Fatal(err)
	}
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("board=%t", on), func(b *testing.B) {
			o, s := observer(certs.New(), "shop")
			ctx := b.Context()
			if on {
				ctx = context.WithValue(ctx, handshake.Key{}, s)
			}
			b.ReportAllocs()
			for b.Loop() {
				out, err := h.Probe(ctx, probe.Request{})
				if err != nil || out.Result != probe.Success {
					b.Fatal(out, err)
				}
				o.Tick(succeeded)
			}
		})
	}
}
