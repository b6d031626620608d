//go:build unix

package access_test

import (
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/daeace23/prober/agent/access"
)

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	foreign, want := file("foreign", "0123456789abcdef", 0o600), ""
	if os.Geteuid() == 0 {
		want = "belongs to user 65534: want root or the user that runs prober"
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		foreign: want,
		file("good", "0123456789abcdef\n", 0o600):      "",
		file("readonly", "0123456789abcdef\n", 0o400):  "",
		file("group", "0123456789abcdef", 0o640):       "lets other users read or change it; it must be 0600",
		file("world", "0123456789abcdef", 0o604):       "lets other users read or change it; it must be 0600",
		file("empty", "\n", 0o600):                     "has 0 characters, must have at least 16",
		file("short", "123", 0o600):                    "has 3 characters, must have at least 16",
		file("long", strings.Repeat("a", 5000), 0o600): "more than 4096 bytes",
		pipe:                          "not a regular file",
		filepath.Join(dir, "nothing"): "no such file",
	} {
		_, err := access.TokenFile(path)
		if text := errorText(err); (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", filepath.Base(path), text, want)
		}
	}
}

// A new token takes effect with the next request. While the file cannot be read, all requests are refused.
func TestTokenFileChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	set := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("the first of tokens")
	token, err := access.TokenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	guard := &access.Guard{Token: token, Addr: &net.TCPAddr{IP: net.IPv6loopback}}
	ask := func(token string) access.Reason {
		r := httptest.NewRequest("POST", "/-/reload", nil)
		r.Host = "[::1]:9876"
		r.Header.Set("Authorization", "Bearer "+token)
		if _, refusal := guard.Check(r); refusal != nil {
			return refusal.Reason
		}
		return ""
	}
	if got := ask("the first of tokens"); got != "" {
		t.Errorf("the first token: %s", got)
	}
	set("the second of tokens")
	if first, second := ask("the first of tokens"), ask("the second of tokens"); first != access.WrongToken || second != "" {
		t.Errorf("after a change: first token %q, second %q", first, second)
	}
	set("")
	if got := ask(""); got != access.NoCredentials {
		t.Errorf("no token and an empty file: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := ask("the second of tokens"); got != access.BadConfig {
		t.Errorf("without a file: %q", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
