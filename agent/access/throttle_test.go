package access_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/daeace23/prober/agent/access"
)

// tries returns how many of n wrong credentials from an address are checked.
func tries(t *access.Throttle, from string, n int, now time.Time) (checked int) {
	for i := range n {
		if t.Try(from, fmt.Sprint("wrong", i, now), now) {
			checked++
		}
	}
	return checked
}

func TestThrottleLimitsEachNetwork(t *testing.T) {
	var throttle access.Throttle
	start := time.Unix(1e9, 0)
	for _, c := range []struct {
		name, from string
		after      time.Duration
		want       int
	}{
		{"the first", "192.0.2.1", 0, 10},
		{"at once", "192.0.2.1", 0, 0},
		{"another", "192.0.2.2", 0, 10},
		{"another, as IPv6", "::ffff:192.0.2.2", 0, 0},
		{"IPv6", "2001:db8::1", 0, 10},
		{"a neighbour", "2001:db8::2", 0, 0},
		{"with a zone", "fe80::1%eth0", 0, 10},
		{"before a second", "192.0.2.1", 999 * time.Millisecond, 0},
		{"after a second", "192.0.2.1", time.Second, 1},
		{"once more", "192.0.2.1", 1999 * time.Millisecond, 0},
		{"after two", "192.0.2.1", 2 * time.Second, 1},
		{"after a day", "192.0.2.1", 24 * time.Hour, 10},
		{"no address", "@", 24 * time.Hour, 10},
	} {
		if got := tries(&throttle, c.from, 1000, start.Add(c.after)); got != c.want {
			t.Errorf("%s: %d were checked, want %d", c.name, got, c.want)
		}
	}
}

func TestThrottleLimitsAllNetworks(t *testing.T) {
	var throttle access.Throttle
	start, checked := time.Unix(1e9, 0), 0
	for i := range 5000 {
		checked += tries(&throttle, fmt.Sprintf("10.0.%d.%d", i/250, i%250), 1, start)
	}
	if checked != 50 {
		t.Errorf("%d were checked, want 50", checked)
	}
	if got := tries(&throttle, "192.0.2.1", 100, start.Add(time.Second)); got != 5 {
		t.Errorf("a second later %d were checked, want 5", got)
	}
}

// A caller that was accepted once is never refused because of others.
func TestThrottleLetsAcceptedCredentialsIn(t *testing.T) {
	var throttle access.Throttle
	now := time.Unix(1e9, 0)
	if !throttle.Try("192.0.2.1", "good", now) {
		t.Fatal("the first is refused")
	}
	throttle.Accept("192.0.2.1", "good")
	if got := tries(&throttle, "192.0.2.1", 100, now); got != 10 {
		t.Errorf("%d were checked, want 10: the good one does not count", got)
	}
	if !throttle.Try("192.0.2.1", "good", now) {
		t.Error("the good one is refused")
	}
	for i := range 1000 { // the number of accepted credentials is limited
		throttle.Accept("192.0.2.1", fmt.Sprint(i))
	}
	if throttle.Try("192.0.2.9", "good", now.Add(-time.Hour)) != true {
		t.Error("another network is refused")
	}
}
