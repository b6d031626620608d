// Package netaddr classifies IP addresses, to decide to which addresses a guest or a registry may connect.
package netaddr

import (
	"net/netip"
	"slices"
)

// Class is a class of addresses. Each class is nearer to the host than those before it.
type Class uint8

const (
	Public Class = iota
	// Private addresses are RFC 1918, unique local, shared (RFC 6598) and site-local.
	Private
	Loopback
	// Metadata addresses are link-local addresses, and other addresses at which clouds serve metadata and
	// credentials to their machines.
	Metadata
	// NoHost addresses are unspecified, multicast, broadcast or invalid.
	NoHost
)

var (
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10")
	siteLocal   = netip.MustParsePrefix("fec0::/10")
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	broadcast   = netip.AddrFrom4([4]byte{255, 255, 255, 255})
)

// metadata has the addresses of metadata services that are not link-local.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS: metadata, DNS, time, pod identity
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
	netip.MustParsePrefix("fd00:42::42/128"),    // Scaleway
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
	localNAT64,                                  // each site chooses the position of the IPv4 address (RFC 8215)
}

// Plain returns addr without a zone, and an IPv4-mapped address as IPv4.
func Plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// ClassOf returns the class of addr itself, not of its other [Forms].
func ClassOf(addr netip.Addr) Class {
	addr = Plain(addr)
	switch {
	case !addr.IsValid() || addr.IsUnspecified() || addr.IsMulticast() || addr == broadcast || thisNetwork.Contains(addr):
		return NoHost
	case addr.IsLoopback():
		return Loopback
	case addr.IsLinkLocalUnicast() || isMetadata(addr):
		return Metadata
	case addr.IsPrivate() || sharedSpace.Contains(addr) || siteLocal.Contains(addr):
		return Private
	default:
		return Public
	}
}

// Nearest returns the class nearest to the host among all [Forms] of addr.
func Nearest(addr netip.Addr) Class {
	nearest := Public
	for _, form := range Forms(addr) {
		nearest = max(nearest, ClassOf(form))
	}
	return nearest
}

func isMetadata(addr netip.Addr) bool {
	for _, p := range metadata {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	siit       = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291
)

// Forms returns the plain addr, and every IPv4 address that it may reach by translation or through a
// tunnel. Network-specific prefixes of a site (RFC 6052) cannot be recognized.
func Forms(addr netip.Addr) []netip.Addr {
	addr = Plain(addr)
	forms := []netip.Addr{addr}
	if !addr.Is6() {
		return forms
	}
	b := addr.As16()
	add := func(i, j, k, l int) {
		forms = append(forms, netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}))
	}
	switch {
	case localNAT64.Contains(addr):
		add(6, 7, 9, 10)   // a prefix of 48 bits; byte 8 is zero
		add(7, 9, 10, 11)  // 56
		add(9, 10, 11, 12) // 64
		add(12, 13, 14, 15)
		// At most one of them is the intended address. It must be the address of a host.
		forms = slices.DeleteFunc(forms, func(a netip.Addr) bool { return ClassOf(a) == NoHost })
	case sixToFour.Contains(addr):
		add(2, 3, 4, 5)
	case teredo.Contains(addr):
		add(4, 5, 6, 7) // the server
		forms = append(forms, netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	case addr == netip.IPv6Unspecified() || addr == netip.IPv6Loopback():
	case nat64.Contains(addr), siit.Contains(addr), compatible.Contains(addr), isISATAP(b):
		add(12, 13, 14, 15)
	}
	return forms
}

// isISATAP reports whether the interface identifier is one of RFC 5214.
func isISATAP(b [16]byte) bool {
	return b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
