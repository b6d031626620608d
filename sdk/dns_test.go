//go:build !wasip1

package sdk_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/probe"
)

// dnsServer starts a server for db.test. Its answers over UDP are truncated if they are long.
func dnsServer(t *testing.T) probe.Target {
	t.Helper()
	udp, tcp := onePort(t)
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := udp.ReadFrom(buf)
			if err != nil {
				return
			}
			stray := answerTo(buf[:n], true)
			stray[0]++
			udp.WriteTo(stray, from)
			udp.WriteTo(answerTo(buf[:n], true), from)
		}
	}()
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err == nil {
				question := make([]byte, binary.BigEndian.Uint16(size[:]))
				io.ReadFull(conn, question)
				answer := answerTo(question, false)
				conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
			}
			conn.Close()
		}
	}()
	return targetOf(udp.LocalAddr())
}

// onePort listens on a port that is free for UDP and TCP.
func onePort(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	var err error
	for range 20 {
		tcp, tcpErr := net.Listen("tcp", "127.0.0.1:0")
		if tcpErr != nil {
			t.Fatal(tcpErr)
		}
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			t.Cleanup(func() { udp.Close(); tcp.Close() })
			return udp, tcp
		}
		tcp.Close()
	}
	t.Fatal(err)
	return nil, nil
}

// answerTo returns the answer to a question. A long answer over UDP is truncated.
func answerTo(question []byte, udp bool) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(question)
	if err != nil {
		return make([]byte, 12)
	}
	q, err := p.Question()
	if err != nil {
		return make([]byte, 12)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	records := zone(q)
	switch {
	case q.Name.String() != "db.test.":
		m.RCode = dnsmessage.RCodeNameError
	case udp && q.Type == dnsmessage.TypeTXT:
		m.Truncated = true
	default:
		m.Answers = records
	}
	packed, err := m.Pack()
	if err != nil {
		return make([]byte, 12)
	}
	return packed
}

// zone returns the records of q's type.
func zone(q dnsmessage.Question) []dnsmessage.Resource {
	deep := dnsmessage.MustNewName("deep.db.test.")
	record := func(name dnsmessage.Name, ttl uint32, body dnsmessage.ResourceBody) dnsmessage.Resource {
		return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: ttl}, Body: body}
	}
	switch q.Type {
	case dnsmessage.TypeA:
		return []dnsmessage.Resource{
			record(q.Name, 60, &dnsmessage.CNAMEResource{CNAME: deep}),
			record(deep, 30, &dnsmessage.AResource{A: [4]byte{10, 0, 0, 7}}),
		}
	case dnsmessage.TypeAAAA:
		return []dnsmessage.Resource{record(q.Name, 5, &dnsmessage.AAAAResource{AAAA: [16]byte{0x20, 1, 0xd, 0xb8, 15: 7}})}
	case dnsmessage.TypeMX:
		return []dnsmessage.Resource{record(q.Name, 5, &dnsmessage.MXResource{Pref: 10, MX: dnsmessage.MustNewName("mx.db.test.")})}
	case dnsmessage.TypeSRV:
		return []dnsmessage.Resource{record(q.Name, 5, &dnsmessage.SRVResource{Priority: 1, Weight: 2, Port: 5432, Target: deep})}
	case dnsmessage.TypeSOA:
		return []dnsmessage.Resource{record(q.Name, 5, &dnsmessage.SOAResource{
			NS: dnsmessage.MustNewName("ns.db.test."), MBox: dnsmessage.MustNewName("admin.db.test."),
			Serial: 1, Refresh: 2, Retry: 3, Expire: 4, MinTTL: 5,
		})}
	case dnsmessage.TypeTXT:
		text := strings.Repeat("long ", 500)
		var parts []string
		for len(text) > 0 {
			n := min(len(text), 250)
			parts, text = append(parts, text[:n]), text[n:]
		}
		return []dnsmessage.Resource{record(q.Name, 5, &dnsmessage.TXTResource{TXT: parts})}
	}
	return nil
}
