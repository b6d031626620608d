package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/client"
)

// A redirect does not send the token to another server, with and without a user in the URL.
func TestRedirectKeepsToken(t *testing.T) {
	leaked := make(chan http.Header, 2)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked <- r.Header }))
	defer other.Close()
	asked := make(chan http.Header, 2)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Header
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
	}))
	defer agent.Close()
	for _, user := range []string{"", "ann:pw@"} {
		c, err := client.New(client.Config{Server: strings.Replace(agent.URL, "://", "://"+user, 1), Token: "correct-horse-battery"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		token, basic := (<-asked).Get("X-Prober-Token"), user != ""
		if got := token == "correct-horse-battery"; got != basic {
			t.Errorf("user %q: the token is in a header of its own: %v", user, got)
		}
		if h := <-leaked; h.Get("X-Prober-Token") != "" || h.Get("Authorization") != "" {
			t.Errorf("user %q: the other server got %v", user, h)
		}
	}
}

func TestErrorHasNoPassword(t *testing.T) {
	if _, err := client.New(client.Config{Server: "https://ann:pw@host:port"}); err == nil || strings.Contains(err.Error(), "pw") {
		t.Errorf("got %v", err)
	}
}
