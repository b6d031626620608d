package stream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/agent/events"
	"github.com/daeace23/prober/agent/stream"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
)

// The test makes random changes, with readers of different speeds that are added and removed. Each reader
// must end with exactly the present objects in their newest versions. A client checks the order of versions.
func TestReadersEndWithPresentState(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				w := newWorld()
				w.run(t)
				readers := make(map[*client]func() error)
				for range 3000 {
					w.change(random)
					if random.IntN(50) == 0 {
						c := newClient(t)
						c.delay = time.Duration(random.IntN(4)) * 300 * time.Millisecond
						readers[c] = c.read(w.hub)
					}
					if len(readers) > 0 && random.IntN(60) == 0 {
						for c, leave := range readers {
							delete(readers, c)
							if err := leave(); !errors.Is(err, context.Canceled) {
								t.Errorf("a reader ended with %v", err)
							}
							break
						}
					}
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				}
				time.Sleep(time.Minute)
				if len(readers) == 0 {
					t.Fatal("there are no readers")
				}
				for c, leave := range readers {
					if diff := cmp.Diff(w.numbers(), c.state()); diff != "" {
						t.Errorf("a reader with a delay of %s (-want +got): %s", c.delay, diff)
					}
					_ = leave()
				}
			})
		})
	}
}

// change makes one random change.
func (w *world) change(random *rand.Rand) {
	uid := types.UID(fmt.Sprint(random.IntN(8)))
	w.mu.Lock()
	keys := slices.SortedFunc(maps.Keys(w.probes), func(a, b manager.Key) int {
		return slices.Compare([]string{string(a.PodUID), a.Container}, []string{string(b.PodUID), b.Container})
	})
	_, there := w.pods[uid]
	w.mu.Unlock()
	one := func() manager.Key { return keys[random.IntN(len(keys))] }
	switch n := random.IntN(20); {
	case n < 3:
		if k := key(string(uid), fmt.Sprint(random.IntN(20))); !slices.Contains(keys, k) {
			w.add(k)
		}
	case n < 5:
		w.setPod(uid, !there || random.IntN(3) > 0)
	case n < 7:
		w.happen(fmt.Sprint("Reason", random.IntN(2*events.Max)))
	case len(keys) == 0:
	case n < 8:
		w.remove(one())
	case n < 10:
		w.act(one())
	default:
		w.tick(one())
	}
}

// All objects change all the time. A reader that needs six pages for them, with two seconds per page,
// receives every object in each round.
func TestSlowReaderReceivesEveryObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		const probes, changes = 500, 150
		for i := range probes {
			w.add(key("u", fmt.Sprint(i)))
		}
		c := newClient(t)
		c.delay = 2 * time.Second
		leave := c.read(w.hub)
		for range changes {
			for i := range probes {
				w.tick(key("u", fmt.Sprint(i)))
			}
			time.Sleep(200 * time.Millisecond)
		}
		_ = leave()
		oldest := w.last
		for _, number := range c.known {
			oldest = min(oldest, number)
		}
		if age := (w.last - oldest) / probes / 5; len(c.known) != probes || age > 15 {
			t.Errorf("%d probes of %d, the oldest is %d s old", len(c.known), probes, age)
		}
		if c.received > probes*changes/10 {
			t.Errorf("received %d versions of %d", c.received, probes*changes)
		}
	})
}

// The last reader leaves while a probe is marked, at every point of an update.
func TestReaderAfterAllHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		w.add(key("u", "a"))
		w.add(key("u", "b"))
		for moment := range 30 {
			first := newClient(t)
			leave := first.read(w.hub)
			time.Sleep(250 * time.Millisecond)
			w.tick(key("u", "a"))
			time.Sleep(time.Duration(moment) * 5 * time.Millisecond)
			w.tick(key("u", "a"))
			_ = leave()
			w.tick(key("u", "a"))
			second := newClient(t)
			leave = second.read(w.hub)
			for range 3 {
				time.Sleep(250 * time.Millisecond)
				if diff := cmp.Diff(w.numbers(), second.state()); diff != "" {
					t.Errorf("moment %d: %s", moment, diff)
				}
				w.tick(key("u", "b"))
			}
			_ = leave()
		}
	})
}

func TestUpdateIsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		w.add(key("u", "a"))
		c := newClient(t)
		leave := c.read(w.hub)
		defer leave()
		for range 100 {
			time.Sleep(37 * time.Millisecond)
			w.tick(key("u", "a"))
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, at := range c.writes[1:] {
			if d := at.Sub(c.writes[i]); d < 100*time.Millisecond || d > 140*time.Millisecond {
				t.Errorf("an update after %s, want 100 ms to 140 ms", d)
			}
		}
		if len(c.writes) < 30 {
			t.Errorf("%d updates in 3.7 s", len(c.writes))
		}
	})
}

// TestManyChangesAreInTime changes all probes all the time, so that an update takes a second.
func TestManyChangesAreInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.slow = time.Millisecond
		w.run(t)
		for i := range 1000 {
			w.add(key("u", fmt.Sprint(i)))
		}
		c := newClient(t)
		leave := c.read(w.hub)
		defer leave()
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			for i := range 1000 {
				w.tick(key("u", fmt.Sprint(i)))
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		const chunk = 128 * time.Millisecond
		for i, at := range c.writes[1:] {
			if d := at.Sub(c.writes[i]); d > 250*time.Millisecond+chunk {
				t.Errorf("nothing was sent for %s", d)
			}
		}
		if len(c.writes) < 60 {
			t.Errorf("%d updates in 10 s", len(c.writes))
		}
	})
}

func TestHubFindsPodsByName(t *testing.T) {
	hub := stream.New()
	observe := func(uid, name, container string) worker.ProbeObserver {
		return hub.Observe(worker.Info{Subject: results.Subject{Namespace: "ns-" + uid, Pod: name, PodUID: uid, Container: container}})
	}
	web, db, other := observe("1", "shop", "web"), observe("1", "shop", "db"), observe("2", "other", "web")
	second, third := observe("3", "shop", "web"), observe("4", "shop", "web")
	for i, step := range []struct {
		ends worker.ProbeObserver
		want []types.UID
	}{
		{nil, []types.UID{"1", "3", "4"}}, {other, []types.UID{"1", "3", "4"}}, {second, []types.UID{"1", "4"}},
		{web, []types.UID{"1", "4"}}, {third, []types.UID{"1"}}, {db, nil},
	} {
		if step.ends != nil {
			step.ends.Close()
		}
		if got := slices.Sorted(slices.Values(hub.Pods("shop"))); !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

func TestDeadReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		w.add(key("u", "a"))
		dead, alive := newClient(t), newClient(t)
		dead.dead = true
		leave := alive.read(w.hub)
		defer leave()
		reader := w.hub.Attach(stream.Full)
		defer reader.Close()
		start := time.Now()
		if err := reader.Serve(t.Context(), dead); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 10*time.Second {
			t.Errorf("ended after %s with %v", time.Since(start), err)
		}
		w.tick(key("u", "a"))
		time.Sleep(time.Second)
		if diff := cmp.Diff(w.numbers(), alive.state()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestIdleReaderReceivesHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		c := newClient(t)
		leave := c.read(w.hub)
		time.Sleep(time.Minute + time.Second)
		if err := leave(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if len(c.writes) != 4 || !c.deadline.IsZero() {
			t.Errorf("%d heartbeats in a minute, the deadline is %s", len(c.writes), c.deadline)
		}
	})
}

// Objects that are created and removed faster than a reader reads do not accumulate.
func TestLateReaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		late, fast := newClient(t), newClient(t)
		late.delay = 9 * time.Second
		reader := w.hub.Attach(stream.Full)
		defer reader.Close()
		ended := make(chan error, 1)
		go func() { ended <- reader.Serve(t.Context(), late) }()
		leave := fast.read(w.hub)
		defer leave()
		for i := range 1000 {
			var keys []manager.Key
			for n := range 10 {
				keys = append(keys, key(fmt.Sprint(i), fmt.Sprint(n)))
				w.add(keys[n])
			}
			time.Sleep(150 * time.Millisecond) // until they are encoded
			for _, k := range keys {
				w.remove(k)
			}
		}
		select {
		case err := <-ended:
			if !errors.Is(err, stream.ErrBehind) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("a reader that is late is not cut off")
		}
		time.Sleep(time.Second)
		if got := fast.state(); len(got) != 0 {
			t.Errorf("the other reader has %v", got)
		}
	})
}

func TestMassRemovalCutsOffNoReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		var keys []manager.Key
		for i := range 5000 {
			keys = append(keys, key(fmt.Sprint(i), "a"))
			w.add(keys[i])
		}
		c := newClient(t)
		c.delay = time.Second
		leave := c.read(w.hub)
		time.Sleep(5 * time.Minute)
		for _, k := range keys {
			w.remove(k)
		}
		time.Sleep(5 * time.Minute)
		if err := leave(); !errors.Is(err, context.Canceled) || len(c.known) != 0 {
			t.Errorf("%v, %d objects are left", err, len(c.known))
		}
	})
}

func TestEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		first := newClient(t)
		leave := first.read(w.hub)
		defer leave()
		for i := range 3 * events.Max {
			w.happen(fmt.Sprint(i))
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		time.Sleep(time.Second)
		c := newClient(t)
		leave2 := c.read(w.hub)
		defer leave2()
		time.Sleep(time.Second)
		if diff := cmp.Diff(w.numbers(), c.state()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.run(t)
		c := newClient(t)
		c.keep = true
		leave := c.read(w.hub)
		w.add(key("u", "web"))
		time.Sleep(time.Second)
		w.remove(key("u", "web"))
		time.Sleep(time.Second)
		_ = leave()
		const rest = `"namespace":"ns","pod":"pod-u","uid":"u","container":"web","containerID":"","kind":"readiness","handler":"exec",` +
			`"result":%q,"run":%d,"onHold":false,"paused":false,` +
			`"spec":{"initialDelay":"","period":"","timeout":"","successThreshold":0,"failureThreshold":0},"last":null,"history":null`
		want := []string{"event: probe\ndata: {" + fmt.Sprintf(rest, "success", 1) + "}", "event: probe\ndata: {" + fmt.Sprintf(rest, "unknown", 0) + `,"removed":true}`}
		if diff := cmp.Diff(want, c.frames); diff != "" {
			t.Error(diff)
		}
	})
}
