package access

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// Credentials of one network are refused maxTries times, and then once in triesEvery; those of
	// all networks together allTries times, and then once in allEvery.
	maxTries   = 10
	triesEvery = time.Second
	allTries   = 50
	allEvery   = 200 * time.Millisecond
	// maxNetworks is how many networks are known at once. Those that come then share the limit of
	// all networks.
	maxNetworks = 1024
	// maxAccepted is how many credentials are known to be good.
	maxAccepted = 256
)

// Throttle limits how often wrong credentials are tried. Checking a password takes a processor about
// 60 ms. Credentials that were accepted before are never refused, so that nobody can lock out their
// user. The zero value is ready to use, and safe for concurrent use.
type Throttle struct {
	mu       sync.Mutex
	networks map[netip.Prefix]bucket
	all      bucket
	accepted map[[sha256.Size]byte]struct{}
}

// bucket has the tries that are left. Its zero value is full.
type bucket struct {
	used int
	at   time.Time // when used was last brought up to date
}

// refill returns b as it is at a time: it gains a try in each interval.
func (b bucket) refill(now time.Time, interval time.Duration) bucket {
	gained := int(now.Sub(b.at) / interval)
	if b.used == 0 || gained >= b.used {
		return bucket{at: now}
	}
	return bucket{used: b.used - max(gained, 0), at: b.at.Add(time.Duration(max(gained, 0)) * interval)}
}

// Try reports whether credentials that come from an address may be checked now.
func (t *Throttle) Try(from, credentials string, now time.Time) bool {
	sum := sha256.Sum256([]byte(credentials))
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.accepted[sum]; ok {
		return true
	}
	network := networkOf(from)
	own, known := t.networks[network]
	own, t.all = own.refill(now, triesEvery), t.all.refill(now, allEvery)
	if own.used >= maxTries || t.all.used >= allTries {
		return false
	}
	t.all.used++
	if own.used++; known || t.roomLocked(now) {
		t.networks[network] = own
	}
	return true
}

// roomLocked reports whether another network can be known. It forgets those that have all tries left.
func (t *Throttle) roomLocked(now time.Time) bool {
	if t.networks == nil {
		t.networks = make(map[netip.Prefix]bucket)
	}
	if len(t.networks) >= maxNetworks {
		for network, b := range t.networks {
			if b.refill(now, triesEvery).used == 0 {
				delete(t.networks, network)
			}
		}
	}
	return len(t.networks) < maxNetworks
}

// Accept notes that credentials which were tried are good: the try does not count.
func (t *Throttle) Accept(from, credentials string) {
	sum := sha256.Sum256([]byte(credentials))
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.accepted[sum]; ok {
		return
	}
	if t.accepted == nil || len(t.accepted) >= maxAccepted {
		t.accepted = make(map[[sha256.Size]byte]struct{})
	}
	t.accepted[sum] = struct{}{}
	t.all.used = max(t.all.used-1, 0)
	if own, ok := t.networks[networkOf(from)]; ok {
		own.used = max(own.used-1, 0)
		t.networks[networkOf(from)] = own
	}
}

// networkOf returns the network of an address: of IPv6 the /64, which one host can have for itself.
func networkOf(from string) netip.Prefix {
	addr, err := netip.ParseAddr(from)
	if err != nil {
		return netip.Prefix{}
	}
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, _ := addr.Prefix(bits) // the length is right
	return network
}

// passwordOf returns the name and the password of r as they are sent; "" if it has none.
func passwordOf(r *http.Request) string {
	credentials := r.Header.Get("Authorization")
	if scheme, _, _ := strings.Cut(credentials, " "); !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	return credentials
}

// CheckRate returns why the name and the password of r are not checked now; nil if they are, or if
// there are no users, so that nothing checks them. It is for requests that the server of [Web] has not seen yet; [Guard.Check] is for the others.
func (g *Guard) CheckRate(r *http.Request) (Caller, *Refusal) {
	caller := Caller{From: remoteIP(r)}
	password := passwordOf(r)
	if password == "" {
		return caller, nil
	}
	if checks, err := g.Web.hasUsers(); err == nil && !checks {
		return caller, nil
	}
	if !g.throttle.Try(caller.From, password, time.Now()) {
		return caller, tooMany()
	}
	return caller, nil
}

func tooMany() *Refusal {
	return &Refusal{http.StatusTooManyRequests, TooMany, "too many wrong credentials; try again later", nil}
}
