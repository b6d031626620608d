//go:build linux

package peer

import (
	"os"
	"strings"
	"testing"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// defects are the defects of PodProbeMarker, found in its source. Each has a test here, tests elsewhere, or
// both.
var defects = []struct {
	name  string
	here  func(*rig, *testing.T)
	tests []string // FILE: FUNCTION, relative to the root of the repository
}{
	{"defect 1: two probes of a container overwrite each other", (*rig).twoProbes, nil},
	{"defect 2: the status is written at every sync", (*rig).writesOnlyChanges, []string{"pods/kube/conditions/writer_test.go: TestPodProbeMarkerDefectsInWriter"}},
	{"defect 3: a write that failed goes to another queue", nil, []string{
		"pods/kube/conditions/writer_test.go: TestWriterBacksOffDespiteNewStates", "pods/kube/conditions/writer_test.go: TestPodProbeMarkerDefectsInWriter",
	}},
	{"defect 4: an event for every result, Normal for failures", (*rig).oneWarning, []string{"pods/kube/api/recorder_test.go: TestPodProbeMarkerDefect4"}},
	{"defect 5: a dead container is probed", (*rig).deadContainer, nil},
	{"defect 6: an error is never seen", (*rig).errorIsUnknown, []string{"pods/kube/conditions/decide_test.go: TestPodProbeMarkerDefectsInDecide"}},
	{"defect 7: a Warning is a success", (*rig).warning, []string{"pods/kube/conditions/decide_test.go: TestPodProbeMarkerDefectsInDecide"}},
	{"defect 8: no startup gate, hold, termination, restart policy, retries, trigger", (*rig).startupHolds, []string{
		"pods/kube/target_test.go: TestPolicyRefusesChangedProbe", // startup holds the others
		"core/internal/engine/thresholds_test.go: TestHold",       // hold
		"core/internal/engine/thresholds_test.go: TestOutcomes",   // retries
		"pods/kube/source_test.go: TestSourceChanges",             // termination
		"pods/kube/liveness/actor_test.go: TestOnFailureAndNever", // restart policy
		"core/internal/engine/schedule_test.go: TestTrigger",      // trigger
	}},
	{"defect 9: a changed spec keeps its old period", (*rig).changedPeriod, nil},
	{"defect 10: no gRPC", nil, []string{"handlers/builtin/grpcprobe/grpc_test.go: TestGRPC"}},
	{"defect 11: a host leads elsewhere (GO-2026-4549)", (*rig).hostIsRefused, []string{"test/kube/attacks/refused_test.go: TestRefused", "test/kube/attacks/answers_test.go: TestRedirectsReachNoOtherHost"}},
	{"defect 12: two calls of the runtime for each tick", (*rig).fewCalls, nil},
	{"defect 13: updates of the whole pod, with conflicts", (*rig).ownsConditionsOnly, []string{"pods/kube/api/api_test.go: TestPodProbeMarkerDefect13"}},
	{"defect 14: more than a stock cluster, and no metrics", (*rig).stockCluster, nil},
	{"defect 15: the address of a pod is frozen", (*rig).newAddress, []string{"pods/kube/target_test.go: TestPolicyChecksAddressesOfEveryStatus", "pods/kube/target_test.go: TestTargets"}},
	{"defect 16: liveness restarts nothing", (*rig).restarts, []string{"pods/kube/liveness/actor_test.go: TestRestart"}},
}

// TestDefects runs the tests of all defects.
func TestDefects(t *testing.T) {
	r := newRig(t)
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			for _, test := range d.tests {
				exists(t, test)
			}
			if d.here != nil {
				d.here(r, t)
			}
		})
	}
	if len(defects) != 16 {
		t.Errorf("%d defects", len(defects))
	}
}

// exists fails the test unless another test exists. Its name is FILE: FUNCTION.
func exists(t *testing.T, test string) {
	t.Helper()
	file, function, _ := strings.Cut(test, ": ")
	text, err := os.ReadFile("../../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nfunc "+function+"(t *testing.T)") {
		t.Errorf("%s has no test %s", file, function)
	}
}
