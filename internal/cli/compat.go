package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/cli/command"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/probe"
)

// subject is a probe whose differences under the profiles are explained.
type subject struct {
	*declared.Probe
	pod     *declared.Pod
	sidecar bool
}

// concerns are the conditions under which the switches make a difference for a probe.
var concerns = map[probe.Compat]func(s subject) bool{
	probe.CompatKeepRun:           func(s subject) bool { return s.Spec.SuccessThreshold > 1 || s.Spec.FailureThreshold > 1 },
	probe.CompatAddPodStops:       func(s subject) bool { return s.Kind != probe.Readiness && s.followsReadiness("") },
	probe.CompatAddPodSkips:       func(s subject) bool { return s.Kind != probe.Readiness && s.followsReadiness(s.Container) },
	probe.CompatStopSkipsSidecars: func(s subject) bool { return s.sidecar && s.Kind != probe.Readiness },
	probe.CompatTriggerAlways:     func(s subject) bool { return s.Kind == probe.Readiness },
	probe.CompatSeedStaleStarted:  func(s subject) bool { return s.sidecar && s.Kind == probe.Startup },
	probe.CompatInheritReplaced:   func(s subject) bool { return s.Kind != probe.Liveness },
	probe.CompatStatusFromWorkers: func(s subject) bool { return s.Kind != probe.Liveness },
	probe.CompatHerd:              func(subject) bool { return true },
	probe.CompatBodyHangIsError:   func(s subject) bool { return s.Handler == "http" },
	probe.CompatLinger:            func(s subject) bool { return slices.Contains([]string{"http", "tcp", "grpc"}, s.Handler) },
	probe.CompatHostTrouble:       func(subject) bool { return true },
	probe.CompatGRPCLibrary:       func(s subject) bool { return s.Handler == "grpc" },
	probe.CompatWallClock:         func(s subject) bool { return s.Spec.InitialDelay > 0 },
	probe.CompatLateStart: func(s subject) bool {
		return s.Spec.Period > 10*time.Second || s.Spec.Period > 0 && s.Spec.InitialDelay%s.Spec.Period != 0
	},
	probe.CompatInitialFailure:  func(s subject) bool { return s.Kind == probe.Readiness },
	probe.CompatPanicSkips:      func(s subject) bool { return !declared.IsBuiltin(s.Handler) },
	probe.CompatPortNumbers:     subject.hasUnknownPort,
	probe.CompatIgnoreProtocol:  subject.hasProtocol,
	probe.CompatStatusOnRestart: func(subject) bool { return true },
	probe.CompatExactTimer:      func(subject) bool { return true },
}

// followsReadiness reports whether a manager starts a readiness probe of the pod before the probe, in that
// container or in any if it is "".
func (s subject) followsReadiness(container string) bool {
	for _, p := range s.pod.Probes() {
		if p.Name() == s.Name() {
			return false
		}
		if p.Kind == probe.Readiness && (container == "" || p.Container == container) {
			return true
		}
	}
	return false
}

// hasUnknownPort reports whether the port is a name that the container does not define.
func (s subject) hasUnknownPort() bool {
	place, _, ok := s.Place()
	if !ok || place.Port.Type != intstr.String {
		return false
	}
	c, _ := declared.Container(s.pod.Pod(), s.Container)
	if c == nil {
		return true
	}
	for _, p := range c.Ports {
		if p.Name == place.Port.StrVal {
			return false
		}
	}
	return true
}

// hasProtocol reports whether the probe has protocol HTTP2 or mode TLS.
func (s subject) hasProtocol() bool {
	var config struct{ Protocol, Mode string }
	if !declared.IsBuiltin(s.Handler) || json.Unmarshal(s.Config, &config) != nil {
		return false
	}
	return config.Protocol == "HTTP2" || config.Mode == "TLS"
}

// compatReport is the output of `prober validate --explain-compat`.
type compatReport struct {
	Probes []compatProbe `json:"probes"`
}

// compatProbe is one probe of the report.
type compatProbe struct {
	Pod         string             `json:"pod"` // NAMESPACE/NAME
	Container   string             `json:"container"`
	Probe       string             `json:"probe"`           // liveness, readiness or startup
	Check       string             `json:"check,omitempty"` // of a probe that combines several
	Handler     string             `json:"handler"`
	Differences []compatDifference `json:"differences"`
}

// compatDifference is a difference in a probe's behaviour under some profiles.
type compatDifference struct {
	Switch   string   `json:"switch"`   // of probe.Compat
	Releases []string `json:"releases"` // of the kubelet
	Text     string   `json:"text"`
}

// explainCompat returns how the behaviour of the pods' probes differs between each profile and no profile.
func explainCompat(checked []*declared.Pod) compatReport {
	report := compatReport{Probes: []compatProbe{}}
	for _, d := range checked {
		for _, p := range d.Probes() {
			_, sidecar := declared.Container(d.Pod(), p.Container)
			one := compatProbe{
				Pod: d.Pod().Namespace + "/" + d.Pod().Name, Container: p.Container, Probe: p.Kind.String(), Check: p.Check, Handler: p.Handler,
				Differences: differencesOf(subject{&p, d, sidecar}),
			}
			report.Probes = append(report.Probes, one)
		}
	}
	return report
}

// differencesOf returns the switches of profiles that make a difference for s.
func differencesOf(s subject) []compatDifference {
	differences := []compatDifference{}
	for _, c := range probe.CompatSwitches() {
		var releases []string
		for _, r := range probe.KubeletReleases() {
			if r.Compat.Has(c.Compat) {
				releases = append(releases, r.Name)
			}
		}
		if len(releases) > 0 && concerns[c.Compat](s) {
			differences = append(differences, compatDifference{c.Name, releases, c.Text})
		}
	}
	return differences
}

// compatFlags are the flags of the report, and its pods.
type compatFlags struct {
	explain bool
	output  string

	mu      sync.Mutex
	checked []*declared.Pod
}

// watch returns source with the pods that it checks added to the report.
func (f *compatFlags) watch(source func(context.Context, pods.Host) (pods.Source, error)) func(context.Context, pods.Host) (pods.Source, error) {
	return func(ctx context.Context, host pods.Host) (pods.Source, error) {
		check := host.Check
		host.Check = func(ctx context.Context, d *declared.Pod) []error {
			f.add(d)
			return check(ctx, d)
		}
		return source(ctx, host)
	}
}

// add adds a pod to the report.
func (f *compatFlags) add(d *declared.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.checked, d) {
		f.checked = append(f.checked, d)
	}
}

// print writes the report.
func (f *compatFlags) print(env *command.Env) error {
	slices.SortStableFunc(f.checked, func(a, b *declared.Pod) int {
		return cmp.Or(strings.Compare(a.Pod().Namespace, b.Pod().Namespace), strings.Compare(a.Pod().Name, b.Pod().Name))
	})
	report := explainCompat(f.checked)
	if f.output != command.Table {
		return env.Encode(f.output, report)
	}
	w := tabwriter.NewWriter(env.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "POD\tCONTAINER\tPROBE\tKUBELET\tSWITCH\tDIFFERENCE")
	for _, p := range report.Probes {
		for _, d := range p.Differences {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Pod, p.Container, p.Probe, strings.Join(d.Releases, ","), d.Switch, d.Text)
		}
	}
	return w.Flush()
}
