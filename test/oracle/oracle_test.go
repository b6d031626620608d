package oracle

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daeace23/prober/test/oracle/prober"
)

var (
	count = flag.Int("scenarios", 2000, "number of random scenarios to run")
	seed  = flag.Uint64("seed", 0, "seed of the first scenario; 0 means a seed from the clock")
	first = flag.Bool("first", false, "stop at the first divergence, and do not shrink it")
	// update must be used after a change of the generator.
	update = flag.Bool("update", false, "regenerate testdata/switches")
)

func TestMain(m *testing.M) {
	SilenceKubelet()
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano() / 1e6 % 1e9)
	}
	os.Exit(m.Run())
}

func newOracle(t *testing.T) *Oracle {
	t.Helper()
	o, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o
}

// checkScenario runs s on both sides. If they diverge, it fails the test and prints the smallest diverging
// scenario.
func checkScenario(t *testing.T, o *Oracle, s *Scenario, ours Maker) verdict {
	t.Helper()
	d, isAmbiguous := o.Check(t, s, ours)
	if d == nil && isAmbiguous {
		return ambiguous
	}
	if d == nil {
		return agreed
	}
	if *first {
		t.Errorf("the sides diverge:\n%v", d)
		return diverged
	}
	small := Shrink(s, func(c *Scenario) bool {
		d, _ := o.Check(t, c, ours)
		return d != nil
	})
	d, _ = o.Check(t, small, ours)
	t.Errorf("the sides diverge:\n%v\nsmallest scenario:\n%v", d, small)
	return diverged
}

type verdict int

const (
	agreed verdict = iota
	ambiguous
	diverged
)

// runRandom runs n random scenarios on the kubelet's side and on ours.
func runRandom(t *testing.T, o *Oracle, n int, ours Maker) {
	t.Helper()
	t.Logf("%d scenarios from seed %d", n, *seed)
	var counts [3]atomic.Int64
	eachSeed(t, n, func(t *testing.T, seed uint64) {
		if n := counts[diverged].Load(); n >= 3 || n > 0 && *first {
			return
		}
		v := checkScenario(t, o, Generate(seed), ours)
		counts[v].Add(1)
		if v == diverged {
			t.Errorf("diverged with seed %d", seed)
		}
	})
	t.Logf("%d agree, %d diverge; in %d the kubelet does not agree with itself",
		counts[agreed].Load(), counts[diverged].Load(), counts[ambiguous].Load())
	if counts[ambiguous].Load() > int64(n/50+1) {
		t.Errorf("%d of %d scenarios are ambiguous; the generator should avoid them", counts[ambiguous].Load(), n)
	}
}

// eachSeed calls f for n seeds, in parallel on all processors.
func eachSeed(t *testing.T, n int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	var next atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
					f(t, *seed+uint64(i))
				}
			})
		}
	})
}

func TestRandomScenarios(t *testing.T) {
	t.Logf("kubelet %s", prober.Release)
	runRandom(t, newOracle(t), *count, Ours(Profile()))
}

// TestFixedScenarios runs scenarios that have found a fault.
func TestFixedScenarios(t *testing.T) {
	o := newOracle(t)
	files, err := filepath.Glob("testdata/scenarios/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if checkScenario(t, o, readScenario(t, file), Ours(Profile())) == ambiguous {
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
