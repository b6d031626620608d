package sdk

import "github.com/daeace23/prober/internal/abi"

// EchoRequest is an ICMP echo request for [Echo]. The zero value addresses the target of the probe.
type EchoRequest struct {
	Host          string // a name or an address, instead of the target
	IPFamily      string // "4", "6", "4,6" or "6,4"; the last two prefer the first family
	SourceAddress string // source address, one of the host's addresses
	Payload       int    // bytes after the ICMP header; 56 by default, 65507 at most
	HopLimit      int    // the TTL of IPv4; the system's by default
	DontFragment  bool   // do not fragment the request
}

// EchoReply is the reply to an [EchoRequest]: its Local and Remote address, its Payload in bytes, its
// remaining HopLimit, and the durations of the name look-up (DNS), of opening a socket (Setup), and from
// the request to the reply (RTT).
type EchoReply = abi.EchoReply
