package wasm_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// program returns the source of a command whose _start is body. printed is in memory at 1024. Its
// pointer and length for fd_write are at 0.
func program(printed, body string) string {
	var data strings.Builder
	for _, b := range []byte(printed) {
		fmt.Fprintf(&data, `\%02x`, b)
	}
	return fmt.Sprintf(`(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "prober_v1" "message" (func $message (param i32 i32)))
  (memory (export "memory") 4)
  (data (i32.const 1024) "%s")
  (func (export "_start")
    i32.const 0 i32.const 1024 i32.store i32.const 4 i32.const %d i32.store
    %s))`, data.String(), len(printed), body)
}

// Code fragments for program.
const (
	toStdout = " i32.const 1 i32.const 0 i32.const 1 i32.const 16 call $write drop "
	toStderr = " i32.const 2 i32.const 0 i32.const 1 i32.const 16 call $write drop "
	// echo reads stdin once and prints the result.
	echo = " i32.const 4 i32.const 60000 i32.store i32.const 0 i32.const 0 i32.const 1 i32.const 4 call $read drop " + toStdout
	// environ prints the strings of the environment.
	environ = ` i32.const 16 i32.const 4 call $sizes drop i32.const 1024 i32.const 4096 call $environ drop
	  i32.const 0 i32.const 4096 i32.store ` + toStdout
)

func exits(code int) string { return fmt.Sprintf(" i32.const %d call $exit ", code) }

// command loads a program as a plugin.
func command(t testing.TB, source string, edit func(*plugin.Manifest)) *wasm.Handler {
	t.Helper()
	m := plugin.Minimal("check")
	if edit != nil {
		edit(m)
	}
	p, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, source), Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if got := p.Stats(); got.Idle != 0 || got.Busy != 0 {
			t.Errorf("instances were left: %+v", got)
		}
		_ = p.Close()
	})
	return p
}

func execCodes(m *plugin.Manifest) { m.ExitCodes = plugin.ExecCodes }

func TestCommandOutcome(t *testing.T) {
	for _, c := range []struct {
		name    string
		printed string
		body    string
		edit    func(*plugin.Manifest)
		want    probe.Outcome
	}{
		{"returns", "well\n", toStdout, nil, probe.Outcome{Result: probe.Success, Output: "well"}},
		{"exits with 0", "well", toStdout + exits(0), nil, probe.Outcome{Result: probe.Success, Output: "well"}},
		{"1", "", exits(1), nil, probe.Outcome{Result: probe.Warning}},
		{"2", "down", toStdout + exits(2), nil, probe.Outcome{Result: probe.Failure, Output: "down", Reason: probe.ReasonExecExit}},
		{"3", "", exits(3), nil, probe.Outcome{Result: probe.Unknown}},
		{"exec 0", "", exits(0), execCodes, probe.Outcome{Result: probe.Success}},
		{"exec 1", "", exits(1), execCodes, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonExecExit}},
		{"exec -1", "", exits(-1), execCodes, probe.Outcome{Result: probe.Failure, Reason: probe.ReasonExecExit}},
		{
			"perfdata", "OK - 3 users | users=3;5;10;0 'my load'=0.5\nlong\ntext | more=1s\n", toStdout, nil,
			probe.Outcome{Result: probe.Success, Output: "OK - 3 users\nlong\ntext", Metrics: []probe.Metric{
				{Name: "users", Value: 3}, {Name: "my_load", Value: 0.5, Labels: map[string]string{"label": "my load"}}, {Name: "more", Value: 1, Unit: "s"},
			}},
		},
		{
			"perfdata that is malformed", "OK | a=1,5s b=2 c=0x10", toStdout, nil,
			probe.Outcome{Result: probe.Success, Output: "OK", Metrics: []probe.Metric{{Name: "b", Value: 2}}},
		},
		{
			"a function of the host says more than stdout", "said|a=1", toStdout + " i32.const 1024 i32.const 4 call $message ", nil,
			probe.Outcome{Result: probe.Success, Output: "said", Metrics: []probe.Metric{{Name: "a", Value: 1}}},
		},
		{"stderr, where stdout is empty", "oops\nand more | a=1\n", toStderr, nil, probe.Outcome{Result: probe.Success, Output: "oops"}},
		{"stderr beside stdout", "text", toStderr + toStdout, nil, probe.Outcome{Result: probe.Success, Output: "text"}},
		{"no text", "\xff\x00|\xff", toStdout, nil, probe.Outcome{Result: probe.Success, Output: "\uFFFD\x00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := command(t, program(c.printed, c.body), c.edit)
			for range 2 { // each in its own instance
				got, err := attempt(t, p, probe.Request{}, 5*time.Second)
				if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
					t.Errorf("%v, (-want +got)\n%s", err, diff)
				}
			}
		})
	}
}

func TestCommandErrors(t *testing.T) {
	for _, c := range []struct {
		name, body string
		reason     probe.Reason
		text       string
	}{
		{"a code beyond the four", toStdout + exits(4), probe.ReasonProtocol, `plugin "check": exited with code 4; want 0 to 3: text`},
		{"one of stderr", toStderr + exits(64), probe.ReasonProtocol, `plugin "check": exited with code 64; want 0 to 3: text`},
		{"-1", exits(-1), probe.ReasonProtocol, `plugin "check": exited with code 2147483647; want 0 to 3`},
		{"a trap", toStderr + " unreachable ", probe.ReasonTrap, `plugin "check": wasm error: unreachable: text`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := command(t, program("text", c.body), nil)
			_, err := attempt(t, p, probe.Request{}, 5*time.Second)
			if probe.ReasonOf(err) != c.reason || err == nil || err.Error() != c.text {
				t.Errorf("got %v, reason %s; want %s, reason %s", err, probe.ReasonOf(err), c.text, c.reason)
			}
		})
	}
	for name, body := range map[string]string{"loops": "loop br 0 end", "floods": "loop " + toStdout + toStderr + " br 0 end"} {
		t.Run(name, func(t *testing.T) {
			p := command(t, program(strings.Repeat("x", 60_000), body), nil)
			start := time.Now()
			got, err := overrun(t, p, probe.Request{}, 100*time.Millisecond)
			if err != nil || got.Result != probe.Failure || got.Reason != probe.ReasonDeadline {
				t.Errorf("got %+v, %v", got, err)
			}
			if took := time.Since(start); took > patience {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestCommandHandlerSuite(t *testing.T) {
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		return probetest.HandlerUnderTest{
			Good:     command(t, program("well", toStdout), nil),
			Hanging:  command(t, program("", "loop br 0 end"), nil),
			Flooding: command(t, program(strings.Repeat("x", 60_000), toStdout), nil),
			Erring:   command(t, program("", "unreachable"), nil),
		}
	})
}

func TestCommandIsLimited(t *testing.T) {
	p := command(t, program(strings.Repeat("x", 60_000)+"|a=1 b=2\n", toStdout+toStdout), func(m *plugin.Manifest) {
		m.Limits = plugin.Limits{Message: 100, Series: 1}
	})
	got, err := attempt(t, p, probe.Request{}, 5*time.Second)
	if err != nil || len(got.Output) != 100 || len(got.Metrics) != 1 {
		t.Errorf("%d bytes, metrics %v, %v", len(got.Output), got.Metrics, err)
	}
	want := map[plugin.LimitName]uint64{"message": 1, "stdio": 1, "series": 1}
	if diff := cmp.Diff(want, p.Stats().Limits); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestCommandSeesRequest(t *testing.T) {
	req := probe.Request{
		Kind: probe.Liveness, Attempt: 2, Target: probe.Target{Host: "10.0.0.7", Port: 5432},
		Pod: &probe.Pod{Namespace: "shop", Name: "db-0"}, Container: &probe.Container{Name: "db"},
	}
	const config = `{"deep":{"a":1},"list":[1],"maxLag":"5s","n":1.5,"nul":"\u0000","off":null,"on":true,"user-name":"a b"}`
	t.Run("on stdin", func(t *testing.T) {
		p := command(t, program("", echo), nil)
		got, err := attempt(t, bind(t, p, config, probe.Target{}), req, 5*time.Second)
		var doc struct {
			Probe  struct{ Kind string }
			Target struct{ Port int }
			Config struct{ MaxLag string }
		}
		if err != nil || json.Unmarshal([]byte(got.Output), &doc) != nil || doc.Probe.Kind != "liveness" || doc.Target.Port != 5432 || doc.Config.MaxLag != "5s" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("in the environment", func(t *testing.T) {
		p := command(t, program("", environ), nil)
		got, err := attempt(t, bind(t, p, config, probe.Target{}), req, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		vars := strings.Split(strings.Trim(got.Output, "\x00"), "\x00")
		slices.Sort(vars)
		want := []string{
			"GOMEMLIMIT=20132659", "PROBE_ATTEMPT=2", "PROBE_CONFIG=" + config, "PROBE_CONFIG_MAXLAG=5s", "PROBE_CONFIG_N=1.5",
			"PROBE_CONFIG_ON=true", "PROBE_CONFIG_USER_NAME=a b", "PROBE_CONTAINER=db", "PROBE_KIND=liveness", "PROBE_NAMESPACE=shop",
			"PROBE_POD=db-0", "PROBE_TARGET_HOST=10.0.0.7", "PROBE_TARGET_PORT=5432", "PROBE_TIMEOUT_MS=5000",
		}
		if diff := cmp.Diff(want, vars); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestCommandIsDetected(t *testing.T) {
	const reactor = `(module (memory (export "memory") 1) (func (export "probe") (result i32) i32.const 0))`
	for _, c := range []struct {
		name, source string
		edit         func(*plugin.Manifest)
		want         string
	}{
		{"both exports, and nothing said: a reactor", strings.TrimSuffix(reactor, ")") + ` (func (export "_start") unreachable))`, func(*plugin.Manifest) {}, ""},
		{"mode command without _start", reactor, func(m *plugin.Manifest) { m.Mode = plugin.Command }, `the module exports no function "_start"`},
		{"_start with a result", `(module (memory (export "memory") 1) (func (export "_start") (result i32) i32.const 0))`, func(*plugin.Manifest) {},
			`the export "_start" has another signature than version 1 of the contract: got () -> (i32), want () -> ()`},
		{"pooled", program("", ""), func(m *plugin.Manifest) { m.Isolation, m.Stateful = plugin.Pooled, true },
			"isolation pooled is for reactors: a command has a new instance each time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := plugin.Minimal("check")
			c.edit(m)
			p, err := host.Load(t.Context(), plugin.Found{Module: assemble(t, c.source), Manifest: m})
			if err != nil {
				if want := `plugin "check": ` + c.want; c.want == "" || err.Error() != want {
					t.Errorf("got %v, want %s", err, want)
				}
				return
			}
			defer p.Close()
			if got, err := attempt(t, p, probe.Request{}, 5*time.Second); c.want != "" || err != nil || got.Result != probe.Success {
				t.Errorf("got %+v, %v; want %q", got, err, c.want)
			}
		})
	}
}

// goProgram is testdata/program, built as an ordinary Go program.
var goProgram = sync.OnceValues(func() ([]byte, error) {
	const source = "testdata/program/main.go"
	if _, err := os.ReadFile(source); err != nil { // so that go test notices changes of the file
		return nil, err
	}
	out := filepath.Join(scratch, "program.wasm")
	cmd := exec.Command("go", "build", "-o", out, source)
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", source, err, text)
	}
	return os.ReadFile(out)
})

func TestGoProgram(t *testing.T) {
	t.Parallel()
	module, err := goProgram()
	if err != nil {
		t.Fatal(err)
	}
	p, err := host.Load(t.Context(), plugin.Found{Module: module, Manifest: plugin.Minimal("check")})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, c := range []struct {
		do      string
		timeout time.Duration
		want    probe.Outcome
		reason  probe.Reason
	}{
		{do: "look", timeout: 30 * time.Second, want: probe.Outcome{Result: probe.Success, Output: "check: look for db, true", Metrics: []probe.Metric{
			{Name: "limit", Value: 20132659, Unit: "B"}, {Name: "time_left", Value: 30000, Unit: "ms", Labels: map[string]string{"label": "time left"}},
		}}},
		{do: "fail", timeout: 30 * time.Second, want: probe.Outcome{Result: probe.Failure, Output: "down", Reason: probe.ReasonExecExit}},
		{do: "sleep", timeout: 2 * time.Second, want: probe.TimedOut(2 * time.Second)},
		{do: "panic", timeout: 30 * time.Second, reason: probe.ReasonTrap},
		{do: "eat", timeout: 30 * time.Second, reason: probe.ReasonMemory},
	} {
		t.Run(c.do, func(t *testing.T) {
			b := bind(t, p, `{"do":"`+c.do+`"}`, probe.Target{})
			ask := attempt
			if c.do == "sleep" {
				ask = overrun
			}
			got, err := ask(t, b, probe.Request{Target: probe.Target{Host: "db"}}, c.timeout)
			if c.reason != "" {
				if probe.ReasonOf(err) != c.reason || err == nil || c.do == "panic" && !strings.HasSuffix(err.Error(), ": panic: broken") {
					t.Errorf("got %+v, %v, reason %s", got, err, probe.ReasonOf(err))
				}
				return
			}
			if c.do == "sleep" {
				if !strings.Contains(got.Details, `{"waiting":"guest: sleeping for `) {
					t.Errorf("details %s", got.Details)
				}
				got.Details = ""
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v, (-want +got)\n%s", err, diff)
			}
		})
	}
	if hits := p.Stats().Limits; hits["memory"] == 0 {
		t.Errorf("limits hit: %v", hits)
	}
}

func TestErrorPolicy(t *testing.T) {
	p := command(t, program("", "unreachable"), func(m *plugin.Manifest) { m.ErrorPolicy = plugin.PolicyFailure })
	for n := 1; n < probe.MaxAttempts; n++ {
		if got, err := attempt(t, p, probe.Request{Attempt: n}, 5*time.Second); probe.ReasonOf(err) != probe.ReasonTrap {
			t.Errorf("attempt %d: got %+v, %v; want an error, which is tried again", n, got, err)
		}
	}
	want := probe.Outcome{Result: probe.Failure, Reason: probe.ReasonTrap, Output: `plugin "check": wasm error: unreachable`}
	got, err := attempt(t, p, probe.Request{Attempt: probe.MaxAttempts}, 5*time.Second)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("the last: %v, (-want +got)\n%s", err, diff)
	}
	t.Run("does not apply to the guest's answers", func(t *testing.T) {
		p := command(t, program("", exits(9)), func(m *plugin.Manifest) { m.ErrorPolicy = plugin.PolicyFailure })
		if got, err := attempt(t, p, probe.Request{Attempt: probe.MaxAttempts}, 5*time.Second); probe.ReasonOf(err) != probe.ReasonProtocol {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("does not apply to skipped attempts", func(t *testing.T) {
		p := command(t, program("begun\n", toStderr+"loop br 0 end"), func(m *plugin.Manifest) {
			m.ErrorPolicy, m.Limits.Instances = plugin.PolicyFailure, 1
		})
		due, begun, ended := newDue(t), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = p.Probe(due, probe.Request{Debug: true, Trace: first(func() { close(begun) })})
		}()
		<-begun
		if got, err := attempt(t, p, probe.Request{Attempt: probe.MaxAttempts}, 5*time.Second); !errors.Is(err, probe.ErrNoSlot) {
			t.Errorf("got %+v, %v", got, err)
		}
		due.pass()
		<-ended
		if hits := p.Stats().Limits; hits["instances"] != 1 {
			t.Errorf("limits hit: %v", hits)
		}
	})
}
