package shipped_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// registration is an answer of a registry.
var registration = `{"objectClassName":"domain","ldhName":"EXAMPLE.COM","status":["active"],` +
	`"entities":[{"roles":["registrar"],"vcardArray":["vcard",[["fn",{},"text","Example"]]]}],` +
	`"events":[{"eventAction":"expiration","eventDate":"2999-01-02T03:04:05Z"}]}`

// TestHostileRegistries has servers of RDAP that cut their answer, or send garbage. Each attempt must have no
// verdict, for a reason that the plugin names.
func TestHostileRegistries(t *testing.T) {
	ask := func(t *testing.T, timeout time.Duration, serve http.HandlerFunc) (probe.Outcome, error) {
		target, s := serveWeb(t, false, serve)
		return attempt(t, wasm.Config{}, "domain", `{"domain":"example.com","server":"`+s.URL+`"}`, target, timeout)
	}
	sends := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	if out, err := ask(t, patience, sends(registration)); err != nil || out.Result != probe.Success || !strings.Contains(out.Output, "(registrar Example)") {
		t.Errorf("got %s %q, %v", out.Result, out.Output, err)
	}
	for name, c := range map[string]struct {
		serve   http.HandlerFunc
		timeout time.Duration
		want    string
	}{
		"endless body": {func(w http.ResponseWriter, _ *http.Request) {
			for chunk := strings.Repeat("[", 1<<16); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		}, patience, "more than 524288 bytes"},
		"deep JSON":     {sends(strings.Repeat("[", 500_000)), patience, "not about the domain"},
		"many events":   {sends(`{"objectClassName":"domain","ldhName":"example.com","events":[` + strings.Repeat("{},", 150_000) + `{}]}`), patience, "does not publish"},
		"invalid UTF-8": {sends("\xff\xfe{\"objectClassName\":\"domain\"}"), patience, "not about the domain"},
		"body that does not come": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 500 * time.Millisecond, "asking 127.0.0.1"},
		"body that is cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(registration)))
			_, _ = io.WriteString(w, registration[:100])
			panic(http.ErrAbortHandler)
		}, patience, "asking 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := ask(t, c.timeout, c.serve)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
				t.Errorf("got %s %.300q, %.300v; want the error %q", out.Result, out.Output, err, c.want)
			}
		})
	}
}
