package wasm

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	resolvConf    = "/etc/resolv.conf"
	resolvConfAge = 5 * time.Second // after which the file is read again
	maxDNSServers = 3               // that one look-up asks
)

// checkServers says what is wrong with [Config.DNSServers].
func checkServers(addrs []string) error {
	for _, addr := range addrs {
		if _, err := netip.ParseAddrPort(addr); err != nil {
			return fmt.Errorf("nameserver %q: want an IP and a port", addr)
		}
	}
	return nil
}

// nameservers are those of the system.
type nameservers struct {
	mu   sync.Mutex
	read time.Time
	list []string
}

// addresses returns the nameservers as the file has had them a few seconds ago.
func (n *nameservers) addresses() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); n.list == nil || now.Sub(n.read) >= resolvConfAge {
		text, _ := os.ReadFile(resolvConf) // without one it is the system's default
		n.list, n.read = parseResolvConf(string(text)), now
	}
	return n.list
}

// parseResolvConf returns the nameservers of a resolv.conf; where there are none, a
// server on this host is meant.
func parseResolvConf(text string) (addrs []string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" || len(addrs) == maxDNSServers {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			addrs = append(addrs, net.JoinHostPort(addr.String(), "53"))
		}
	}
	if addrs == nil {
		return []string{"127.0.0.1:53"}
	}
	return addrs
}
