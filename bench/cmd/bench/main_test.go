package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/bench/internal/report"
	"github.com/daeace23/prober/bench/internal/scenario"
)

func TestMain(m *testing.M) {
	child.Main(scenario.Jobs())
	os.Exit(m.Run())
}

// TestScenarioWithRecordIsSkipped runs a quick scenario twice. The second run must only find the record.
func TestScenarioWithRecordIsSkipped(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "docs", "performance.md")
	args := []string{"-scenario", "reader", "-rounds", "1", "-seconds", "1", "-probes", "100", "-records", filepath.Join(dir, "records"), "-page", page}
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if got := strings.Count(stdout.String(), "\n"); got != 2 {
		t.Errorf("%d runs on stdout:\n%s", got, stdout.String())
	}
	r, err := record.Store{Dir: filepath.Join(dir, "records")}.Load("reader")
	if err != nil || len(r.Runs) != 2 || !strings.HasSuffix(r.Command, "-scenario reader -seconds 1 -rounds 1 -probes 100") {
		t.Errorf("%+v, %v", r, err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "`reader -seconds 1 -rounds 1 -probes 100`") {
		t.Errorf("the page does not have the command: %v\n%s", err, text)
	}
	stdout.Reset()
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if stdout.Len() > 0 || !strings.Contains(stderr.String(), "-again") {
		t.Errorf("measured again: %s%s", stdout.String(), stderr.String())
	}
	if err := run(t.Context(), append(args, "-probes", "50"), &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	if stdout.Len() == 0 {
		t.Error("not measured with other flags")
	}
}

// TestOtherScenariosRunAfterFailure runs a scenario that fails because the program prober cannot be built.
func TestOtherScenariosRunAfterFailure(t *testing.T) {
	t.Setenv("PATH", "")
	dir := t.TempDir()
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"-scenario", "stream,reader", "-rounds", "1", "-seconds", "1", "-probes", "100", "-records", dir, "-page", ""}, &stdout, &stderr)
	if err == nil || !strings.Contains(err.Error(), "stream: ") {
		t.Errorf("got %v", err)
	}
	if r, err := (record.Store{Dir: dir}).Load("reader"); err != nil || r == nil {
		t.Errorf("no record of the next scenario: %v\n%s", err, stderr.String())
	}
}

// TestPageIsUpToDate fails if the page or the scenarios were edited. Run then
//
//	go run -tags k8s136 ./cmd/bench -scenario none
func TestPageIsUpToDate(t *testing.T) {
	files, err := report.Page(scenario.All(), record.Store{Dir: "../../records"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		path := filepath.Join("../../../docs/performance", name)
		if name == "" {
			path = "../../../docs/performance.md"
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the records give: %v", path, err)
		}
	}
}

func TestUnknownScenarioListsTheKnownOnes(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"-scenario", "htp", "-page", ""}, &out, &out)
	if err == nil || !strings.Contains(err.Error(), `"htp"`) || !strings.Contains(err.Error(), "grpc") {
		t.Errorf("got %v", err)
	}
}

func TestList(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-list"}, &out, &out); err != nil || strings.Count(out.String(), "\n") != len(scenario.All()) {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestPeerMustBeKnown(t *testing.T) {
	for value, want := range map[string]string{"gatus=/bin/true": `unknown peer "gatus"; known: blackbox_exporter, cloudprober`, "cloudprober": "must be NAME=PATH"} {
		var stdout, stderr bytes.Buffer
		if err := run(t.Context(), []string{"-peer", value, "-scenario", "none"}, &stdout, &stderr); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("-peer %s: %v\n%s", value, err, stderr.String())
		}
	}
}
