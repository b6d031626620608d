package probe_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/daeace23/prober/probe"
)

func TestResult(t *testing.T) {
	for r, c := range map[probe.Result]struct {
		name string
		code int
	}{
		probe.Success: {"success", 0},
		probe.Warning: {"warning", 1},
		probe.Failure: {"failure", 2},
		probe.Unknown: {"unknown", 3},
	} {
		if r.String() != c.name || r.ExitCode() != c.code {
			t.Errorf("%d: %s, code %d; want %s, %d", uint8(r), r, r.ExitCode(), c.name, c.code)
		}
		if got, ok := probe.FromExitCode(c.code); !ok || got != r {
			t.Errorf("code %d: %v, %t; want %v", c.code, got, ok, r)
		}
		text, err := json.Marshal(r)
		if err != nil || string(text) != `"`+c.name+`"` {
			t.Errorf("%v as JSON: %s, %v", r, text, err)
		}
		again := probe.Result(99)
		if err := json.Unmarshal(text, &again); err != nil || again != r {
			t.Errorf("%s read as %v, %v", text, again, err)
		}
	}
	var zero probe.Result
	if zero != probe.Unknown {
		t.Error("a forgotten result is not Unknown")
	}
	if _, ok := probe.FromExitCode(4); ok {
		t.Error("4 is an exit code of a result")
	}
	if err := zero.UnmarshalText([]byte("ok")); err == nil {
		t.Error("ok is a result")
	}
	if got := probe.Result(9).String(); got != "Result(9)" {
		t.Errorf("got %s", got)
	}
}

func TestKind(t *testing.T) {
	for i, c := range []struct{ name, title string }{
		{"liveness", "Liveness"}, {"readiness", "Readiness"}, {"startup", "Startup"},
	} {
		k := probe.Kinds[i]
		if int(k) != i || k.String() != c.name || k.Title() != c.title {
			t.Errorf("kind %d: %d, %s, %s", i, k, k, k.Title())
		}
		if got, err := probe.ParseKind(c.name); err != nil || got != k {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		var read map[probe.Kind]int
		if err := json.Unmarshal([]byte(`{"`+c.name+`":1}`), &read); err != nil || read[k] != 1 {
			t.Errorf("%s as a key: %v, %v", c.name, read, err)
		}
	}
	if _, err := probe.ParseKind("Liveness"); err == nil || !strings.Contains(err.Error(), "known: liveness, readiness, startup") {
		t.Errorf("got %v", err)
	}
	if got := probe.Kind(7); got.Title() != "UNKNOWN" || got.String() != "unknown" {
		t.Errorf("got %s, %s", got, got.Title())
	}
}

func TestCut(t *testing.T) {
	fill := strings.Repeat("x", probe.MaxOutput-1)
	for _, c := range []struct {
		name, in string
		want     int
	}{
		{"short", "abc", 3},
		{"exact", fill + "x", probe.MaxOutput},
		{"one too many", fill + "xy", probe.MaxOutput},
		{"two bytes across the limit", fill + "é", probe.MaxOutput - 1},
		{"four bytes across the limit", fill + "😀", probe.MaxOutput - 1},
		{"four bytes that end at the limit", fill[3:] + "😀z", probe.MaxOutput},
		{"no UTF-8", strings.Repeat("\x80", probe.MaxOutput+9), probe.MaxOutput},
	} {
		if got := probe.Cut(c.in); len(got) != c.want || !strings.HasPrefix(c.in, got) {
			t.Errorf("%s: %d bytes, want %d", c.name, len(got), c.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("é", 0)
	f.Add("\xf0\x80\x80\x80\x80", 1)
	f.Fuzz(func(t *testing.T, s string, shift int) {
		in := strings.Repeat("x", max(0, min(probe.MaxOutput, probe.MaxOutput-shift%8))) + s
		got := probe.Cut(in)
		if len(got) > probe.MaxOutput || !strings.HasPrefix(in, got) || len(in) > probe.MaxOutput && len(got) < probe.MaxOutput-3 {
			t.Errorf("%d of %d bytes", len(got), len(in))
		}
		if utf8.ValidString(in) && !utf8.ValidString(got) {
			t.Error("a sequence was split")
		}
	})
}

func TestReasonOf(t *testing.T) {
	denied := fmt.Errorf("dial: %w", &probe.Error{Reason: probe.ReasonDenied, Err: context.DeadlineExceeded})
	for _, c := range []struct {
		err  error
		want probe.Reason
	}{
		{denied, probe.ReasonDenied},
		{fmt.Errorf("dial: %w", context.DeadlineExceeded), probe.ReasonDeadline},
		{errors.New("broken"), probe.ReasonInternal},
	} {
		if got := probe.ReasonOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	if denied.Error() != "dial: context deadline exceeded" || !errors.Is(denied, context.DeadlineExceeded) {
		t.Errorf("got %v", denied)
	}
}

func TestTimedOut(t *testing.T) {
	got := probe.TimedOut(1500 * time.Millisecond)
	if got.Result != probe.Failure || got.Reason != probe.ReasonDeadline || got.Output != "timed out after 1.5s" {
		t.Errorf("got %+v", got)
	}
}

func TestTracer(t *testing.T) {
	var none probe.Tracer
	none.Emit(probe.TraceEvent{})
	none.Phase("dns", "", time.Now())
	var got []probe.TraceEvent
	some := probe.Tracer(func(e probe.TraceEvent) { got = append(got, e) })
	some.Emit(probe.TraceEvent{Type: probe.TraceLog, Name: "info"})
	some.Phase("dns", "1.2.3.4", time.Now().Add(-time.Second))
	if len(got) != 2 || got[0].Name != "info" || got[1].Type != probe.TracePhase || got[1].Detail != "1.2.3.4" || got[1].Duration < time.Second {
		t.Errorf("got %+v", got)
	}
}

func TestCompat(t *testing.T) {
	// Switches that only some releases have.
	some := map[probe.Compat][]probe.Compat{
		probe.CompatAddPodStops: {probe.CompatKubeletV1_36}, probe.CompatAddPodSkips: {probe.CompatKubeletV1_37},
		probe.CompatPortNumbers: {probe.CompatKubeletV1_36}, probe.CompatStatusOnRestart: nil,
	}
	for c := probe.CompatKeepRun; c <= probe.CompatStatusOnRestart; c <<= 1 {
		for _, profile := range []probe.Compat{probe.CompatKubeletV1_36, probe.CompatKubeletV1_37} {
			releases, limited := some[c]
			if want := !limited || slices.Contains(releases, profile); profile.Has(c) != want {
				t.Errorf("switch %b in profile %b: %t, want %t", c, profile, !want, want)
			}
		}
		if probe.Compat(0).Has(c) {
			t.Errorf("switch %b is on by default", c)
		}
	}
	if both := probe.CompatHerd | probe.CompatLinger; probe.CompatHerd.Has(both) || !both.Has(probe.CompatHerd) {
		t.Error("Has does not ask for all switches")
	}
}

// Every switch must be described once, and every profile must be listed.
func TestCompatSwitches(t *testing.T) {
	want := probe.CompatKeepRun
	names := make(map[string]bool)
	for _, s := range probe.CompatSwitches() {
		if s.Compat != want || s.Name == "" || names[s.Name] || s.Text == "" || strings.HasSuffix(s.Text, ".") {
			t.Errorf("got %+v, want switch %b with a name of its own and a text", s, want)
		}
		names[s.Name] = true
		want <<= 1
	}
	if want != probe.CompatExactTimer<<1 {
		t.Errorf("the last switch that is described is %b", want>>1)
	}
	var releases []string
	for _, r := range probe.KubeletReleases() {
		releases = append(releases, r.Name)
		if !r.Compat.Has(probe.CompatKeepRun) || r.Compat.Has(probe.CompatStatusOnRestart) {
			t.Errorf("release %s has profile %b", r.Name, r.Compat)
		}
	}
	if got := strings.Join(releases, " "); got != "1.35 1.36 1.37" {
		t.Errorf("releases %s", got)
	}
}

func TestHostReason(t *testing.T) {
	dial := func(e syscall.Errno) error { return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", e)} }
	lookup := func(text string) error { return &net.OpError{Op: "dial", Err: &net.DNSError{Err: text, Name: "h"}} }
	for err, want := range map[error]probe.Reason{
		&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}: probe.ReasonHostResources,
		dial(syscall.EADDRNOTAVAIL):                                         probe.ReasonHostResources,
		fmt.Errorf("fork: %w", syscall.ENOMEM):                              probe.ReasonHostResources,
		lookup("dial udp 10.0.0.2:53: socket: too many open files"):         probe.ReasonHostResources,
		dial(syscall.ENETUNREACH):                                           probe.ReasonHostNetwork,
		dial(syscall.ENETDOWN):                                              probe.ReasonHostNetwork,
		lookup("dial udp 10.0.0.2:53: connect: network is unreachable"):     probe.ReasonHostNetwork,
		lookup("read udp 127.0.0.1:4->[::1]:53: read: connection refused"):  probe.ReasonHostNetwork,
		dial(syscall.ECONNREFUSED):                                          "",
		dial(syscall.EHOSTUNREACH):                                          "",
		dial(syscall.ETIMEDOUT):                                             "",
		lookup("no such host"):                                              "",
		lookup("server misbehaving"):                                        "",
		fmt.Errorf("10.0.0.1 says: %w", syscall.ENETUNREACH):                "",
		&probe.Error{Err: dial(syscall.ENETUNREACH)}:                        "", // reported by a router
		&probe.Error{Reason: probe.ReasonHostNetwork, Err: errors.New("x")}: probe.ReasonHostNetwork,
		errors.New("the target says: network is unreachable"):               "",
		context.DeadlineExceeded:                                            "",
	} {
		if got := probe.HostReason(err); got != want || got.OfHost() != (want != "") {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
