// Package dnswire encodes DNS questions and decodes answers. It imports only the standard library,
// since the SDK for plugins uses it too. question.go has the questions, answer.go the answers.
package dnswire

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// types has the names of the supported record types, by number.
var types = map[uint16]string{
	1: "A", 2: "NS", 5: "CNAME", 6: "SOA", 12: "PTR", 15: "MX", 16: "TXT", 28: "AAAA", 33: "SRV",
}

const (
	classINET = 1
	typeOPT   = 41   // EDNS
	datagram  = 1232 // maximum size of an answer over UDP, announced with EDNS
)

// Question is the question of a lookup.
type Question struct {
	id     uint16
	number uint16 // number of the type
	name   string // in lower case, without a trailing dot; "" is the root
}

// NewQuestion returns the question for the records of name with type typ; "" means A.
func NewQuestion(name, typ string, id uint16) (Question, error) {
	q := Question{id: id, name: strings.ToLower(strings.TrimSuffix(name, "."))}
	for label := range strings.SplitSeq(q.name, ".") {
		if label == "" && name != "." || len(label) > 63 || len(q.name) > 253 {
			return q, fmt.Errorf("%.200q is not a name", name)
		}
	}
	for number, known := range types {
		if strings.EqualFold(known, typ) || typ == "" && known == "A" {
			q.number = number
		}
	}
	if q.number == 0 {
		return q, fmt.Errorf("unknown type %.20q; known: A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT", typ)
	}
	return q, nil
}

// Name returns the name in lower case, without a trailing dot; "" is the root.
func (q *Question) Name() string { return q.name }

// String returns the type and the name.
func (q *Question) String() string {
	if q.name == "" {
		return types[q.number] + " ."
	}
	return types[q.number] + " " + q.name
}

// Pack returns the message with the question. If edns is true, it announces the maximum size of an
// answer with EDNS, which some old servers refuse.
func (q *Question) Pack(edns bool) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 0, 512), q.id)
	additional := byte(0)
	if edns {
		additional = 1
	}
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, additional) // recursion desired, one question
	if q.name != "" {
		for label := range strings.SplitSeq(q.name, ".") {
			b = append(append(b, byte(len(label))), label...)
		}
	}
	b = binary.BigEndian.AppendUint16(append(b, 0), q.number)
	b = binary.BigEndian.AppendUint16(b, classINET)
	if edns {
		b = binary.BigEndian.AppendUint16(append(b, 0), typeOPT)
		b = binary.BigEndian.AppendUint16(b, datagram)
		b = append(b, 0, 0, 0, 0, 0, 0) // extended code, version, flags, length of the data
	}
	return b
}

// Framed returns msg with its length as prefix, for TCP.
func Framed(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}

// Unframed returns the first message in data received over TCP. ok is false if it is not
// complete.
func Unframed(data []byte) (msg []byte, ok bool) {
	if len(data) < 2 {
		return nil, false
	}
	end := 2 + int(binary.BigEndian.Uint16(data))
	if len(data) < end {
		return nil, false
	}
	return data[2:end], true
}
