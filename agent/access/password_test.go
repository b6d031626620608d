package access_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/agent/access"
)

// askBasic returns the status of a request with basic authentication. checked is whether the server of the
// web config accepts the password.
func askBasic(t *testing.T, guard *access.Guard, password string, checked bool) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:9876/healthz", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	r.SetBasicAuth("x", password)
	if _, refusal := guard.CheckRate(r); refusal != nil {
		return refusal.Status
	}
	if !checked {
		return http.StatusUnauthorized
	}
	if _, refusal := guard.Check(r); refusal != nil {
		return refusal.Status
	}
	return http.StatusOK
}

// Passwords that nothing checks are neither right nor wrong.
func TestPasswordsCountOnlyIfThereAreUsers(t *testing.T) {
	const users = "basic_auth_users: {ann: $2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi}\n"
	for _, c := range []struct{ name, config string }{
		{"no web config", ""},
		{"a web config without users", "http_server_config: {http2: false}\n"},
		{"no user", "basic_auth_users: {}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			guard := &access.Guard{Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9876}, Token: access.NewToken()}
			file := filepath.Join(t.TempDir(), "web.yml")
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.config != "" {
				guard.Web.ConfigFile = file
				write(c.config)
			}
			for i := range 100 { // more than the limit of all networks
				if got := askBasic(t, guard, fmt.Sprint(i%2, i), true); got != http.StatusOK {
					t.Fatalf("request %d: %d", i, got)
				}
			}
			if c.config == "" {
				return // no users can be added
			}
			write(users)
			statuses := make(map[int]int)
			for i := range 100 { // the same passwords, all wrong now
				statuses[askBasic(t, guard, fmt.Sprint(i%2, i), false)]++
			}
			if statuses[http.StatusUnauthorized] > 15 || statuses[http.StatusTooManyRequests] < 85 {
				t.Errorf("with users: statuses %v, want 401 ten times, then 429", statuses)
			}
		})
	}
}
