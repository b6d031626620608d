package shipped_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daeace23/prober/probe"
)

// TestJourneyBuysAtShop has a shop with a login form, a token against forgery, a session and an order.
func TestJourneyBuysAtShop(t *testing.T) {
	mux := http.NewServeMux()
	session := func(r *http.Request) string {
		c, err := r.Cookie("sid")
		if err != nil {
			return ""
		}
		return c.Value
	}
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: "anonymous", Path: "/", HttpOnly: true})
		_, _ = fmt.Fprint(w, `<form><input type=hidden name=csrf value="f0rgery-t0ken"></form>`)
	})
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if session(r) != "anonymous" || r.FormValue("csrf") != "f0rgery-t0ken" || r.FormValue("password") != "a&b=c d" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "sid", Value: "logged-in", Path: "/"})
		http.Redirect(w, r, "/cart", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /cart", func(w http.ResponseWriter, r *http.Request) {
		if session(r) != "logged-in" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = fmt.Fprint(w, `{"id": 4711, "token": "quo\"ted"}`)
	})
	var orders atomic.Int64
	mux.HandleFunc("POST /orders/4711", func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		if session(r) != "logged-in" || string(body[:n]) != `{"confirm":"quo\"ted"}` {
			w.WriteHeader(http.StatusBadRequest)
		}
		orders.Add(1)
		_, _ = fmt.Fprint(w, `{"state": "paid"}`)
	})
	target, server := serveWeb(t, false, mux.ServeHTTP)
	h := bind(t, load(t, "journey"), `{"steps":[
		{"name":"form","url":"/login","extract":[{"name":"csrf","regexp":"value=\"([^\"]+)"}]},
		{"name":"login","url":"/login","form":{"csrf":"${csrf}","password":"a&b=c d"},"extract":[{"name":"id","jsonPath":"$.id"},{"name":"token","jsonPath":"token"}]},
		{"name":"order","url":"/orders/${id}","json":{"confirm":"${token}"},"jsonPath":[{"path":"state","equals":"paid"}]}
	]}`, target)
	for range 2 { // an attempt leaves nothing to the next
		out, err := again(t, h, target, patience)
		if err != nil || out.Result != probe.Success || !strings.HasPrefix(out.Output, "3 steps in ") {
			t.Errorf("got %s %q, %v", out.Result, out.Output, err)
		}
	}
	if orders.Load() != 2 {
		t.Errorf("%d orders, want 2", orders.Load())
	}
	server.Close()
	out, err := again(t, h, target, patience)
	wantFailure(t, out, err, probe.ReasonConnectRefused, "step 1 form: GET /login: http: dial ", "connection refused")
}

// TestHostileJourneyServers has servers that send floods or garbage. Each attempt must be a Failure of the first step
// with a message of moderate length.
func TestHostileJourneyServers(t *testing.T) {
	p := load(t, "journey")
	web := func(h http.HandlerFunc) probe.Target {
		target, _ := serveWeb(t, false, h)
		return target
	}
	raw := func(text string) probe.Target { return listen(t, after(says(text))) }
	var n atomic.Int64
	const plain, matches = `{"steps":[{"url":"/"}]}`, `{"steps":[{"url":"/","failIfBodyNotMatchesRegexp":["x"]}]}`
	const extract = `{"steps":[{"url":"/","extract":[{"name":"a","jsonPath":"a"}]},{"url":"/${a}"}]}`
	for _, c := range []struct {
		name, config, want string
		target             probe.Target
	}{
		{"redirects without an end", plain, "HTTP status 302, want 2xx, after redirect 10 to ", web(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, fmt.Sprintf("/%d", n.Add(1)), http.StatusFound)
		})},
		{"cookies without an end", matches, "the body does not match", web(func(w http.ResponseWriter, r *http.Request) {
			for i := range 800 {
				w.Header().Add("Set-Cookie", fmt.Sprintf("c%d-%d=%s", n.Add(1), i, strings.Repeat("v", 40)))
			}
			if r.URL.Path != "/9" {
				http.Redirect(w, r, fmt.Sprintf("/%d", len(r.URL.Path)+8), http.StatusFound)
			}
		})},
		{"location of garbage", plain, "step 1: GET /: HTTP status 302, want 2xx", raw("HTTP/1.1 302 Found\r\nLocation: javascript:alert(1)\r\nContent-Length: 0\r\n\r\n")},
		{"location with a space", plain, "step 1: GET /: ", raw("HTTP/1.1 302 Found\r\nLocation: http://a b/\x7f\r\nContent-Length: 0\r\n\r\n")},
		{"location elsewhere", plain, "denied", raw("HTTP/1.1 302 Found\r\nLocation: //169.254.169.254/latest?key=x\r\nContent-Length: 0\r\n\r\n")},
		{"endless body", matches, "the body is longer than 16777216 bytes", listen(t, then(after(func(c net.Conn) { _, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n") }), endless("body ")))},
		{"endless header", plain, "server response headers exceeded", listen(t, then(after(func(c net.Conn) { _, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nX-A: ") }), endless("a")))},
		{"no HTTP", plain, "malformed HTTP", raw("\x00\x01\xff\r\n\r\n")},
		{"deep JSON", extract, "no value for a: the body has no a", raw("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("[", 100_000))},
		{"value that is too long", extract, "no value for a: the value has more than 8192 bytes", raw("HTTP/1.1 200 OK\r\nContent-Length: 10008\r\n\r\n{\"a\":\"" + strings.Repeat("a", 10_000) + "\"}")},
		{"value with a line break", extract, "no value for a: the value has control characters", raw("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"a\":\"b\\r\\nc\"}")},
		{"value that is a template", extract, "step 2: GET /${a}: ", web(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				w.WriteHeader(http.StatusTeapot)
			}
			_, _ = fmt.Fprint(w, `{"a":"${a}${b}../../admin"}`)
		})},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := again(t, bind(t, p, c.config, c.target), c.target, patience)
			if err != nil || out.Result != probe.Failure || !strings.Contains(out.Output, c.want) || len(out.Output) > 1000 {
				t.Errorf("got %s %.300q, %v; want %q", out.Result, out.Output, err, c.want)
			}
			if len(out.Metrics) > 10 || strings.Contains(out.Output, "key=x") {
				t.Errorf("got %d metrics, %q", len(out.Metrics), out.Output)
			}
		})
	}
}

// neverSuccess makes attempts at a server that sends each of the texts and closes the connection. No attempt may be
// a Success or an error: a trap is one.
func neverSuccess(t *testing.T, plugin, config string, texts []string, serve func(c net.Conn, text string)) {
	t.Helper()
	var next atomic.Value
	target := listen(t, func(c net.Conn) { serve(c, next.Load().(string)) })
	h := bind(t, load(t, plugin), config, target)
	for _, text := range texts {
		next.Store(text)
		out, err := again(t, h, target, patience)
		if err != nil || out.Result != probe.Failure || out.Reason == probe.ReasonDeadline || len(out.Output) > 1000 {
			t.Errorf("%.200q: got %s %.300q, %v", text, out.Result, out.Output, err)
		}
	}
}

// mutated returns all beginnings of text, and texts with random bytes in it.
func mutated(text string) (all []string) {
	for i := range len(text) {
		all = append(all, text[:i])
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		b := []byte(text)
		for range 1 + random.IntN(8) {
			b[random.IntN(len(b))] = byte(random.IntN(256))
		}
		all = append(all, string(b))
	}
	return all
}

func TestMutatedResponsesAreNoSuccess(t *testing.T) {
	const response = "HTTP/1.1 302 Found\r\nLocation: /x?y#z\r\nSet-Cookie: a=b; Path=/; Max-Age=1; Domain=x.y; Expires=Mon, 02 Jan 2006 15:04:05 GMT\r\nContent-Length: 21\r\n\r\n{\"a\":{\"b\":[1,\"\\u00e\"]"
	neverSuccess(t, "journey", `{"steps":[{"url":"/","extract":[{"name":"a","jsonPath":"a.b[1]"},{"name":"c","cookie":"none"}]}]}`, mutated(response), func(c net.Conn, text string) {
		after(func(c net.Conn) { _, _ = fmt.Fprint(c, text) })(c)
	})
}

// A redirect to another origin gets no header and no body that may be a secret.
func TestJourneyKeepsSecretsFromOtherHosts(t *testing.T) {
	var got atomic.Pointer[http.Header]
	_, other := serveWeb(t, false, func(_ http.ResponseWriter, r *http.Request) {
		header := r.Header.Clone()
		got.Store(&header)
	})
	target, _ := serveWeb(t, false, func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusFound
		if r.Method == "POST" {
			code = http.StatusTemporaryRedirect
		}
		http.Redirect(w, r, other.URL+"/", code)
	})
	p := load(t, "journey", "tcp://"+strings.TrimPrefix(other.URL, "http://"))
	for config, reached := range map[string]bool{
		`{"steps":[{"name":"a","url":"/","bearerToken":"hunter2222","headers":{"X-Api-Key":"hunter2222","Accept":"text/plain"}}]}`: true,
		`{"steps":[{"name":"a","url":"/","form":{"password":"hunter2222"}}]}`:                                                      false,
	} {
		got.Store(nil)
		out, err := again(t, bind(t, p, config, target), target, patience)
		if err != nil {
			t.Fatal(err)
		}
		header := got.Load()
		if (header != nil) != reached || reached && out.Result != probe.Success || !reached && !strings.Contains(out.Output, "the body is not sent to another host after a redirect") {
			t.Errorf("%s: %s %q, reached: %v", config, out.Result, out.Output, header != nil)
		}
		if header != nil && (strings.Contains(fmt.Sprint(*header), "hunter") || header.Get("Accept") != "text/plain") {
			t.Errorf("the other host got %v", *header)
		}
	}
}
