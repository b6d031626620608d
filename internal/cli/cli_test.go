package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli/clitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOutputHasNoControlCharacters(t *testing.T) {
	for _, format := range []string{"table", "nagios"} {
		code, stdout, _ := clitest.Run(nil, "probe", "exec", "-o", format, "--timeout", "1m", "--", "printf", `\033[31mred\r\n\302\233bar|x\377`)
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
		text := strings.TrimSuffix(stdout, "\n")
		text = strings.Replace(text, "OUTPUT\n", "", 1) // the table's own line
		if strings.ContainsAny(text, "\033\r\n\u009b") || !utf8.ValidString(text) || !strings.Contains(text, "[31mred   bar") {
			t.Errorf("-o %s: %q", format, stdout)
		}
		if format == "nagios" && strings.Count(stdout, "|") != 1 {
			t.Errorf("the output breaks the performance data: %q", stdout)
		}
	}
}

func TestProbeStopsOnSignal(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	start := time.Now()
	code, _, stderr := clitest.Run(signals, "probe", "exec", "--timeout", "1m", "--", "sleep", "60")
	if code != 3 || !strings.Contains(stderr, "prober: error: stopped by SIGINT\n") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	commands := 0
	var visit func(path ...string)
	visit = func(path ...string) {
		code, stdout, stderr := clitest.Run(nil, append(path, "--help")...)
		_, list, isFolder := strings.Cut(stdout, "\nAvailable Commands:\n")
		if code != 0 || stderr != "" || !strings.Contains(stdout, strings.Join(append([]string{"prober"}, path...), " ")) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", path, code, stdout, stderr)
		}
		if slices.Contains(path, "completion") {
			return // cobra's
		}
		if !isFolder && !strings.Contains(stdout, "\nExamples:\n  prober "+strings.Join(path, " ")) {
			t.Errorf("%v: no example in\n%s", path, stdout)
		}
		commands++
		for line := range strings.Lines(list) {
			fields := strings.Fields(line)
			if len(fields) == 0 {
				break
			}
			visit(append(slices.Clone(path), fields[0])...)
		}
	}
	visit()
	if commands < 25 {
		t.Errorf("%d commands were found", commands)
	}
}

func TestCompletionOffersWords(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		line []string
		want string // words, and what else the shell is to offer
	}{
		{[]string{"probe", "http", "-o", ""}, "table json yaml nagios :4"},
		{[]string{"run", "--log-level", ""}, "debug info warn error :4"},
		{[]string{"run", "--compat", ""}, "kubelet-1.35 kubelet-1.36 kubelet-1.37 :4"},
		{[]string{"validate", "-o", ""}, "table json yaml :4"},
		{[]string{"run", "--plugins", ""}, ":16"},
		{[]string{"plugin", "new", "--lang", ""}, "go rust c assemblyscript wat :4"},
		{[]string{"plugin", "inspect", "--plugins", folder, ""}, strings.Join(shipped.Names(), " ") + " :0"},
		{[]string{"help", "probe", ""}, "exec grpc http plugin tcp :4"},
		{[]string{"version", ""}, ":4"},
	} {
		_, stdout, _ := clitest.Run(nil, append([]string{"__complete"}, c.line...)...)
		if got := strings.Join(strings.Fields(stdout), " "); got != c.want {
			t.Errorf("%v: got %s, want %s", c.line, got, c.want)
		}
	}
}
