package dnswire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Limits of one answer.
const (
	MaxRecords = 1000
	MaxText    = 256 << 10 // bytes of the names and data of all records
)

const (
	maxName  = 254 // bytes, with a dot after each label
	maxJumps = 10  // compression pointers in a name
)

var (
	// ErrStray is the error of a message that does not answer the question. Anyone may have sent
	// such a message.
	ErrStray = errors.New("not an answer to the question")

	errBroken = errors.New("a malformed record")
)

// Answer is the answer of a server.
type Answer struct {
	Code      int  // the RCODE; see [CodeName]
	Truncated bool // the query must be repeated over TCP; Records is empty
	Records   []Record
}

// Record is one record of an answer.
type Record struct {
	Name string // without a trailing dot
	Type string
	TTL  uint32
	Data string // as in a zone file
}

const formatError = 1

// Read decodes a message that answers q. tcp is true if it was received over TCP. Records of
// unsupported types are left out. The error is [ErrStray], or describes the malformed
// answer.
func (q *Question) Read(msg []byte, tcp bool) (Answer, error) {
	r := reader{msg: msg}
	id, flags := r.u16(), r.u16()
	questions, answers, authorities, additionals := r.u16(), r.u16(), r.u16(), r.u16()
	isResponse, opcode, truncated := flags&0x8000 != 0, flags>>11&0xf, flags&0x0200 != 0
	a := Answer{Code: int(flags & 0xf)}
	if r.broken || id != q.id || !isResponse || opcode != 0 {
		return Answer{}, ErrStray
	}
	if questions == 0 && a.Code == formatError {
		return a, nil // the server could not decode the question
	}
	name, number, class := r.name(), r.u16(), r.u16()
	if r.broken || questions != 1 || number != q.number || class != classINET || !strings.EqualFold(name, q.text()) {
		return Answer{}, ErrStray
	}
	if truncated && !tcp {
		return Answer{Code: a.Code, Truncated: true}, nil
	}
	var err error
	if a.Records, err = r.records(answers); err != nil {
		return Answer{}, err
	}
	a.Code |= r.extendedCode(authorities, additionals)
	return a, nil
}

// text returns the name in the form of [reader.name].
func (q *Question) text() string {
	if q.name == "" {
		return "."
	}
	return q.name
}

// reader reads a message. Once it is broken, it returns zeros.
type reader struct {
	msg    []byte
	pos    int
	broken bool
}

func (r *reader) bytes(n int) []byte {
	if r.broken = r.broken || n > len(r.msg)-r.pos; r.broken {
		return make([]byte, n)
	}
	r.pos += n
	return r.msg[r.pos-n : r.pos]
}

func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.bytes(2)) }

func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.bytes(4)) }

// header is the beginning of a record.
type header struct {
	name          string
	number, class uint16
	ttl           uint32
	end           int // end of its data
}

func (r *reader) header() header {
	h := header{name: r.name(), number: r.u16(), class: r.u16(), ttl: r.u32()}
	h.end = int(r.u16()) + r.pos
	r.broken = r.broken || h.end > len(r.msg)
	return h
}

// records reads n records.
func (r *reader) records(n uint16) (records []Record, err error) {
	text := 0
	for range n {
		h := r.header()
		if typ := types[h.number]; typ != "" && h.class == classINET && !r.broken {
			record := Record{Name: h.name, Type: typ, TTL: h.ttl, Data: r.data(typ, h.end)}
			if record.TTL > 1<<31-1 {
				record.TTL = 0 // RFC 2181
			}
			records = append(records, record)
			text += len(record.Name) + len(record.Data)
			r.broken = r.broken || r.pos != h.end
		}
		if r.broken {
			return nil, errBroken
		}
		if text > MaxText || len(records) > MaxRecords {
			return nil, fmt.Errorf("more than %d records, or %d bytes of them", MaxRecords, MaxText)
		}
		r.pos = h.end
	}
	return records, nil
}

// extendedCode returns the upper bits of the code from the EDNS(0) record; 0 if there is none.
func (r *reader) extendedCode(authorities, additionals uint16) int {
	for i := range int(authorities) + int(additionals) {
		h := r.header()
		if r.broken {
			return 0
		}
		if i >= int(authorities) && h.number == typeOPT {
			if version := h.ttl >> 16 & 0xff; version != 0 {
				return 0
			}
			return int(h.ttl>>24) << 4
		}
		r.pos = h.end
	}
	return 0
}

// name reads a name, which may be compressed, and returns it without a trailing dot.
func (r *reader) name() string {
	var b strings.Builder
	size, back := 0, -1
	for jumps := 0; !r.broken; {
		n := int(r.bytes(1)[0])
		switch {
		case n == 0:
			if back >= 0 {
				r.pos = back
			}
			if size == 0 {
				return "."
			}
			return b.String()
		case n < 64:
			label := r.bytes(n)
			if size > 0 {
				b.WriteByte('.')
			}
			size += n + 1
			r.broken = r.broken || size > maxName
			r.label(&b, label)
		case n >= 0xc0:
			to := n&0x3f<<8 | int(r.bytes(1)[0])
			if back < 0 {
				back = r.pos
			}
			r.pos = to
			jumps++
			r.broken = r.broken || jumps > maxJumps || to > len(r.msg)
		default:
			r.broken = true
		}
	}
	return ""
}

// label writes a label. It escapes spaces, quotes, backslashes and non-printable bytes as \DDD. A label with a
// dot is an error, since it would look like two labels.
func (r *reader) label(b *strings.Builder, label []byte) {
	for _, c := range label {
		switch {
		case c == '.':
			r.broken = true
		case c <= ' ' || c > '~' || c == '\\' || c == '"':
			b.Write([]byte{'\\', '0' + c/100, '0' + c/10%10, '0' + c%10})
		default:
			b.WriteByte(c)
		}
	}
}

// data returns the data of a record, which ends at end, as in a zone file.
func (r *reader) data(typ string, end int) string {
	switch typ {
	case "A":
		return netip.AddrFrom4([4]byte(r.bytes(4))).String()
	case "AAAA":
		return netip.AddrFrom16([16]byte(r.bytes(16))).String()
	case "NS", "CNAME", "PTR":
		return r.name()
	case "MX":
		return fmt.Sprintf("%d %s", r.u16(), r.name())
	case "SRV":
		return fmt.Sprintf("%d %d %d %s", r.u16(), r.u16(), r.u16(), r.name())
	case "SOA":
		return fmt.Sprintf("%s %s %d %d %d %d %d", r.name(), r.name(), r.u32(), r.u32(), r.u32(), r.u32(), r.u32())
	case "TXT":
		var text []byte
		for r.pos < end && !r.broken {
			text = append(text, r.bytes(int(r.bytes(1)[0]))...)
		}
		return string(text)
	}
	return ""
}

var codeNames = []string{
	"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE",
}

// CodeName returns the name of an RCODE.
func CodeName(code int) string {
	switch {
	case code < len(codeNames):
		return codeNames[code]
	case code == 16:
		return "BADVERS"
	default:
		return fmt.Sprintf("RCODE%d", code)
	}
}
