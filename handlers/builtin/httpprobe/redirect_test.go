package httpprobe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/builtin/httpprobe"
	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/probe"
)

func TestHTTPRedirects(t *testing.T) {
	_, other := rig.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fail" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	_, port := rig.Serve(t, redirecting)
	for _, code := range []int{301, 302, 307, 308} {
		t.Run(fmt.Sprintf("#124 %d to a good path", code), func(t *testing.T) {
			got, err := get(t, httpprobe.Config{}, port, fmt.Sprintf("/to?code=%d&where=/success", code))
			rig.Want(t, got, err, probe.Success, "success")
		})
		t.Run(fmt.Sprintf("#125 %d to a failing path", code), func(t *testing.T) {
			got, err := get(t, httpprobe.Config{}, port, fmt.Sprintf("/to?code=%d&where=/fail", code))
			rig.Want(t, got, err, probe.Failure, "HTTP probe failed with statuscode: 500")
		})
	}
	for name, body := range map[string]string{"#126 308 to a bare 308, empty": "", "#127 308 to a bare 308 with a body": "ok body"} {
		t.Run(name, func(t *testing.T) {
			where := url.QueryEscape("/bare?body=" + url.QueryEscape(body))
			got, err := get(t, httpprobe.Config{}, port, "/to?code=308&where="+where)
			rig.Want(t, got, err, probe.Warning, "Probe terminated redirects, Response body: "+body)
		})
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == "0.0.0.0:80" {
			return nil, errors.New("nobody there")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	elsewhere := func(path string) string { return fmt.Sprintf("http://127.0.0.1:%d%s", other, path) }
	for _, c := range []struct {
		name, where     string
		local, nonLocal probe.Result
	}{
		{"#128 local success", "/success", probe.Success, probe.Success},
		{"#128 local failure", "/fail", probe.Failure, probe.Failure},
		{"#129 success on another port", elsewhere("/success"), probe.Success, probe.Success},
		{"#129 failure on another port", elsewhere("/fail"), probe.Failure, probe.Failure},
		{"#130 another host", "http://0.0.0.0/", probe.Warning, probe.Failure},
		{"#131 a loop", "/loop", probe.Failure, probe.Failure},
	} {
		for follow, result := range map[bool]probe.Result{false: c.local, true: c.nonLocal} {
			t.Run(fmt.Sprintf("%s, non-local %t", c.name, follow), func(t *testing.T) {
				got, err := get(t, httpprobe.Config{DialContext: dial, FollowNonLocalRedirects: follow}, port, "/to?code=302&where="+c.where)
				if err != nil || got.Result != result {
					t.Errorf("got %v, output %q, error %v; want %v", got.Result, got.Output, err, result)
				}
			})
		}
	}
	t.Run("#187 the text of a redirect to another host", func(t *testing.T) {
		got, err := get(t, httpprobe.Config{}, port, "/to?code=302&where=http://0.0.0.0/")
		rig.Want(t, got, err, probe.Warning, "Probe terminated redirects, Response body: <a href=\"http://0.0.0.0/\">Found</a>.\n\n")
	})
	for _, follow := range []bool{false, true} {
		for host, result := range map[string]probe.Result{"right": probe.Success, "wrong": probe.Failure} {
			t.Run(fmt.Sprintf("#132 %s Host after a redirect, non-local %t", host, follow), func(t *testing.T) {
				h := rig.Prepare(t, httpprobe.New(httpprobe.Config{FollowNonLocalRedirects: follow}),
					fmt.Sprintf(`{"port":%d,"path":"/to?code=302&where=/host","httpHeaders":[{"name":"Host","value":%q}]}`, port, host))
				got, err := rig.Attempt(t, h, probe.Request{PodIP: "127.0.0.1"}, time.Minute)
				if err != nil || got.Result != result {
					t.Errorf("got %v, output %q, error %v; want %v", got.Result, got.Output, err, result)
				}
			})
		}
	}
}

// redirecting is a server. Its path /to redirects to the parameter where with the status code.
func redirecting(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/to":
		var code int
		_, _ = fmt.Sscan(r.FormValue("code"), &code)
		http.Redirect(w, r, r.FormValue("where"), code)
	case "/success":
		_, _ = io.WriteString(w, "success")
	case "/fail":
		w.WriteHeader(http.StatusInternalServerError)
	case "/bare":
		w.WriteHeader(http.StatusPermanentRedirect)
		_, _ = io.WriteString(w, r.FormValue("body"))
	case "/loop":
		http.Redirect(w, r, "/loop", http.StatusFound)
	case "/host":
		if r.Host != "right" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}
}

func TestHTTPRedirectLimit(t *testing.T) {
	left := make(chan int, 1)
	_, port := rig.Serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := <-left
		left <- n - 1
		if n > 0 {
			http.Redirect(w, r, "/", http.StatusFound)
		}
	})
	left <- 9
	got, err := get(t, httpprobe.Config{}, port, "/")
	rig.Want(t, got, err, probe.Success, "")
	<-left
	left <- 10
	got, err = get(t, httpprobe.Config{}, port, "/")
	rig.Want(t, got, err, probe.Failure, `Get "/": stopped after 10 redirects`)
	rig.WantReason(t, got, probe.ReasonHTTPStatus)
}
