package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// tests are the results of one or more runs of go test -json.
type tests struct {
	// results are "pass", "fail" or "skip" by name, and "pass" if the test has passed in one run.
	results  map[string]string
	lines    map[string][]string // output of the last run
	unsteady map[string]bool     // tests that have passed in some runs only
	again    int                 // runs after the first one
}

func newTests() *tests {
	return &tests{results: make(map[string]string), lines: make(map[string][]string), unsteady: make(map[string]bool)}
}

// add adds a run, and returns all that it has printed.
func (t *tests) add(out []byte) (printed string, err error) {
	var all strings.Builder
	clear(t.lines)
	run := make(map[string]string)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return all.String(), err
		}
		switch {
		case event.Action == "output", event.Action == "build-output":
			all.WriteString(event.Output)
			t.lines[event.Test] = append(t.lines[event.Test], event.Output)
		case event.Test != "" && (event.Action == "pass" || event.Action == "fail" || event.Action == "skip"):
			run[event.Test] = event.Action
		}
	}
	t.merge(run)
	return all.String(), nil
}

// merge adds the results of a run. A test with subtests counts by them, unless it fails by itself.
func (t *tests) merge(run map[string]string) {
	parents := parents(run)
	for name, result := range run {
		if parents[name] && (result == "pass" || failsBelow(run, name)) {
			delete(t.results, name) // it may have failed by itself in an earlier run
			continue
		}
		before, known := t.results[name]
		if known && before != result {
			t.unsteady[name] = true
		}
		if before != "pass" {
			t.results[name] = result
		}
	}
}

func failsBelow(run map[string]string, parent string) bool {
	for name, result := range run {
		if strings.HasPrefix(name, parent+"/") && result == "fail" {
			return true
		}
	}
	return false
}

// parents returns the names of tests that have subtests.
func parents(results map[string]string) map[string]bool {
	all := make(map[string]bool)
	for name := range results {
		for i, c := range name {
			if c == '/' {
				all[name[:i]] = true
			}
		}
	}
	return all
}
