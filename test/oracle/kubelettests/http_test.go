package kubelettests

import (
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// get returns a request for a path of the server at address. headers are pairs of name and value.
func get(address, path string, headers ...string) request {
	action := &v1.HTTPGetAction{Port: intstr.FromInt(portOf(address)), Path: path}
	for i := 0; i < len(headers); i += 2 {
		action.HTTPHeaders = append(action.HTTPHeaders, v1.HTTPHeader{Name: headers[i], Value: headers[i+1]})
	}
	return request{handler: v1.ProbeHandler{HTTPGet: action}, podIP: "127.0.0.1", timeout: 10 * time.Second}
}

func serve(t *testing.T, f http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(f)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

// echo answers with the host and the headers of the request, one header on each line.
func echo(w http.ResponseWriter, r *http.Request) {
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			_, _ = fmt.Fprintf(w, "%s: %s\n", name, value)
		}
	}
	_, _ = fmt.Fprintf(w, "host %s, %d headers: %s", r.Host, len(r.Header), strings.Join(slices.Sorted(maps.Keys(r.Header)), " "))
}

func TestHTTPHeaders(t *testing.T) {
	address := serve(t, echo)
	for _, c := range []struct {
		name    string
		headers []string
		want    string // part of the answer; with the prefix "!", no part of it
	}{
		{"#105 three headers", nil, "3 headers: Accept Connection User-Agent"},
		{"#106 Accept-Encoding gzip", []string{"Accept-Encoding", "gzip"}, "Accept-Encoding: gzip\n"},
		{"#107 Accept-Encoding foo", []string{"Accept-Encoding", "foo"}, "Accept-Encoding: foo\n"},
		{"#108 Accept-Encoding empty", []string{"Accept-Encoding", ""}, "Accept-Encoding: \n"},
		{"#109 a header of its own", []string{"X-Muffins-Or-Cupcakes", "muffins"}, "X-Muffins-Or-Cupcakes: muffins\n"},
		{"#110 User-Agent", []string{"User-Agent", "foo/1.0"}, "User-Agent: foo/1.0\n"},
		{"#111 User-Agent empty", []string{"User-Agent", ""}, "!User-Agent"},
		{"#112 no User-Agent", nil, "User-Agent: kube-probe/"},
		{"#113 Accept beside User-Agent", []string{"User-Agent", "foo/1.0", "Accept", "text/html"}, "Accept: text/html\n"},
		{"#114 User-Agent beside Accept", []string{"User-Agent", "foo/1.0", "Accept", "foo/*"}, "User-Agent: foo/1.0\n"},
		{"#115 a header beside Accept", []string{"X-Muffins-Or-Cupcakes", "muffins", "Accept", "foo/*"}, "X-Muffins-Or-Cupcakes: muffins\n"},
		{"#116 Accept", []string{"Accept", "foo/*"}, "Accept: foo/*\n"},
		{"#117 Accept empty", []string{"Accept", ""}, "!Accept:"},
		{"#118 Accept empty beside User-Agent", []string{"User-Agent", "foo/1.0", "Accept", ""}, "!Accept:"},
		{"#119 no Accept", nil, "Accept: */*\n"},
		{"#120 Host", []string{"Host", "muffins.cupcakes.org"}, "host muffins.cupcakes.org"},
		{"#136 several", []string{"Content-Type", "text/html", "Accept-Ranges", "bytes"}, "Accept-Ranges: bytes\nConnection: close\nContent-Type: text/html\n"},
		{"#136 names are canonical", []string{"HOST", "example.com", "FOO-bAR", "value"}, "Foo-Bar: value\n"},
		{"#136 Host in any case", []string{"HOST", "example.com", "FOO-bAR", "value"}, "host example.com"},
		{"#137 one", []string{"Accept", "application/json"}, "Accept: application/json\n"},
		{"#137 lower case", []string{"accept", "application/json"}, "Accept: application/json\n"},
		{"#137 repeated", []string{"accept", "application/json", "Accept", "*/*", "pragma", "no-cache", "X-forwarded-for", "username"},
			"Accept: application/json\nAccept: */*\n"},
	} {
		eachHandler(t, c.name, func(t *testing.T, ask func(request) answer) {
			got := ask(get(address, "/", c.headers...))
			if not, ok := strings.CutPrefix(c.want, "!"); ok {
				got.want(t, "success", "")
				if strings.Contains(got.output, not) {
					t.Errorf("%q in %q", not, got.output)
				}
				return
			}
			got.want(t, "success", c.want)
		})
	}
}

func TestHTTPAnswers(t *testing.T) {
	const limit = 10 << 10
	body, long := strings.Repeat("a", limit+1), 10*time.Second
	for _, c := range []struct {
		name    string
		timeout time.Duration
		server  http.HandlerFunc
		result  string
		want    string
	}{
		{"#104 200 and a body", long, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok body")) }, "success", "=ok body"},
		{"#121 an impossible status", long, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(-1) }, "failure", ""},
		{"#122 500", long, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, "failure", ""},
		{"#123 no answer in time", time.Second, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "failure", ""},
		{"#133 a body that is one byte too long", long, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }, "success", "=" + body[:limit]},
		{"#134 a body that is not", long, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body[:limit-1])) }, "success", "=" + body[:limit-1]},
	} {
		eachHandler(t, c.name, func(t *testing.T, ask func(request) answer) {
			r := get(serve(t, c.server), "/")
			r.timeout = c.timeout
			ask(r).want(t, c.result, c.want)
		})
	}
}

// redirecting redirects /CODE to /CODE/good, /CODE/bad or /CODE/final. The last one answers with the code
// again, and with the body that the query has.
func redirecting(w http.ResponseWriter, r *http.Request) {
	var code int
	var what string
	if _, err := fmt.Sscanf(strings.ReplaceAll(r.URL.Path, "/", " "), "%d %s", &code, &what); err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch {
	case !strings.HasSuffix(what, "-there"):
		http.Redirect(w, r, fmt.Sprintf("/%d/%s-there?%s", code, what, r.URL.RawQuery), code)
	case what == "bad-there":
		w.WriteHeader(http.StatusInternalServerError)
	case what == "final-there":
		w.WriteHeader(code)
		_, _ = w.Write([]byte(r.URL.Query().Get("body")))
	}
}

func TestHTTPRedirects(t *testing.T) {
	address := serve(t, redirecting)
	for _, c := range []struct{ name, path, result, want string }{
		{"#124 301", "/301/good", "success", ""},
		{"#124 302", "/302/good", "success", ""},
		{"#124 307", "/307/good", "success", ""},
		{"#124 308", "/308/good", "success", ""},
		{"#125 301 to what is bad", "/301/bad", "failure", ""},
		{"#125 302 to what is bad", "/302/bad", "failure", ""},
		{"#125 307 to what is bad", "/307/bad", "failure", ""},
		{"#125 308 to what is bad", "/308/bad", "failure", ""},
		{"#126 308 twice, and no place to go", "/308/final", "warning", "Probe terminated redirects, Response body:"},
		{"#127 and a body", "/308/final?body=ok+body", "warning", "Probe terminated redirects, Response body: ok body"},
	} {
		eachHandler(t, c.name, func(t *testing.T, ask func(request) answer) {
			ask(get(address, c.path)).want(t, c.result, c.want)
		})
	}
}

func TestHTTPRedirectsElsewhere(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/host":
			if r.Host != "www.success.com" {
				w.WriteHeader(http.StatusBadRequest)
			}
		case "/success":
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	address, other := serve(t, handler), serve(t, handler)
	for _, c := range []struct {
		name, to, host   string
		result, follower string // results without and with following redirects to other hosts
	}{
		{"#128 a path that is good", "/success", "", "success", "success"},
		{"#128 a path that is bad", "/fail", "", "failure", "failure"},
		{"#129 another port that is good", other + "/success", "", "success", "success"},
		{"#129 another port that is bad", other + "/fail", "", "failure", "failure"},
		{"#130 another host", "http://0.0.0.0:1/fail", "", "warning", "failure"},
		{"#131 a loop", "/loop", "", "failure", "failure"},
		{"#132 the Host header stays", "/host", "www.success.com", "success", "success"},
		{"#132 also one that is wrong", "/host", "www.fail.com", "failure", "failure"},
	} {
		for _, follow := range []bool{false, true} {
			eachHandler(t, fmt.Sprintf("%s/follow=%v", c.name, follow), func(t *testing.T, ask func(request) answer) {
				r := get(address, "/redirect?to="+url.QueryEscape(c.to))
				if c.host != "" {
					r = get(address, "/redirect?to="+url.QueryEscape(c.to), "Host", c.host)
				}
				r.follow = follow
				want := c.result
				if follow {
					want = c.follower
				}
				ask(r).want(t, want, "")
			})
		}
	}
}

// TestHTTPProxy checks that no side uses the proxy, which would answer for a host that does not exist.
func TestHTTPProxy(t *testing.T) {
	const welcome = "the proxy was used"
	proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(welcome)) })
	t.Setenv("http_proxy", proxy)
	t.Setenv("HTTP_PROXY", proxy)
	t.Setenv("no_proxy", "")
	t.Setenv("NO_PROXY", "")
	eachHandler(t, "#103 no proxy", func(t *testing.T, ask func(request) answer) {
		r := get("http://host.invalid:1", "/")
		r.handler.HTTPGet.Host = "host.invalid"
		if got := ask(r); strings.Contains(got.output, welcome) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestHTTPAddresses(t *testing.T) {
	address := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprintf(w, "%s %s", r.Host, r.RequestURI) })
	host := strings.TrimPrefix(address, "http://")
	number := ""
	if before("1.37") {
		number = host + " /"
	}
	for _, c := range []struct {
		name, host, path string
		port             intstr.IntOrString
		want             string // "" for an error
	}{
		{"#70 port -1", "", "", intstr.FromInt(-1), ""},
		{"#70 no port", "", "", intstr.FromString(""), ""},
		{"#70 the text -1", "", "", intstr.FromString("-1"), ""},
		{"#70 an unknown name", "", "", intstr.FromString("not-found"), ""},
		{"#71 a name", "", "", intstr.FromString("found"), host + " /"},
		{"#71 a number", "", "", intstr.FromInt(portOf(address)), host + " /"},
		{"#71 the text of a number", "", "", intstr.FromString(fmt.Sprint(portOf(address))), number},
		{"#71 a host and a path", "localhost", "path", intstr.FromInt(portOf(address)), fmt.Sprintf("localhost:%d /path", portOf(address))},
		{"#135 a path", "", "/path", intstr.FromInt(portOf(address)), host + " /path"},
		{"#135 a query", "", "?foo", intstr.FromInt(portOf(address)), host + " /?foo"},
		{"#135 both", "", "/path?bar", intstr.FromInt(portOf(address)), host + " /path?bar"},
	} {
		eachHandler(t, c.name, func(t *testing.T, ask func(request) answer) {
			r := get(address, c.path)
			r.handler.HTTPGet.Host, r.handler.HTTPGet.Port = c.host, c.port
			r.ports = []v1.ContainerPort{{Name: "found", ContainerPort: int32(portOf(address))}}
			got := ask(r)
			if c.want != "" {
				got.want(t, "success", "="+c.want)
			} else if got.err == nil {
				t.Errorf("no error: %+v", got)
			}
		})
	}
}
