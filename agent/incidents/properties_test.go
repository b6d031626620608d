package incidents_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/daeace23/prober/agent/incidents"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/probe"
)

// random returns a fleet of n probes that share pods, addresses, causes, labels, plugins and groups.
func random(r *rand.Rand, n int) (f fleet) {
	reasons := []probe.Reason{probe.ReasonDNS, probe.ReasonConnectRefused, probe.ReasonConnectTimeout, probe.ReasonHTTPStatus, probe.ReasonTrap, probe.ReasonHostStall, ""}
	for i := range n {
		pod := r.IntN(n)
		p := incidents.Probe{
			Key:   incidents.Key{Namespace: fmt.Sprint("ns", pod%2), Pod: fmt.Sprint("pod", pod), UID: fmt.Sprint("uid", pod), Container: fmt.Sprint("c", i), Kind: probe.Readiness},
			State: []states.State{states.Failure, states.Unknown, states.Success}[r.IntN(3)], Since: begin.Add(time.Duration(r.IntN(4*3600)) * time.Second),
			Cause:   states.Cause{Reason: string(reasons[r.IntN(len(reasons))]), Text: fmt.Sprintf("status %d after %dms", 500+r.IntN(3), r.IntN(99))},
			Handler: fmt.Sprint("handler", r.IntN(3)), Plugin: r.IntN(4) == 0, Target: fmt.Sprintf("GET http://x/%d", r.IntN(3)),
			Address: fmt.Sprintf("10.0.%d.%d", r.IntN(4), r.IntN(40)), Labels: map[string]string{"app": fmt.Sprint("app", r.IntN(5)), "env": "prod"},
			Group: fmt.Sprint("group", r.IntN(6)),
		}
		if r.IntN(5) == 0 {
			p.Cause.Reason, p.DependsOn = string(probe.ReasonDependency), []string{fmt.Sprint("group", r.IntN(8))}
		}
		if i > 0 && r.IntN(9) == 0 {
			p.Behind = []incidents.Key{f[r.IntN(i)].Key, {Pod: "gone"}}
		}
		f = append(f, p)
	}
	return f
}

// all compares incidents with their parts, without private fields.
var all = cmpopts.IgnoreUnexported(incidents.Incident{}, incidents.Part{})

// checkPartition reports failing probes that are not in exactly one incident, and parts that do not fail.
func checkPartition(t *testing.T, f fleet, found []*incidents.Incident) {
	t.Helper()
	count := make(map[incidents.Key]int)
	for _, n := range found {
		failing := 0
		for i, p := range n.Parts {
			if i > 0 && p.Since.Before(n.Parts[i-1].Since) {
				t.Errorf("%s: part %d begins before part %d", n.ID, i, i-1)
			}
			if p.Until.IsZero() {
				count[p.Key]++
				failing++
			}
		}
		if failing != n.Failing || failing > n.Peak || (failing == 0) == n.End.IsZero() || n.Cause == "" || n.ID == "" {
			t.Errorf("%d parts fail of %+v", failing, n)
		}
	}
	for _, p := range f {
		want := 0
		if fail(&p) {
			want = 1
		}
		if count[p.Key] != want {
			t.Errorf("%+v is in %d incidents, want %d", p.Key, count[p.Key], want)
		}
	}
}

func checkProperties(t *testing.T, f fleet, r *rand.Rand) {
	t.Helper()
	now := begin.Add(5 * time.Hour)
	found := f.find(now)
	checkPartition(t, f, found)
	if len(found) > incidents.MaxIncidents+1 {
		t.Errorf("%d incidents", len(found))
	}
	mixed := slices.Clone(f)
	r.Shuffle(len(mixed), func(i, k int) { mixed[i], mixed[k] = mixed[k], mixed[i] })
	if diff := cmp.Diff(found, mixed.find(now), all); diff != "" {
		t.Errorf("the order of probes matters: %s", diff)
	}
	more := append(mixed, fleet{}.add(3, "elsewhere", at("192.0.2.%d"), path("/elsewhere"), plugin("elsewhere"), label("elsewhere", "yes"), group("elsewhere"))...)
	if diff := cmp.Diff(found, more.find(now), all); diff != "" {
		t.Errorf("healthy probes elsewhere matter: %s", diff)
	}
	if diff := cmp.Diff(found, mixed.step(f.step(new(incidents.Log), now), now.Add(time.Minute)).All(), all); diff != "" {
		t.Errorf("a step without a change matters: %s", diff)
	}
}

func TestProperties(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		checkProperties(t, random(r, 1+r.IntN(300)), r)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzProperties(f *testing.F) {
	f.Add(uint64(1), uint16(50))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		r := rand.New(rand.NewPCG(seed, 2))
		checkProperties(t, random(r, int(n%500)), r)
	})
}

// A history of random changes keeps IDs unique, and each failing probe in exactly one incident.
func TestStepsKeepPartition(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		f, log, now := random(r, 60), new(incidents.Log), begin.Add(5*time.Hour)
		for range 60 {
			now = now.Add(time.Duration(r.IntN(400)) * time.Second)
			for range 1 + r.IntN(6) {
				p := &f[r.IntN(len(f))]
				to := states.Failure
				if fail(p) {
					to = states.Success
				}
				p.State, p.Since = to, now
			}
			log = f.step(log, now)
			checkPartition(t, f, log.All())
			ids := make(map[string]bool)
			ended := 0
			for _, n := range log.All() {
				if ids[n.ID] {
					t.Errorf("two incidents have the ID %s", n.ID)
				}
				if ids[n.ID] = true; !n.End.IsZero() {
					ended++
				}
			}
			if ended > incidents.MaxEnded {
				t.Errorf("%d ended incidents", ended)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func TestIncidentsAreBounded(t *testing.T) {
	f := fleet{}.add(2*incidents.MaxIncidents, "web", func(i int, p *incidents.Probe) {
		fails(probe.ReasonExecExit, "no "+string(rune('a'+i%26))+string(rune('a'+i/26)))(i, p)
	})
	found := f.find(begin.Add(time.Hour))
	checkPartition(t, f, found)
	if len(found) != incidents.MaxIncidents+1 || found[0].Cause != "other causes" || found[0].Failing != incidents.MaxIncidents {
		t.Errorf("%d incidents, the first is %q", len(found), summary(found[:1]))
	}
}

// recover makes the probes of pods with these numbers healthy.
func (f fleet) recover(from, to int) fleet {
	f = slices.Clone(f)
	for i := from; i < to; i++ {
		f[i].State = states.Success
	}
	return f
}

// follow makes steps, one a minute, and returns the log after each.
func follow(fleets ...fleet) (logs []*incidents.Log) {
	log := new(incidents.Log)
	for i, f := range fleets {
		log = f.step(log, begin.Add(time.Hour+time.Duration(i)*time.Minute))
		logs = append(logs, log)
	}
	return logs
}

func TestIncidentKeepsIdentity(t *testing.T) {
	down := fleet{}.add(10, "db", at("10.0.3.%d"), fails(probe.ReasonConnectRefused, refused))
	logs := follow(down.recover(3, 10), down, down.recover(0, 6), down.recover(0, 10))
	first := logs[0].All()[0]
	for i, want := range []string{
		"connection refused (3) first db-0", "connection refused from 10.0.3.0/24 (10) first db-0",
		"connection refused from 10.0.3.0/24 (4) first db-0", "ended connection refused from 10.0.3.0/24 (0) first db-0",
	} {
		n := logs[i].All()[0]
		if got := summary(logs[i].All()); len(got) != 1 || got[0] != want || n.ID != first.ID || !n.Start.Equal(first.Start) {
			t.Errorf("step %d: got %q of %s since %v, want %q of %s since %v", i, got, n.ID, n.Start, want, first.ID, first.Start)
		}
	}
	if n := logs[3].All()[0]; n.Peak != 10 || len(n.Parts) != 10 || !n.End.Equal(begin.Add(time.Hour+3*time.Minute)) {
		t.Errorf("ended at %v with %d parts and a peak of %d", n.End, len(n.Parts), n.Peak)
	}
}

func TestFlapperIsOneIncident(t *testing.T) {
	log := new(incidents.Log)
	var id string
	for i := range 20 {
		now := begin.Add(time.Duration(i) * 4 * time.Minute)
		f := fleet{}.add(1, "web", fails(probe.ReasonDeadline, "timed out"), late(now.Sub(begin)))
		log = f.recover(0, 1).step(f.step(log, now), now.Add(time.Minute))
		if n := log.All()[0]; len(log.All()) != 1 || id != "" && n.ID != id || !n.Start.Equal(begin) || len(n.Parts) != 1 {
			t.Fatalf("failure %d: %q of %s since %v", i, summary(log.All()), n.ID, n.Start)
		}
		id = log.All()[0].ID
	}
	again := begin.Add(20*4*time.Minute + incidents.Reopen)
	log = fleet{}.add(1, "web", fails(probe.ReasonDeadline, "timed out"), late(again.Sub(begin))).step(log, again)
	if got := log.All(); len(got) != 2 || got[0].ID == id || got[1].ID != id {
		t.Errorf("got %q", summary(got))
	}
}

// The pods of a roll fail one after the other, and those before recover.
func TestRollIsOneIncident(t *testing.T) {
	log := new(incidents.Log)
	for i := range 10 {
		f := fleet{}.add(10, "web", label("app", "web"), failsEach(time.Minute, probe.ReasonConnectRefused, refused))
		for k := range f {
			if k != i {
				f[k].State = states.Success
			}
		}
		log = f.step(log, begin.Add(time.Duration(i)*time.Minute))
		if got := summary(log.All()); len(got) != 1 || got[0] != "connection refused at shop/web-0 (1) first web-0" {
			t.Fatalf("pod %d: %q", i, got)
		}
	}
	if n := log.All()[0]; len(n.Parts) != 10 {
		t.Errorf("%d parts, want 10", len(n.Parts))
	}
}

// A failure stays in its incident when the reason of its attempts changes, and another failure begins one.
func TestChangedCauseStays(t *testing.T) {
	before := fleet{}.add(4, "web", fails(probe.ReasonConnectRefused, refused))
	after := fleet{}.add(4, "web", fails(probe.ReasonHTTPStatus, status+"503"))
	after = after.add(1, "other", fails(probe.ReasonHTTPStatus, status+"503"), late(time.Hour))
	logs := follow(before, after)
	want := []string{"connection refused (4) first web-0", "HTTP 503 at shop/other-0 (1) first other-0"}
	if got := summary(logs[1].All()); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Two incidents that turn out to be one continue as the larger one.
func TestIncidentsMerge(t *testing.T) {
	one := fleet{}.add(3, "a", at("10.0.3.%d"), fails(probe.ReasonConnectTimeout, timeout)).add(2, "b", at("10.0.3.1%d"), fails(probe.ReasonDeadline, "timed out"))
	two := slices.Concat(fleet{}.add(2, "ok", at("10.0.3.2%d")), one)
	logs := follow(two, one)
	before, after := logs[0].All(), logs[1].All()
	if len(before) != 2 || len(after) != 1 || after[0].ID != before[0].ID || after[0].Failing != 5 {
		t.Errorf("before %q, after %q", summary(before), summary(after))
	}
}

var nothing fleet

func TestEndedIncidentsAreForgotten(t *testing.T) {
	f := fleet{}.add(1, "web", fails(probe.ReasonDeadline, "timed out"))
	now := begin.Add(time.Hour)
	log := nothing.step(f.step(new(incidents.Log), now), now)
	if log = nothing.step(log, now.Add(incidents.Keep)); len(log.All()) != 1 || log.Open() {
		t.Errorf("got %q", summary(log.All()))
	}
	if log = nothing.step(log, now.Add(incidents.Keep+1)); len(log.All()) != 0 {
		t.Errorf("got %q", summary(log.All()))
	}
}

func TestWatchFollowsChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f atomic.Pointer[fleet]
		var calls atomic.Int32
		f.Store(new(fleet))
		w := incidents.NewWatch(func() ([]incidents.Probe, iter.Seq[*incidents.Probe]) {
			calls.Add(1)
			return f.Load().split()
		})
		go w.Run(t.Context())
		w.Changed(&states.Change{From: states.Success, To: states.Warning})
		time.Sleep(time.Hour)
		if n := calls.Load(); n != 0 {
			t.Errorf("%d steps without a failure", n)
		}
		f.Store(new(fleet{}.add(1, "web", fails(probe.ReasonDeadline, "timed out"))))
		for range 10 {
			w.Changed(&states.Change{From: states.Success, To: states.Failure})
		}
		synctest.Wait()
		if n := calls.Load(); !w.Log().Open() || n != 1 {
			t.Errorf("%d steps, open %v", n, w.Log().Open())
		}
		time.Sleep(time.Second)
		if n := calls.Load(); n > 2 {
			t.Errorf("%d steps within a second", n)
		}
		f.Store(new(fleet)) // such as a pause
		time.Sleep(time.Minute)
		if w.Log().Open() || len(w.Log().All()) != 1 {
			t.Errorf("got %q", summary(w.Log().All()))
		}
		before := calls.Load()
		time.Sleep(time.Hour)
		if n := calls.Load() - before; n != 0 {
			t.Errorf("%d steps without an open incident", n)
		}
	})
}

func BenchmarkStep(b *testing.B) {
	for _, c := range []struct{ failing, healthy int }{{1, 10_000}, {10_000, 0}, {10_000, 100_000}} {
		b.Run(fmt.Sprintf("failing=%d/healthy=%d", c.failing, c.healthy), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 1))
			f := fleet{}.add(c.healthy, "ok", func(i int, p *incidents.Probe) {
				p.Address = fmt.Sprintf("10.1.%d.%d", i/250%250, i%250)
				p.Labels = map[string]string{"app": fmt.Sprint("app", i%300), "env": "prod"}
			})
			f = f.add(c.failing, "web", func(i int, p *incidents.Probe) {
				fails([]probe.Reason{probe.ReasonConnectRefused, probe.ReasonDNS, probe.ReasonHTTPStatus}[r.IntN(3)], status+"503")(i/10, p)
				p.Address = fmt.Sprintf("10.0.%d.%d", i/250, i%250)
				p.Labels = map[string]string{"app": fmt.Sprint("app", i%300), "env": "prod"}
			})
			now := begin.Add(time.Hour)
			log := f.step(new(incidents.Log), now)
			b.ReportAllocs()
			for b.Loop() {
				log = f.step(log, now)
			}
		})
	}
}
