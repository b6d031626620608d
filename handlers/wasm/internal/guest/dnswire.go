package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/wasm/internal/egress"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
)

const (
	datagramDNS   = 1232      // bytes that an answer over udp may have; a server that has more says so
	maxDNSRecords = 1000      // of one answer
	maxDNSText    = 256 << 10 // bytes of the names and data of one answer
)

// dnsType returns the type of a name, or 0 of one that a guest cannot ask for.
func dnsType(name string) dnsmessage.Type {
	switch strings.ToUpper(name) {
	case "", "A":
		return dnsmessage.TypeA
	case "AAAA":
		return dnsmessage.TypeAAAA
	case "CNAME":
		return dnsmessage.TypeCNAME
	case "MX":
		return dnsmessage.TypeMX
	case "NS":
		return dnsmessage.TypeNS
	case "PTR":
		return dnsmessage.TypePTR
	case "SOA":
		return dnsmessage.TypeSOA
	case "SRV":
		return dnsmessage.TypeSRV
	case "TXT":
		return dnsmessage.TypeTXT
	}
	return 0
}

// question is what a look-up asks.
type question struct {
	dnsmessage.Question
	id   uint16
	name string // in lower case, without the dot at its end; "" is the root
}

// newQuestion reads what a guest asks.
func newQuestion(name, typ string, id uint16) (question, error) {
	q := question{id: id, name: strings.ToLower(strings.TrimSuffix(name, "."))}
	if q.name == "" && name != "." || q.name != "" && !plugin.ValidHost(q.name) {
		return q, fmt.Errorf("dns: %.200q is not a name", name)
	}
	if q.Type = dnsType(typ); q.Type == 0 {
		return q, fmt.Errorf("dns: unknown type %.20q; known: A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT", typ)
	}
	var err error
	q.Class = dnsmessage.ClassINET
	q.Name, err = dnsmessage.NewName(q.name + ".")
	return q, err
}

func (q *question) String() string { return typeName(q.Type) + " " + dnsName(q.Name) }

// pack returns the message that asks q. A plain one does without EDNS, which tells how
// long an answer may be, and which some old servers do not take.
func (q *question) pack(plain bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{ID: q.id, RecursionDesired: true})
	err := errors.Join(b.StartQuestions(), b.Question(q.Question))
	if !plain {
		var opt dnsmessage.ResourceHeader
		err = errors.Join(err, opt.SetEDNS0(datagramDNS, dnsmessage.RCodeSuccess, false),
			b.StartAdditionals(), b.OPTResource(opt, dnsmessage.OPTResource{}))
	}
	if err != nil {
		return nil, fmt.Errorf("dns: %w", err)
	}
	return b.Finish()
}

// framed is msg as it goes over tcp.
func framed(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}

// unframed returns the message that data begins with, if it is all there.
func unframed(data []byte) (msg []byte, ok bool) {
	if len(data) < 2 {
		return nil, false
	}
	end := 2 + int(binary.BigEndian.Uint16(data))
	if len(data) < end {
		return nil, false
	}
	return data[2:end], true
}

// errStray is of a message that does not answer the question.
var errStray = errors.New("not an answer to the question")

// reply is what a server answers.
type reply struct {
	rcode   dnsmessage.RCode
	cut     bool // the rest is to be had over tcp
	records []abi.DNSRecord
}

// readReply reads a message that came over tcp, or whole. Its error is errStray where
// anyone could have sent it, and says else what is wrong with the answer.
func (q *question) readReply(msg []byte, tcp bool) (reply, error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.ID != q.id || !h.Response || h.OpCode != 0 {
		return reply{}, errStray
	}
	asked, err := p.Question()
	if err == dnsmessage.ErrSectionDone && h.RCode == dnsmessage.RCodeFormatError {
		return reply{rcode: h.RCode}, nil // it could not read the question
	}
	if err != nil || asked.Type != q.Type || asked.Class != q.Class || egress.CanonicalName(asked.Name.String()) != egress.CanonicalName(q.Name.String()) {
		return reply{}, errStray
	}
	if _, err := p.Question(); err != dnsmessage.ErrSectionDone {
		return reply{}, errStray
	}
	if h.Truncated && !tcp {
		return reply{cut: true}, nil
	}
	r := reply{rcode: h.RCode}
	if r.records, err = readRecords(&p); err == nil {
		r.rcode = extended(&p, r.rcode)
	}
	return r, err
}

// readRecords reads the records of the answer that a guest could have asked for.
func readRecords(p *dnsmessage.Parser) (records []abi.DNSRecord, err error) {
	text := 0
	for {
		h, err := p.AnswerHeader()
		if err == dnsmessage.ErrSectionDone {
			return records, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Class != dnsmessage.ClassINET || dnsType(typeName(h.Type)) == 0 {
			if err := p.SkipAnswer(); err != nil {
				return nil, err
			}
			continue
		}
		r, err := p.Answer()
		if err != nil {
			return nil, err
		}
		record := abi.DNSRecord{Name: dnsName(h.Name), Type: typeName(h.Type), TTL: h.TTL, Data: dnsData(r.Body)}
		if record.TTL > 1<<31-1 {
			record.TTL = 0 // as RFC 2181 has it
		}
		records = append(records, record)
		if text += len(record.Name) + len(record.Data); text > maxDNSText || len(records) > maxDNSRecords {
			return nil, fmt.Errorf("more than %d records, or %d bytes of them", maxDNSRecords, maxDNSText)
		}
	}
}

// extended adds to rcode what EDNS has of it.
func extended(p *dnsmessage.Parser, rcode dnsmessage.RCode) dnsmessage.RCode {
	if p.SkipAllAuthorities() != nil {
		return rcode
	}
	for {
		h, err := p.AdditionalHeader()
		if err != nil {
			return rcode
		}
		if h.Type == dnsmessage.TypeOPT {
			return h.ExtendedRCode(rcode)
		}
		if p.SkipAdditional() != nil {
			return rcode
		}
	}
}

// dnsData is the data of a record as in a zone file.
func dnsData(body dnsmessage.ResourceBody) string {
	switch r := body.(type) {
	case *dnsmessage.AResource:
		return netip.AddrFrom4(r.A).String()
	case *dnsmessage.AAAAResource:
		return netip.AddrFrom16(r.AAAA).String()
	case *dnsmessage.CNAMEResource:
		return dnsName(r.CNAME)
	case *dnsmessage.MXResource:
		return fmt.Sprintf("%d %s", r.Pref, dnsName(r.MX))
	case *dnsmessage.NSResource:
		return dnsName(r.NS)
	case *dnsmessage.PTRResource:
		return dnsName(r.PTR)
	case *dnsmessage.SOAResource:
		return fmt.Sprintf("%s %s %d %d %d %d %d", dnsName(r.NS), dnsName(r.MBox), r.Serial, r.Refresh, r.Retry, r.Expire, r.MinTTL)
	case *dnsmessage.SRVResource:
		return fmt.Sprintf("%d %d %d %s", r.Priority, r.Weight, r.Port, dnsName(r.Target))
	case *dnsmessage.TXTResource:
		return strings.Join(r.TXT, "")
	}
	return ""
}

// dnsName is a name without the dot at its end, and with its odd bytes as \DDD.
func dnsName(n dnsmessage.Name) string {
	name := n.String()
	if name != "." {
		name = strings.TrimSuffix(name, ".")
	}
	if !strings.ContainsFunc(name, odd) {
		return name
	}
	var b strings.Builder
	for i := range len(name) {
		if odd(rune(name[i])) {
			fmt.Fprintf(&b, "\\%03d", name[i])
		} else {
			b.WriteByte(name[i])
		}
	}
	return b.String()
}

func odd(c rune) bool { return c <= ' ' || c > '~' || c == '\\' || c == '"' }

func typeName(t dnsmessage.Type) string { return strings.TrimPrefix(t.String(), "Type") }

func rcodeName(code dnsmessage.RCode) string {
	names := []string{"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"}
	if int(code) < len(names) {
		return names[code]
	}
	if code == 16 {
		return "BADVERS"
	}
	return fmt.Sprintf("RCODE%d", code)
}
