package cli_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers/shipped"
	"github.com/daeace23/prober/internal/cli"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/cli/command"
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

// walk calls visit for a command and all below it.
func walk(c *cobra.Command, visit func(c *cobra.Command, path []string)) {
	visit(c, strings.Fields(c.CommandPath())[1:])
	for _, sub := range c.Commands() {
		walk(sub, visit)
	}
}

func root() *cobra.Command { return cli.Root(&command.Env{}) }

func TestEveryCommandHasHelp(t *testing.T) {
	commands := 0
	walk(root(), func(c *cobra.Command, path []string) {
		commands++
		code, stdout, stderr := clitest.Run(nil, append(path, "--help")...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, c.CommandPath()) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", path, code, stdout, stderr)
		}
		if slices.Contains(path, "completion") {
			return // cobra's
		}
		if !c.HasSubCommands() && !regexp.MustCompile(`\nExamples:\n(  .*\n)*  prober `+strings.Join(path, " ")).MatchString(stdout) {
			t.Errorf("%v: no example in\n%s", path, stdout)
		}
		for line := range strings.Lines(stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%v: %d columns: %s", path, n, line)
			}
		}
	})
	if commands < 25 {
		t.Errorf("%d commands were found", commands)
	}
}

func TestCommandsHaveGroups(t *testing.T) {
	for _, c := range root().Commands() {
		if c.GroupID == "" && !slices.Contains([]string{"completion", "help", "version"}, c.Name()) {
			t.Errorf("%s has no group", c.Name())
		}
	}
	_, stdout, _ := clitest.Run(nil)
	last := 0
	for _, want := range []string{"\n\nRun and check:\n  import ", "\n\nLook at a running agent:\n", "\n\nAct on a running agent:\n", "\n\nAuthor plugins:\n  plugin ", "\n\nKubernetes:\n", "\n\nOther commands:\n"} {
		at := strings.Index(stdout, want)
		if at < last {
			t.Errorf("no %q after the other groups in\n%s", want, stdout)
		}
		last = at
	}
}

func TestVersionFlag(t *testing.T) {
	_, want, _ := clitest.Run(nil, "version")
	if code, stdout, stderr := clitest.Run(nil, "--version"); code != 0 || stdout != want || !strings.HasPrefix(stdout, "prober dev (go1.") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
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
		{[]string{"plugin", "new", "--lang", ""}, "go rust c cpp assemblyscript wat python c++ :4"},
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
