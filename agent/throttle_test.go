package agent_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
)

func basicAuth(name, password string) string {
	req := httptest.NewRequest("GET", "/", nil)
	req.SetBasicAuth(name, password)
	return req.Header.Get("Authorization")
}

func TestWrongCredentialsAreLimited(t *testing.T) {
	t.Parallel()
	config, _ := webConfig(t, webUsers)
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, "correct-horse-battery")
	r := start(t, newTarget(t).external("shop"), func(c *agent.Config) { c.WebConfigFile, c.TokenFile = config, token })
	ann := []string{"Authorization", basicAuth("ann", "fakepassword")}
	withToken := append(ann, "X-Prober-Token", "correct-horse-battery")
	for range 20 { // more than the limit of wrong attempts
		if status, body := r.send(http.DefaultClient, "GET", "/healthz", ann...); status != http.StatusOK {
			t.Fatalf("ann: %d %s", status, body)
		}
	}
	if status, body := r.send(http.DefaultClient, "POST", pausePath[:len(pausePath)-5]+"trigger", withToken...); status != http.StatusOK {
		t.Fatalf("ann with the token: %d %s", status, body)
	}
	statuses := make(map[int]int)
	var refused string
	for i := range 100 {
		headers := []string{"Authorization", basicAuth("ann", fmt.Sprint("guess ", i))}
		if i%2 == 0 {
			headers = append(ann, "X-Prober-Token", fmt.Sprint("a wrong token ", i))
		}
		status, body := r.send(http.DefaultClient, "POST", "/-/reload", headers...)
		if statuses[status]++; status == http.StatusTooManyRequests {
			refused = body
		}
	}
	if statuses[http.StatusUnauthorized] < 10 || statuses[http.StatusTooManyRequests] < 50 || len(statuses) != 2 {
		t.Errorf("statuses %v, want 401 about ten times, then 429", statuses)
	}
	if !strings.Contains(refused, `"message":"too many wrong credentials; try again later","reason":"TooManyRequests","code":429`) {
		t.Errorf("got %s", refused)
	}
	for _, headers := range [][]string{ann, withToken} {
		if status, body := r.send(http.DefaultClient, "GET", "/healthz", headers...); status != http.StatusOK {
			t.Errorf("ann is locked out: %d %s", status, body)
		}
	}
	if status, body := r.send(http.DefaultClient, "POST", "/-/reload", withToken...); status != http.StatusOK {
		t.Errorf("the token is locked out: %d %s", status, body)
	}
	r.lines.await(t, 0, "msg=action action=reload", "result=denied reason=rate from=127.0.0.1 count=1")
	r.lines.mu.Lock()
	lines := len(r.lines.text)
	r.lines.mu.Unlock()
	if n := r.lines.count(0, lines, "result=denied"); n > 10 {
		t.Errorf("%d lines for 100 refusals", n)
	}
}

// An agent without users has no wrong passwords.
func TestPasswordsWithoutUsersAreNotLimited(t *testing.T) {
	t.Parallel()
	r := start(t, newTarget(t).external("shop"))
	for i := range 100 { // more than the limit of all networks
		if status, body := r.send(http.DefaultClient, "GET", "/healthz", "Authorization", basicAuth("x", fmt.Sprint(i))); status != http.StatusOK {
			t.Fatalf("request %d: %d %s", i, status, body)
		}
	}
}
