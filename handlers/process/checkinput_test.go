package process_test

import (
	"strings"
	"testing"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/quarantine"
	"github.com/daeace23/prober/handlers/replace"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// inputCheck returns a check that prints its input.
func inputCheck(t testing.TB, manifest string) plugin.Found {
	found := checkOf(t, manifest, checkFolder(t))
	found.Env = []string{"PG*", "TOKEN"}
	return found
}

func TestCheckInput(t *testing.T) {
	c, err := process.LoadCheck(process.Config{}, inputCheck(t, `[check_it, input]
env: {PGPASSWORD: "{{config.password}}", TOKEN: "{{config.token}}@{{target.host}}", PGUSER: probe}
stdin: "{{config.password}}\n"`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	req := probe.Request{Attempt: 1, Target: probe.Target{Host: "10.0.0.7"}}
	for config, want := range map[string]string{
		`{"password": "--pw", "token": "t"}`: "PGPASSWORD=--pw PGUSER=probe TOKEN=t@10.0.0.7 stdin=--pw",
		`{"token": 5}`:                       "PGUSER=probe TOKEN=5@10.0.0.7 stdin=",
		`{}`:                                 "PGUSER=probe stdin=",
	} {
		if got, err := attemptOf(t, prepareCheck(t, c, config), req, patience); err != nil || got.Output != want {
			t.Errorf("%s: got %q, %v; want %q", config, got.Output, err, want)
		}
	}
	if _, err := c.Prepare([]byte(`{"password": {}}`), probe.Target{}); err == nil || !strings.Contains(err.Error(), "env.PGPASSWORD: config.password must be a string") {
		t.Errorf("got %v", err)
	}
}

// TestCheckInputIsNotRead has a check that ignores its input, which is longer than the buffer of a pipe.
func TestCheckInputIsNotRead(t *testing.T) {
	c, err := process.LoadCheck(process.Config{}, inputCheck(t, "[check_it, ok]\nstdin: \"{{config.text}}\""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	h := prepareCheck(t, c, `{"text":"`+strings.Repeat("x", 1<<20)+`"}`)
	if got, err := attempt(t, h, patience); err != nil || got.Result != probe.Success {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestCheckVariablesComeFromOperator(t *testing.T) {
	found := inputCheck(t, "[check_it, input]\nenv: {LD_PRELOAD: /tmp/evil.so}")
	_, err := process.LoadCheck(process.Config{}, found)
	want := `plugin "it": env.LD_PRELOAD: the operator does not allow this variable: add it to nagios.env of prober.yaml, as in env: [LD_PRELOAD]`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestCheckRefusesSecretsInArguments(t *testing.T) {
	const command = `[check_it, args, -H, "{{target.host}}", [-p, "{{config.auth.password}}"]]`
	const want = "command[4]: config.auth.password is secret, and all users of the host can read the arguments of a command: " +
		"pass it with env or stdin in plugin.yaml, or set secretsInArguments: true there"
	resolve := func(string, string) (string, error) { return "hunter2", nil }
	swap := replace.New(replace.Config{Name: "it"})
	t.Cleanup(func() { _ = swap.Close() })
	replace := func(manifest string) error {
		c, err := process.LoadCheck(process.Config{}, inputCheck(t, manifest))
		if err != nil {
			t.Fatal(err)
		}
		return swap.Replace(t.Context(), quarantine.New(c, quarantine.Config{}))
	}
	ask := func(config string) (probe.Outcome, error) {
		resolved, secrets, err := declared.ResolveSecrets([]byte(config), resolve)
		if err != nil {
			t.Fatal(err)
		}
		h := prepareHandler(t, swap, string(resolved))
		t.Cleanup(func() { probe.Release(h) })
		return attempt(t, secrets.Handler(h), patience)
	}
	if err := replace(command); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(`{"auth":{"password":"x${env:PW}"}}`); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if got, err := ask(`{"auth":{"password":"plain"},"unused":"${env:PW}"}`); err == nil && !strings.Contains(got.Output, "<-p><plain>") {
		t.Errorf("not a secret: got %+v, %v", got, err)
	}
}

// TestCheckRefusesSecretsInLaterVersions has a new version that refuses secrets that the old one accepted.
func TestCheckRefusesSecretsInLaterVersions(t *testing.T) {
	swap := replace.New(replace.Config{Name: "it"})
	t.Cleanup(func() { _ = swap.Close() })
	replace := func(more string) error {
		c, err := process.LoadCheck(process.Config{}, inputCheck(t, `[check_it, args, "{{config.password}}"]`+more))
		if err != nil {
			t.Fatal(err)
		}
		return swap.Replace(t.Context(), quarantine.New(c, quarantine.Config{}))
	}
	if err := replace("\nsecretsInArguments: true"); err != nil {
		t.Fatal(err)
	}
	h := prepareHandler(t, swap, `{"password":"hunter2"}`)
	if err := probe.CheckSecrets(h, []string{"password"}); err != nil {
		t.Error(err)
	}
	if got, err := attempt(t, h, patience); err != nil || got.Output != "<hunter2>" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := replace(""); err == nil || !strings.Contains(err.Error(), "command[2]: config.password is secret") {
		t.Errorf("got %v", err)
	}
}

func prepareHandler(t testing.TB, p probe.Preparer, config string) probe.Handler {
	t.Helper()
	h, err := p.Prepare([]byte(config), probe.Target{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
