package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/probe/probetest"
)

// checkScript behaves as its arguments say.
const checkScript = `#!/bin/sh
case "$1" in
ok) echo "DISK OK - free | /=2643MB;5948;5958;0;5968 inodes=7%"; exit 0;;
warning) echo "nearly full"; exit 1;;
comma) echo "slow | time=1,334s;;;0 size=2KB"; exit 0;;
critical) echo "gone | x=1"; exit 2;;
unknown) echo "what?"; exit 3;;
missing) echo "no such thing" >&2; exit 127;;
killed) kill -9 $$;;
silent) exit 2;;
quiet) echo "only here" >&2; exit 2;;
args) shift; for a; do printf '<%s>' "$a"; done; exit 0;;
env) env; exit 0;;
input) echo $(env | sort | grep -e ^PG -e ^TOKEN) "stdin=$(cat)"; exit 0;;
show) echo $$ > "$2"; read go < "$3"; exit 0;;
hang) sleep 1000 & echo $! > "$2"; sleep 1000;;
flood) yes flood | head -c 20000000; exit 0;;
esac
`

// checkFolder returns a folder with the command check_it, which nobody else can write to.
func checkFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "check_it"), []byte(checkScript), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkOf returns a check with a command.
func checkOf(t testing.TB, command string, folders ...string) plugin.Found {
	t.Helper()
	m, err := plugin.ParseManifest("plugin.yaml", []byte("apiVersion: prober.dev/v1\nname: it\nversion: 1.0.0\nruntime: nagios\ncommand: "+command+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Found{Manifest: m, Path: "plugin.yaml", Folders: folders}
}

func loadCheck(t *testing.T, command string, folders ...string) *process.Check {
	t.Helper()
	c, err := process.LoadCheck(process.Config{}, checkOf(t, command, folders...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func prepareCheck(t *testing.T, c *process.Check, config string) probe.Handler {
	t.Helper()
	h, err := c.Prepare([]byte(config), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCheckSuite(t *testing.T) {
	dir := checkFolder(t)
	pid := filepath.Join(t.TempDir(), "pid")
	probetest.HandlerSuite(t, func(t *testing.T) probetest.HandlerUnderTest {
		c := loadCheck(t, `[check_it, "{{config.mode}}", "`+pid+`"]`, dir)
		return probetest.HandlerUnderTest{
			Good: prepareCheck(t, c, `{"mode":"ok"}`), Hanging: prepareCheck(t, c, `{"mode":"hang"}`),
			Flooding: prepareCheck(t, c, `{"mode":"flood"}`), Erring: prepareCheck(t, c, `{"mode":"missing"}`),
		}
	})
}

func TestCheckResults(t *testing.T) {
	c := loadCheck(t, `[check_it, "{{config.mode}}"]`, checkFolder(t))
	for mode, want := range map[string]probe.Outcome{
		"ok": {Result: probe.Success, Output: "DISK OK - free", Metrics: []probe.Metric{
			{Name: "_", Value: 2643, Unit: "MB", Labels: map[string]string{"label": "/"}}, {Name: "inodes", Value: 7, Unit: "%"},
		}},
		"warning":  {Result: probe.Warning, Output: "nearly full"},
		"critical": {Result: probe.Failure, Output: "gone", Reason: probe.ReasonExecExit, Metrics: []probe.Metric{{Name: "x", Value: 1}}},
		"unknown":  {Result: probe.Unknown, Output: "what?"},
		"silent":   {Result: probe.Failure, Output: "the command printed no message", Reason: probe.ReasonExecExit},
		"quiet":    {Result: probe.Failure, Output: "only here", Reason: probe.ReasonExecExit},
	} {
		got, err := attempt(t, prepareCheck(t, c, `{"mode":"`+mode+`"}`), patience)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v, outcome (-want +got):\n%s", mode, err, diff)
		}
	}
	for mode, want := range map[string]string{
		"missing": `protocol: plugin "it": exit status 127: no such thing`, "killed": `trap: plugin "it": signal: killed`,
	} {
		_, err := attempt(t, prepareCheck(t, c, `{"mode":"`+mode+`"}`), patience)
		if err == nil || string(probe.ReasonOf(err))+": "+err.Error() != want {
			t.Errorf("%s: got %s: %v, want %s", mode, probe.ReasonOf(err), err, want)
		}
	}
	got, err := attempt(t, prepareCheck(t, c, `{"mode":"flood"}`), patience)
	if err != nil || len(got.Output) > probe.MaxOutput || c.Stats().Limits["stdio"] != 1 {
		t.Errorf("flood: got %d bytes, %v, limits %v", len(got.Output), err, c.Stats().Limits)
	}
	if got, err := attempt(t, prepareCheck(t, c, `{"mode":"env"}`), patience); err != nil || !strings.Contains(got.Output, "LC_ALL=C") || strings.Contains(got.Output, "HOME=") {
		t.Errorf("environment: got %v, %s", err, got.Output)
	}
}

func TestCheckMalformedPerfdataIsToldOnce(t *testing.T) {
	var log strings.Builder
	found := checkOf(t, `[check_it, "{{config.mode}}"]`, checkFolder(t))
	c, err := process.LoadCheck(process.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, found)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := probe.Outcome{Result: probe.Success, Output: "slow", Metrics: []probe.Metric{{Name: "size", Value: 2, Unit: "KB"}}}
	for name, said := range map[string]int{"first": 1, "second": 2} { // each probe says it once
		log.Reset()
		traced := 0
		for _, h := range []probe.Handler{prepareCheck(t, c, `{"mode":"comma"}`), prepareCheck(t, c, `{"mode":"comma"}`)}[:said] {
			for range 3 {
				got, err := attempt(t, probe.HandlerFunc(func(ctx context.Context, req probe.Request) (probe.Outcome, error) {
					req.Trace = func(e probe.TraceEvent) {
						if e.Type == probe.TraceLog && e.Detail == `performance data is ignored: "time=1,334s;;;0" is not label=number[unit]` {
							traced++
						}
					}
					return h.Probe(ctx, req)
				}), patience)
				if diff := cmp.Diff(want, got); err != nil || diff != "" {
					t.Errorf("error %v, outcome (-want +got):\n%s", err, diff)
				}
			}
		}
		if n := strings.Count(log.String(), "performance data is ignored"); n != said || traced != said {
			t.Errorf("%s: logged %d times, traced %d times, want %d: %s", name, n, traced, said, log.String())
		}
	}
	strict, err := process.LoadCheck(process.Config{Strict: true, Logger: slog.New(slog.DiscardHandler)}, found)
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	if _, err := attempt(t, prepareCheck(t, strict, `{"mode":"comma"}`), patience); probe.ReasonOf(err) != probe.ReasonProtocol {
		t.Errorf("strict: got %v", err)
	}
}

func TestStartNamesWhatIsMissing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have other formats of programs")
	}
	elf, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Clone(elf)
	foreign[18], foreign[19] = 0xf3, 0 // RISC-V
	for name, tc := range map[string]struct{ code, want string }{
		"interpreter":          {"#!/usr/bin/python4\nprint(1)\n", "its interpreter /usr/bin/python4, which the first line names, does not exist"},
		"with an argument":     {"#! /opt/none/perl -w\n", "its interpreter /opt/none/perl, which the first line names, does not exist"},
		"no line end":          {"#!/opt/none/sh", "its interpreter /opt/none/sh, which the first line names, does not exist"},
		"carriage return":      {"#!/bin/sh\r\necho OK\r\n", "its first line ends with a carriage return"},
		"no first line":        {"echo OK\n", "it is neither a program for this system nor a script, which begins with #!"},
		"empty":                {"", "it is neither a program for this system nor a script"},
		"of another processor": {string(foreign), "it is a program for another processor or system"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkFolder(t)
			if err := os.WriteFile(filepath.Join(dir, "check_bad"), []byte(tc.code), 0o755); err != nil {
				t.Fatal(err)
			}
			c := loadCheck(t, `[check_bad]`, dir)
			_, err := attempt(t, prepareCheck(t, c, `{}`), patience)
			if want := `plugin "it": ` + filepath.Join(dir, "check_bad") + " cannot be started: " + tc.want; err == nil || !strings.HasPrefix(err.Error(), want) || probe.ReasonOf(err) != probe.ReasonInstantiate {
				t.Errorf("check: got %v, want %s", err, want)
			}
			f := found()
			f.Module, f.Path, f.Digest = []byte(tc.code), "bin/prober-plugin-tester", ""
			h, err := process.Load(t.Context(), unhurried(process.Config{}), f)
			if want := `plugin "tester": bin/prober-plugin-tester cannot be started: ` + tc.want; err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("process: got %v, %v, want %s", h, err, want)
			}
		})
	}
}

func TestCheckArguments(t *testing.T) {
	c := loadCheck(t, `[check_it, args, -H, "{{target.host}}", [-p, "{{ target.port }}"], [-u, "/{{config.path}}"], -w, "{{config.warn}}", "{{timeout}}"]`, checkFolder(t))
	req := probe.Request{Attempt: 1, Target: probe.Target{Host: "10.0.0.7"}}
	for config, want := range map[string]string{
		`{"warn": -5}`:                 "<-H><10.0.0.7><-w><-5><121>",
		`{"warn": "x y", "path": "a"}`: "<-H><10.0.0.7><-u></a><-w><x y><121>",
		`{"warn": true}`:               "<-H><10.0.0.7><-w><true><121>",
	} {
		if got, err := attemptOf(t, prepareCheck(t, c, config), req, patience); err != nil || got.Output != want {
			t.Errorf("%s: got %s, %v; want %s", config, got.Output, err, want)
		}
	}
	req.Target.Port = 80
	if got, err := attemptOf(t, prepareCheck(t, c, `{"warn":1}`), req, patience); err != nil || got.Output != "<-H><10.0.0.7><-p><80><-w><1><121>" {
		t.Errorf("with a port: got %s, %v", got.Output, err)
	}
	for config, want := range map[string]string{
		`{}`:                 "command[7]: config.warn is not set",
		`{"warn": "--evil"}`: "command[7]: config.warn begins with a dash",
		`{"warn": [1]}`:      "command[7]: config.warn must be a string, number or bool",
	} {
		if _, err := c.Prepare([]byte(config), probe.Target{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
	}
	for host, want := range map[string]string{"": "target.host is not set", "-x": "target.host begins with a dash"} {
		req.Target.Host = host
		if _, err := attemptOf(t, prepareCheck(t, c, `{"warn":1}`), req, patience); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("host %q: got %v, want %s", host, err, want)
		}
	}
	c = loadCheck(t, `[check_it, "{{target.name}}"]`, checkFolder(t))
	if _, err := c.Prepare(nil, probe.Target{}); err == nil || !strings.Contains(err.Error(), "unknown reference {{target.name}}; known: config.…, attempt, ") {
		t.Errorf("got %v", err)
	}
}

func TestCommandRefused(t *testing.T) {
	dir, open := checkFolder(t), checkFolder(t)
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	elsewhere := checkFolder(t)
	if err := os.Symlink(filepath.Join(elsewhere, "check_it"), filepath.Join(dir, "check_link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "check_text"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, folder, want string }{
		{"[check_it]", "", "the operator allows no commands: set nagios.folders in prober.yaml"},
		{"[check_none]", dir, `command "check_none" is in none of the folders that the operator allows: ` + dir},
		{"[/bin/sh, -c, id]", dir, `command "/bin/sh" is in none of the folders`},
		{"[../check_it]", dir, "want a file name or an absolute path"},
		{"[check_link]", dir, "check_it, which is in none of the folders that the operator allows"},
		{"[check_it]", open, "is writable to others (mode 0777)"},
		{"[check_text]", dir, "check_text is not executable"},
		{"{args: [check_it], digest: sha256:" + strings.Repeat("0", 64) + "}", dir, "want sha256:0000"},
	} {
		var folders []string
		if c.folder != "" {
			folders = []string{c.folder}
		}
		if _, err := process.LoadCheck(process.Config{}, checkOf(t, c.command, folders...)); err == nil || !strings.Contains(err.Error(), c.want) || probe.ReasonOf(err) != probe.ReasonInstantiate {
			t.Errorf("%s: got %v, want %s", c.command, err, c.want)
		}
	}
	both := loadCheck(t, `[check_link, ok]`, dir, elsewhere)
	if got, err := attempt(t, prepareCheck(t, both, `{}`), patience); err != nil || got.Result != probe.Success {
		t.Errorf("a link from one folder to another that is allowed: %v, %v", got, err)
	}
	whole := loadCheck(t, `{args: [`+filepath.Join(dir, "check_it")+`, warning], digest: "`+plugin.Digest([]byte(checkScript))+`"}`, dir)
	if got, err := attempt(t, prepareCheck(t, whole, `{}`), patience); err != nil || got.Result != probe.Warning {
		t.Errorf("the whole path and a pin: %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "check_it"), []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := attempt(t, prepareCheck(t, whole, `{}`), patience); err == nil || !strings.Contains(err.Error(), "has changed since it was allowed") {
		t.Errorf("a script that was exchanged: %v", err)
	}
}

// TestCheckRunsCopyOfProgram checks that a program that is not a script runs from a copy, even after its
// file was replaced.
func TestCheckRunsCopyOfProgram(t *testing.T) {
	dir := checkFolder(t)
	path := filepath.Join(dir, "check_binary")
	if err := os.WriteFile(path, tester, 0o755); err != nil {
		t.Fatal(err)
	}
	c := loadCheck(t, "[check_binary]", dir)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Without the cookie, a plugin of go-plugin prints a message and exits with 1.
	got, err := attempt(t, prepareCheck(t, c, `{}`), patience)
	if err != nil || got.Result != probe.Warning || !strings.HasPrefix(got.Output, "This binary is a plugin") {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestCheckSecretAtLimit has secrets that are partly beyond the limit of the message or the output.
func TestCheckSecretAtLimit(t *testing.T) {
	const secret = "a long secret that is cut in the middle of it"
	dir := checkFolder(t)
	command := `{args: [check_it, args, "{{config.password}}"]}` + "\nsecretsInArguments: true"
	for _, limits := range []plugin.Limits{{Message: 21}, {Stdio: 21}} {
		found := checkOf(t, command, dir)
		found.Manifest.Limits = limits
		c, err := process.LoadCheck(process.Config{}, found)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		config, secrets, err := declared.ResolveSecrets([]byte(`{"password":"${env:PW}"}`), func(string, string) (string, error) { return secret, nil })
		if err != nil {
			t.Fatal(err)
		}
		got, err := attempt(t, secrets.Handler(prepareCheck(t, c, string(config))), patience)
		if err != nil || !strings.HasPrefix(got.Output, "<[redacted]") || strings.Contains(got.Output, "secret") {
			t.Errorf("%+v: got %q, %v", limits, got.Output, err)
		}
	}
}

// TestCheckSecretInMetricName has secrets with letters, bars and quotes that metric names cannot have.
func TestCheckSecretInMetricName(t *testing.T) {
	c := loadCheck(t, `{args: [check_it, args, "{{config.text}}"]}`, checkFolder(t))
	for secret, label := range map[string]string{
		"ghp-16C7e42F292c": "conn_ghp-16C7e42F292c", "two words": "'conn_two words'", "it's=so": "'conn_it''s=so'", "key=word": "conn_key=word",
	} {
		text := "| " + label + "=3ms other=4"
		config, secrets, err := declared.ResolveSecrets([]byte(`{"password":"${env:PW}"}`), func(string, string) (string, error) { return secret, nil })
		if err != nil || len(config) == 0 {
			t.Fatal(err)
		}
		given, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		got, err := attempt(t, secrets.Handler(prepareCheck(t, c, string(given))), patience)
		want := []probe.Metric{
			{Name: "conn__redacted_", Value: 3, Unit: "ms", Labels: map[string]string{"label": "conn_[redacted]"}},
			{Name: "other", Value: 4, Unit: ">"},
		}
		if diff := cmp.Diff(want, got.Metrics); err != nil || diff != "" {
			t.Errorf("%s: %v %s", secret, err, diff)
		}
	}
}
