// Verify runs the checks that take too long for CI, and writes the last result of each step to
// docs/reliability.md.
//
//	go run ./test/verify            # all steps: some hours
//	go run ./test/verify oracle fuzz
//
// A step is a target of the Makefile. Its output is written to a file, whose name is printed if the step
// fails. The rest of its last line that begins with "figures: " is added to its result. An interrupt ends the
// current step, and the results of earlier steps are kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// step is a target of the Makefile, and the claim that it tests.
type step struct {
	name  string
	shows string
	make  []string // target and variables
}

var steps = []step{
	{"platforms", "prober builds for other systems, and vet finds nothing there", []string{"check-platforms"}},
	{"arch", "the library builds for 32 bits, riscv64 and s390x", []string{"check-arch"}},
	{"test-arch", "the library's tests pass on 386, arm, arm64 and s390x", []string{"test-arch"}},
	{"min", "the library's tests pass with the versions that go.mod names", []string{"check-min"}},
	{"race", "no test of any package has a data race", []string{"test-race", "UNRACED=none", "UNRACED_TESTS=^$$", "RACE_SLEEP_MS=1000"}},
	{"oracle", "10,000 random scenarios, and 3,000 for each other release, decide as the kubelet does", []string{"test-oracle", "ORACLECOUNT=10000", "RELEASECOUNT=3000", "ORACLESEED=0"}},
	{"mutants", "the oracle catches faults that are built into the core", []string{"test-mutants"}},
	{"fuzz", "every fuzz target for 2 minutes finds nothing", []string{"fuzz", "FUZZTIME=2m"}},
	{"soak", "an hour with 20,000 probes, changes and faults, and 100 kills, leaves nothing behind", []string{"soak", "DURATION=1h"}},
	{"day", "1,000 targets with the ticks, outages and scrapes of a day at 10 s need no more memory in its last third", []string{"soak", "DURATION=0", "KILLS=0", "DAYTICKS=8640000"}},
	{"history", "30 days of history stay within the budget", []string{"bench-history"}},
}

// page is the file with the table of results.
const page = "docs/reliability.md"

func main() {
	keep := flag.Bool("keep", true, "write the results into "+page)
	flag.Parse()
	chosen, err := choose(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := verify(ctx, chosen, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "verify:", err)
		os.Exit(1)
	}
}

// choose returns the steps with the given names, or all steps if there are no names.
func choose(names []string) (chosen []step, err error) {
	if len(names) == 0 {
		return steps, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			var known []string
			for _, s := range steps {
				known = append(known, s.name)
			}
			return nil, fmt.Errorf("unknown step %q; known: %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, steps[i])
	}
	return chosen, nil
}

// verify runs the steps one after another. It continues after a failed step.
func verify(ctx context.Context, chosen []step, keep bool) error {
	commit, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	logs, err := os.MkdirTemp("", "prober-verify-")
	if err != nil {
		return err
	}
	var failed []string
	rows := make(map[string]string)
	for i, s := range chosen {
		file := filepath.Join(logs, s.name+".log")
		fmt.Printf("%s (%d of %d): make %s > %s\n", s.name, i+1, len(chosen), strings.Join(s.make, " "), file)
		start := time.Now()
		err := s.run(ctx, file)
		if ctx.Err() != nil {
			failed = append(failed, s.name+" was interrupted")
			break
		}
		took, result := time.Since(start).Round(time.Second), "passed"
		if err != nil {
			result = "**failed**"
			failed = append(failed, fmt.Sprintf("%s: %v, see %s", s.name, err, file))
		}
		result += figures(file)
		fmt.Printf("%s: %s in %v\n", s.name, strings.Trim(result, "*"), took)
		rows[s.name] = row(s, result, took, start, strings.TrimSpace(string(commit)))
	}
	if keep {
		failed = append(failed, messages(keepRows(page, rows))...)
	} else {
		os.Stdout.WriteString(table("", rows))
	}
	if len(failed) > 0 {
		return errors.New(strings.Join(failed, "\n"))
	}
	return os.RemoveAll(logs)
}

func messages(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// run runs a step, and writes its output to a file.
func (s step) run(ctx context.Context, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, "make", s.make...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // make ends its child processes
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}

// figures returns the rest of the last line of file that begins with "figures: ", after a colon. It returns "" if there
// is none.
func figures(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	all := regexp.MustCompile(`(?m)^figures(: .*)$`).FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return ""
	}
	return string(all[len(all)-1][1])
}

func row(s step, result string, took time.Duration, start time.Time, commit string) string {
	return fmt.Sprintf("| `%s` | %s | %s | %v | %s | %s |\n", s.name, s.shows, result, took, start.Format(time.DateOnly), commit)
}

// The table is between these lines.
const (
	begin = "<!-- verify: go run ./test/verify writes this table -->\n"
	end   = "<!-- /verify -->\n"
)

// keepRows replaces rows of the table in file.
func keepRows(file string, rows map[string]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no table of verify", file)
	}
	return os.WriteFile(file, []byte(before+begin+table(old, rows)+end+after), 0o644)
}

// table returns the table with the rows of old, replaced by the new rows. A step without a result has the
// text "not run yet".
func table(old string, rows map[string]string) string {
	var b strings.Builder
	b.WriteString("| step | what it shows | result | time | date | commit |\n|---|---|---|---|---|---|\n")
	for _, s := range steps {
		line := rows[s.name]
		if line == "" {
			line = regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(s.name) + "` \\|.*\n").FindString(old)
		}
		if line == "" {
			line = fmt.Sprintf("| `%s` | %s | not run yet | | | |\n", s.name, s.shows)
		}
		b.WriteString(line)
	}
	return b.String()
}
