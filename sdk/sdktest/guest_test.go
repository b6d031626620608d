package sdktest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

func TestGuest(t *testing.T) {
	g, err := NewGuest(t.Context(), "testdata/greeter")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Run("a real peer", func(t *testing.T) {
		target := greet(t, "hello\n")
		got, err := Attempt(t, g, `{}`, target, 10*time.Second)
		if err != nil || got.Result != probe.Success || got.Output != `"hello\n"` {
			t.Errorf("got %v %q, %v, want the greeting", got.Result, got.Output, err)
		}
	})
	t.Run("its cases", func(t *testing.T) {
		t.Chdir("testdata/greeter")
		g.Run(t)
	})
}

// greet starts a server that sends text to its first client.
func greet(t *testing.T, text string) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if conn, err := l.Accept(); err == nil {
			fmt.Fprint(conn, text)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return probe.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
}

func TestNewGuestReportsBuildErrors(t *testing.T) {
	for dir, want := range map[string]string{
		"testdata/none":   "testdata/none",
		"testdata/strict": "no Go files",
	} {
		g, err := NewGuest(t.Context(), dir)
		if g != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
	}
}
