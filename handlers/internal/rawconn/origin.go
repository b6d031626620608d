package rawconn

import (
	"net/netip"

	"github.com/daeace23/prober/handlers/netns"
)

// Origin is where a connection begins. The zero value is any address in the program's own network
// namespace.
type Origin struct {
	Namespace *netns.Namespace
	Source    netip.Addr // the address to connect from; the zero Addr lets the system choose
}
