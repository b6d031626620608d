package targets

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/handlers/netns"
	"github.com/daeace23/prober/internal/netaddr"
)

// CheckTarget is the Guard of a [pods.Source] for the pods of targets. The operator of the agent controls prober.yaml
// and files, but not necessarily the services, name servers and commands that list targets, or the names of targets.
// These must not lead the agent to the metadata service of this host, which returns credentials. So a link-local or
// metadata address is allowed only as the literal address of a target in prober.yaml or in a file of its group.
func (s *Source) CheckTarget(podUID string, to netns.To) error {
	if !to.Addr.IsValid() || netaddr.Nearest(to.Addr) != netaddr.Metadata {
		return nil
	}
	l := s.latest.Load()
	if l == nil {
		return nil
	}
	t := l.result.probed[types.UID(podUID)]
	if t == nil || t.listsAddr(to.Addr) {
		return nil
	}
	return fmt.Errorf("%s is a link-local or metadata address, which only prober.yaml and the files of a group may list, as an address", to.Addr)
}

// OwnName is the OwnName of a [pods.Source]: it reports whether prober.yaml or a file of a group lists the target with
// host as its name. Services, name servers and commands that list targets must not lead the agent to its own host.
func (s *Source) OwnName(podUID, host string) bool {
	l := s.latest.Load()
	if l == nil {
		return false
	}
	t := l.result.probed[types.UID(podUID)]
	return t != nil && t.inFile && host != "" && strings.EqualFold(t.at.Host, host)
}

// listsAddr reports whether prober.yaml or a file lists the target with addr as its address.
func (t *target) listsAddr(addr netip.Addr) bool {
	at, err := netip.ParseAddr(t.at.Host)
	return err == nil && t.inFile && netaddr.Plain(at) == netaddr.Plain(addr)
}
