package oci

import (
	"net/netip"

	"github.com/daeace23/prober/internal/netaddr"
)

// Pretend has a client take addresses of this host for others.
func Pretend(c *Client, classes map[string]netaddr.Class) {
	c.classOf = func(to netip.AddrPort) netaddr.Class {
		if class, ok := classes[to.String()]; ok {
			return class
		}
		return classOf(to)
	}
}
