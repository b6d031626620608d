package cli_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/internal/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a command line in a world of its own.
func run(signals <-chan os.Signal, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Main(cli.Env{
		Args: args, LookupEnv: toolchains,
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Notify: func(...os.Signal) (<-chan os.Signal, func()) { return signals, func() {} },
	})
	return code, out.String(), errs.String()
}

// toolchains looks up the variables that name compilers, as a test has set them. All
// others are unset.
func toolchains(name string) (string, bool) {
	if slices.Contains([]string{"GO", "CLANG", "RUSTC", "ASC", "WAT2WASM"}, name) {
		return os.LookupEnv(name)
	}
	return "", false
}

func TestOutputCannotMoveTheCursor(t *testing.T) {
	for _, format := range []string{"table", "nagios"} {
		code, stdout, _ := run(nil, "probe", "exec", "-o", format, "--timeout", "10s", "--", "printf", `\033[31mred\r\n\302\233bar|x\377`)
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

func TestASignalEndsAProbe(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signals <- os.Interrupt
	start := time.Now()
	code, _, stderr := run(signals, "probe", "exec", "--timeout", "1m", "--", "sleep", "60")
	if code != 3 || !strings.Contains(stderr, "prober: error: stopped by SIGINT\n") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for _, args := range [][]string{
		{"run"}, {"probe"}, {"probe", "http"}, {"probe", "tcp"}, {"probe", "grpc"}, {"probe", "exec"}, {"probe", "plugin"},
		{"validate"}, {"plugin"}, {"plugin", "list"}, {"plugin", "inspect"},
		{"plugin", "new"}, {"plugin", "build"}, {"plugin", "run"}, {"plugin", "bench"}, {"plugin", "vet"}, {"plugin", "test"},
		{"plugin", "push"}, {"plugin", "pull"}, {"plugin", "save"}, {"plugin", "load"}, {"version"}, {"completion"},
	} {
		code, stdout, stderr := run(nil, append(args, "--help")...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "prober "+strings.Join(args, " ")) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}
