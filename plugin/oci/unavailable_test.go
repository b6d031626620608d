package oci_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
)

// ErrUnavailable matches errors that a later attempt may not meet.
func TestUnavailable(t *testing.T) {
	answers := func(status int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	const nobody = "127.0.0.1:1"
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc // nil: nobody listens
		tls    bool
		want   bool
		host   string // used without answer; "": nobody
	}{
		{"nobody listens", nil, false, true, ""},
		{"unknown name", nil, false, true, "registry.invalid"},
		{"address that no registry may have", nil, false, false, "169.254.169.254"},
		{"501", answers(501), false, true, ""},
		{"503, which is asked for until the end", answers(503), false, true, ""},
		{"hangs", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false, true, ""},
		{"ends the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, true, ""},
		{"not found", answers(404), false, false, ""},
		{"unauthorized", answers(401), false, false, ""},
		{"forbidden", answers(403), false, false, ""},
		{"gone", answers(410), false, false, ""},
		{"no registry", answers(200), false, false, ""},
		{"certificate that is not trusted", answers(200), true, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			host := cmp.Or(c.host, nobody)
			if c.answer != nil {
				s := httptest.NewUnstartedServer(c.answer)
				s.Config.ErrorLog = nil
				if c.tls {
					s.StartTLS()
				} else {
					s.Start()
				}
				defer s.Close()
				_, host, _ = strings.Cut(s.URL, "://")
			}
			ref, err := plugin.ParseReference(host + "/demo:1")
			if err != nil {
				t.Fatal(err)
			}
			client, err := oci.NewClient(oci.ClientConfig{PlainHTTP: !c.tls})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err = client.Pull(ctx, ref)
			if err == nil || errors.Is(err, oci.ErrUnavailable) != c.want || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, unavailable: %t, want %t", err, errors.Is(err, oci.ErrUnavailable), c.want)
			}
		})
	}
	t.Run("the caller gives up", func(t *testing.T) {
		ref, _ := plugin.ParseReference(nobody + "/demo:1")
		client, err := oci.NewClient(oci.ClientConfig{PlainHTTP: true})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := client.Pull(ctx, ref); err == nil || errors.Is(err, oci.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}
