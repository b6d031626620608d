package echo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// headerLen is the length of the header of an echo message.
const headerLen = 8

// Protocol numbers in the IP header.
const (
	protocolICMP     = 1
	protocolFragment = 44
	protocolICMPv6   = 58
)

// packet is a received ICMP packet. Its bytes are in the buffer of the caller.
type packet struct {
	len      int
	from, to netip.Addr // without a zone; to may be the zero Addr
	hopLimit int        // 0 if unknown
}

// request is a request that was sent.
type request struct {
	to      netip.Addr
	id, seq uint16
	payload []byte // random, so that it cannot be guessed
}

// message returns the request in wire format. For IPv6 the kernel sets the checksum.
func (q *request) message() []byte {
	m := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: int(q.id), Seq: int(q.seq), Data: q.payload}}
	if q.to.Is6() {
		m.Type = ipv6.ICMPTypeEchoRequest
	}
	b, _ := m.Marshal(nil) // an echo message has no error
	return b
}

// answeredBy reports whether data answers the request. data is a message without the IP header. err is
// nil for an echo reply, and a *[RefusedError] for an ICMP error about the request.
func (q *request) answeredBy(p packet, data []byte) (done bool, err error) {
	if len(data) < headerLen {
		return false, nil
	}
	replies := int(ipv4.ICMPTypeEchoReply)
	if q.to.Is6() {
		replies = int(ipv6.ICMPTypeEchoReply)
	}
	if int(data[0]) == replies {
		return p.from == q.to && data[1] == 0 && q.numbered(data) && bytes.Equal(data[headerLen:], q.payload), nil
	}
	if !isICMPError(q.to.Is6(), data[0]) || !q.quotedIn(data[headerLen:]) {
		return false, nil
	}
	refused := &RefusedError{From: p.from, six: q.to.Is6(), kind: data[0], code: data[1]}
	switch {
	case refused.tooBig() && q.to.Is6():
		refused.MTU = int(binary.BigEndian.Uint32(data[4:]))
	case refused.tooBig():
		refused.MTU = int(binary.BigEndian.Uint16(data[6:]))
	}
	return true, refused
}

// numbered reports whether an echo message has the identifier and the sequence number of the request.
func (q *request) numbered(data []byte) bool {
	return binary.BigEndian.Uint16(data[4:]) == q.id && binary.BigEndian.Uint16(data[6:]) == q.seq
}

// quotedIn reports whether the packet quoted in an ICMP error is the request. The quote may be
// truncated.
func (q *request) quotedIn(quote []byte) bool {
	var to netip.Addr
	echo := byte(ipv4.ICMPTypeEcho)
	switch {
	case q.to.Is4() && len(quote) >= ipv4.HeaderLen && quote[0]>>4 == 4 && quote[9] == protocolICMP:
		to = netip.AddrFrom4([4]byte(quote[16:20]))
		quote = quote[min(len(quote), int(quote[0]&15)*4):]
	case q.to.Is6() && len(quote) >= ipv6.HeaderLen && quote[0]>>4 == 6:
		echo, to = byte(ipv6.ICMPTypeEchoRequest), netip.AddrFrom16([16]byte(quote[24:40]))
		next := quote[6]
		quote = quote[ipv6.HeaderLen:]
		if next == protocolFragment && len(quote) > 8 {
			next, quote = quote[0], quote[8:]
		}
		if next != protocolICMPv6 {
			return false
		}
	default:
		return false
	}
	if to != q.to || len(quote) < headerLen || quote[0] != echo || !q.numbered(quote) {
		return false
	}
	rest := quote[headerLen:]
	rest = rest[:min(len(rest), len(q.payload))]
	return bytes.HasPrefix(q.payload, rest) || len(rest) > sureQuote && bytes.HasPrefix(q.payload, rest[:sureQuote])
}

// sureQuote is how many bytes of the payload a quote certainly has: extensions of RFC 4884 may follow
// after 128 bytes of the packet.
const sureQuote = 64

// isICMPError reports whether an ICMP type is an error that explains a missing reply.
func isICMPError(six bool, kind byte) bool {
	if six {
		switch ipv6.ICMPType(kind) {
		case ipv6.ICMPTypeDestinationUnreachable, ipv6.ICMPTypePacketTooBig, ipv6.ICMPTypeTimeExceeded, ipv6.ICMPTypeParameterProblem:
			return true
		}
		return false
	}
	switch ipv4.ICMPType(kind) {
	case ipv4.ICMPTypeDestinationUnreachable, ipv4.ICMPTypeTimeExceeded, ipv4.ICMPTypeParameterProblem:
		return true
	}
	return false
}

// RefusedError is an ICMP error that was received instead of the reply.
type RefusedError struct {
	From netip.Addr // who sent it
	MTU  int        // MTU of the link for which the request was too long; 0 for other errors

	six        bool
	kind, code byte
}

// fragmentationNeeded is the ICMPv4 code for a packet that is too long.
const fragmentationNeeded = 4

func (e *RefusedError) tooBig() bool {
	if e.six {
		return ipv6.ICMPType(e.kind) == ipv6.ICMPTypePacketTooBig
	}
	return ipv4.ICMPType(e.kind) == ipv4.ICMPTypeDestinationUnreachable && e.code == fragmentationNeeded
}

// unreachable maps the codes of "destination unreachable" to texts: false for IPv4, true for IPv6.
var unreachable = map[bool]map[byte]string{
	false: { // RFC 792, RFC 1122, RFC 1812
		0: "network unreachable", 1: "host unreachable", 2: "protocol unreachable", 3: "port unreachable", 5: "source route failed",
		6: "network unknown", 7: "host unknown", 9: "network prohibited", 10: "host prohibited", 13: "prohibited by a filter",
	},
	true: { // RFC 4443
		0: "no route", 1: "prohibited by a filter", 2: "beyond the scope of the source address", 3: "address unreachable",
		4: "port unreachable", 5: "the source address is not allowed", 6: "the route rejects it",
	},
}

// Error describes the ICMP error and names its sender.
func (e *RefusedError) Error() string {
	text := ""
	switch kind := ipv6.ICMPType(e.kind); {
	case e.tooBig():
		text = fmt.Sprintf("packet too big, the MTU is %d", e.MTU)
	case e.hasType(ipv4.ICMPTypeDestinationUnreachable, ipv6.ICMPTypeDestinationUnreachable):
		if text = unreachable[e.six][e.code]; text == "" {
			text = fmt.Sprintf("destination unreachable, code %d", e.code)
		}
	case e.hasType(ipv4.ICMPTypeTimeExceeded, ipv6.ICMPTypeTimeExceeded):
		text = "time exceeded: the hop limit is used up"
		if e.code == 1 {
			text = "time exceeded: a fragment is missing"
		}
	case e.hasType(ipv4.ICMPTypeParameterProblem, ipv6.ICMPTypeParameterProblem):
		text = fmt.Sprintf("parameter problem, code %d", e.code)
	default:
		text = fmt.Sprintf("ICMP type %d, code %d", kind, e.code)
	}
	if !e.From.IsValid() {
		return text
	}
	return fmt.Sprintf("%s says: %s", e.From, text)
}

func (e *RefusedError) hasType(four ipv4.ICMPType, six ipv6.ICMPType) bool {
	if e.six {
		return e.kind == byte(six)
	}
	return e.kind == byte(four)
}

// Unwrap returns the error number that the kernel reports for such an ICMP error on a connection.
func (e *RefusedError) Unwrap() error {
	hasCode := func(codes ...byte) bool {
		return e.hasType(ipv4.ICMPTypeDestinationUnreachable, ipv6.ICMPTypeDestinationUnreachable) && bytes.IndexByte(codes, e.code) >= 0
	}
	switch {
	case e.tooBig():
		return syscall.EMSGSIZE
	case e.six && hasCode(0), !e.six && hasCode(0, 6):
		return syscall.ENETUNREACH
	case e.six && hasCode(4), !e.six && hasCode(2, 3):
		return syscall.ECONNREFUSED
	default:
		return syscall.EHOSTUNREACH
	}
}
