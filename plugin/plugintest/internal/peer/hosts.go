package peer

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// DNSServer is the one server for look-ups that name none.
const DNSServer = "10.99.255.53:53"

// LocalAddr is the address of the plugin in the simulated network.
const LocalAddr = "10.99.255.1:40000"

// Hosts are the names of a case and their addresses. A name without addresses does not exist.
// Nothing changes them once all peers are played.
type Hosts struct{ addrs map[string][]netip.Addr }

func newHosts(names map[string][]netip.Addr) *Hosts {
	h := &Hosts{make(map[string][]netip.Addr)}
	for host, addrs := range names {
		h.addrs[Canonical(host)] = addrs
	}
	return h
}

// Canonical returns a name in lower case without a final dot, for comparisons.
func Canonical(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// Addrs returns the addresses of a host; false if the case does not know it.
func (h *Hosts) Addrs(host string) ([]netip.Addr, bool) {
	addrs, ok := h.addrs[Canonical(host)]
	return addrs, ok
}

// Add gives a host further addresses.
func (h *Hosts) Add(host string, addrs ...netip.Addr) {
	host = Canonical(host)
	h.addrs[host] = append(h.addrs[host], addrs...)
}

// Addr returns the first address of a host. A host that the case does not list gets an address. The
// result is the zero Addr if the host does not exist.
func (h *Hosts) Addr(host string) netip.Addr {
	if addr, err := netip.ParseAddr(host); err == nil || host == "" {
		return addr.Unmap()
	}
	host = Canonical(host)
	if host == "localhost" {
		h.addrs[host] = []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	if addrs, ok := h.addrs[host]; ok {
		if len(addrs) == 0 {
			return netip.Addr{}
		}
		return addrs[0]
	}
	addr := netip.AddrFrom4([4]byte{10, 99, 0, byte(len(h.addrs) + 1)})
	h.addrs[host] = []netip.Addr{addr}
	return addr
}

// HostPort returns the IP:PORT to dial for a host and a port.
func (h *Hosts) HostPort(host, port string) string {
	return net.JoinHostPort(h.Addr(host).String(), port)
}

// Name returns a dialled HOST:PORT with its address replaced by the name in the case.
func (h *Hosts) Name(addr string) string {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return addr
	}
	for _, host := range slices.Sorted(maps.Keys(h.addrs)) {
		if slices.Contains(h.addrs[host], at.Addr()) {
			return net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
		}
	}
	return addr
}
