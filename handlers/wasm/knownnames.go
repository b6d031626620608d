package wasm

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
	knownFor       = 5 * time.Second        // after which a name is looked up again
	knownUnused    = time.Hour              // after which a name that nobody asks for is forgotten
	refreshTimeout = 250 * time.Millisecond // of looking up what is known already
)

// knownNames are names whose addresses are denied, with these addresses.
type knownNames struct {
	mu    sync.Mutex
	names map[string]*knownName
}

type knownName struct {
	addrs        []netip.Addr
	looked, used time.Time
}

// knownAddresses returns all forms of the addresses of a name as they were a few seconds
// ago, or, where they cannot be looked up now, as they were when that was last possible. A
// name that does not exist has none.
func (h *Host) knownAddresses(ctx context.Context, name string) ([]netip.Addr, error) {
	now := h.cfg.Clock.Now()
	last := h.known.use(name, now)
	if last != nil && now.Sub(last.looked) < knownFor {
		return last.addrs, nil
	}
	if last != nil { // an attempt is not spent on what is known
		var cancel context.CancelFunc
		ctx, cancel = h.cfg.Clock.WithTimeout(ctx, refreshTimeout)
		defer cancel()
	}
	found, err := h.cfg.LookupIP(ctx, name)
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
	h.known.keep(name, &knownName{addrs, now, now})
	return addrs, nil
}

// use returns what is known of a name, or nil.
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
