// Mutants builds faults into prober's core, one at a time, and checks that the oracle catches each: it runs
// random scenarios on the faulty core and on the kubelet's until they diverge. It prints a table, and exits
// with 1 unless all are caught.
//
//	cd test/oracle && go run ./mutants -scenarios 2000
//
// It does not change the sources: each faulty file is an overlay for the go command.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var (
	scenarios = flag.Int("scenarios", 2000, "number of random scenarios to run for each mutant")
	seed      = flag.Uint64("seed", 1, "seed of the first scenario")
	only      = flag.String("only", "", "regular expression of the mutants to try")
)

func main() {
	flag.Parse()
	caught, tried, err := run()
	if err != nil {
		fmt.Fprintf(os.Stderr, "mutants: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("%d of %d caught\n", caught, tried)
	if caught < tried {
		os.Exit(1)
	}
}

// run tries the mutants. The working directory must be test/oracle.
func run() (caught, tried int, err error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return 0, 0, err
	}
	filter, err := regexp.Compile(*only)
	if err != nil {
		return 0, 0, err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for i, m := range mutants {
		if !filter.MatchString(m.what) {
			continue
		}
		tried++
		start := time.Now()
		where, err := m.try(root, dir)
		if err != nil {
			return caught, tried, fmt.Errorf("mutant %d, %s: %w", i+1, m.what, err)
		}
		verdict := "survived"
		if where != "" {
			caught++
			verdict = "caught"
		}
		fmt.Printf("%2d  %-8s  %4.0fs  %-24s  %s\n", i+1, verdict, time.Since(start).Seconds(), where, m.what)
	}
	return caught, tried, nil
}

// apply returns the text of the mutant's file with the fault.
func (m mutant) apply(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		return "", fmt.Errorf("%s has the replaced text %d times, want once:\n%s", m.file, n, m.old)
	}
	return strings.Replace(string(text), m.old, m.new, 1), nil
}

var divergence = regexp.MustCompile(`diverged with (seed \d+)`)

// try builds the oracle with the fault and runs it. It returns the seed of the scenario that caught the
// fault, or "" if none did.
func (m mutant) try(root, dir string) (where string, err error) {
	text, err := m.apply(root)
	if err != nil {
		return "", err
	}
	faulty, overlay, binary := filepath.Join(dir, "faulty.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "oracle.test")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.file): faulty}})
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.WriteFile(faulty, []byte(text), 0o644), os.WriteFile(overlay, replace, 0o644)); err != nil {
		return "", err
	}
	build := exec.Command("go", "test", "-c", "-tags", "k8s136", "-overlay", overlay, "-ldflags", "-s -w", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	test := exec.Command(binary, "-test.run", "^TestRandomScenarios$", "-test.timeout", "10m",
		fmt.Sprintf("-scenarios=%d", *scenarios), fmt.Sprintf("-seed=%d", *seed), "-first")
	out, err := test.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); !failed {
		return "", err
	}
	if found := divergence.FindSubmatch(out); found != nil {
		return string(found[1]), nil
	}
	return "", fmt.Errorf("the test failed without a divergence: %w\n%s", err, out)
}
