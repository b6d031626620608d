package wasm_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// TestDenialsHoldForEveryCapability dials a denied target by its name, its address and other
// names.
func TestDenialsHoldForEveryCapability(t *testing.T) {
	w := &wire{names: map[string][]string{
		"db.internal": {"10.0.0.7", "fd00::7"}, "db.internal.": {"10.0.0.7", "fd00::7"},
		"db": {"10.0.0.7"}, "alias.example": {"10.0.0.7"}, "mapped.example": {"::ffff:10.0.0.7"},
		"alias.example.": {"10.0.0.7"}, "translated.example": {"64:ff9b::a00:7"}, "other.internal": {"10.0.0.8"},
		"half.example": {"10.0.0.7", "10.0.0.8"},
	}}
	h := w.host(t)
	named, literal := probe.Target{Host: "db.internal", Port: 22}, probe.Target{Host: "10.0.0.7", Port: 22}
	elsewhere := probe.Target{Host: "10.9.9.9", Port: 80}
	wide := []string{"tcp://*:*", "tcp://0.0.0.0/0:*", "tcp://[::/0]:*"}
	for _, c := range []struct {
		name   string
		target probe.Target
		url    string
		grants []string
		want   []string // dialled
	}{
		{"target by name", named, "", []string{"!tcp://db.internal:22"}, nil},
		{"target by name, dialled by address", named, "tcp://10.0.0.7:22", []string{"!tcp://db.internal:22"}, nil},
		{"target by name, dialled by its other address", named, "tcp://[fd00::7]:22", []string{"!tcp://db.internal:22"}, nil},
		{"target by name, dialled by address, mapped", named, "tcp://[::ffff:10.0.0.7]:22", []string{"!tcp://db.internal:22"}, nil},
		{"target by name, dialled by address, over tls", named, "tls://10.0.0.7:22", []string{"!tcp://db.internal:22"}, nil},
		{"target below a denied name, dialled by address", named, "tcp://10.0.0.7:22", []string{"!tcp://*.internal:22"}, nil},
		{"target below a denied name, dialled by an address that is granted", named, "tcp://10.0.0.7:22", append(slices.Clone(wide), "!tcp://*.internal:22"), nil},
		{"target below a denied name, at another port", named, "tcp://10.0.0.7:23", append(slices.Clone(wide), "!tcp://*.internal:23"), nil},
		{"target by name, denied by address", named, "", []string{"!10.0.0.0/8", "!fd00::7"}, nil},
		{"target by name, one address denied", named, "", []string{"!10.0.0.0/8"}, []string{"tcp [fd00::7]:22"}},
		{"target by name, another port denied", named, "", []string{"!tcp://db.internal:23"}, []string{"tcp 10.0.0.7:22", "tcp [fd00::7]:22"}},
		{"target by name, another scheme denied", named, "tcp://10.0.0.7:22", []string{"!udp://db.internal:22"}, []string{"tcp 10.0.0.7:22"}},
		{"target by address, denied by name", literal, "", []string{"!tcp://db.internal:22"}, nil},
		{"target by address, denied by another name", literal, "", []string{"!tcp://other.internal:22"}, []string{"tcp 10.0.0.7:22"}},
		{"granted address, denied by name", elsewhere, "tcp://10.0.0.7:22", append(slices.Clone(wide), "!tcp://db.internal:22"), nil},
		{"granted address, denied by a name without a port", elsewhere, "tcp://10.0.0.7:22", append(slices.Clone(wide), "!db.internal"), nil},
		{"granted address, translated", elsewhere, "tcp://[64:ff9b::a00:7]:22", append(slices.Clone(wide), "!db.internal"), nil},
		{"granted address of another name", elsewhere, "tcp://10.0.0.8:22", append(slices.Clone(wide), "!db.internal"), []string{"tcp 10.0.0.8:22"}},
		{"granted address, denied name does not exist", elsewhere, "tcp://10.0.0.8:22", append(slices.Clone(wide), "!nowhere.internal"), []string{"tcp 10.0.0.8:22"}},
		{"alias of a denied name", elsewhere, "tcp://alias.example:22", append(slices.Clone(wide), "!tcp://db.internal:22"), nil},
		{"alias of a denied name, one address of two", elsewhere, "tcp://half.example:22", append(slices.Clone(wide), "!tcp://db.internal:22"), []string{"tcp 10.0.0.8:22"}},
		{"alias of a denied name, mapped", elsewhere, "tcp://mapped.example:22", append(slices.Clone(wide), "!tcp://db.internal:22"), nil},
		{"alias of a denied name, translated", elsewhere, "tcp://translated.example:22", append(slices.Clone(wide), "!tcp://db.internal:22"), nil},
		{"search domain completes to a denied name", elsewhere, "tcp://db:22", append(slices.Clone(wide), "!tcp://db.internal:22"), nil},
		{"search domain completes to a name below a denied one", elsewhere, "tcp://db:22", append(slices.Clone(wide), "!tcp://*.internal:22"), nil},
		{"no search domain at another port", elsewhere, "tcp://db:23", append(slices.Clone(wide), "!tcp://*.internal:22"), []string{"tcp 10.0.0.7:23"}},
		{"full name beside a denial of names below another", elsewhere, "tcp://alias.example:22", append(slices.Clone(wide), "!tcp://*.internal:22"), []string{"tcp 10.0.0.7:22"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.dialed, w.lookedUp = nil, nil
			p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), grants(t, c.grants...)...)
			got, err := attempt(t, bind(t, p, dialling(t, c.url), c.target), probe.Request{Target: c.target, PodIP: "10.9.9.9"}, 5*time.Second)
			if denied := got.Reason == probe.ReasonDenied; err != nil || got.Result != probe.Failure || denied && c.want != nil {
				t.Errorf("got %+v, %v", got, err)
			}
			if diff := cmp.Diff(c.want, w.dialed); diff != "" {
				t.Errorf("%s: %s", got.Output, diff)
			}
		})
	}
}

func TestDeniedNamesAreNotLookedUp(t *testing.T) {
	w := &wire{}
	target := probe.Target{Host: "10.9.9.9", Port: 80}
	p := loadAs(t, w.host(t), "dialurl", asking("dialurl", everywhere()), grants(t, "tcp://*:80", "!tcp://*.evil.example:80")...)
	b := bind(t, p, dialling(t, "tcp://secret.evil.example:80"), target)
	if got, err := attempt(t, b, probe.Request{Target: target}, 5*time.Second); err != nil || got.Reason != probe.ReasonDenied || w.lookedUp != nil {
		t.Errorf("got %+v, %v, looked up %q", got, err, w.lookedUp)
	}
}

// TestDeniedNameWithoutDNS denies a name whose look-ups start to fail.
func TestDeniedNameWithoutDNS(t *testing.T) {
	var lookups, dials atomic.Int32
	var away atomic.Bool
	clock := &steppedClock{}
	h := hostWith(t, wasm.Config{
		Clock: clock,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errors.New("the wire is cut")
		},
		LookupIP: func(ctx context.Context, name string) ([]netip.Addr, error) {
			lookups.Add(1)
			if away.Load() {
				return nil, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
			}
			return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
		},
	})
	target := probe.Target{Host: "10.9.9.9", Port: 22}
	try := func(url string, granted ...string) probe.Outcome {
		t.Helper()
		p := loadAs(t, h, "dialurl", asking("dialurl", everywhere()), grants(t, append(granted, "tcp://0.0.0.0/0:*")...)...)
		got, err := attempt(t, bind(t, p, dialling(t, url), target), probe.Request{Target: target}, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for range 3 {
		if got := try("tcp://10.0.0.7:22", "!tcp://db.internal:22"); got.Reason != probe.ReasonDenied {
			t.Errorf("got %+v, want a denial", got)
		}
	}
	if n := lookups.Load(); n != 1 {
		t.Errorf("%d look-ups within a moment, want 1", n)
	}
	away.Store(true)
	clock.step(time.Minute)
	if got := try("tcp://10.0.0.7:22", "!tcp://db.internal:22"); got.Reason != probe.ReasonDenied || lookups.Load() != 2 {
		t.Errorf("got %+v after %d look-ups, want what was known before", got, lookups.Load())
	}
	if got := try("", "!tcp://db.internal:22"); got.Reason == probe.ReasonDenied || dials.Load() != 1 {
		t.Errorf("got %+v after %d dials, want the target to be dialled", got, dials.Load())
	}
	if got := try("tcp://10.0.0.8:22", "!tcp://never.internal:22"); got.Reason != probe.ReasonDNS || dials.Load() != 1 {
		t.Errorf("got %+v after %d dials, want no dial while the denied addresses are not known", got, dials.Load())
	}
	before := lookups.Load()
	if got := try("tcp://10.0.0.8:23", "!tcp://never.internal:22"); got.Reason == probe.ReasonDNS || lookups.Load() != before {
		t.Errorf("got %+v, want no look-up for another port", got)
	}
}

// steppedClock is the system's clock with an offset.
type steppedClock struct{ by atomic.Int64 }

func (c *steppedClock) step(d time.Duration) { c.by.Add(int64(d)) }

func (c *steppedClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

func (c *steppedClock) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-wake:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func (c *steppedClock) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}
