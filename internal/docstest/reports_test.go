package docstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// publicReports are defects that users of other programs have reported, and the tests that show the right behaviour
// here. The comment of each test names the reports.
var publicReports = []struct {
	situation, reports string
	tests              []string // FILE: FUNCTION, relative to the root of the repository
}{
	{"an expired cross-certificate that is not used", "blackbox_exporter 340, 637, 1047; uptime-kuma 3323, 3982", []string{"handlers/shipped/answers_test.go: TestUnusedCrossCertificateIsNoWarning"}},
	{"an intermediate that is missing", "blackbox_exporter 885", []string{"internal/certificates/certificates_test.go: TestExplainNamesCertificateAtFault", "test/e2e/faults_test.go: TestFaults"}},
	{"a banner that does not match", "blackbox_exporter 203, 913", []string{"handlers/shipped/answers_test.go: TestExpectShowsLastLineAtDeadline"}},
	{"a dead IPv6 address and a living IPv4 address", "blackbox_exporter 818, 819", []string{"handlers/shipped/answers_test.go: TestDeadIPv6FallsBackToIPv4", "test/e2e/faults_network_test.go: TestNetworkFaults"}},
	{"an answer over UDP of another address", "blackbox_exporter 512", []string{"handlers/shipped/answers_test.go: TestAnswerOfAnotherAddressIsIgnoredAndNamed"}},
	{"a truncated answer of DNS", "blackbox_exporter 1258", []string{"handlers/shipped/answers_test.go: TestTruncatedAnswerIsAskedOverTCP"}},
	{"the agent's own network is gone", "gatus 461", []string{"test/e2e/uplink_test.go: TestUplink"}},
	{"maintenance over a change of the clock", "gatus 327; uptime-kuma 6233, 4856, 3626", []string{"agent/maintenance/table_test.go: TestScheduleOverChangesOfTheClock"}},
	{"targets behind a router that is down", "healthchecks 917; uptime-kuma 1453", []string{"agent/notify/notify_test.go: TestFailedDependencySendsNoUnknownTargets"}},
	{"a reload keeps state", "cloudprober 644; traefik 13223; consul 6914", []string{"pods/targets/targets_test.go: TestUnchangedTargetsKeepTheirPods"}},
	{"a status before the workers exist", "kubernetes 142305, 135795", []string{"core/manager/refused_test.go: TestStatusBeforeAddPodIsUndecided"}},
	{"a start in the future", "kubernetes 123898", []string{"core/internal/engine/gates_test.go: TestStartedAtOfAnotherClock"}},
	{"the first attempt after a long initial delay", "kubernetes 118396, 130393; moby 46747", []string{"core/internal/engine/gates_test.go: TestInitialDelay"}},
	{"an unknown name of a port", "kubernetes 139283", []string{"handlers/builtin/address_test.go: TestAddress"}},
	{"a cancelled context of AddPod", "kubernetes 140881", []string{"core/manager/refused_test.go: TestAddPodCanceledProbesAreUndecided"}},
	{"a wrong probe on a workload of many nodes", "kubernetes 66230, 123204", []string{"pods/kube/disruption/disruption_test.go: TestClaimsOneReplicaOfWorkloadAtATime"}},
	{"an old message of a condition", "kruise 1479", []string{"pods/kube/conditions/writer_test.go: TestWriterCoalescesMessages"}},
	{"patches that hang", "aws-load-balancer-controller 4180", []string{"pods/kube/conditions/writer_test.go: TestWriterNamespacesAreIndependent"}},
	{"a patch that is denied", "ingress-gce 863, 834", []string{"pods/kube/conditions/writer_test.go: TestWriterDeniedIsLoggedOnceAndRetriedAfterChange"}},
	{"a condition that outlives its probe", "node-problem-detector 423, 470, 1011", []string{"pods/kube/notprobed_test.go: TestConditionsOfRemovedProbesTurnUnknown"}},
	{"leases of nodes that are gone", "kubernetes 84981; karpenter 4363", []string{"pods/kube/loss/loss_test.go: TestWatcherDeletesLeaseOfDeletedNode"}},
	{"nodes of Windows", "flannel 1459; kubernetes 94366", []string{"internal/docstest/kubernetes_files_test.go: TestKubernetesDaemonSetsSelectLinux"}},
	{"two checks of one address", "caddy 7870", []string{"core/endpoint/endpoint_test.go: TestTwoChecksOfOneAddressAreIndependent"}},
	{"a check that hangs", "etherlabs health 28; health-go 224", []string{"core/endpoint/endpoint_test.go: TestRunThatHangsFails"}},
	{"a decimal comma in perfdata", "monitoring-plugins 1374", []string{"internal/perfdata/perfdata_test.go: TestReadItems"}},
}

func TestPublicReportsHaveTests(t *testing.T) {
	for _, r := range publicReports {
		t.Run(r.situation, func(t *testing.T) {
			for _, test := range r.tests {
				file, function, _ := strings.Cut(test, ": ")
				comment, ok := commentOfTest(t, filepath.Join("../..", file), function)
				if comment = strings.Join(strings.Fields(comment), " "); !ok || !strings.Contains(comment, r.reports) {
					t.Errorf("%s: exists %t, with the comment %q, want %q in it", test, ok, comment, r.reports)
				}
			}
		})
	}
}

// commentOfTest returns the comment of a test in a file. ok is false if the file has no such test.
func commentOfTest(t *testing.T, file, function string) (comment string, ok bool) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if f, isFunc := d.(*ast.FuncDecl); isFunc && f.Recv == nil && f.Name.Name == function && strings.HasPrefix(function, "Test") {
			return f.Doc.Text(), true
		}
	}
	return "", false
}
