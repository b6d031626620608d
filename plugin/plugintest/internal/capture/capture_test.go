package capture_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin/plugintest/internal/capture"
)

// scripted is a connection whose calls return scripted results.
type scripted struct {
	net.Conn
	reads  []any // string or error
	writes []int // how many bytes each Write takes; more Writes take all
}

func (s *scripted) Read(p []byte) (int, error) {
	next := s.reads[0]
	s.reads = s.reads[1:]
	if err, ok := next.(error); ok {
		return 0, err
	}
	return copy(p, next.(string)), nil
}

func (s *scripted) Write(p []byte) (int, error) {
	if len(s.writes) == 0 {
		return len(p), nil
	}
	n := s.writes[0]
	s.writes = s.writes[1:]
	return n, os.ErrDeadlineExceeded
}

var kinds = map[capture.Kind]string{
	capture.Sent: ">", capture.Received: "<", capture.Handshake: "tls", capture.Ended: "end", capture.Reset: "reset", capture.Unreachable: "unreachable",
}

// noted carries out a script on a connection: strings are sent, and nil is a read.
func noted(t *testing.T, network string, s *scripted, script ...any) *capture.Summary {
	t.Helper()
	c := capture.Start(network, "10.0.0.7:1", false, capture.NewBudget(), time.Now)
	conn, err := c.Dialled(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range script {
		if text, ok := step.(string); ok {
			_, _ = io.WriteString(conn, text)
		} else {
			_, _ = conn.Read(make([]byte, 100))
		}
	}
	return c.Summary()
}

func TestConnNotesEvents(t *testing.T) {
	for _, c := range []struct {
		network string
		conn    scripted
		script  []any
		want    string
	}{
		{"tcp", scripted{reads: []any{"x", "y", io.EOF}}, []any{"a", "b", nil, nil, nil}, `> "ab", < "xy", end ""`},
		{"udp", scripted{reads: []any{"x", "y"}}, []any{"a", "b", nil, nil}, `> "a", > "b", < "x", < "y"`},
		{"tcp", scripted{reads: []any{syscall.ECONNRESET}}, []any{nil}, `reset ""`},
		{"udp", scripted{reads: []any{syscall.ECONNREFUSED}}, []any{"a", nil}, `> "a", unreachable ""`},
		{"tcp", scripted{writes: []int{0}}, []any{"once", "once"}, `> "once"`},
		{"tcp", scripted{writes: []int{2}}, []any{"once", "ce"}, `> "once"`},
	} {
		var got []string
		for _, e := range noted(t, c.network, &c.conn, c.script...).Events {
			got = append(got, fmt.Sprintf("%s %q", kinds[e.Kind], e.Data))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s %v: got %s, want %s", c.network, c.script, text, c.want)
		}
	}
}

func TestConnDropsBytesBeyondBound(t *testing.T) {
	got := noted(t, "tcp", &scripted{}, strings.Repeat("x", 70<<10), "more")
	if len(got.Events) != 1 || len(got.Events[0].Data) != 64<<10 || got.Dropped != 6<<10+4 {
		t.Errorf("%d events, %d dropped", len(got.Events), got.Dropped)
	}
	budget := capture.NewBudget()
	left := 0
	for range 10 {
		c := capture.Start("tcp", "", false, budget, time.Now)
		conn, _ := c.Dialled(&scripted{}, nil)
		_, _ = io.WriteString(conn, strings.Repeat("x", 60<<10))
		left += c.Summary().Dropped
	}
	if want := 600<<10 - 512<<10; left != want {
		t.Errorf("%d bytes of the attempt dropped, want %d", left, want)
	}
}

func TestDialledKeepsError(t *testing.T) {
	c := capture.Start("tcp", "10.0.0.7:1", false, capture.NewBudget(), time.Now)
	_, err := c.Dialled(nil, syscall.ECONNREFUSED)
	if got := c.Summary(); !errors.Is(err, syscall.ECONNREFUSED) || !errors.Is(got.Err, syscall.ECONNREFUSED) {
		t.Errorf("got %v, %v", err, got.Err)
	}
}

func TestAttemptHost(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	a := &capture.Attempt{Names: map[string][]netip.Addr{"one": {one}, "both": {one, two}}}
	if got := a.Host(one) + " " + a.Host(two); got != "one 10.0.0.2" {
		t.Errorf("got %s", got)
	}
}

func TestRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234567890: "1.235s", 1234567: "1.2ms", 123456: "120µs", 0: "0s",
	} {
		if got := capture.Rounded(d).String(); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
