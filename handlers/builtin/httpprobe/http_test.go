package httpprobe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get probes path of the server at port with a handler of cfg.
func get(t testing.TB, cfg httpprobe.Config, port int, path string) (probe.Outcome, error) {
	t.Helper()
	h := rig.Prepare(t, httpprobe.New(cfg), fmt.Sprintf(`{"port":%d,"path":%q}`, port, path))
	return rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
}

func TestHTTPProxy(t *testing.T) {
	t.Run("#103 a proxy of the environment is not used", func(t *testing.T) {
		const proxy = "http://10.9.9.9:3128"
		if os.Getenv("http_proxy") != proxy { // another process is needed, because net/http reads it only once
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHTTPProxy$")
			child.Env = append(os.Environ(), "http_proxy="+proxy, "HTTP_PROXY="+proxy)
			if out, err := child.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			return
		}
		var network rig.Network
		cfg := httpprobe.Config{DialContext: network.DialContext}
		h := rig.Prepare(t, httpprobe.New(cfg), `{"port":80}`)
		if _, err := rig.Attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, time.Minute); err != nil {
			t.Error(err)
		}
		if dials := network.Dials(); !slices.Equal(dials, []string{"10.0.0.1:80"}) {
			t.Errorf("dialled %v", dials)
		}
	})
}

func TestHTTPHeaders(t *testing.T) {
	cases := []struct {
		name    string
		headers string
		want    map[string]string // "-" means that the header must be missing
	}{
		{"#105 exactly three headers by default", ``, map[string]string{"User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}},
		{"#106 Accept-Encoding gzip", `{"name":"Accept-Encoding","value":"gzip"}`, map[string]string{"Accept-Encoding": "gzip"}},
		{"#107 Accept-Encoding foo", `{"name":"Accept-Encoding","value":"foo"}`, map[string]string{"Accept-Encoding": "foo"}},
		{"#108 Accept-Encoding empty", `{"name":"Accept-Encoding","value":""}`, map[string]string{"Accept-Encoding": ""}},
		{"#109 a custom header", `{"name":"X-Muffins-Or-Cupcakes","value":"muffins"}`, map[string]string{"X-Muffins-Or-Cupcakes": "muffins"}},
		{"#110 User-Agent", `{"name":"User-Agent","value":"foo/1.0"}`, map[string]string{"User-Agent": "foo/1.0"}},
		{"#111 User-Agent empty", `{"name":"User-Agent","value":""}`, map[string]string{"User-Agent": "-"}},
		{"#112 no User-Agent", `{"name":"X","value":"y"}`, map[string]string{"User-Agent": "kube-probe/1.36"}},
		{"#113 User-Agent and Accept: Accept", `{"name":"User-Agent","value":"foo/1.0"},{"name":"Accept","value":"text/html"}`, map[string]string{"Accept": "text/html"}},
		{"#114 User-Agent and Accept: User-Agent", `{"name":"User-Agent","value":"foo/1.0"},{"name":"Accept","value":"foo/*"}`, map[string]string{"User-Agent": "foo/1.0"}},
		{"#115 custom header and Accept", `{"name":"X-Muffins-Or-Cupcakes","value":"muffins"},{"name":"Accept","value":"foo/*"}`, map[string]string{"X-Muffins-Or-Cupcakes": "muffins"}},
		{"#116 Accept", `{"name":"Accept","value":"foo/*"}`, map[string]string{"Accept": "foo/*"}},
		{"#117 Accept empty", `{"name":"Accept","value":""}`, map[string]string{"Accept": "-"}},
		{"#118 User-Agent, Accept empty", `{"name":"User-Agent","value":"foo/1.0"},{"name":"Accept","value":""}`, map[string]string{"Accept": "-"}},
		{"#119 no Accept", `{"name":"User-Agent","value":"foo/1.0"}`, map[string]string{"Accept": "*/*"}},
		{"#120 Host", `{"name":"Host","value":"muffins.cupcakes.org"}`, map[string]string{"Host": "muffins.cupcakes.org"}},
	}
	seen := make(chan *http.Request, 1)
	_, port := rig.Serve(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r })
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"httpHeaders":[%s]}`, port, c.headers))
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
			rig.Want(t, got, err, probe.Success, "")
			r := <-seen
			if c.headers == "" && len(r.Header) != 3 {
				t.Errorf("the server saw %v; want three headers", r.Header)
			}
			for name, value := range c.want {
				values, ok := r.Header[name]
				switch {
				case name == "Host":
					if r.Host != value {
						t.Errorf("host %q, want %q", r.Host, value)
					}
				case value == "-":
					if ok {
						t.Errorf("%s: %q; want none", name, values)
					}
				case !ok || r.Header.Get(name) != value:
					t.Errorf("%s: %q; want %q", name, values, value)
				}
			}
		})
	}
}

func TestHTTPUserAgentOfConfig(t *testing.T) {
	_, port := rig.Serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.UserAgent()) })
	got, err := get(t, httpprobe.Config{UserAgent: "kube-lifecycle/1.36"}, port, "/")
	rig.Want(t, got, err, probe.Success, "kube-lifecycle/1.36")
}

func TestHTTPResponse(t *testing.T) {
	t.Run("#104 200 with a body is a success", func(t *testing.T) {
		_, port := rig.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok body") })
		got, err := get(t, httpprobe.Config{}, port, "/")
		rig.Want(t, got, err, probe.Success, "ok body")
		rig.WantReason(t, got, "")
	})
	t.Run("#121 closed connection is a failure", func(t *testing.T) {
		_, port := rig.Serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		got, err := get(t, httpprobe.Config{}, port, "/")
		rig.Want(t, got, err, probe.Failure, fmt.Sprintf(`Get "http://127.0.0.1:%d/": EOF`, port))
	})
	t.Run("#122 500 is a failure", func(t *testing.T) {
		_, port := rig.Serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret", http.StatusInternalServerError) })
		got, err := get(t, httpprobe.Config{}, port, "/")
		rig.Want(t, got, err, probe.Failure, "HTTP probe failed with statuscode: 500")
		rig.WantReason(t, got, probe.ReasonHTTPStatus)
	})
	t.Run("#123 a slow server is a failure", func(t *testing.T) {
		_, port := rig.Serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"path":"/slow"}`, port))
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, 2*time.Second)
		rig.Want(t, got, err, probe.Failure, fmt.Sprintf(`Get "http://127.0.0.1:%d/slow": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, port))
		rig.WantReason(t, got, probe.ReasonDeadline)
	})
	for name, size := range map[string]int{"#133 a body above the cap is cut": probe.MaxOutput + 1, "#134 a body below the cap is whole": probe.MaxOutput - 1} {
		t.Run(name, func(t *testing.T) {
			body := strings.Repeat("x", size)
			_, port := rig.Serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			got, err := get(t, httpprobe.Config{}, port, "/")
			rig.Want(t, got, err, probe.Success, body[:min(size, probe.MaxOutput)])
		})
	}
}

func TestHTTPOddResponses(t *testing.T) {
	_, port := rig.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/304":
			w.WriteHeader(http.StatusNotModified)
		case "/300":
			w.WriteHeader(http.StatusMultipleChoices)
		case "/400":
			w.WriteHeader(http.StatusBadRequest)
		case "/302":
			w.WriteHeader(http.StatusFound)
			_, _ = io.WriteString(w, "where?")
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/199":
			w.WriteHeader(http.StatusContinue) // informational, then a real one
			w.WriteHeader(http.StatusTeapot)
		default:
			_, _ = io.WriteString(w, r.URL.String())
		}
	})
	for _, c := range []struct {
		name, path string
		result     probe.Result
		output     string
	}{
		{"#233 304", "/304", probe.Warning, "Probe terminated redirects, Response body: "},
		{"300", "/300", probe.Warning, "Probe terminated redirects, Response body: "},
		{"400", "/400", probe.Failure, "HTTP probe failed with statuscode: 400"},
		{"#233 3xx without Location", "/302", probe.Warning, "Probe terminated redirects, Response body: where?"},
		{"#233 headers only", "/204", probe.Success, ""},
		{"#233 absolute URL in path", "http://evil:99/x", probe.Success, "/x"},
		{"an informational response", "/199", probe.Failure, "HTTP probe failed with statuscode: 418"},
		{"a query", "?a=b", probe.Success, "/?a=b"},
		{"no slash", "healthz", probe.Success, "/healthz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := get(t, httpprobe.Config{}, port, c.path)
			rig.Want(t, got, err, c.result, c.output)
		})
	}
	t.Run("#233 IPv6 host", func(t *testing.T) {
		var network rig.Network
		l, err := network.Listen("tcp", "[fd00::1]:80")
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		h := rig.Prepare(t, httpprobe.New(httpprobe.Config{DialContext: network.DialContext}), `{"port":80}`)
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "fd00::1"}, time.Minute)
		rig.Want(t, got, err, probe.Success, "[fd00::1]:80")
	})
}

// TestHTTPHost checks that, as in the kubelet, a host that is invalid in a URL is an error of the
// attempt, not a Failure. The texts are the kubelet's.
func TestHTTPHost(t *testing.T) {
	for _, c := range []struct{ host, dialled, err string }{
		{"h", "h:80", ""},
		{"127.0.0.1", "127.0.0.1:80", ""},
		{"::1", "[::1]:80", ""},
		{"::ffff:127.0.0.1", "[::ffff:127.0.0.1]:80", ""},
		{"fe80::1%eth0", "[fe80::1%eth0]:80", ""},
		{"h%41", "h%41:80", ""},
		{"é", "xn--9ca:80", ""},
		{"127.0.0.1:8080", "", `parse "http://[127.0.0.1:8080]:80/p": invalid host: ParseAddr("127.0.0.1:8080"): unexpected character (at ":8080")`},
		{"a:b", "", `parse "http://[a:b]:80/p": invalid host: ParseAddr("a:b"): address string too short`},
		{"1:2:3", "", `parse "http://[1:2:3]:80/p": invalid host: ParseAddr("1:2:3"): address string too short`},
		{"::1%", "", `parse "http://[::1%25]:80/p": invalid host: ParseAddr("::1%"): zone must be a non-empty string`},
		{"[::1]", "", `parse "http://[[::1]]:80/p": invalid IP-literal`},
		{"[::1]:8080", "", `parse "http://[[::1]:8080]:80/p": invalid IP-literal`},
		{"[fe80::1%eth0]", "", `parse "http://[[fe80::1%25eth0]]:80/p": invalid IP-literal`},
		{"no host", "", `parse "http://no%20host:80/p": invalid URL escape "%20"`},
		{"a/b", "", `parse "http://a%2Fb:80/p": invalid URL escape "%2F"`},
		{"user@h", "", `parse "http://user%40h:80/p": invalid URL escape "%40"`},
	} {
		for name, compat := range map[string]probe.Compat{"default": 0, "kubelet": probe.CompatKubeletV1_36} {
			t.Run(c.host+" "+name, func(t *testing.T) {
				var network rig.Network
				cfg := httpprobe.Config{DialContext: network.DialContext, Compat: compat}
				h := rig.Prepare(t, httpprobe.New(cfg), fmt.Sprintf(`{"host":%q,"port":80,"path":"/p"}`, c.host))
				got, err := rig.Attempt(t, h, probe.Request{PodIP: "10.0.0.1"}, time.Minute)
				if c.err != "" {
					if err == nil || err.Error() != c.err || got.Result != probe.Unknown || len(network.Dials()) > 0 {
						t.Errorf("got %v, error %v, dialled %v; want error %s", got.Result, err, network.Dials(), c.err)
					}
					return
				}
				if err != nil || got.Result != probe.Failure || !slices.Equal(network.Dials(), []string{c.dialled}) {
					t.Errorf("got %v, error %v, dialled %q; want a failure at %s: nobody listens", got.Result, err, network.Dials(), c.dialled)
				}
			})
		}
	}
}

// TestHTTPBody checks that a body that hangs, is cut off or is reset is a Failure. With
// [probe.CompatBodyHangIsError] it is an error, which the kubelet retries and discards (kubernetes#122591).
func TestHTTPBody(t *testing.T) {
	const size = 100
	_, port := rig.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := size
		if r.URL.Path == "/long" {
			n = probe.MaxOutput
		}
		w.Header().Set("Content-Length", fmt.Sprint(n+1))
		if r.URL.Path == "/trailer" {
			w.Header().Del("Content-Length")
		}
		_, _ = io.WriteString(w, strings.Repeat("x", n))
		_ = http.NewResponseController(w).Flush()
		switch r.URL.Path {
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/reset", "/trailer":
			breakOff(w, r.URL.Path == "/reset")
		default:
			<-r.Context().Done()
		}
	})
	const got200 = "HTTP probe got statuscode: 200, then failed to read the body: "
	for _, c := range []struct {
		name, path string
		output     string // end of the output
		reason     probe.Reason
		err        string // end of the error with CompatBodyHangIsError
	}{
		{"#233 a body that hangs", "/",
			"context deadline exceeded (Client.Timeout or context cancellation while reading body)", probe.ReasonDeadline,
			"context deadline exceeded (Client.Timeout or context cancellation while reading body)"},
		{"#233 a body that is cut off", "/broken", "unexpected EOF", probe.ReasonBody, "unexpected EOF"},
		{"#233 a body that is reset", "/reset", "connection reset by peer", probe.ReasonBody, "connection reset by peer"},
		{"#233 a body with a broken trailer", "/trailer", "malformed trailer", probe.ReasonBody, `malformed MIME header: missing colon: "a secret without a colon"`},
	} {
		ask := func(t *testing.T, compat probe.Compat) (probe.Outcome, error) {
			h := rig.Prepare(t, httpprobe.New(httpprobe.Config{Compat: compat}), fmt.Sprintf(`{"port":%d,"path":%q}`, port, c.path))
			timeout := time.Minute
			if c.reason == probe.ReasonDeadline {
				timeout = time.Second
			}
			return rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, timeout)
		}
		t.Run(c.name+" is a failure (deviation Q14)", func(t *testing.T) {
			got, err := ask(t, 0)
			if err != nil || got.Result != probe.Failure || !strings.HasPrefix(got.Output, got200) || !strings.HasSuffix(got.Output, c.output) {
				t.Errorf("got %v, output %q, error %v; want failure, output %q", got.Result, got.Output, err, got200+"…"+c.output)
			}
			rig.WantReason(t, got, c.reason)
			if strings.Contains(got.Output, "secret") {
				t.Errorf("output %q shows what the target sent", got.Output)
			}
		})
		t.Run(c.name+" is an error with the switch", func(t *testing.T) {
			got, err := ask(t, probe.CompatBodyHangIsError)
			if err == nil || !strings.HasSuffix(err.Error(), c.err) || got.Result != probe.Failure {
				t.Fatalf("got %v, error %v; want error %q", got.Result, err, c.err)
			}
			if errors.Is(err, context.DeadlineExceeded) || probe.ReasonOf(err) != probe.ReasonBody {
				t.Errorf("the error reads as a deadline, reason %s", probe.ReasonOf(err))
			}
		})
	}
	t.Run("#233 a body that hangs above the cap is a success", func(t *testing.T) {
		got, err := get(t, httpprobe.Config{}, port, "/long")
		rig.Want(t, got, err, probe.Success, strings.Repeat("x", probe.MaxOutput))
	})
}

// breakOff ends the connection of w with a reset or with an invalid trailer.
func breakOff(w http.ResponseWriter, reset bool) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if reset {
		_ = conn.(*net.TCPConn).SetLinger(0)
	} else {
		_, _ = rw.WriteString("0\r\na secret without a colon\r\n\r\n")
		_ = rw.Flush()
	}
	_ = conn.Close()
}

func TestHTTPTLS(t *testing.T) {
	for _, h2 := range []bool{true, false} {
		t.Run(fmt.Sprintf("#233 HTTP/2 over TLS: %t", h2), func(t *testing.T) {
			remotes := make(chan string, 2)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				remotes <- r.RemoteAddr
				_, _ = io.WriteString(w, r.Proto)
			}))
			s.EnableHTTP2 = h2
			s.StartTLS()
			t.Cleanup(s.Close)
			proto := map[bool]string{true: "HTTP/2.0", false: "HTTP/1.1"}[h2]
			h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"scheme":"HTTPS"}`, rig.PortOf(t, s.Listener.Addr())))
			for range 2 {
				got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
				rig.Want(t, got, err, probe.Success, proto)
			}
			if a, b := <-remotes, <-remotes; a == b {
				t.Error("two attempts shared a connection")
			}
		})
	}
	t.Run("a server without TLS", func(t *testing.T) {
		_, port := rig.Serve(t, func(http.ResponseWriter, *http.Request) {})
		h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"scheme":"HTTPS"}`, port))
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
		rig.Want(t, got, err, probe.Failure, fmt.Sprintf(`Get "https://127.0.0.1:%d": http: server gave HTTP response to HTTPS client`, port))
		rig.WantReason(t, got, probe.ReasonTLS)
	})
}

func TestHTTPPriorKnowledge(t *testing.T) {
	remotes := make(chan string, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		remotes <- r.RemoteAddr
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"protocol":"HTTP2"}`, rig.PortOf(t, s.Listener.Addr())))
	for range 2 {
		got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
		rig.Want(t, got, err, probe.Success, "HTTP/2.0")
	}
	if a, b := <-remotes, <-remotes; a == b {
		t.Error("two attempts shared a connection")
	}
}

func TestHTTPPriorKnowledgeResults(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-r.Context().Done()
		case "/bad":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = io.WriteString(w, "h2c ok")
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	for path, want := range map[string]struct {
		result  probe.Result
		output  string
		timeout time.Duration
	}{
		"/":     {probe.Success, "h2c ok", time.Minute},
		"/bad":  {probe.Failure, "HTTP probe failed with statuscode: 500", time.Minute},
		"/hang": {probe.Failure, fmt.Sprintf(`Get "%s/hang": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, s.URL), 300 * time.Millisecond},
	} {
		t.Run("#263 "+path, func(t *testing.T) {
			h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"path":%q,"protocol":"HTTP2"}`, rig.PortOf(t, s.Listener.Addr()), path))
			got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, want.timeout)
			rig.Want(t, got, err, want.result, want.output)
		})
	}
}

// TestHTTPCompatIgnoreProtocol checks the protocol with [probe.CompatIgnoreProtocol].
func TestHTTPCompatIgnoreProtocol(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	t.Cleanup(s.Close)
	t.Run("#261 protocol HTTP2 is HTTP/1.1", func(t *testing.T) {
		h := httpprobe.New(httpprobe.Config{Compat: probe.CompatIgnoreProtocol})
		bound := rig.Prepare(t, h, fmt.Sprintf(`{"port":%d,"protocol":"HTTP2"}`, rig.PortOf(t, s.Listener.Addr())))
		got, err := rig.Attempt(t, bound, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
		rig.Want(t, got, err, probe.Success, "HTTP/1.1")
	})
}

func TestHTTPOverSocket(t *testing.T) {
	path := rig.SocketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	for name, req := range map[string]probe.Request{"localhost": {}, "ip": {PodIP: "ip"}} {
		req.Target.Unix = path
		got, err := rig.Attempt(t, httpprobe.New(httpprobe.Config{}), req, time.Minute)
		rig.Want(t, got, err, probe.Success, name)
	}
}

func TestHTTPTraceNamesEachHop(t *testing.T) {
	second := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(second.Close)
	first := httptest.NewServer(http.RedirectHandler(second.URL+"/there", http.StatusFound))
	t.Cleanup(first.Close)
	h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"host":"127.0.0.1","port":%d}`, rig.PortOf(t, first.Listener.Addr())))
	var connects []string
	got, err := rig.Attempt(t, h, probe.Request{Debug: true, Trace: func(e probe.TraceEvent) {
		if e.Name == "connect" {
			connects = append(connects, e.Detail)
		}
	}}, time.Minute)
	rig.Want(t, got, err, probe.Success, "")
	if want := []string{first.Listener.Addr().String(), second.Listener.Addr().String()}; !slices.Equal(connects, want) {
		t.Errorf("connects %q, want %q", connects, want)
	}
}

func TestHTTPTrace(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(s.Close)
	h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"host":"localhost","port":%d,"scheme":"HTTPS"}`, rig.PortOf(t, s.Listener.Addr())))
	details := make(map[string]string)
	req := probe.Request{Debug: true, Trace: func(e probe.TraceEvent) {
		if e.Type != probe.TracePhase || e.Duration <= 0 {
			t.Errorf("event %+v", e)
		}
		details[e.Name] += e.Detail
	}}
	got, err := rig.Attempt(t, h, req, time.Minute)
	rig.Want(t, got, err, probe.Success, "")
	if diff := cmp.Diff([]string{"body", "connect", "dns", "first byte", "tls"}, slices.Sorted(maps.Keys(details))); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if !strings.Contains(details["tls"], "TLS 1.3") || !strings.Contains(details["connect"], "127.0.0.1:") {
		t.Errorf("details %q", details)
	}
}

// phasesOf makes a traced attempt, and returns its events by name.
func phasesOf(t *testing.T, h probe.Handler, req probe.Request, timeout time.Duration) (names []string, events map[string]probe.TraceEvent) {
	t.Helper()
	events = make(map[string]probe.TraceEvent)
	req.Trace = func(e probe.TraceEvent) {
		names = append(names, e.Name)
		events[e.Name] = e
	}
	if _, err := rig.Attempt(t, h, req, timeout); err != nil {
		t.Error(err)
	}
	return names, events
}

func TestLeanAttemptHasPhases(t *testing.T) {
	serve := func(conn func(net.Conn)) probe.Handler {
		return rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"host":"127.0.0.1","port":%d}`, rig.Peer(t, conn)))
	}
	const head = "HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n"
	all := []string{"connect", "first byte", "body"}
	t.Run("success", func(t *testing.T) {
		names, events := phasesOf(t, serve(writes(fmt.Sprintf(head, "200 OK"), "ok")), probe.Request{}, time.Minute)
		if diff := cmp.Diff(all, names); diff != "" || events["connect"].Detail != "" || events["connect"].Duration <= 0 {
			t.Errorf("%+v (-want +got):\n%s", events, diff)
		}
	})
	t.Run("failure has details", func(t *testing.T) {
		names, events := phasesOf(t, serve(writes(fmt.Sprintf(head, "500 No"), "ok")), probe.Request{}, time.Minute)
		if diff := cmp.Diff(all, names); diff != "" || !strings.HasPrefix(events["connect"].Detail, "127.0.0.1:") {
			t.Errorf("%+v (-want +got):\n%s", events, diff)
		}
	})
	t.Run("no response", func(t *testing.T) {
		names, events := phasesOf(t, serve(rig.Silent), probe.Request{}, 200*time.Millisecond)
		if diff := cmp.Diff([]string{"connect", "first byte", "http"}, names); diff != "" || events["first byte"].Detail != "not finished" ||
			events["http"].Type != probe.TraceWait {
			t.Errorf("%+v (-want +got):\n%s", events, diff)
		}
	})
	t.Run("half of a body", func(t *testing.T) {
		names, events := phasesOf(t, serve(hangs(fmt.Sprintf(head, "200 OK"), "o")), probe.Request{}, 200*time.Millisecond)
		if !slices.Equal(names[:3], all) || events["body"].Duration < 100*time.Millisecond {
			t.Errorf("%q %+v", names, events)
		}
	})
	t.Run("nobody listens", func(t *testing.T) {
		l, port := rig.Loopback(t)
		l.Close()
		h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"host":"127.0.0.1","port":%d}`, port))
		names, events := phasesOf(t, h, probe.Request{}, time.Minute)
		if want := fmt.Sprintf("127.0.0.1:%d: connect: connection refused", port); len(names) != 1 || events["connect"].Detail != want {
			t.Errorf("got %q, %q; want %q", names, events["connect"].Detail, want)
		}
	})
	t.Run("TLS", func(t *testing.T) {
		s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(s.Close)
		h := rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"host":"127.0.0.1","port":%d,"scheme":"HTTPS"}`, rig.PortOf(t, s.Listener.Addr())))
		names, events := phasesOf(t, h, probe.Request{Debug: true}, time.Minute)
		if !slices.Equal(names, []string{"connect", "tls", "first byte", "body"}) || events["tls"].Detail != "TLS 1.3 http/1.1" {
			t.Errorf("%q, %+v", names, events)
		}
	})
}

func TestHTTPSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		_, port := rig.Serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/hang":
				<-r.Context().Done()
			case "/flood":
				_, _ = io.WriteString(w, rig.Flood)
			}
		})
		to := func(path string) probe.Handler {
			return rig.Prepare(t, httpprobe.New(httpprobe.Config{}), fmt.Sprintf(`{"port":%d,"path":%q}`, port, path))
		}
		return probetest.HandlerUnderTest{
			Good:     to("/"),
			Hanging:  to("/hang"),
			Flooding: to("/flood"),
			Erring:   rig.Prepare(t, httpprobe.New(httpprobe.Config{}), `{"port":"none"}`),
			Request:  probe.Request{PodIP: "127.0.0.1"},
		}
	})
}
