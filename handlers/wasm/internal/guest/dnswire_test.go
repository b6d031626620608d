package guest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"
)

func TestParseResolvConf(t *testing.T) {
	for text, want := range map[string][]string{
		"": {"127.0.0.1:53"},
		"# nameserver 10.0.0.1\nsearch a b\nnameserver\nnameserver nonsense\n": {"127.0.0.1:53"},
		"nameserver 10.0.0.2 # ours\n nameserver\tfd00::2\noptions ndots:5":    {"10.0.0.2:53", "[fd00::2]:53"},
		"nameserver fe80::1%eth0": {"[fe80::1%eth0]:53"},
		"nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\nnameserver ::1": {"10.0.0.1:53", "10.0.0.2:53", "10.0.0.3:53"},
	} {
		if diff := cmp.Diff(want, parseResolvConf(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// FuzzDNSReply reads what nameservers send: nothing of it panics, and what is taken is an
// answer to the question, within the limits.
func FuzzDNSReply(f *testing.F) {
	q, err := newQuestion("db.test", "A", 0x1234)
	if err != nil {
		f.Fatal(err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: q.id, Response: true}, Questions: []dnsmessage.Question{q.Question}}
	for _, body := range []dnsmessage.ResourceBody{
		&dnsmessage.AResource{}, &dnsmessage.MXResource{MX: q.Name}, &dnsmessage.SOAResource{NS: q.Name, MBox: q.Name},
		&dnsmessage.SRVResource{Target: q.Name}, &dnsmessage.TXTResource{TXT: []string{"a", "\"\xff"}},
		&dnsmessage.UnknownResource{Type: 99, Data: []byte("x")},
	} {
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1<<32 - 1}, Body: body})
	}
	var opt dnsmessage.ResourceHeader
	if err := opt.SetEDNS0(512, 16, false); err != nil {
		f.Fatal(err)
	}
	m.Additionals = []dnsmessage.Resource{{Header: opt, Body: &dnsmessage.OPTResource{}}}
	seed, err := m.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, false)
	f.Add(seed[:len(seed)-15], true)
	f.Add(framed(seed), true)
	f.Fuzz(func(t *testing.T, msg []byte, tcp bool) {
		r, err := q.readReply(msg, tcp)
		if err != nil {
			return
		}
		if len(msg) < 12 || msg[0] != 0x12 || msg[1] != 0x34 || msg[2]&0x80 == 0 || r.cut && tcp {
			t.Errorf("%x was taken for an answer: %+v", msg, r)
		}
		text := 0
		for _, record := range r.records {
			text += len(record.Name) + len(record.Data)
			if record.TTL > 1<<31-1 || dnsType(record.Type) == 0 || rcodeName(r.rcode) == "" {
				t.Errorf("got %+v", record)
			}
		}
		if len(r.records) > maxDNSRecords || text > maxDNSText {
			t.Errorf("got %d records of %d bytes", len(r.records), text)
		}
	})
}

func TestReadReply(t *testing.T) {
	q, err := newQuestion("db.test", "A", 7)
	if err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true}, Questions: []dnsmessage.Question{q.Question}}
	m.Questions[0].Name = dnsmessage.MustNewName("DB.Test.")
	m.Answers = []dnsmessage.Resource{
		{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("a\x01\"b.test."), Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 9}}},
		{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassCHAOS}, Body: &dnsmessage.AResource{}},
		{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.UnknownResource{Type: 46}},
	}
	var opt dnsmessage.ResourceHeader
	if err := opt.SetEDNS0(512, 16, false); err != nil {
		t.Fatal(err)
	}
	m.Additionals = []dnsmessage.Resource{{Header: opt, Body: &dnsmessage.OPTResource{}}}
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.readReply(msg, false)
	if err != nil || len(r.records) != 1 || r.records[0].Name != `a\001\034b.test` || rcodeName(r.rcode) != "BADVERS" {
		t.Errorf("got %+v, %v", r, err)
	}
}
