package main

import (
	"bufio"
	"bytes"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Budgets are how many bytes the initialization of a package of ours, and of others, may allocate. A command
// pays for it whether it needs the package or not.
const (
	budget   = 32 << 10
	ofOthers = 64 << 10
)

// overBudget are packages of others that take more, with their budgets.
var overBudget = map[string]int{
	"github.com/google/gnostic-models/openapiv2":     96 << 10,
	"github.com/google/gnostic-models/openapiv3":     192 << 10,
	"github.com/opencontainers/go-digest":            192 << 10,
	"github.com/prometheus/client_golang/prometheus": 144 << 10,
	"github.com/prometheus/procfs":                   192 << 10,
	"github.com/santhosh-tekuri/jsonschema/v6":       3264 << 10, // the meta-schemas of five drafts
	"google.golang.org/protobuf/reflect/protodesc":   336 << 10,
	"google.golang.org/protobuf/types/descriptorpb":  96 << 10,
	"k8s.io/api/core/v1":                             192 << 10,
	"k8s.io/apimachinery/pkg/api/meta":               112 << 10,
	"k8s.io/apimachinery/pkg/util/validation":        96 << 10,
	"k8s.io/cri-api/pkg/apis/runtime/v1":             480 << 10,
	"oras.land/oras-go/v2/registry":                  256 << 10,
}

// initLine is a line of GODEBUG=inittrace=1: the package, and the bytes that its initialization has
// allocated.
var initLine = regexp.MustCompile(`^init (\S+) @.* ms clock, (\d+) bytes, \d+ allocs$`)

// initialized returns the bytes that prober allocates to initialize packages, by package: the least of three
// runs, since maps grow by chance.
func initialized(t *testing.T, args ...string) map[string]int {
	t.Helper()
	least := oneStart(t, args...)
	for range 2 {
		for name, bytes := range oneStart(t, args...) {
			if before, ok := least[name]; ok {
				bytes = min(bytes, before)
			}
			least[name] = bytes
		}
	}
	return least
}

// oneStart runs prober once.
func oneStart(t *testing.T, args ...string) map[string]int {
	t.Helper()
	var trace bytes.Buffer
	cmd := exec.Command("prober", args...)
	cmd.Env, cmd.Stderr = []string{"PATH=" + t.TempDir(), "GODEBUG=inittrace=1"}, &trace
	_ = cmd.Run() // a shim without pipes fails
	found := make(map[string]int)
	for lines := bufio.NewScanner(&trace); lines.Scan(); {
		if m := initLine.FindStringSubmatch(lines.Text()); m != nil {
			found[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	if _, ok := found["runtime"]; !ok {
		t.Fatalf("no trace of the initialization: %s", trace.Bytes())
	}
	return found
}

func TestPackagesComputeLittleAtStart(t *testing.T) {
	for name, bytes := range initialized(t, "version") {
		most := max(ofOthers, overBudget[name])
		if strings.HasPrefix(name, "github.com/daeace23/prober/") {
			most = budget
		}
		if bytes > most {
			t.Errorf("%s allocates %d bytes at initialization, more than %d: compute it when it is needed", name, bytes, most)
		}
	}
}

// TestShimEndsBeforeOthersBegin checks that the shim initializes few packages, since every container of
// pods/local starts one.
func TestShimEndsBeforeOthersBegin(t *testing.T) {
	found, total := initialized(t, "__prober-container-shim"), 0
	for name, bytes := range found {
		total += bytes
		if strings.HasPrefix(name, "k8s.io/api") || strings.HasPrefix(name, "github.com/santhosh-tekuri/") || strings.HasPrefix(name, "github.com/prometheus/") {
			t.Errorf("%s is initialized before a shim begins", name)
		}
	}
	if all := initialized(t, "version"); len(found) > len(all)/3 {
		t.Errorf("%d of %d packages are initialized before a shim begins", len(found), len(all))
	}
	if total > 256<<10 {
		t.Errorf("packages allocate %d bytes before a shim begins", total)
	}
}
