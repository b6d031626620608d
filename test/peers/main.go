// Peers runs the health-check tests of other projects on core/endpoint, and prints how many of them pass.
//
//	cd test/peers && go run .               # all peers
//	cd test/peers && go run . -own traefik  # the tests of one peer with its own code, to compare
//
// Each peer has an adapter, which replaces the part of the peer that schedules checks and decides states. The
// peer's other code and its tests come from the module cache, and are never committed: an overlay for the go
// command adds the adapter to the peer's package. The tests are unchanged, and so is the other code, except
// that the replaced declarations are removed; see peers. The exit code is 1 if a test does not pass, or is
// skipped or missing. The peers' tests depend on real time, so they run up to three times.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

var (
	own     = flag.Bool("own", false, "run the tests with the peer's own code")
	verbose = flag.Bool("v", false, "print the output of all tests")
)

func main() {
	flag.Parse()
	if err := run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run runs the tests of the named peers, or of all. The working directory must be test/peers.
func run(names []string) error {
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	b, err := newBuild()
	if err != nil {
		return err
	}
	for _, p := range chosen {
		if err := b.add(&p); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if err := b.write(); err != nil {
		return err
	}
	var failed []error
	for _, p := range chosen {
		if err := p.test(b); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(failed...)
}

func choose(names []string) (chosen []peer, err error) {
	if len(names) == 0 {
		return peers, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown peer %q", name)
		}
		chosen = append(chosen, peers[i])
	}
	return chosen, nil
}

// test runs the tests of a peer, and prints its line. The peers' tests use real time, so tests that fail run
// again, with all others.
func (p *peer) test(b *build) error {
	all := newTests()
	for all.again = range runs {
		if err := p.once(b, all); err != nil {
			return err
		}
		if p.judge(all) == nil {
			break
		}
	}
	fmt.Println(p.summary(all))
	return p.judge(all)
}

// runs is the maximum number of runs of a peer's tests.
const runs = 3

// once runs the tests of a peer once, and adds their results to all.
func (p *peer) once(b *build, all *tests) error {
	// The peers' code has problems that vet finds, and is not ours to change.
	args := append([]string{"test", "-vet=off", "-count=1", "-timeout", "3m", "-json"}, b.flags()...)
	cmd := exec.Command("go", append(args, p.module+"/"+p.folder)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return err
	}
	printed, err := all.add(out)
	if *verbose || len(all.results) == 0 {
		fmt.Print(printed)
	}
	if err == nil && len(all.results) == 0 {
		err = errors.New("no test has run")
	}
	return err
}

// summary returns a line with the numbers of tests.
func (p *peer) summary(t *tests) string {
	passed, through, all := 0, 0, 0
	for name, result := range t.results {
		ours := p.uses.MatchString(top(name))
		if ours {
			all++
		}
		if result == "pass" {
			passed++
			if ours {
				through++
			}
		}
	}
	line := fmt.Sprintf("%s: %d of %d tests pass", p.name, passed, len(t.results))
	if *own {
		line += " with its own code"
	} else {
		line += fmt.Sprintf(", of which %d of %d use core/endpoint", through, all)
	}
	if n := len(t.unsteady); n > 0 {
		line += fmt.Sprintf("; %d of them not in every one of %d runs", n, t.again+1)
	}
	for _, name := range slices.Sorted(maps.Keys(p.excepted)) {
		if reason := p.exception(name); reason != "" {
			line += fmt.Sprintf("\n  %s fails: it %s", name, reason)
		}
	}
	return line
}

// exception returns the reason why a test cannot pass, "" for none.
func (p *peer) exception(test string) string {
	if *own {
		return ""
	}
	return p.excepted[test]
}

// top returns the name of the test that a subtest belongs to.
func top(test string) string {
	top, _, _ := strings.Cut(test, "/")
	return top
}

// judge returns an error that has the output of each test that should have passed, and each entry of the
// table of peers that is wrong.
func (p *peer) judge(t *tests) error {
	var wrong []error
	if len(t.results) != p.tests {
		wrong = append(wrong, fmt.Errorf("%d tests have run, and the table of peers has %d", len(t.results), p.tests))
	}
	for _, name := range slices.Sorted(maps.Keys(t.results)) {
		result, reason := t.results[name], p.exception(name)
		switch {
		case result != "pass" && reason == "":
			wrong = append(wrong, fmt.Errorf("%s: %s\n%s", name, result, strings.Join(t.lines[name], "")))
		case result == "pass" && reason != "":
			wrong = append(wrong, fmt.Errorf("%s passes, but the table of peers says that it %s", name, reason))
		}
	}
	return errors.Join(wrong...)
}
