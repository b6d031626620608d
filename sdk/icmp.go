package sdk

import "github.com/daeace23/prober/internal/abi"

// EchoRequest is an ICMP echo request of [Echo]. The zero value goes to the target of the probe.
type EchoRequest struct {
	Host          string // a name or an address, in place of the target
	IPFamily      string // "4", "6", "4,6" or "6,4"; the last two prefer the first family
	SourceAddress string // an address of the host that sends it
	Payload       int    // bytes after the header of ICMP; 56 by default, 65507 at most
	HopLimit      int    // the TTL of IPv4; that of the system by default
	DontFragment  bool   // it is sent in one piece or not at all
}

// EchoReply is the reply to an [EchoRequest]: its Local and Remote address, the bytes of its Payload, the
// HopLimit with which it came, and the times to resolve the name (DNS), to open a socket (Setup), and from
// the request to the reply (RTT).
type EchoReply = abi.EchoReply
