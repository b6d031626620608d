package depend_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/depend"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/targets"
	"github.com/daeace23/prober/probe"
)

// network is a host with witnesses. A test sets the response of each witness and target.
type network struct {
	*depend.Judge
	mu        sync.Mutex
	witnesses map[string]probe.Handler // by pod
	asked     map[string]int
	paused    bool // the witnesses make no attempts
}

func newNetwork(t *testing.T) *network {
	n := &network{witnesses: make(map[string]probe.Handler), asked: make(map[string]int)}
	n.Judge = depend.New(func(key manager.Key) error {
		go n.ask(string(key.PodUID))
		return nil
	})
	n.Set(depend.Rules{Uplink: []string{"gateways"}})
	t.Cleanup(func() { time.Sleep(5 * time.Second) }) // until the attempts of witnesses have ended
	return n
}

// ask makes an attempt of a witness.
func (n *network) ask(pod string) {
	n.mu.Lock()
	h, paused := n.witnesses[pod], n.paused
	n.asked[pod]++
	n.mu.Unlock()
	if h != nil && !paused {
		_, _ = h.Probe(context.Background(), request(pod, "gateways", "10.0.0.1"))
	}
}

func (n *network) pause(paused bool) {
	n.mu.Lock()
	n.paused = paused
	n.mu.Unlock()
}

// witness adds a witness, and makes its first attempt.
func (n *network) witness(pod string, h probe.HandlerFunc) {
	n.mu.Lock()
	n.witnesses[pod] = n.Wrap(h)
	n.mu.Unlock()
	n.ask(pod)
}

func request(pod, group, ip string) probe.Request {
	return probe.Request{
		Pod: &probe.Pod{Name: pod, UID: pod, Labels: map[string]string{targets.GroupLabel: group}}, Container: &probe.Container{Name: "target"},
		Kind: probe.Readiness, PodIP: ip, Spec: probe.Spec{Timeout: time.Second},
	}
}

// probeTarget returns the outcome for a target at ip, as "result reason text", and its duration.
func (n *network) probeTarget(ip string, h probe.HandlerFunc) (string, time.Duration) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	out, err := n.Wrap(h).Probe(ctx, request("shop", "shops", ip))
	took := time.Since(start)
	if err != nil {
		return fmt.Sprintf("error %s %s", probe.ReasonOf(err), err), took
	}
	return fmt.Sprintf("%s %s %s", out.Result, out.Reason, out.Output), took
}

func answers(result probe.Result, reason probe.Reason, text string) probe.HandlerFunc {
	return func(context.Context, probe.Request) (probe.Outcome, error) {
		return probe.Outcome{Result: result, Reason: reason, Output: text}, nil
	}
}

// silent does not respond within a second.
func silent(context.Context, probe.Request) (probe.Outcome, error) {
	time.Sleep(time.Second)
	return probe.TimedOut(time.Second), nil
}

var ok = answers(probe.Success, "", "")

func TestJudgement(t *testing.T) {
	const lost = "error host_network shop: no answer; no witness of the uplink responded: gw-1: "
	timeout := answers(probe.Failure, probe.ReasonConnectTimeout, "shop: no answer")
	for name, c := range map[string]struct {
		witnesses []probe.HandlerFunc
		ip        string
		target    probe.HandlerFunc
		want      string
	}{
		"target and witness do not answer": {[]probe.HandlerFunc{silent}, "", timeout, lost + "timed out after 1s"},
		"one of two witnesses answers":     {[]probe.HandlerFunc{silent, ok}, "", timeout, "failure connect_timeout shop: no answer"},
		"witness refuses": {
			[]probe.HandlerFunc{answers(probe.Failure, probe.ReasonConnectRefused, "refused")}, "", timeout, "failure connect_timeout shop: no answer",
		},
		"witness without a network": {
			[]probe.HandlerFunc{func(context.Context, probe.Request) (probe.Outcome, error) {
				return probe.Outcome{}, &probe.Error{Reason: probe.ReasonHostNetwork, Err: errors.New("network is down")}
			}}, "", timeout, lost + "network is down",
		},
		"witness that cannot be asked": {
			[]probe.HandlerFunc{func(context.Context, probe.Request) (probe.Outcome, error) {
				return probe.Outcome{}, errors.New("not permitted")
			}}, "", timeout, "failure connect_timeout shop: no answer",
		},
		"no witness":           {nil, "", timeout, "failure connect_timeout shop: no answer"},
		"name cannot be found": {[]probe.HandlerFunc{silent}, "", answers(probe.Failure, probe.ReasonDNS, "shop: no answer"), lost + "timed out after 1s"},
		"deadline":             {[]probe.HandlerFunc{silent}, "", answers(probe.Failure, probe.ReasonDeadline, "shop: no answer"), lost + "timed out after 1s"},
		"error at the deadline": {[]probe.HandlerFunc{silent}, "", func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{}, fmt.Errorf("ask: %w", context.DeadlineExceeded)
		}, strings.Replace(lost, "shop: no answer", "timed out after 1s", 1) + "timed out after 1s"},
		"target with an error": {[]probe.HandlerFunc{silent}, "", func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{}, errors.New("not permitted")
		}, "error internal not permitted"},
		"handshake is not over at the deadline": {[]probe.HandlerFunc{silent}, "", func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
			<-ctx.Done()
			return probe.Outcome{Result: probe.Failure, Reason: probe.ReasonTLS, Output: "shop: no answer"}, nil
		}, lost + "timed out after 1s"},
		"wrong certificate":    {[]probe.HandlerFunc{silent}, "", answers(probe.Failure, probe.ReasonTLS, "expired"), "failure tls expired"},
		"plugin's own failure": {[]probe.HandlerFunc{silent}, "", answers(probe.Failure, "", "shop: no answer"), lost + "timed out after 1s"},
		"own network is gone": {[]probe.HandlerFunc{silent}, "", func(context.Context, probe.Request) (probe.Outcome, error) {
			return probe.Outcome{}, &probe.Error{Reason: probe.ReasonHostNetwork, Err: errors.New("shop: no answer")}
		}, lost + "timed out after 1s"},
		"target refuses":   {[]probe.HandlerFunc{silent}, "", answers(probe.Failure, probe.ReasonConnectRefused, "refused"), "failure connect_refused refused"},
		"target answers":   {[]probe.HandlerFunc{silent}, "", answers(probe.Failure, probe.ReasonHTTPStatus, "500"), "failure http_status 500"},
		"target succeeds":  {[]probe.HandlerFunc{silent}, "", ok, "success  "},
		"target warns":     {[]probe.HandlerFunc{silent}, "", answers(probe.Warning, "", "slow"), "warning  slow"},
		"target with trap": {[]probe.HandlerFunc{silent}, "", answers(probe.Failure, probe.ReasonTrap, "trap"), "failure trap trap"},
		"target is local":  {[]probe.HandlerFunc{silent}, "127.0.0.1", timeout, "failure connect_timeout shop: no answer"},
		"local over IPv6":  {[]probe.HandlerFunc{silent}, "::1", timeout, "failure connect_timeout shop: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				for i, h := range c.witnesses {
					n.witness(fmt.Sprintf("gw-%d", i+1), h)
				}
				time.Sleep(time.Minute)
				got, took := n.probeTarget(cmp.Or(c.ip, "10.0.0.7"), c.target)
				if got != c.want {
					t.Errorf("got %s\nwant %s", got, c.want)
				}
				if took > 3*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A response of a witness before the end of an attempt does not count.
func TestEarlierResponseOfWitnessDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var up atomic.Bool
		up.Store(true)
		n.witness("gw", func(context.Context, probe.Request) (probe.Outcome, error) {
			if up.Load() {
				return probe.Outcome{Result: probe.Success}, nil
			}
			return probe.TimedOut(time.Second), nil
		})
		lost := func(context.Context, probe.Request) (probe.Outcome, error) {
			n.ask("gw") // which still responds
			up.Store(false)
			return probe.TimedOut(time.Second), nil
		}
		if got, _ := n.probeTarget("10.0.0.7", lost); !strings.HasPrefix(got, "error host_network") {
			t.Errorf("after the network was lost: %s", got)
		}
		if !n.UplinkDown() {
			t.Error("the uplink is not down")
		}
		back := func(context.Context, probe.Request) (probe.Outcome, error) {
			up.Store(true)
			return probe.TimedOut(time.Second), nil
		}
		if got, _ := n.probeTarget("10.0.0.7", back); !strings.HasPrefix(got, "error host_network") {
			t.Errorf("the network came back meanwhile: %s", got)
		}
		if got, _ := n.probeTarget("10.0.0.7", back); !strings.HasPrefix(got, "failure deadline") {
			t.Errorf("after the network is back: %s", got)
		}
		during := func(context.Context, probe.Request) (probe.Outcome, error) {
			up.Store(false)
			n.ask("gw")
			up.Store(true)
			return probe.TimedOut(time.Second), nil
		}
		if got, _ := n.probeTarget("10.0.0.7", during); !strings.HasPrefix(got, "error host_network") {
			t.Errorf("the network was away meanwhile: %s", got)
		}
		n.ask("gw")
		if n.UplinkDown() {
			t.Error("the uplink is down")
		}
	})
}

// Many targets that are down trigger the witnesses at most five times a second, and none waits longer.
func TestManyTargetsTriggerWitnessesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.witness("gw", ok)
		begin := time.Now()
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				if got, took := n.probeTarget("10.0.0.7", answers(probe.Failure, probe.ReasonConnectTimeout, "x")); got != "failure connect_timeout x" || took > 200*time.Millisecond {
					t.Errorf("after %v: %s", took, got)
				}
			})
		}
		all.Wait()
		if most := int(time.Since(begin)/(200*time.Millisecond)) + 2; n.asked["gw"] > most {
			t.Errorf("the witness was asked %d times, want at most %d", n.asked["gw"], most)
		}
	})
}

// A witness that makes no attempts is waited for only once.
func TestPausedWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.witness("gw", ok)
		n.pause(true)
		time.Sleep(time.Minute)
		for i, want := range []time.Duration{3 * time.Second, 0} {
			if got, took := n.probeTarget("10.0.0.7", answers(probe.Failure, probe.ReasonConnectTimeout, "x")); got != "failure connect_timeout x" || took != want {
				t.Errorf("attempt %d: after %v: %s", i, took, got)
			}
		}
		n.pause(false)
		n.witness("gw", silent)
		if got, _ := n.probeTarget("10.0.0.7", answers(probe.Failure, probe.ReasonConnectTimeout, "x")); !strings.HasPrefix(got, "error host_network") {
			t.Errorf("after the pause: %s", got)
		}
	})
}

// While an agent starts, targets wait for the first witness.
func TestFirstWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		time.AfterFunc(time.Second, func() { n.witness("gw", silent) })
		if got, took := n.probeTarget("10.0.0.7", answers(probe.Failure, probe.ReasonConnectTimeout, "x")); !strings.HasPrefix(got, "error host_network") {
			t.Errorf("after %v: %s", took, got)
		}
	})
}

// The end of a witness, or of the agent, ends every wait.
func TestCloseAndReleaseEndWaits(t *testing.T) {
	for name, end := range map[string]func(*network){
		"of the agent":     func(n *network) { n.Close() },
		"of the witness":   func(n *network) { probe.Release(n.witnesses["gw"]) },
		"of the witnesses": func(n *network) { n.Set(depend.Rules{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				n.witness("gw", ok)
				n.pause(true)
				time.Sleep(time.Minute)
				time.AfterFunc(time.Second, func() { end(n) })
				for i, want := range []time.Duration{time.Second, 0} {
					if got, took := n.probeTarget("10.0.0.7", answers(probe.Failure, probe.ReasonConnectTimeout, "x")); got != "failure connect_timeout x" || took != want {
						t.Errorf("attempt %d: after %v: %s", i, took, got)
					}
				}
				if n.UplinkDown() {
					t.Error("the uplink is down")
				}
			})
		})
	}
}
