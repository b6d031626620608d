package oracle

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/core/manager"
)

var (
	count = flag.Int("scenarios", 2000, "how many random scenarios to play")
	seed  = flag.Uint64("seed", 0, "seed of the first scenario; 0 takes one from the clock")
	// update is for when the generator changes.
	update = flag.Bool("update", false, "write testdata/switches anew")
)

func TestMain(m *testing.M) {
	SilenceKubelet()
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() / 1e6 % 1e9)
	}
	os.Exit(m.Run())
}

// checkScenario plays s with the given switches and prints the smallest scenario of a
// divergence.
func checkScenario(t *testing.T, s *Scenario, ours Maker) (ambiguous bool) {
	t.Helper()
	d, ambiguous := Check(t, s, ours)
	if d == nil {
		return ambiguous
	}
	small := Shrink(s, func(c *Scenario) bool {
		Calm(t, c)
		d, _ := Check(t, c, ours)
		return d != nil
	})
	d, _ = Check(t, small, ours)
	t.Errorf("the sides diverge:\n%v\nsmallest scenario:\n%v", d, small)
	return false
}

func TestRandomScenarios(t *testing.T) {
	t.Logf("%d scenarios from seed %d", *count, *seed)
	ambiguous, seen := 0, 0
	for i := range *count {
		s := Generate(*seed + uint64(i))
		Calm(t, s)
		t.Run(fmt.Sprintf("seed=%d", *seed+uint64(i)), func(t *testing.T) {
			if checkScenario(t, s, Ours(manager.KubeletV1_36)) {
				ambiguous++
			}
		})
		seen++
	}
	t.Logf("%d scenarios; in %d of them the kubelet does not agree with itself", seen, ambiguous)
	if ambiguous*20 > seen+20 {
		t.Errorf("%d of %d scenarios are ambiguous; the generator should avoid them", ambiguous, seen)
	}
}

// Scenarios that diverged once.
func TestFixedScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/scenarios/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if checkScenario(t, readScenario(t, file), Ours(manager.KubeletV1_36)) {
				t.Error("the kubelet does not agree with itself on this scenario")
			}
		})
	}
}

func readScenario(t *testing.T, file string) *Scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := new(Scenario)
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}
