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
	cacheAge       = 5 * time.Second        // after this time a name is looked up again
	cacheUnused    = time.Hour              // after this time an unused name is dropped
	refreshTimeout = 250 * time.Millisecond // of a repeated look-up
)

// nameCache caches the addresses of denied names.
type nameCache struct {
	mu    sync.Mutex
	names map[string]*cachedName
}

type cachedName struct {
	addrs        []netip.Addr
	looked, used time.Time
}

// addressesOf returns all forms of the addresses of a name. They are at most cacheAge old, unless the
// look-up fails: then it returns the last known addresses. A name that does not exist has none.
func (n *Network) addressesOf(ctx context.Context, name string) ([]netip.Addr, error) {
	now := n.Clock.Now()
	last := n.known.use(name, now)
	if last != nil && now.Sub(last.looked) < cacheAge {
		return last.addrs, nil
	}
	if last != nil { // fall back to the last known addresses if the look-up is slow
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
	n.known.keep(name, &cachedName{addrs, now, now})
	return addrs, nil
}

// use returns the entry of a name, or nil. It records the use at now.
func (k *nameCache) use(name string, now time.Time) *cachedName {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.names[name]
	if n != nil {
		n.used = now
	}
	return n
}

func (k *nameCache) keep(name string, n *cachedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names == nil {
		k.names = make(map[string]*cachedName)
	}
	maps.DeleteFunc(k.names, func(_ string, other *cachedName) bool { return n.used.Sub(other.used) > cacheUnused })
	k.names[name] = n
}
