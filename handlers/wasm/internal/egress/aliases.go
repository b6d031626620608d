package egress

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/daeace23/prober/internal/netaddr"
)

const (
	knownFor       = 5 * time.Second        // then a name is looked up again
	knownUnused    = time.Hour              // then a name that was not used is dropped
	refreshTimeout = 250 * time.Millisecond // of looking up a known name again
)

// knownNames caches the addresses of denied names.
// See RATIONALE.md, "Why does a denial by name look the name up?"
type knownNames struct {
	mu    sync.Mutex
	names map[string]*knownName
}

type knownName struct {
	addrs        []netip.Addr
	looked, used time.Time
}

// addressesOf returns all forms of the addresses of a name, which are at most a few seconds old.
// If the look-up fails it returns the last known ones. A name that does not exist has none.
func (n *Network) addressesOf(ctx context.Context, name string) ([]netip.Addr, error) {
	now := n.Clock.Now()
	last := n.known.use(name, now)
	if last != nil && now.Sub(last.looked) < knownFor {
		return last.addrs, nil
	}
	if last != nil { // the last known addresses must do if this takes long
		var cancel context.CancelFunc
		ctx, cancel = n.Clock.WithTimeout(ctx, refreshTimeout)
		defer cancel()
	}
	found, err := n.LookupIP(ctx, name)
	if missing, ok := errors.AsType[*net.DNSError](err); ok && missing.IsNotFound {
		found, err = nil, nil
	}
	var addrs []netip.Addr
	switch {
	case err == nil:
		for _, addr := range found {
			addrs = append(addrs, netaddr.Forms(addr)...)
		}
	case last != nil:
		addrs = last.addrs
	default:
		return nil, err
	}
	n.known.keep(name, &knownName{addrs, now, now})
	return addrs, nil
}

// use returns the entry of a name, or nil.
func (k *knownNames) use(name string, now time.Time) *knownName {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.names[name]
	if n != nil {
		n.used = now
	}
	return n
}

func (k *knownNames) keep(name string, n *knownName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names == nil {
		k.names = make(map[string]*knownName)
	}
	maps.DeleteFunc(k.names, func(_ string, other *knownName) bool { return n.used.Sub(other.used) > knownUnused })
	k.names[name] = n
}
