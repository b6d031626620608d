package abi

import "time"

// ConnInfo is what the info function tells of a connection.
type ConnInfo struct {
	Network       string // "tcp" or "unix"
	Local, Remote string // addresses
	DNS, Connect  time.Duration
}

// AppendConnInfo appends i to b as JSON. Times are in seconds.
func AppendConnInfo(b []byte, i *ConnInfo) []byte {
	b = append(b, '{')
	b = appendField(b, "network", i.Network)
	b = appendField(b, "local", i.Local)
	b = appendField(b, "remote", i.Remote)
	b = append(appendName(b, "timings"), '{')
	b = appendFloat(appendName(b, "dns"), i.DNS.Seconds())
	b = appendFloat(appendName(b, "connect"), i.Connect.Seconds())
	return append(b, "}}"...)
}
