//go:build !wasip1

package sdk_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

// TestImportDirectivesMatchContract checks the directives in files that only guests compile.
func TestImportDirectivesMatchContract(t *testing.T) {
	files, err := filepath.Glob("*_wasip1.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	directive := regexp.MustCompile(`(?m)^//go:wasmimport (\S+) (\S+)$`)
	var known []string
	for _, f := range abi.Imports() {
		known = append(known, f.Module+"."+f.Name)
	}
	found := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range directive.FindAllStringSubmatch(string(source), -1) {
			found++
			if name := m[1] + "." + m[2]; !slices.Contains(known, name) {
				t.Errorf("%s imports %s, which the contract does not have", file, name)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d directives only", found)
	}
}

func config(t *testing.T, doc string) *sdk.Config {
	t.Helper()
	c, err := sdk.NewConfig([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfig(t *testing.T) {
	c := config(t, `{"user":"probe","db":{"port":5432,"hosts":["a","b"]},"maxLag":"1m30s","ratio":0.5,"tls":true,"none":null}`)
	got := []any{
		c.String("user", ""), c.String("db.port", ""), c.String("missing", "x"), c.String("none", "y"),
		c.Int("db.port", 1), c.Int("missing", 1), c.Float("ratio", 0), c.Bool("tls", false), c.Bool("missing", true),
		c.Duration("maxLag", 0), c.Strings("db.hosts"), c.Strings("missing"), c.String("db.hosts.1", ""),
		c.Has("db"), c.Has("none"), string(c.JSON("db.hosts")),
	}
	want := []any{
		"probe", "5432", "x", "y", 5432, 1, 0.5, true, true,
		90 * time.Second, []string{"a", "b"}, []string(nil), "b", true, false, `["a","b"]`,
	}
	if diff := cmp.Diff(want, got); diff != "" || c.Err() != nil {
		t.Errorf("%v\n%s", c.Err(), diff)
	}
}

func TestDurationsMatchPackageTime(t *testing.T) {
	for _, text := range []string{
		"0", "0s", "10s", "007m", "250ms", "999999h", "1000000h", "9999999h", "1m30s", "-5s", "+5s", "1.5s", "s", "", "5", "5 s", "5S", "3us", "3µs", "1e3s", ".s", "99999999999999999999s",
	} {
		want, err := time.ParseDuration(text)
		c := config(t, fmt.Sprintf(`{"d":%q}`, text))
		if got := c.Duration("d", 0); got != want || (c.Err() != nil) != (err != nil) {
			t.Errorf("%q: got %v, %v, want %v, %v", text, got, c.Err(), want, err)
		}
	}
}

func TestConfigKeepsFirstError(t *testing.T) {
	c := config(t, `{"maxLag":"soon","list":[1]}`)
	if got := c.Duration("maxLag", time.Second); got != time.Second {
		t.Errorf("got %v, want the fallback", got)
	}
	c.Strings("list")
	if err := c.Err(); err == nil || err.Error() != `config: maxLag: must be a duration, not "soon"` {
		t.Errorf("got %v", err)
	}
	for _, doc := range []string{`[]`, `{`, `1`, `{} {}`} {
		if _, err := sdk.NewConfig([]byte(doc)); err == nil {
			t.Errorf("%s: want an error", doc)
		}
	}
}

type scripted struct {
	probe    func(ctx context.Context, r *sdk.Request) (probe.Outcome, error)
	validate error
}

func (p scripted) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	return p.probe(ctx, r)
}

func (p scripted) ValidateConfig(*sdk.Config) error { return p.validate }

func TestNative(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().(*net.TCPAddr)
	var traced []probe.TraceEvent
	req := probe.Request{
		Target: probe.Target{Host: "127.0.0.1", Port: addr.Port},
		Pod:    &probe.Pod{Name: "web-0"}, Container: &probe.Container{Name: "web"},
		Trace: func(e probe.TraceEvent) { traced = append(traced, e) },
	}
	p := scripted{probe: func(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
		conn, err := r.Dial(ctx)
		if err != nil {
			return probe.Outcome{}, err
		}
		r.Logf(sdk.Warn, "%s/%s", r.Pod.Name, r.Container.Name)
		return sdk.Warningf("%s", r.Config.String("word", "")), conn.Close()
	}}
	h, err := sdk.Native(p).Prepare([]byte(`{"word":"hm"}`), req.Target)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Probe(t.Context(), req)
	if err != nil || got.Result != probe.Warning || got.Output != "hm" {
		t.Errorf("got %+v, %v", got, err)
	}
	want := []probe.TraceEvent{{Type: probe.TraceLog, Name: "warn", Detail: "web-0/web"}}
	if diff := cmp.Diff(want, traced); diff != "" {
		t.Error(diff)
	}
}

func TestDialWithoutTargetFails(t *testing.T) {
	p := scripted{probe: func(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
		conn, err := r.Dial(ctx)
		return sdk.Failuref("%v %v", conn, err), nil
	}}
	got, err := sdk.Native(p).Probe(t.Context(), probe.Request{})
	if err != nil || got.Output != "<nil> dial: the probe has no target" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNativeOutcomes(t *testing.T) {
	hang := func(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
		<-ctx.Done()
		return probe.Outcome{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	got, err := sdk.Native(scripted{probe: hang}).Probe(ctx, probe.Request{Spec: probe.Spec{Timeout: time.Millisecond}})
	if err != nil || got.Result != probe.Failure || got.Output != "timed out after 1ms" {
		t.Errorf("got %+v, %v, want a Failure", got, err)
	}
	broken := sdk.Func(func(context.Context, *sdk.Request) (probe.Outcome, error) {
		return probe.Outcome{}, errors.New("broken")
	})
	if _, err := sdk.Native(broken).Probe(t.Context(), probe.Request{}); probe.ReasonOf(err) != probe.ReasonGuest {
		t.Errorf("got %v, want the reason guest", err)
	}
	sloppy := sdk.Func(func(_ context.Context, r *sdk.Request) (probe.Outcome, error) {
		r.Config.Int("n", 0)
		return sdk.Successf("fine"), nil
	})
	h, err := sdk.Native(sloppy).Prepare([]byte(`{"n":"x"}`), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Probe(t.Context(), probe.Request{}); err == nil {
		t.Error("want the config's error")
	}
	if _, err := sdk.Native(scripted{validate: errors.New("no")}).Prepare(nil, probe.Target{}); err == nil || err.Error() != "no" {
		t.Errorf("got %v, want the plugin's own error", err)
	}
}

// ending is a context whose deadline passes after some calls of Err.
type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left == 0 {
		return context.DeadlineExceeded
	}
	c.left--
	return nil
}

// The deadline may pass while the plugin returns.
func TestNativeDeadlineIsNotAnError(t *testing.T) {
	fine := sdk.Func(func(context.Context, *sdk.Request) (probe.Outcome, error) { return sdk.Successf("fine"), nil })
	var got []string
	for asked := range 5 {
		out, err := sdk.Native(fine).Probe(&ending{t.Context(), asked}, probe.Request{Spec: probe.Spec{Timeout: time.Second}})
		if err != nil {
			t.Errorf("asked %d times: %v", asked, err)
		}
		got = append(got, out.Output)
	}
	if got[0] != "timed out after 1s" || got[4] != "fine" {
		t.Errorf("got %q", got)
	}
}

func TestMinimalPluginIsShort(t *testing.T) {
	f, err := os.Open("testdata/minimal/main.go")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); {
		if len(s.Text()) > 0 {
			lines++
		}
	}
	if lines > 20 {
		t.Errorf("the minimal plugin has %d lines, want 20 at most", lines)
	}
}

func TestOutcomeFormatMatchesFmt(t *testing.T) {
	name := "db"
	for _, c := range []struct {
		format string
		args   []any
	}{
		{"PONG", nil},
		{"", nil},
		{"100%", nil},
		{"%s", []any{name}},
		{"%v of %s", []any{name, "us"}},
		{"%d of %v replicas", []any{-1, 20}},
		{"%d%%", []any{5}},
		{"%s%", []any{name}},
		{"%q is %5d", []any{name, 7}},
		{"%s and %d", []any{1, name}},
		{"%s", nil},
		{"none", []any{name}},
		{"%s", []any{name, 1}},
		{"%v, %s", []any{errors.New("broken"), name}},
		{"%s after %v", []any{name, time.Second}},
		{"%s", []any{nil}},
		{"%s", []any{strings.Repeat("long ", 100)}},
	} {
		if got, want := sdk.Successf(c.format, c.args...).Output, fmt.Sprintf(c.format, c.args...); got != want {
			t.Errorf("%q, %v: got %q, want %q", c.format, c.args, got, want)
		}
	}
}
