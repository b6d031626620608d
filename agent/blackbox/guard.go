package blackbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/netaddr"
)

// guard returns a guard for the connections of a scrape, whichever handler makes it, as any client can choose
// the target. Plugins have their grants in addition.
func guard(listeners []net.Addr) netns.Guard {
	return func(to netns.To) error {
		if to.Socket != "" {
			return errors.New("a scrape must not name a socket")
		}
		if to.Host != "" {
			return nil // its addresses are checked later
		}
		switch netaddr.Nearest(to.Addr) {
		case netaddr.NoHost:
			return fmt.Errorf("%s is not the address of a host", to.Addr)
		case netaddr.Metadata:
			return fmt.Errorf("%s is a link-local or metadata address", to.Addr)
		}
		for _, l := range listeners {
			if l, ok := l.(*net.TCPAddr); ok && netaddr.Reaches(l.AddrPort(), netip.AddrPortFrom(to.Addr, to.Port)) {
				return fmt.Errorf("%s is a listener of prober itself", to.Addr)
			}
		}
		return nil
	}
}
