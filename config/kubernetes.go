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

	"github.com/daeace23/prober/internal/yamlpos"
)

// Kubernetes is what the operator of a node allows the pods that `prober node` probes.
type Kubernetes struct {
	Liveness   Liveness
	Budgets    Budgets
	Breaker    Breaker
	PodNetwork bool // pods may ask for probes in their own network
	// APIExec lets exec probes run through the API server where there is no runtime. It needs the
	// verb create of pods/exec.
	APIExec   bool
	Targets   []Target      // of probes, beside the addresses of the pod itself
	MinPeriod time.Duration // the shortest that a pod may ask for
	MaxRate   int           // attempts a second that the probes of one namespace may make on the node
	QPS       int           // patches of conditions a second
	DryRun    bool          // write and do nothing, but record what would be done
}

// Liveness is what may happen when a liveness or startup probe has failed.
type Liveness struct {
	Modes     []string // of [LivenessModes], that pods may ask for
	OnFailure string   // "refuse" or "kill"
}

// LivenessModes are the values of the annotation prober.dev/liveness, the most harmless first.
var LivenessModes = []string{"observe", "sidecar", "restart", "evict"}

// Budget is a token bucket.
type Budget struct {
	Burst int
	Every time.Duration // until another token
}

// Budgets bound the restarts and evictions of a node.
type Budgets struct {
	Workload, Node Budget
	Backoff        time.Duration // before the second action on a container in a row
}

// Breaker are the limits above which a node distrusts its own probes.
type Breaker struct {
	Share    float64 // of the probes that failed within Window
	Least    int     // failures below which Share does not count
	Window   time.Duration
	Lag      time.Duration      // of the schedule
	Pressure map[string]float64 // "cpu", "memory", "io": percent, above which nothing is restarted; 100: no limit
}

// Target is an entry of kubernetes.targets: either a prefix or the name of a host.
type Target struct {
	Prefix netip.Prefix
	Host   string // in lower case
}

// DefaultKubernetes returns what applies where prober.yaml does not set it.
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

// shortestPeriod is what an annotation accepts at all.
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
			d.Errorf(yamlpos.Field(n, "modes"), path+".modes", "must have observe, the mode of pods that ask for none")
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
			"share":  yamlpos.Parsed(&d.Decoder, &to.Share, parseFraction),
			"least":  d.Int(&to.Least, 1, math.MaxInt32),
			"window": d.interval(&to.Window, time.Second, time.Hour),
			"lag":    d.interval(&to.Lag, time.Millisecond, time.Hour),
			"pressure": func(n *yamlpos.Node, path string) {
				fields := make(yamlpos.Fields)
				for name := range to.Pressure {
					fields[name] = func(n *yamlpos.Node, path string) {
						var percent float64
						yamlpos.Parsed(&d.Decoder, &percent, parsePercent)(n, path)
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

// parseTarget reads a prefix, an address or the name of a host.
func parseTarget(text string) (Target, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if prefix != prefix.Masked() {
			return Target{}, fmt.Errorf("%s is no network: must be %s", text, prefix.Masked())
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
