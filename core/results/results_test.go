package results_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/probe"
)

// lookup is the result of Get for one container.
type lookup struct {
	Result results.Result
	OK     bool
}

func get(c *results.Cache, id string) lookup {
	r, ok := c.Get(id)
	return lookup{r, ok}
}

func TestCache(t *testing.T) {
	t.Run("#89 get, set and remove", func(t *testing.T) {
		c := results.New(probe.Liveness)
		if _, ok := c.Get("unset"); ok {
			t.Error("a container that was never set is found")
		}
		c.Set("a", results.Success, &pod, results.Cause{})
		if got, want := get(c, "a"), (lookup{results.Success, true}); got != want {
			t.Errorf("after Set: %v, want %v", got, want)
		}
		c.Set("a", results.Failure, &pod, results.Cause{})
		if got, want := get(c, "a"), (lookup{results.Failure, true}); got != want {
			t.Errorf("after a second Set: %v, want %v", got, want)
		}
		c.Remove("a")
		if _, ok := c.Get("a"); ok {
			t.Error("a removed container is found")
		}
	})
	t.Run("Set reports whether the result has changed", func(t *testing.T) {
		c := results.New(probe.Startup)
		for i, want := range []bool{true, false, true} {
			r := []results.Result{results.Unknown, results.Unknown, results.Success}[i]
			if got := c.Set("a", r, &pod, results.Cause{}); got != want {
				t.Errorf("Set %d of %v: changed %v, want %v", i+1, r, got, want)
			}
		}
	})
	t.Run("Kind returns the kind of the cache", func(t *testing.T) {
		for _, kind := range probe.Kinds {
			if got := results.New(kind).Kind(); got != kind {
				t.Errorf("Kind is %v, want %v", got, kind)
			}
		}
	})
}

func TestUpdates(t *testing.T) {
	for _, first := range []results.Result{results.Success, results.Failure} {
		t.Run("#90 first result is an update: "+first.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *results.Cache) {
				c.Set("id", first, &pod, results.Cause{})
				want := []results.Update{{Kind: probe.Readiness, ContainerID: "id", Result: first, Subject: pod}}
				if diff := cmp.Diff(want, read(c.Updates()), untimed); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
	t.Run("#91 same result is no update", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *results.Cache) {
			c.Set("id", results.Success, &pod, results.Cause{})
			read(c.Updates())
			c.Set("id", results.Success, &pod, results.Cause{})
			if got := read(c.Updates()); len(got) > 0 {
				t.Errorf("got %v", got)
			}
		})
	})
	t.Run("#92 another result is an update", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *results.Cache) {
			c.Set("id", results.Success, &pod, results.Cause{})
			read(c.Updates())
			c.Set("id", results.Failure, &pod, results.Cause{})
			want := []results.Update{{Kind: probe.Readiness, ContainerID: "id", Result: results.Failure, Subject: pod}}
			if diff := cmp.Diff(want, read(c.Updates()), untimed); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("unread updates are merged into the newest", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *results.Cache) {
			updates := c.Updates()
			for _, r := range []results.Result{results.Success, results.Failure, results.Success, results.Failure} {
				c.Set("a", r, &pod, results.Cause{})
				c.Set("b", results.Success, &pod, results.Cause{})
				synctest.Wait()
			}
			want := []results.Update{
				{Kind: probe.Readiness, ContainerID: "a", Result: results.Failure, Subject: pod},
				{Kind: probe.Readiness, ContainerID: "b", Result: results.Success, Subject: pod},
			}
			if diff := cmp.Diff(want, read(updates), untimed); diff != "" {
				t.Error(diff)
			}
		})
	})
}

// untimed compares updates without their times.
var untimed = cmpopts.IgnoreFields(results.Update{}, "Time")

func TestUpdateTimeAndOutput(t *testing.T) {
	bubble(t, func(t *testing.T, c *results.Cache) {
		start := time.Now()
		updates := c.Updates()
		long := strings.Repeat("x", results.MaxOutput-1) + "é"
		c.Set("a", results.Failure, &pod, results.Cause{Reason: "http_status", Output: long})
		time.Sleep(time.Minute)
		c.Set("a", results.Failure, &pod, results.Cause{Output: "not a change"})
		time.Sleep(time.Minute)
		c.Remove("a")
		want := results.Update{
			Kind: probe.Readiness, ContainerID: "a", Result: results.Failure, Subject: pod, Time: start,
			Cause: results.Cause{Reason: "http_status", Output: long[:results.MaxOutput-1]},
		}
		gone := want
		gone.Removed = true
		if diff := cmp.Diff([]results.Update{want, gone}, read(updates)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUpdatesChannel(t *testing.T) {
	t.Run("Remove keeps an unread result, and then sends Removed", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *results.Cache) {
			updates := c.Updates()
			c.Set("a", results.Success, &pod, results.Cause{})
			c.Set("a", results.Failure, &pod, results.Cause{Reason: results.NotRunning})
			synctest.Wait()
			c.Remove("a")
			last := results.Update{Kind: probe.Readiness, ContainerID: "a", Result: results.Failure, Cause: results.Cause{Reason: results.NotRunning}, Subject: pod}
			gone := last
			gone.Removed = true
			if diff := cmp.Diff([]results.Update{last, gone}, read(updates), untimed); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("Remove of a result that was read sends only Removed", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *results.Cache) {
			updates := c.Updates()
			c.Set("a", results.Failure, &pod, results.Cause{})
			read(updates)
			c.Remove("a")
			c.Remove("a") // nothing left to remove
			want := []results.Update{{Kind: probe.Readiness, ContainerID: "a", Result: results.Failure, Removed: true, Subject: pod}}
			if diff := cmp.Diff(want, read(updates), untimed); diff != "" {
				t.Error(diff)
			}
		})
	})
	t.Run("channel begins with the results in the cache, and is always the same", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *results.Cache) {
			c.Set("a", results.Success, &pod, results.Cause{})
			updates := c.Updates()
			if updates != c.Updates() {
				t.Error("a second call returned another channel")
			}
			if got := read(updates); len(got) != 1 {
				t.Errorf("got %v, want one update", got)
			}
		})
	})
	t.Run("Close closes only the channel", func(t *testing.T) {
		bubble(t, func(t *testing.T, c *results.Cache) {
			updates := c.Updates()
			c.Set("a", results.Success, &pod, results.Cause{})
			c.Close()
			for range updates { // an update that was already sent may still come
			}
			c.Set("a", results.Failure, &pod, results.Cause{})
			if got, want := get(c, "a"), (lookup{results.Failure, true}); got != want {
				t.Errorf("after Close: %v, want %v", got, want)
			}
			c.Close()
		})
	})
	t.Run("Updates after Close returns a closed channel", func(t *testing.T) {
		c := results.New(probe.Liveness)
		c.Close()
		if _, open := <-c.Updates(); open {
			t.Error("the channel is open")
		}
	})
}

func TestResult(t *testing.T) {
	for r, want := range map[results.Result]struct {
		text, word, json string
		number           float64
	}{
		results.Success:     {"Success", "success", `"success"`, 0},
		results.Failure:     {"Failure", "failure", `"failure"`, 1},
		results.Unknown:     {"UNKNOWN", "unknown", `"unknown"`, -1},
		results.Result(99):  {"UNKNOWN", "unknown", `"unknown"`, -1},
		results.Result(-99): {"UNKNOWN", "unknown", `"unknown"`, -1},
	} {
		t.Run("#93 number for metrics of "+want.text, func(t *testing.T) {
			if got := r.ToPrometheusType(); got != want.number {
				t.Errorf("got %v, want %v", got, want.number)
			}
		})
		t.Run("#94 text of "+want.text, func(t *testing.T) {
			if got := r.String(); got != want.text {
				t.Errorf("String: got %q, want %q", got, want.text)
			}
			if got := r.Word(); got != want.word {
				t.Errorf("Word: got %q, want %q", got, want.word)
			}
			if got, err := json.Marshal(r); err != nil || string(got) != want.json {
				t.Errorf("JSON: got %s, %v, want %s", got, err, want.json)
			}
		})
	}
}

// bubble runs test with an empty cache in a synctest bubble.
func bubble(t *testing.T, test func(*testing.T, *results.Cache)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := results.New(probe.Readiness)
		t.Cleanup(c.Close)
		test(t, c)
	})
}

// read returns the updates that can be read without waiting.
func read(updates <-chan results.Update) (all []results.Update) {
	for {
		select {
		case u := <-updates:
			all = append(all, u)
		case <-time.After(time.Millisecond): // in a bubble: when all goroutines are blocked
			return all
		}
	}
}

// A zero result, which was never decided, is not a success.
func TestZeroResultIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, c *results.Cache) {
		absent, _ := c.Get("no such container")
		for from, r := range map[string]results.Result{
			"Result": *new(results.Result), "Update": results.Update{}.Result, "Get": absent, "map": map[string]results.Result{}["x"],
		} {
			if r != results.Unknown || r.Word() != "unknown" {
				t.Errorf("%s: got %v", from, r)
			}
		}
	})
}
