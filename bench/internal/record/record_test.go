package record_test

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
	"github.com/daeace23/prober/bench/internal/record"
)

func sample() *record.Record {
	return &record.Record{
		Scenario: "tcp", Command: "go run ./cmd/bench -scenario tcp", Start: time.Unix(1_800_000_000, 0).UTC(), Seconds: 12.5,
		Machine: measure.Machine{CPU: "x", Cores: 2, Go: "go1.26"},
		Runs: []record.Run{
			{Subject: "prober", Params: []record.Param{{Name: "c", Value: "16"}}, Round: 1, Figures: map[string]record.Number{"cpu-us": 40.5, "p99-ms": record.Number(math.Inf(1))}},
			{Subject: "kubelet", Round: 1, Error: "connection refused"},
		},
	}
}

func TestSaveThenLoad(t *testing.T) {
	store := record.Store{Dir: filepath.Join(t.TempDir(), "records")}
	want := sample()
	if err := store.Save(want); err != nil {
		t.Fatal(err)
	}
	got, err := store.Load("tcp")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	text, err := os.ReadFile(filepath.Join(store.Dir, "tcp.json"))
	if err != nil || strings.Count(string(text), "\n") != 4 {
		t.Errorf("not one run a line: %v\n%s", err, text)
	}
}

func TestSaveWithoutRuns(t *testing.T) {
	store := record.Store{Dir: t.TempDir()}
	if err := store.Save(&record.Record{Scenario: "tcp"}); err != nil {
		t.Fatal(err)
	}
	if r, err := store.Load("tcp"); err != nil || len(r.Runs) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLoadMissing(t *testing.T) {
	if r, err := (record.Store{Dir: t.TempDir()}).Load("tcp"); r != nil || err != nil {
		t.Errorf("%v, %v", r, err)
	}
}

func TestLoadInvalidNamesTheFile(t *testing.T) {
	store := record.Store{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(store.Dir, "tcp.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Load("tcp"); err == nil || !strings.Contains(err.Error(), "tcp.json") {
		t.Errorf("got %v", err)
	}
}

func TestValuesLeavesOutFailedRuns(t *testing.T) {
	r := sample()
	r.Runs[1].Figures = map[string]record.Number{"cpu-us": 1}
	if got := r.Values("cpu-us", func(*record.Run) bool { return true }); len(got) != 1 || got[0] != 40.5 {
		t.Errorf("got %v", got)
	}
	if got := r.Runs[0].Param("c") + r.Runs[0].Param("d"); got != "16" {
		t.Errorf("params %q", got)
	}
}
