package oci_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// proxy is an HTTP proxy for HTTP_PROXY. It forwards every request to the same registry.
type proxy struct {
	mu    sync.Mutex
	hosts []string
	lead  func(w http.ResponseWriter, r *http.Request) bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{}
	real := registrytest.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		host, lead := r.URL.Host, p.lead
		p.hosts = append(p.hosts, r.Method+" "+host)
		p.mu.Unlock()
		switch {
		case r.Method == http.MethodConnect:
			http.Error(w, "no tunnels here", http.StatusTeapot)
		case host != "registry.example" || lead == nil || !lead(w, r):
			real.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	transport := http.DefaultTransport.(*http.Transport)
	was := transport.Proxy
	t.Cleanup(func() { transport.Proxy = was })
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport.Proxy = http.ProxyURL(u)
	return p
}

// asked returns the requested hosts except the registry, and clears the list.
func (p *proxy) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	hosts := slices.DeleteFunc(p.hosts, func(h string) bool { return strings.HasSuffix(h, " registry.example") })
	p.hosts = nil
	return hosts
}

func (p *proxy) leadTo(place string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lead = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		w.Header().Set("Location", place+r.URL.Path)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
}

// resolver replaces the DNS resolver until the test ends. The new one resolves names only.
func resolver(t *testing.T, names map[string]string) {
	t.Helper()
	was := net.DefaultResolver
	var serving sync.WaitGroup
	t.Cleanup(func() {
		net.DefaultResolver = was
		serving.Wait()
	})
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		serving.Go(func() { serveNames(theirs, names) })
		return ours, nil
	}}
}

// serveNames answers DNS queries over TCP.
func serveNames(conn net.Conn, names map[string]string) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		msg := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, msg); err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(msg); err != nil {
			return
		}
		m.Response, m.Additionals = true, nil
		q := m.Questions[0]
		addr, err := netip.ParseAddr(names[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))])
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}
		switch {
		case err != nil:
			m.RCode = dnsmessage.RCodeNameError
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}}}
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
		}
		packed, err := m.Pack()
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(size[:], uint16(len(packed)))
		if _, err := conn.Write(append(size[:], packed...)); err != nil {
			return
		}
	}
}

// The check applies to requests that a proxy would send, too.
func TestProxiedMetadataAddressIsError(t *testing.T) {
	p := newProxy(t)
	resolver(t, map[string]string{
		"registry.example": "192.0.2.7", "blobs.example": "192.0.2.8",
		"metadata.google.internal": "169.254.169.254", "rebound.example": "169.254.169.254", "six.example": "fd00:ec2::254",
		"translated.example": "64:ff9b::a9fe:a9fe", "loop.example": "127.0.0.1", "private.example": "10.0.0.7", "0x7f.1": "127.0.0.1",
	})
	ref, err := plugin.ParseReference("registry.example/demo:1")
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, oci.ClientConfig{})
	push(t, c, ref, pack(t, "1.0.0", ""))
	p.asked()
	for place, want := range map[string]string{
		"http://169.254.169.254":           "metadata address",
		"http://169.254.169.254.":          "neither a name nor an address",
		"http://[::ffff:169.254.169.254]":  "metadata address",
		"http://[fe80::1]":                 "metadata address",
		"http://[fe80::1%25eth0]":          "metadata address",
		"http://[fd00:ec2::23]":            "metadata address",
		"http://[64:ff9b:1::a9fe:a9fe]":    "metadata address",
		"http://[2002:a9fe:a9fe::]":        "metadata address",
		"http://100.100.100.200":           "metadata address",
		"http://2852039166":                "neither a name nor an address",
		"http://0xa9fea9fe":                "neither a name nor an address",
		"http://0x7f.1":                    "neither a name nor an address",
		"http://0251.0376.0251.0376":       "neither a name nor an address",
		"http://１６９.254.169.254":           "neither a name nor an address",
		"http://metadata.google.internal":  "metadata address",
		"http://METADATA.google.internal.": "metadata address",
		"http://rebound.example":           "metadata address",
		"http://rebound.example:8080":      "metadata address",
		"http://six.example":               "metadata address",
		"http://translated.example":        "metadata address",
		"https://rebound.example":          "metadata address",
		"https://169.254.169.254":          "metadata address",
		"http://loop.example":              "a loopback address",
		"http://127.0.0.1:8500":            "a loopback address",
		"http://0.0.0.0:8500":              "a loopback address",
		"http://[::]:8500":                 "a loopback address",
		"http://private.example":           "a private address",
		"http://10.0.0.7":                  "a private address",
		"http://nobody-knows.example":      "this host cannot look up its addresses",
		"http://" + proxyHost(t):           "the proxy itself",
		"http://255.255.255.255":           "not the address of a host",
	} {
		p.leadTo(place)
		_, err := c.Pull(t.Context(), ref)
		wantError(t, err, "registry.example/demo:1: ", want)
		if asked := p.asked(); len(asked) > 0 {
			t.Errorf("%s: the proxy was asked for %q", place, asked)
		}
	}
	p.leadTo("http://blobs.example")
	if _, err := c.Pull(t.Context(), ref); err != nil {
		t.Errorf("got %v, want another place to be reached", err)
	}
	if asked := p.asked(); !slices.Contains(asked, "GET blobs.example") {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

func proxyHost(t *testing.T) string {
	t.Helper()
	u, err := http.DefaultTransport.(*http.Transport).Proxy(&http.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func TestNameKnownToProxyOnly(t *testing.T) {
	p := newProxy(t)
	resolver(t, nil)
	ref, err := plugin.ParseReference("registry.example/demo:1")
	if err != nil {
		t.Fatal(err)
	}
	c := client(t, oci.ClientConfig{})
	push(t, c, ref, pack(t, "1.0.0", ""))
	if _, err := c.Pull(t.Context(), ref); err != nil {
		t.Errorf("got %v, want the registry that was named to be reached over HTTP", err)
	}
	secure, err := oci.NewClient(oci.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	p.asked()
	_, err = secure.Pull(t.Context(), ref)
	if asked := p.asked(); !slices.Contains(asked, "CONNECT registry.example:443") {
		t.Errorf("got %v, the proxy was asked for %q", err, asked)
	}
	direct, err := plugin.ParseReference("169.254.169.254/demo:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = secure.Pull(t.Context(), direct)
	wantError(t, err, "169.254.169.254 is a link-local or metadata address")
	if asked := p.asked(); len(asked) > 0 {
		t.Errorf("the proxy was asked for %q", asked)
	}
}
