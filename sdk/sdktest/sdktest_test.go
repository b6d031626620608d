package sdktest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest"
	"github.com/daeace23/prober/plugin/schema"
	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
	"github.com/daeace23/prober/sdk/testdata/ways"
)

// strict is a plugin that refuses a config.
type strict struct{}

func (strict) Probe(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	return ways.Probe(ctx, r)
}

func (strict) ValidateConfig(c *sdk.Config) error {
	if c.String("do", "") == "refuse" {
		return errors.New("do: refused")
	}
	return nil
}

func TestRun(t *testing.T) {
	Run(t, sdk.Func(ways.Probe), "testdata/ways_test.yaml")
}

func TestRunFindsFiles(t *testing.T) {
	t.Chdir("testdata/strict")
	Run(t, strict{})
}

// failures returns the failures of a case.
func failures(t *testing.T, p sdk.Plugin, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x_test.yaml")
	text = "apiVersion: prober.dev/v1\nkind: PluginTest\nplugin: ./x.wasm\ncases:\n" + text
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := plugintest.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(attempt(t, p, &f.Cases[0], &plugin.Manifest{Config: &schema.Schema{}}), "\n")
}

func TestAttemptReturnsFailures(t *testing.T) {
	for text, want := range map[string]string{
		"- {name: a, request: {config: {do: kv}}, want: {result: failure}}":                                   "+result: success",
		"- {name: a, request: {config: {do: kv}}, want: {result: success, kv: {n: x}}}":                       `"n":"1"`,
		"- {name: a, request: {target: {host: a, port: 1}, config: {do: dial}}, want: {result: failure}}":     "the plugin dials tcp://a:1",
		"- {name: a, request: {config: {do: kv}}, want: {result: success}, host: {net: [{dial: tcp://a:1}]}}": "tcp://a:1 is never dialled",
	} {
		if got := failures(t, sdk.Func(ways.Probe), text); !strings.Contains(got, want) {
			t.Errorf("%s\ngot %q, want %q in it", text, got, want)
		}
	}
	slow := sdk.Func(func(context.Context, *sdk.Request) (probe.Outcome, error) {
		time.Sleep(time.Minute)
		return sdk.Successf("late"), nil
	})
	got := failures(t, slow, "- {name: a, timeout: 1s, want: {result: failure, message: timed out after 1s, virtualTime: 1s}}")
	if !strings.Contains(got, "+virtualTime: 1m0s") {
		t.Errorf("got %q, want the time that a guest would not be given", got)
	}
}
