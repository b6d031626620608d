package httpget_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/httpget"
)

func TestURL(t *testing.T) {
	for path, want := range map[string]string{
		"":          "http://localhost:93",
		"/path":     "http://localhost:93/path",
		"?foo":      "http://localhost:93?foo",
		"/path?bar": "http://localhost:93/path?bar",
	} {
		t.Run(fmt.Sprintf("#135 path %q", path), func(t *testing.T) {
			if got, err := httpget.URL("", "localhost:93", path); err != nil || got.String() != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestHeaderDefaults(t *testing.T) {
	for name, c := range map[string]struct{ given, want http.Header }{
		"none":        {nil, http.Header{"Accept": {"*/*"}, "User-Agent": {"a"}}},
		"others":      {http.Header{"accept": {"x", "y"}, "USER-AGENT": {"b"}}, http.Header{"Accept": {"x", "y"}, "User-Agent": {"b"}}},
		"empty":       {http.Header{"Accept": {""}, "User-Agent": {""}}, http.Header{"User-Agent": {""}}}, // net/http does not send an empty User-Agent
		"other names": {http.Header{"x-a": {"1"}}, http.Header{"Accept": {"*/*"}, "User-Agent": {"a"}, "X-A": {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, httpget.Header(c.given, "a")); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
		})
	}
}
