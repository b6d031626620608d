//go:build !wasip1

package sdk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// The types of records that a plugin asks for, by the number of RFC 1035 and later.
var dnsTypes = map[uint16]string{
	1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV",
}

var rcodes = []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"}

const dnsHeader = 12 // bytes

var (
	errStray  = errors.New("not an answer to the question")
	errBroken = errors.New("a broken answer")
)

// packQuestion returns the message that asks q.
func packQuestion(id uint16, q DNSQuery) ([]byte, error) {
	number := uint16(0)
	for n, name := range dnsTypes {
		if strings.EqualFold(name, q.Type) || q.Type == "" && name == "A" {
			number = n
		}
	}
	if number == 0 {
		return nil, fmt.Errorf("unknown type %.20q; known: A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT", q.Type)
	}
	b := binary.BigEndian.AppendUint16(nil, id)
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0) // recursion desired, one question
	for label := range strings.SplitSeq(strings.TrimSuffix(q.Name, "."), ".") {
		if label == "" && q.Name != "." || len(label) > 63 || len(q.Name) > 254 {
			return nil, fmt.Errorf("%.200q is not a name", q.Name)
		}
		if label != "" {
			b = append(append(b, byte(len(label))), strings.ToLower(label)...)
		}
	}
	b = binary.BigEndian.AppendUint16(append(b, 0), number)
	return append(b, 0, 1), nil
}

// readAnswer reads the message that answers question. Its error is errStray if msg
// answers another one; cut reports that the rest is to be had over tcp.
func readAnswer(question, msg []byte) (a DNSAnswer, cut bool, err error) {
	end := len(question)
	switch {
	case len(msg) < end, msg[0] != question[0], msg[1] != question[1], msg[2]&0x80 == 0,
		!strings.EqualFold(string(msg[dnsHeader:end]), string(question[dnsHeader:])):
		return a, false, errStray
	case msg[2]&0x02 != 0:
		return a, true, nil
	}
	if code := int(msg[3] & 0xf); code < len(rcodes) {
		a.RCode = rcodes[code]
	} else {
		a.RCode = fmt.Sprintf("RCODE%d", code)
	}
	d := dnsReader{msg: msg, pos: end}
	for range binary.BigEndian.Uint16(msg[6:]) {
		r := DNSRecord{Name: d.name()}
		number := d.u16()
		d.u16() // the class
		r.TTL = uint32(d.u16())<<16 | uint32(d.u16())
		length := d.u16()
		next := d.pos + length
		r.Type = dnsTypes[uint16(number)]
		r.Data = d.data(r.Type, next)
		if d.pos = next; d.broken || next > len(msg) {
			return a, false, errBroken
		}
		if r.Type != "" {
			a.Answers = append(a.Answers, r)
		}
	}
	return a, false, nil
}

// dnsReader walks a message. Once it is broken, it reads zeros.
type dnsReader struct {
	msg    []byte
	pos    int
	broken bool
}

func (d *dnsReader) bytes(n int) []byte {
	if d.broken = d.broken || d.pos+n > len(d.msg); d.broken {
		return make([]byte, n)
	}
	d.pos += n
	return d.msg[d.pos-n : d.pos]
}

func (d *dnsReader) u16() int { return int(binary.BigEndian.Uint16(d.bytes(2))) }

func (d *dnsReader) u32() uint32 { return binary.BigEndian.Uint32(d.bytes(4)) }

// name reads a name without the dot at its end; parts of it may be said elsewhere.
func (d *dnsReader) name() string {
	var labels []string
	back := -1
	for jumps := 0; ; {
		n := int(d.bytes(1)[0])
		switch {
		case d.broken || jumps > 64 || len(labels) > 128:
			d.broken = true
			return ""
		case n == 0:
			if back >= 0 {
				d.pos = back
			}
			if labels == nil {
				return "."
			}
			return strings.Join(labels, ".")
		case n < 64:
			labels = append(labels, string(d.bytes(n)))
		default:
			to := (n&0x3f)<<8 | int(d.bytes(1)[0])
			if back < 0 {
				back = d.pos
			}
			d.pos = to
			jumps++
		}
	}
}

// data reads the data of a record, which ends before next, as in a zone file.
func (d *dnsReader) data(typ string, next int) string {
	switch typ {
	case "A":
		return netip.AddrFrom4([4]byte(d.bytes(4))).String()
	case "AAAA":
		return netip.AddrFrom16([16]byte(d.bytes(16))).String()
	case "NS", "CNAME", "PTR":
		return d.name()
	case "MX":
		return fmt.Sprintf("%d %s", d.u16(), d.name())
	case "SRV":
		return fmt.Sprintf("%d %d %d %s", d.u16(), d.u16(), d.u16(), d.name())
	case "SOA":
		return fmt.Sprintf("%s %s %d %d %d %d %d", d.name(), d.name(), d.u32(), d.u32(), d.u32(), d.u32(), d.u32())
	case "TXT":
		var text []byte
		for d.pos < next && !d.broken {
			text = append(text, d.bytes(int(d.bytes(1)[0]))...)
		}
		return string(text)
	}
	return ""
}
