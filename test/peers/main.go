// Peers runs the health-check tests of other projects on core/endpoint, and prints how many of them pass.
//
//	cd test/peers && go run .               # all peers
//	cd test/peers && go run . -own traefik  # the tests of one peer with its own code, to compare
//
// Each peer is a package with an adapter, which replaces the part of the peer that schedules checks and
// decides states. The peer's other code and its tests come from the module cache, and are never committed: an
// overlay for the go command adds them to the package. The tests are unchanged, and so is the other code,
// except that the replaced declarations are removed; see peers. The exit code is 1 if a test does not pass, or
// is skipped or missing. The peers' tests depend on real time, so they run up to three times.
//
// go mod tidy needs the overlay, because the requirements are the peers':
//
//	go mod tidy -overlay "$(go run . -overlay)"
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

var (
	own     = flag.Bool("own", false, "run the tests with the peer's own code")
	verbose = flag.Bool("v", false, "print the output of all tests")
	only    = flag.Bool("overlay", false, "print the path of the overlay for all peers, and run nothing")
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
	folder, err := cacheFolder()
	if err != nil {
		return err
	}
	replaced := make(map[string]string)
	for _, p := range chosen {
		if err := p.overlay(folder, replaced); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	path, err := writeOverlay(folder, replaced)
	if err != nil || *only {
		fmt.Println(path)
		return err
	}
	var failed []error
	for _, p := range chosen {
		if err := p.test(path); err != nil {
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

// cacheFolder returns the folder for changed files and overlays, in the user's cache.
func cacheFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "prober", "peers")
	return folder, os.MkdirAll(folder, 0o700)
}

func writeOverlay(folder string, replaced map[string]string) (path string, err error) {
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// overlay adds the files of the peer's package to replaced. Files without the replaced declarations are
// written to a folder below cache.
func (p *peer) overlay(cache string, replaced map[string]string) error {
	module, err := download(p.module)
	if err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(module, p.folder, "*.go"))
	if err != nil {
		return err
	}
	here, err := filepath.Abs(p.name)
	if err != nil {
		return err
	}
	if *own {
		replaced[filepath.Join(here, "adapter.go")] = "" // an overlay deletes a file by an empty path
	}
	changed := 0
	for _, source := range sources {
		file := filepath.Base(source)
		if r, ok := p.replaces[file]; ok && !*own {
			changed++
			if source, err = r.write(source, filepath.Join(cache, p.name+"_"+file)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		replaced[filepath.Join(here, file)] = source
	}
	if changed < len(p.replaces) && !*own {
		return fmt.Errorf("%s/%s has not all files of the table of peers", p.module, p.folder)
	}
	return nil
}

// download downloads the version of a module that go.mod requires, and returns its folder.
func download(module string) (folder string, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if json.Unmarshal(out, &answer) == nil && answer.Error != "" {
		return "", fmt.Errorf("%s: %s", module, answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	return answer.Dir, nil
}

// test runs the tests of a peer, and prints its line. The peers' tests use real time, so tests that fail run
// again, with all others.
func (p *peer) test(overlay string) error {
	all := newTests()
	for all.again = range runs {
		if err := p.once(overlay, all); err != nil {
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
func (p *peer) once(overlay string, all *tests) error {
	// The peers' code has problems that vet finds, and is not ours to change.
	cmd := exec.Command("go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-timeout", "3m", "-json", "./"+p.name)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return err
	}
	printed, err := all.add(out)
	if *verbose || len(all.results) == 0 { // it does not compile
		fmt.Print(printed)
	}
	return err
}

// summary returns a line with the numbers of tests.
func (p *peer) summary(t *tests) string {
	passed, through, all := 0, 0, 0
	for name, result := range t.results {
		ours := !p.keeps(name)
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
	return line
}

// keeps reports whether a test runs only code that stays the peer's.
func (p *peer) keeps(test string) bool { return slices.Contains(p.kept, top(test)) }

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
	missing := slices.Clone(p.kept)
	for _, name := range slices.Sorted(maps.Keys(t.results)) {
		missing = slices.DeleteFunc(missing, func(kept string) bool { return kept == top(name) })
		if result := t.results[name]; result != "pass" {
			wrong = append(wrong, fmt.Errorf("%s: %s\n%s", name, result, strings.Join(t.lines[name], "")))
		}
	}
	for _, name := range missing {
		wrong = append(wrong, fmt.Errorf("the table of peers names %s, which did not run", name))
	}
	return errors.Join(wrong...)
}
