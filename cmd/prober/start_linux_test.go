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

// budget is how many bytes the initialization of a package may allocate. A command pays for it whether
// it needs the package or not.
const budget = 32 << 10

// overBudget are packages that take more, and that we cannot change, with what they take.
var overBudget = map[string]int{
	"encoding/gob": 48 << 10,
	"github.com/google/gnostic-models/openapiv2":     64 << 10,
	"github.com/google/gnostic-models/openapiv3":     128 << 10,
	"github.com/opencontainers/go-digest":            128 << 10,
	"github.com/prometheus/client_golang/prometheus": 96 << 10,
	"github.com/prometheus/procfs":                   128 << 10,
	"github.com/santhosh-tekuri/jsonschema/v6":       2176 << 10, // the meta-schemas of five drafts
	"google.golang.org/grpc":                         48 << 10,
	"google.golang.org/protobuf/reflect/protodesc":   224 << 10,
	"google.golang.org/protobuf/types/descriptorpb":  64 << 10,
	"k8s.io/api/core/v1":                             128 << 10,
	"k8s.io/apimachinery/pkg/api/meta":               80 << 10,
	"k8s.io/apimachinery/pkg/api/validate/content":   48 << 10,
	"k8s.io/apimachinery/pkg/apis/meta/v1":           48 << 10,
	"k8s.io/apimachinery/pkg/util/validation":        64 << 10,
	"k8s.io/client-go/plugin/pkg/client/auth/exec":   48 << 10,
	"k8s.io/client-go/util/watchlist":                48 << 10,
	"k8s.io/cri-api/pkg/apis/runtime/v1":             320 << 10,
	"oras.land/oras-go/v2/registry":                  176 << 10,
}

// initLine is a line of GODEBUG=inittrace=1: the package, and the bytes that its initialization has allocated.
var initLine = regexp.MustCompile(`^init (\S+) @.* ms clock, (\d+) bytes, \d+ allocs$`)

// initialized returns the bytes that a run of prober allocates to initialize packages, by package.
func initialized(t *testing.T, args ...string) map[string]int {
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
		most := max(budget, overBudget[name])
		if strings.HasPrefix(name, "github.com/daeace23/prober/") {
			most = budget
		}
		if bytes > most {
			t.Errorf("%s allocates %d bytes at initialization, more than %d: compute it when it is needed", name, bytes, most)
		}
	}
}

// TestShimEndsBeforeOthersBegin is about what each container of pods/local pays for.
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
