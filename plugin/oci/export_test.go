package oci

import (
	"net/netip"

	"github.com/daeace23/prober/internal/netaddr"
)

// Pretend makes c use these network classes. The keys of classes are IP:PORT.
func Pretend(c *Client, classes map[string]netaddr.Class) {
	c.classOf = func(to netip.AddrPort) netaddr.Class {
		if class, ok := classes[to.String()]; ok {
			return class
		}
		return classOf(to)
	}
}
