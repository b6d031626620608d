package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// everywhere returns a request for all addresses and ports, and for the given sockets.
func everywhere(sockets ...string) plugin.Request {
	r := plugin.Request{Capability: "net", Allow: []string{"tcp://*:*", "udp://*:*", "tcp://0.0.0.0/0:*", "udp://0.0.0.0/0:*", "tcp://[::/0]:*", "udp://[::/0]:*"}}
	for _, path := range sockets {
		r.Allow = append(r.Allow, "unix://"+path)
	}
	return r
}

// hostWith returns a host on the real network.
func hostWith(t *testing.T, cfg wasm.Config) *wasm.Host {
	t.Helper()
	cfg.CacheDir, cfg.Interpreter = filepath.Join(t.TempDir(), "cache"), true
	h, err := wasm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

func TestOwnLoopbackCoversDeclaredPorts(t *testing.T) {
	app, sidecar, other, target := serve(t, "tcp", "127.0.0.1:0"), serve(t, "tcp", "127.0.0.1:0"), serve(t, "tcp", "127.0.0.1:0"), serve(t, "tcp", "127.0.0.1:0")
	h := hostWith(t, wasm.Config{})
	p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), grants(t, "tcp://*:*", "tcp://0.0.0.0/0:*", "udp://0.0.0.0/0:*", "tcp://[::/0]:*")...)
	pod := &probe.Pod{Ports: []probe.Port{{Number: portOf(app), Protocol: "TCP"}, {Number: portOf(sidecar)}}}
	container := &probe.Container{Ports: []probe.Port{{Number: portOf(app), Protocol: "TCP"}}}
	for _, c := range []struct {
		name, url string
		podIP     string
		denied    bool
	}{
		{"target", "", "127.0.0.1", false},
		{"port of the container", "tcp://127.0.0.1:" + strconv.Itoa(portOf(app)), "127.0.0.1", false},
		{"port of the container, mapped", fmt.Sprintf("tcp://[::ffff:127.0.0.1]:%d", portOf(app)), "127.0.0.1", false},
		{"port of another container", "tcp://127.0.0.1:" + strconv.Itoa(portOf(sidecar)), "127.0.0.1", false},
		{"port that is not declared", "tcp://127.0.0.1:" + strconv.Itoa(portOf(other)), "127.0.0.1", true},
		{"port that is not declared, mapped", fmt.Sprintf("tcp://[::ffff:127.0.0.1]:%d", portOf(other)), "127.0.0.1", true},
		{"port that is not declared, by 6to4", fmt.Sprintf("tcp://[2002:7f00:1::]:%d", portOf(other)), "127.0.0.1", true},
		{"port that is declared for another protocol", "udp://127.0.0.1:" + strconv.Itoa(portOf(app)), "127.0.0.1", true},
		{"port of the pod at another loopback address", "tcp://127.0.0.2:" + strconv.Itoa(portOf(app)), "127.0.0.1", true},
		{"port of the pod at loopback that is not the pod's", "tcp://127.0.0.1:" + strconv.Itoa(portOf(app)), "10.0.0.7", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := probe.Request{Target: targetOf(target), PodIP: c.podIP, Pod: pod, Container: container}
			got, err := attempt(t, bind(t, p, dialling(t, c.url), req.Target), req, 5*time.Second)
			if denied := got.Reason == probe.ReasonDenied; err != nil || denied != c.denied || !denied && got.Result != probe.Success {
				t.Errorf("got %+v, %v, want denied: %v", got, err, c.denied)
			}
		})
	}
}

// localAddresses returns the addresses of this machine, in all spellings.
func localAddresses(t *testing.T) []string {
	t.Helper()
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::7f00:1", "localhost", "LOCALHOST.", "self.example"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, prefix.Addr().String())
		if prefix.Addr().Is4() {
			hosts = append(hosts, "::ffff:"+prefix.Addr().String())
		}
	}
	return hosts
}

func TestOwnListenerIsDenied(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", "127.0.0.1:0", ":0"} {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		port := portOf(l)
		h := hostWith(t, wasm.Config{
			Listeners:   []net.Addr{l.Addr()},
			DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("dialled") },
			LookupIP: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::ffff:127.0.0.1")}, nil
			},
		})
		for _, host := range localAddresses(t) {
			address := net.JoinHostPort(host, strconv.Itoa(port))
			if addr, err := netip.ParseAddr(host); listen == "127.0.0.1:0" && err == nil && addr.Unmap().String() != "127.0.0.1" {
				continue // no listener at this address
			}
			granted := []string{"tcp://*:*", "tcp://0.0.0.0/0:*", "tcp://[::/0]:*", "tcp://127.0.0.0/8:*", "tcp://localhost:*"}
			if addr, err := netip.ParseAddr(host); err == nil {
				granted = append(granted, fmt.Sprintf("tcp://%s", netip.AddrPortFrom(addr.Unmap(), uint16(port))))
			}
			request := everywhere()
			request.Allow = append(request.Allow, granted...)
			pod := &probe.Pod{Ports: []probe.Port{{Number: port, Protocol: "TCP"}}}
			p := loadAs(t, h, "dialurl", asking("dialurl", request), grants(t, granted...)...)
			for about, c := range map[string]struct {
				url    string
				target probe.Target
			}{
				"granted":    {"tcp://" + address, probe.Target{Host: "10.0.0.7", Port: 80}},
				"target":     {"", probe.Target{Host: host, Port: port}},
				"target tls": {"tls://", probe.Target{Host: host, Port: port}},
			} {
				got, err := attempt(t, bind(t, p, dialling(t, c.url), c.target), probe.Request{Target: c.target, PodIP: "127.0.0.1", Pod: pod}, 5*time.Second)
				if err != nil || got.Reason != probe.ReasonDenied {
					t.Errorf("%s, %s by a listener on %s: got %+v, %v, want a denial", about, address, listen, got, err)
				}
			}
			web := loadAs(t, h, "http", asking("http", plugin.Request{Capability: "http", Allow: request.Allow}), grants(t, granted...)...)
			target := probe.Target{Host: "10.0.0.7", Port: 80}
			got, err := attempt(t, bind(t, web, getting(t, "http://"+address+"/metrics"), target), probe.Request{Target: target, PodIP: "127.0.0.1", Pod: pod}, 5*time.Second)
			if err != nil || got.Reason != probe.ReasonDenied {
				t.Errorf("http://%s: got %+v, %v, want a denial", address, got, err)
			}
		}
		p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), grants(t, "tcp://*:*", "tcp://0.0.0.0/0:*")...)
		target := probe.Target{Host: "10.0.0.7", Port: port}
		got, err := attempt(t, bind(t, p, dialling(t, ""), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil || !strings.Contains(got.Output, "dialled") {
			t.Errorf("got %+v, %v, want another host to be dialled at the same port", got, err)
		}
	}
}

func getting(t *testing.T, url string) string {
	return request(t, map[string]any{"url": url, "redirects": 3}, false)
}

func TestOwnSocketIsDenied(t *testing.T) {
	path := socketPath(t)
	l := serve(t, "unix", path)
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	h := hostWith(t, wasm.Config{Listeners: []net.Addr{l.Addr()}})
	folder, name := filepath.Split(path)
	for _, to := range []string{path, link, folder + "/" + name, folder + "./" + name} {
		clean := filepath.Clean(to)
		p := loadAs(t, h, "dialurl", asking("dialurl", everywhere(clean)), grants(t, "unix://"+clean)...)
		for about, c := range map[string]struct {
			url    string
			target probe.Target
		}{
			"granted": {"unix://" + to, probe.Target{Host: "10.0.0.7", Port: 80}},
			"target":  {"", probe.Target{Unix: to}},
		} {
			got, err := attempt(t, bind(t, p, dialling(t, c.url), c.target), probe.Request{Target: c.target}, 5*time.Second)
			if err != nil || got.Reason != probe.ReasonDenied || strings.Contains(got.Output, `"network"`) {
				t.Errorf("%s, %s: got %+v, %v, want a denial", about, to, got, err)
			}
		}
	}
}
