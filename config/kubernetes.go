package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/shape"
	"github.com/daeace23/prober/internal/yamlpos"
)

// Kubernetes restricts the pods that `prober node` probes. The operator of the node sets it.
type Kubernetes struct {
	Liveness   Liveness
	Budgets    Budgets
	Breaker    Breaker
	PodNetwork bool // pods may request probes inside their own network
	// APIExec lets exec probes run through the API server if there is no container runtime. It needs the
	// verb create for pods/exec.
	APIExec   bool
	Targets   []Target      // allowed targets of probes, in addition to the pod's own addresses
	MinPeriod time.Duration // shortest period that a pod may set
	MaxRate   int           // attempts per second of all probes of a namespace on the node
	QPS       int           // patches of conditions per second

	NamespaceLabels []string // names of labels of namespaces that their pods have
	DryRun          bool     // record the actions and patches, and perform none
}

// Liveness configures the actions after a failed liveness or startup probe.
type Liveness struct {
	Modes     []string // subset of [LivenessModes] that pods may request
	OnFailure string   // "refuse" or "kill"
}

// LivenessModes are the values of the annotation prober.dev/liveness, from the most harmless to the most
// disruptive.
var LivenessModes = []string{"observe", "sidecar", "restart", "evict"}

// Budget is a token bucket.
type Budget struct {
	Burst int
	Every time.Duration // interval between tokens
}

// Budgets limit the restarts and evictions of a node.
type Budgets struct {
	Workload, Node Budget
	Backoff        time.Duration // delay before the second consecutive action on a container
}

// Breaker has the limits above which a node distrusts its own probes.
type Breaker struct {
	Share    float64 // fraction of the probes that failed within Window
	Least    int     // minimum number of failures for Share to count
	Window   time.Duration
	Lag      time.Duration      // lag of the schedule
	Pressure map[string]float64 // percent by "cpu", "memory", "io", above which nothing is restarted; 100: no limit
}

// Target is an entry of kubernetes.targets: a prefix or a host name.
type Target struct {
	Prefix netip.Prefix
	Host   string // in lower case
}

// DefaultKubernetes returns the defaults of the kubernetes section.
func DefaultKubernetes() *Kubernetes {
	return &Kubernetes{
		Liveness: Liveness{Modes: []string{"observe", "sidecar"}, OnFailure: "refuse"},
		Budgets: Budgets{
			Workload: Budget{3, 10 * time.Minute}, Node: Budget{10, time.Minute}, Backoff: 10 * time.Second,
		},
		Breaker: Breaker{
			Share: 0.5, Least: 5, Window: 30 * time.Second, Lag: 2 * time.Second,
			Pressure: map[string]float64{"cpu": 100, "memory": 40, "io": 60},
		},
		MinPeriod: 100 * time.Millisecond, MaxRate: 500, QPS: 20,
	}
}

// shortestPeriod is the shortest period that an annotation accepts.
const shortestPeriod = 10 * time.Millisecond

func (d *decoder) kubernetes(a *Agent) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		k := DefaultKubernetes()
		d.Mapping(n, path, yamlpos.Fields{
			"liveness":   d.liveness(&k.Liveness),
			"budgets":    d.budgets(&k.Budgets),
			"breaker":    d.breaker(&k.Breaker),
			"podNetwork": d.Bool(&k.PodNetwork),
			"apiExec":    d.Bool(&k.APIExec),
			"targets": d.ListOf(func(n *yamlpos.Node, path string) {
				var t Target
				yamlpos.Parsed(&d.Decoder, &t, parseTarget)(n, path)
				k.Targets = append(k.Targets, t)
			}),
			"minPeriod": d.interval(&k.MinPeriod, shortestPeriod, time.Hour),
			"maxRate":   d.Int(&k.MaxRate, 1, 1_000_000),
			"conditions": func(n *yamlpos.Node, path string) {
				d.Mapping(n, path, yamlpos.Fields{"qps": d.Int(&k.QPS, 1, 1000)})
			},
			"namespaceLabels": d.ListOf(func(n *yamlpos.Node, path string) {
				var l TargetLabel
				yamlpos.Parsed(&d.Decoder, &l, parseTargetLabel)(n, path)
				k.NamespaceLabels = append(k.NamespaceLabels, l.Name)
			}),
			"dryRun": d.Bool(&k.DryRun),
		})
		a.Kubernetes = k
	}
}

func (d *decoder) liveness(to *Liveness) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		var modes []string
		d.Mapping(n, path, yamlpos.Fields{
			"modes": d.ListOf(func(n *yamlpos.Node, path string) {
				var mode string
				yamlpos.OneOf(&d.Decoder, &mode, LivenessModes...)(n, path)
				modes = append(modes, mode)
			}),
			"onFailure": yamlpos.OneOf(&d.Decoder, &to.OnFailure, "refuse", "kill"),
		})
		if modes := yamlpos.Field(n, "modes"); modes == nil {
			return
		}
		to.Modes = modes
		if !slices.Contains(modes, "observe") {
			d.Errorf(yamlpos.Field(n, "modes"), path+".modes", "must contain observe, the default mode of pods")
		}
	}
}

func (d *decoder) budgets(to *Budgets) yamlpos.Reader {
	bucket := func(to *Budget) yamlpos.Reader {
		return func(n *yamlpos.Node, path string) {
			d.Mapping(n, path, yamlpos.Fields{"burst": d.Int(&to.Burst, 1, math.MaxInt32), "every": d.interval(&to.Every, time.Second, 24*time.Hour)})
		}
	}
	return func(n *yamlpos.Node, path string) {
		d.Mapping(n, path, yamlpos.Fields{
			"workload": bucket(&to.Workload), "node": bucket(&to.Node), "backoff": d.interval(&to.Backoff, time.Second, 5*time.Minute),
		})
	}
}

func (d *decoder) breaker(to *Breaker) yamlpos.Reader {
	return func(n *yamlpos.Node, path string) {
		d.Mapping(n, path, yamlpos.Fields{
			"share":  d.Form(shape.Number(new(0), new(1)), yamlpos.Parsed(&d.Decoder, &to.Share, parseFraction)),
			"least":  d.Int(&to.Least, 1, math.MaxInt32),
			"window": d.interval(&to.Window, time.Second, time.Hour),
			"lag":    d.interval(&to.Lag, time.Millisecond, time.Hour),
			"pressure": func(n *yamlpos.Node, path string) {
				fields := make(yamlpos.Fields)
				for name := range to.Pressure {
					fields[name] = func(n *yamlpos.Node, path string) {
						var percent float64
						d.Form(shape.Number(new(0), new(100)), yamlpos.Parsed(&d.Decoder, &percent, parsePercent))(n, path)
						to.Pressure[name] = percent
					}
				}
				d.Mapping(n, path, fields)
			},
		})
	}
}

func parsePercent(text string) (float64, error) {
	percent, err := strconv.ParseFloat(text, 64)
	if err != nil || !(percent > 0 && percent <= 100) {
		return 0, errors.New("must be a number above 0 and at most 100")
	}
	return percent, nil
}

// parseTarget parses a prefix, an address or a host name.
func parseTarget(text string) (Target, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if prefix != prefix.Masked() {
			return Target{}, fmt.Errorf("%s is not a network: must be %s", text, prefix.Masked())
		}
		return Target{Prefix: prefix}, nil
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		return Target{Prefix: netip.PrefixFrom(addr, addr.BitLen())}, nil
	}
	host := strings.TrimSuffix(strings.ToLower(text), ".")
	for label := range strings.SplitSeq(host, ".") {
		if !dnsLabel().MatchString(label) {
			return Target{}, fmt.Errorf("%.80q must be a network such as 10.0.0.0/8, an address, or the name of a host without a port", text)
		}
	}
	return Target{Host: host}, nil
}
