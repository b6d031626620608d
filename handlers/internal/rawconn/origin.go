package rawconn

import (
	"net/netip"

	"github.com/daeace23/prober/handlers/netns"
)

// Origin is the local end of a connection. The zero value means any address in the program's own network
// namespace.
type Origin struct {
	Namespace *netns.Namespace
	Source    netip.Addr // the local address; the zero Addr lets the system choose
}
