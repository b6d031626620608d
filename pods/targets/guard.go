package targets

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/netaddr"
)

// CheckTarget is the Guard of a [pods.Source] for the pods of targets. Services, name servers and commands
// that list targets, and the name servers of those targets, are not the agent's operator: they must not lead
// it to the credentials that a metadata service gives to this host. A link-local or metadata address has to be
// the address of the target in prober.yaml or in a file of its group.
func (s *Source) CheckTarget(podUID string, to netns.To) error {
	if !to.Addr.IsValid() || netaddr.Nearest(to.Addr) != netaddr.Metadata {
		return nil
	}
	l := s.known.Load()
	if l == nil {
		return nil
	}
	t := l.result.probed[types.UID(podUID)]
	if t == nil || t.names(to.Addr) {
		return nil
	}
	return fmt.Errorf("%s is a link-local or metadata address, which only prober.yaml and the files of a group may list, as an address", to.Addr)
}

// names reports whether a file lists the target by an address.
func (t *target) names(addr netip.Addr) bool {
	at, err := netip.ParseAddr(t.at.Host)
	return err == nil && t.inFile && netaddr.Plain(at) == netaddr.Plain(addr)
}
