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
	perNetwork  = pace.Rate{Burst: 10, Every: time.Second}            // wrong credentials from one network
	allNetworks = pace.Rate{Burst: 50, Every: 200 * time.Millisecond} // and from all networks
)

const (
	// maxNetworks limits the networks in the table. Further networks only share the limit of all networks.
	maxNetworks = 1024
	// maxAccepted is the limit of credentials that are known to be right.
	maxAccepted = 256
)

// Throttle limits attempts with wrong credentials, as checking a password takes about 60 ms of processor
// time. Credentials that were accepted before are never refused, so that nobody can lock out their user. The
// zero value is ready to use, and safe for concurrent use.
type Throttle struct {
	mu       sync.Mutex
	networks map[netip.Prefix]pace.Bucket
	all      pace.Bucket
	accepted map[[sha256.Size]byte]struct{}
}

// Try reports whether credentials from an address may be checked now.
func (t *Throttle) Try(from, credentials string, now time.Time) bool {
	sum := sha256.Sum256([]byte(credentials))
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.accepted[sum]; ok {
		return true
	}
	network := networkOf(from)
	own, known := t.networks[network]
	if own.Next(perNetwork).After(now) || t.all.Next(allNetworks).After(now) {
		return false
	}
	t.all = t.all.Take(allNetworks, now)
	if known || t.roomLocked(now) {
		t.networks[network] = own.Take(perNetwork, now)
	}
	return true
}

// roomLocked reports whether the table has room for a network. It removes networks without recent attempts.
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

// Accept records that credentials passed to Try are right. The attempt does not count.
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
	t.all = t.all.Return(allNetworks)
	if own, ok := t.networks[networkOf(from)]; ok {
		t.networks[networkOf(from)] = own.Return(perNetwork)
	}
}

// networkOf returns the network of an address. For IPv6 it is the /64, which a single host may own.
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
	network, _ := addr.Prefix(bits) // the length is valid
	return network
}

// passwordOf returns the basic authentication credentials of r as sent; "" if it has none.
func passwordOf(r *http.Request) string {
	credentials := r.Header.Get("Authorization")
	if scheme, _, _ := strings.Cut(credentials, " "); !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	return credentials
}

// CheckRate returns why the password of r is not checked now; nil if it is, or if there are no users. It is
// for requests that the server of [Web] has not seen yet; [Guard.Check] is for the others.
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
