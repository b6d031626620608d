package access

import (
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/pace"
)

var (
	perNetwork = pace.Rate{Burst: 10, Every: time.Second}            // refused credentials of one network
	together   = pace.Rate{Burst: 50, Every: 200 * time.Millisecond} // and of all networks
)

const (
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
	networks map[netip.Prefix]pace.Bucket
	all      pace.Bucket
	accepted map[[sha256.Size]byte]struct{}
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
	if own.Next(perNetwork).After(now) || t.all.Next(together).After(now) {
		return false
	}
	t.all = t.all.Take(together, now)
	if known || t.roomLocked(now) {
		t.networks[network] = own.Take(perNetwork, now)
	}
	return true
}

// roomLocked reports whether another network can be known. It forgets those that have all tries left.
func (t *Throttle) roomLocked(now time.Time) bool {
	if t.networks == nil {
		t.networks = make(map[netip.Prefix]pace.Bucket)
	}
	if len(t.networks) >= maxNetworks {
		for network, b := range t.networks {
			if b.Full(now) {
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
	t.all = t.all.Return(together)
	if own, ok := t.networks[networkOf(from)]; ok {
		t.networks[networkOf(from)] = own.Return(perNetwork)
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
