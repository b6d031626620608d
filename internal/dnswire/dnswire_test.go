package dnswire_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/internal/dnswire"
)

func question(t testing.TB, name, typ string) dnswire.Question {
	t.Helper()
	q, err := dnswire.NewQuestion(name, typ, 0x1234)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestPack(t *testing.T) {
	for name, want := range map[string]string{"DB.test": "db.test.", "db.test.": "db.test.", ".": "."} {
		for _, edns := range []bool{false, true} {
			q := question(t, name, "mx")
			var m dnsmessage.Message
			if err := m.Unpack(q.Pack(edns)); err != nil {
				t.Fatal(err)
			}
			if m.ID != 0x1234 || !m.RecursionDesired || len(m.Questions) != 1 || m.Questions[0].Name.String() != want ||
				m.Questions[0].Type != dnsmessage.TypeMX || m.Questions[0].Class != dnsmessage.ClassINET {
				t.Errorf("%s: got %+v", name, m)
			}
			if got := len(m.Additionals) == 1 && m.Additionals[0].Header.Type == dnsmessage.TypeOPT && m.Additionals[0].Header.Class == 1232; got != edns {
				t.Errorf("%s: EDNS %t, want %t", name, got, edns)
			}
			if got := q.Name(); got != strings.TrimSuffix(want, ".") {
				t.Errorf("got %q", got)
			}
			if got := q.String(); got != "MX "+strings.TrimSuffix(want, ".") && got != "MX ." {
				t.Errorf("got %q", got)
			}
		}
	}
}

func TestNewQuestionErrors(t *testing.T) {
	long := strings.Repeat("a.", 127)
	for _, c := range []struct{ name, typ, want string }{
		{"", "A", `"" is not a name`},
		{"a..b", "A", `"a..b" is not a name`},
		{strings.Repeat("a", 64), "A", `"` + strings.Repeat("a", 64) + `" is not a name`},
		{long + "b", "A", `is not a name`},
		{"db.test", "HINFO", `unknown type "HINFO"; known: A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT`},
	} {
		if _, err := dnswire.NewQuestion(c.name, c.typ, 1); err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%q %q: got %v, want %s", c.name, c.typ, err, c.want)
		}
	}
}

func TestFramed(t *testing.T) {
	framed := dnswire.Framed([]byte("abc"))
	if msg, ok := dnswire.Unframed(append(framed, "more"...)); !ok || string(msg) != "abc" {
		t.Errorf("got %q, %t", msg, ok)
	}
	for n := range framed {
		if msg, ok := dnswire.Unframed(framed[:n]); ok {
			t.Errorf("got %q of %d bytes", msg, n)
		}
	}
}

func message(name dnsmessage.Name) dnsmessage.Message {
	return dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 0x1234, Response: true},
		Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}},
	}
}

// answers returns a message with a record of every type, and an extended code.
func answers(t testing.TB) []byte {
	t.Helper()
	name := dnsmessage.MustNewName("DB.Test.")
	m := message(name)
	for _, body := range []dnsmessage.ResourceBody{
		&dnsmessage.AResource{A: [4]byte{10, 0, 0, 9}}, &dnsmessage.AAAAResource{AAAA: [16]byte{15: 1}},
		&dnsmessage.CNAMEResource{CNAME: name}, &dnsmessage.NSResource{NS: name}, &dnsmessage.PTRResource{PTR: name},
		&dnsmessage.MXResource{Pref: 10, MX: name}, &dnsmessage.SRVResource{Priority: 1, Weight: 2, Port: 3, Target: name},
		&dnsmessage.SOAResource{NS: name, MBox: name, Serial: 1, Refresh: 2, Retry: 3, Expire: 4, MinTTL: 5},
		&dnsmessage.TXTResource{TXT: []string{"a", "\"\xff"}}, &dnsmessage.UnknownResource{Type: 99, Data: []byte("x")},
	} {
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: 60}, Body: body})
	}
	m.Answers = append(m.Answers,
		dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassCHAOS}, Body: &dnsmessage.AResource{}},
		dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("a\x01\"b.test."), Class: dnsmessage.ClassINET, TTL: 1<<32 - 1}, Body: &dnsmessage.AResource{}},
	)
	var opt dnsmessage.ResourceHeader
	if err := opt.SetEDNS0(512, 16, false); err != nil {
		t.Fatal(err)
	}
	m.Authorities = m.Answers[:2]
	m.Additionals = []dnsmessage.Resource{m.Answers[0], {Header: opt, Body: &dnsmessage.OPTResource{}}}
	msg, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

func TestRead(t *testing.T) {
	q := question(t, "db.test", "A")
	got, err := q.Read(answers(t), false)
	want := dnswire.Answer{Code: 16, Records: []dnswire.Record{
		{"DB.Test", "A", 60, "10.0.0.9"},
		{"DB.Test", "AAAA", 60, "::1"},
		{"DB.Test", "CNAME", 60, "DB.Test"},
		{"DB.Test", "NS", 60, "DB.Test"},
		{"DB.Test", "PTR", 60, "DB.Test"},
		{"DB.Test", "MX", 60, "10 DB.Test"},
		{"DB.Test", "SRV", 60, "1 2 3 DB.Test"},
		{"DB.Test", "SOA", 60, "DB.Test DB.Test 1 2 3 4 5"},
		{"DB.Test", "TXT", 60, "a\"\xff"},
		{`a\001\034b.test`, "A", 0, "0.0.0.0"},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	if dnswire.CodeName(got.Code) != "BADVERS" || dnswire.CodeName(3) != "NXDOMAIN" || dnswire.CodeName(11) != "RCODE11" {
		t.Errorf("code %s", dnswire.CodeName(got.Code))
	}
}

// Only EDNS version 0 extends the code.
func TestReadExtendedCode(t *testing.T) {
	q := question(t, "db.test", "A")
	for ttl, want := range map[uint32]int{1 << 24: 19, 1<<24 | 1<<16: 3, 1 << 15: 3} {
		m := message(dnsmessage.MustNewName("db.test."))
		m.RCode = dnsmessage.RCodeNameError
		m.Additionals = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeOPT, TTL: ttl}, Body: &dnsmessage.OPTResource{},
		}}
		msg, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if a, err := q.Read(msg, false); err != nil || a.Code != want {
			t.Errorf("%x: got %+v, %v; want code %d", ttl, a, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	q := question(t, "db.test", "A")
	name := dnsmessage.MustNewName("db.test.")
	many := message(name)
	for range dnswire.MaxRecords + 1 {
		many.Answers = append(many.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{}})
	}
	for name, c := range map[string]struct {
		edit func(m *dnsmessage.Message)
		want string // error; "" if the message is accepted
	}{
		"another id":         {func(m *dnsmessage.Message) { m.ID++ }, dnswire.ErrStray.Error()},
		"a question":         {func(m *dnsmessage.Message) { m.Response = false }, dnswire.ErrStray.Error()},
		"another operation":  {func(m *dnsmessage.Message) { m.OpCode = 4 }, dnswire.ErrStray.Error()},
		"another name":       {func(m *dnsmessage.Message) { m.Questions[0].Name = dnsmessage.MustNewName("other.test.") }, dnswire.ErrStray.Error()},
		"another type":       {func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeMX }, dnswire.ErrStray.Error()},
		"two questions":      {func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }, dnswire.ErrStray.Error()},
		"no question":        {func(m *dnsmessage.Message) { m.Questions = nil }, dnswire.ErrStray.Error()},
		"format error":       {func(m *dnsmessage.Message) { m.Questions, m.RCode = nil, dnsmessage.RCodeFormatError }, ""},
		"too many":           {func(m *dnsmessage.Message) { m.Answers = many.Answers }, "more than 1000 records, or 262144 bytes of them"},
		"truncated over UDP": {func(m *dnsmessage.Message) { m.Truncated = true }, ""},
	} {
		m := message(dnsmessage.MustNewName("db.test."))
		c.edit(&m)
		msg, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		a, err := q.Read(msg, false)
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) || a.Truncated != m.Truncated {
			t.Errorf("%s: got %+v, %v; want %q", name, a, err, c.want)
		}
	}
	if _, err := q.Read(answers(t)[:60], true); err == nil || errors.Is(err, dnswire.ErrStray) {
		t.Errorf("a broken answer: got %v", err)
	}
}

// FuzzRead checks that an accepted message answers the question within the bounds, and that
// dnsmessage accepts it too.
func FuzzRead(f *testing.F) {
	seed := answers(f)
	f.Add(seed, false)
	f.Add(seed[:len(seed)-15], true)
	f.Add(dnswire.Framed(seed), true)
	q := question(f, "db.test", "A")
	f.Fuzz(func(t *testing.T, msg []byte, tcp bool) {
		a, err := q.Read(msg, tcp)
		if err != nil {
			return
		}
		if len(msg) < 12 || msg[0] != 0x12 || msg[1] != 0x34 || msg[2]&0x80 == 0 || a.Truncated && tcp || dnswire.CodeName(a.Code) == "" {
			t.Errorf("%x was taken for an answer: %+v", msg, a)
		}
		text := 0
		for _, record := range a.Records {
			text += len(record.Name) + len(record.Data)
			if record.TTL > 1<<31-1 || record.Type == "" {
				t.Errorf("got %+v", record)
			}
		}
		if len(a.Records) > dnswire.MaxRecords || text > dnswire.MaxText {
			t.Errorf("got %d records of %d bytes", len(a.Records), text)
		}
		var p dnsmessage.Parser
		if _, err := p.Start(msg); err != nil || a.Records == nil {
			return
		}
		if err := p.SkipAllQuestions(); err != nil {
			t.Fatal(err)
		}
		for {
			h, err := p.AnswerHeader()
			if err == dnsmessage.ErrSectionDone {
				return
			}
			asked := slices.Contains([]string{"A", "NS", "CNAME", "SOA", "PTR", "MX", "TXT", "AAAA", "SRV"}, strings.TrimPrefix(h.Type.String(), "Type"))
			if err == nil && asked && h.Class == dnsmessage.ClassINET {
				_, err = p.Answer()
			} else if err == nil {
				err = p.SkipAnswer() // dnsmessage knows more types
			}
			if err != nil {
				t.Fatalf("%x: dnsmessage: %v", msg, err)
			}
		}
	})
}
