package wasm_test

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

var (
	allow = plugin.Request{Capability: "dns", Allow: []string{"dns", "target"}}
	home  = &dnsmessage.AResource{A: [4]byte{10, 0, 0, 9}}
)

func TestGuestLooksUpNames(t *testing.T) {
	name := dnsmessage.MustNewName
	bodies := map[dnsmessage.Type]dnsmessage.ResourceBody{
		dnsmessage.TypeA:     home,
		dnsmessage.TypeAAAA:  &dnsmessage.AAAAResource{AAAA: [16]byte{0xfd, 15: 1}},
		dnsmessage.TypeCNAME: &dnsmessage.CNAMEResource{CNAME: name("other.test.")},
		dnsmessage.TypeMX:    &dnsmessage.MXResource{Pref: 10, MX: name("mx.test.")},
		dnsmessage.TypeNS:    &dnsmessage.NSResource{NS: name("ns.test.")},
		dnsmessage.TypePTR:   &dnsmessage.PTRResource{PTR: name("ptr.test.")},
		dnsmessage.TypeSOA:   &dnsmessage.SOAResource{NS: name("ns.test."), MBox: name("host.test."), Serial: 1, Refresh: 2, Retry: 3, Expire: 4, MinTTL: 5},
		dnsmessage.TypeSRV:   &dnsmessage.SRVResource{Priority: 1, Weight: 2, Port: 3, Target: name("srv.test.")},
		dnsmessage.TypeTXT:   &dnsmessage.TXTResource{TXT: []string{"in \"two", "\x01\xff parts"}},
	}
	z := nameserver(t, func(_ string, q dnsmessage.Message) [][]byte {
		return [][]byte{answering(q, 0, bodies[q.Questions[0].Type])}
	})
	p := resolver(t, "dns", z)
	for typ, want := range map[string]string{
		"A": "10.0.0.9", "AAAA": "fd00::1", "CNAME": "other.test", "MX": "10 mx.test", "NS": "ns.test", "PTR": "ptr.test",
		"SOA": "ns.test host.test 1 2 3 4 5", "SRV": "1 2 3 srv.test", "TXT": "in \"two\x01\uFFFD parts",
	} {
		f := answerOf(t, resolve(t, p, map[string]any{"name": "_db.Test.", "type": typ}, false))
		if f.RCode != "NOERROR" || f.Server != z.addr || f.Seconds <= 0 || len(f.Answers) != 1 {
			t.Fatalf("%s: got %+v", typ, f)
		}
		if a := f.Answers[0]; a.Name != "_db.test" || a.Type != typ || a.TTL != 60 || a.Data != want {
			t.Errorf("got %+v, want %s %q", a, typ, want)
		}
	}
	if f := answerOf(t, resolve(t, p, map[string]any{"name": "."}, false)); f.Answers[0].Name != "." || f.Answers[0].Type != "A" {
		t.Errorf("got %+v, want an address of the root", f)
	}
}

func TestConcurrentLookUps(t *testing.T) {
	z := nameserver(t, func(_ string, q dnsmessage.Message) [][]byte { return [][]byte{answering(q, 0, home)} })
	f := answerOf(t, resolve(t, resolver(t, "dnspoll", z), map[string]any{"name": "db.test"}, false))
	if seen := z.seen(); len(f.Answers) != 1 || f.Answers[0].Data != "10.0.0.9" || seen != "udpe udpe udpe udpe" {
		t.Errorf("got %+v, asked over %s", f, seen)
	}
	p := resolver(t, "dnsmany", z)
	if got := resolve(t, p, map[string]any{"name": "db.test"}, false); got.Output != "dns: more than 8 look-ups in one run" {
		t.Errorf("got %+v", got)
	}
}

// TestNameserversAreAskedInOrder checks the result for the guest, and the transports over which each of
// two servers was queried.
func TestNameserversAreAskedInOrder(t *testing.T) {
	good := func(q dnsmessage.Message) [][]byte { return [][]byte{answering(q, 0, home)} }
	code := func(c dnsmessage.RCode) func(string, dnsmessage.Message) [][]byte {
		return func(_ string, q dnsmessage.Message) [][]byte { return [][]byte{answering(q, c)} }
	}
	silent := func(string, dnsmessage.Message) [][]byte { return nil }
	for _, c := range []struct {
		name          string
		first, second func(network string, q dnsmessage.Message) [][]byte
		want          string // rcode and data
		asked         string // transports of both servers
	}{
		{"the first one knows", func(_ string, q dnsmessage.Message) [][]byte { return good(q) }, silent, "NOERROR 10.0.0.9", "udpe,"},
		{"there is no such name", code(dnsmessage.RCodeNameError), silent, "NXDOMAIN", "udpe,"},
		{"a code without a name", code(13), silent, "RCODE13", "udpe,"},
		{"the first one fails", code(dnsmessage.RCodeServerFailure), code(0), "NOERROR", "udpe,udpe"},
		{"both fail", code(dnsmessage.RCodeRefused), code(dnsmessage.RCodeServerFailure), "SERVFAIL", "udpe,udpe"},
		{"the first one fails and the second is silent", code(dnsmessage.RCodeRefused), silent, "REFUSED", "udpe,udpe udpe"},
		{"the first one is silent", silent, func(_ string, q dnsmessage.Message) [][]byte { return good(q) }, "NOERROR 10.0.0.9", "udpe,udpe"},
		{"without EDNS", func(n string, q dnsmessage.Message) [][]byte {
			if strings.HasSuffix(n, "e") {
				m := dnsmessage.Message{Header: dnsmessage.Header{ID: q.ID, Response: true, RCode: dnsmessage.RCodeFormatError}}
				msg, _ := m.Pack()
				return [][]byte{msg}
			}
			return good(q)
		}, silent, "NOERROR 10.0.0.9", "udpe udp,"},
		{"EDNS is not at fault", code(dnsmessage.RCodeFormatError), silent, "FORMERR", "udpe udp,"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := newSilence()
			first, second := nameserver(t, clock.observe(c.first)), nameserver(t, clock.observe(c.second))
			f := answerOf(t, resolve(t, resolverAt(t, clock, "dns", first, second), map[string]any{"name": "db.test"}, unhurried))
			parts := []string{f.RCode}
			for _, a := range f.Answers {
				parts = append(parts, a.Data)
			}
			got := strings.Join(parts, " ")
			if asked := first.seen() + "," + second.seen(); got != c.want || asked != c.asked {
				t.Errorf("got %s, asked over %s; want %s over %s", got, asked, c.want, c.asked)
			}
		})
	}
}

func TestLostQuestionIsAskedAgain(t *testing.T) {
	t.Parallel()
	lost, clock := true, newSilence()
	z := nameserver(t, clock.observe(func(_ string, q dnsmessage.Message) [][]byte {
		if lost {
			lost = false
			return nil
		}
		return [][]byte{answering(q, 0, home)}
	}))
	f := answerOf(t, resolve(t, resolverAt(t, clock, "dns", z), map[string]any{"name": "db.test"}, unhurried))
	if seen := z.seen(); len(f.Answers) != 1 || seen != "udpe udpe" || f.Seconds != 1 {
		t.Errorf("got %+v, asked over %s", f, seen)
	}
}

func TestLongDNSAnswersUseTCP(t *testing.T) {
	var long []dnsmessage.ResourceBody
	for i := range 240 {
		long = append(long, &dnsmessage.TXTResource{TXT: []string{strings.Repeat(string(rune('a'+i%26)), 250)}})
	}
	z := nameserver(t, func(network string, q dnsmessage.Message) [][]byte {
		if strings.HasPrefix(network, "udp") {
			return cut(q)
		}
		return [][]byte{answering(q, 0, long...)}
	})
	var answer string
	target := probe.Target{Host: "10.0.0.7", Port: 53}
	b := bind(t, resolver(t, "dns", z), `{"req":{"name":"db.test","type":"TXT"}}`, target)
	got, err := attempt(t, b, probe.Request{Target: target, Debug: true, Trace: func(e probe.TraceEvent) {
		if e.Name == "dns" {
			answer = e.Detail
		}
	}}, 5*time.Second)
	if err != nil || got.Result != probe.Success || answer != "TXT db.test: NOERROR, 240 records from "+z.addr {
		t.Errorf("got %+v, %v, traced %s", got, err, answer)
	}
	if seen := z.seen(); seen != "udpe tcpe" {
		t.Errorf("asked over %s", seen)
	}
}

// TestHostileNameservers checks that the guest gets an answer or an error in time.
func TestHostileNameservers(t *testing.T) {
	over := func(udp, tcp func(q dnsmessage.Message) [][]byte) func(string, dnsmessage.Message) [][]byte {
		return func(n string, q dnsmessage.Message) [][]byte {
			if strings.HasPrefix(n, "udp") {
				return udp(q)
			}
			return tcp(q)
		}
	}
	garbage := slices.Repeat([]byte{0xc0, 0x0c}, 300)
	with := func(change func(msg []byte) []byte) func(dnsmessage.Message) [][]byte {
		return func(q dnsmessage.Message) [][]byte { return [][]byte{change(answering(q, 0, home))} }
	}
	asking := func(name string, typ dnsmessage.Type) func(dnsmessage.Message) [][]byte {
		return func(q dnsmessage.Message) [][]byte {
			q.Questions = []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}}
			return [][]byte{answering(q, 0, home)}
		}
	}
	const timedOut = "no answer in time"
	for _, c := range []struct {
		name   string
		answer func(string, dnsmessage.Message) [][]byte
		want   string // part of the guest's message
	}{
		{"never answers", over(func(dnsmessage.Message) [][]byte { return nil }, nil), timedOut},
		{"garbage", over(func(dnsmessage.Message) [][]byte { return [][]byte{garbage} }, nil), timedOut},
		{"nothing", over(func(dnsmessage.Message) [][]byte { return [][]byte{{}, {0}} }, nil), timedOut},
		{"a flood of garbage", over(func(dnsmessage.Message) [][]byte { return slices.Repeat([][]byte{garbage}, 200) }, nil), "not an answer to the question"},
		{"another ID", over(with(func(m []byte) []byte { m[0]++; return m }), nil), timedOut},
		{"a query", over(with(func(m []byte) []byte { m[2] &^= 0x80; return m }), nil), timedOut},
		{"another name", over(asking("evil.test.", dnsmessage.TypeA), nil), timedOut},
		{"another type", over(asking("db.test.", dnsmessage.TypeTXT), nil), timedOut},
		{"two questions", over(func(q dnsmessage.Message) [][]byte {
			q.Questions = append(q.Questions, q.Questions[0])
			return [][]byte{answering(q, 0, home)}
		}, nil), timedOut},
		{"a wrong answer before the right one", over(func(q dnsmessage.Message) [][]byte {
			return append(asking("evil.test.", dnsmessage.TypeA)(q), answering(q, 0, home))
		}, nil), `"data":"10.0.0.9"`},
		{"breaks off", over(with(func(m []byte) []byte { return m[:len(m)-3] }), nil), "a broken answer"},
		{"a name that points to itself", over(with(func(m []byte) []byte {
			at := len(m) - 4 - 10 - 2 // offset of the record's name, which is a pointer
			binary.BigEndian.PutUint16(m[at:], 0xc000|uint16(at))
			return m
		}), nil), "a broken answer"},
		{"more records than there are", over(with(func(m []byte) []byte { m[6] = 0xff; return m }), nil), "a broken answer"},
		{"a huge TTL", over(with(func(m []byte) []byte {
			binary.BigEndian.PutUint32(m[len(m)-4-2-4:], 1<<32-1)
			return m
		}), nil), `"type":"A","data":"10.0.0.9"`},
		{"cut, and again over tcp", over(cut, cut), `"rcode":"NOERROR"`},
		{"cut, and nothing over tcp", over(cut, func(dnsmessage.Message) [][]byte { return nil }), timedOut},
		{"cut, and garbage over tcp", over(cut, func(dnsmessage.Message) [][]byte { return [][]byte{garbage} }), "not an answer to the question"},
		{"cut, and 64 KiB of zeros over tcp", over(cut, func(dnsmessage.Message) [][]byte { return [][]byte{make([]byte, 1<<16-1)} }), "not an answer to the question"},
		{"cut, and more records than are taken over tcp", over(cut, func(q dnsmessage.Message) [][]byte {
			return [][]byte{answering(q, 0, slices.Repeat([]dnsmessage.ResourceBody{home}, 2000)...)}
		}), "more than 1000 records"},
		{"cut, and more text than is taken over tcp", over(cut, func(q dnsmessage.Message) [][]byte {
			name := dnsmessage.MustNewName(strings.Repeat(strings.Repeat("\x01", 60)+".", 4))
			return [][]byte{answering(q, 0, slices.Repeat([]dnsmessage.ResourceBody{&dnsmessage.NSResource{NS: name}}, 900)...)}
		}), "or 262144 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := resolve(t, resolver(t, "dns", nameserver(t, c.answer)), map[string]any{"name": "db.test"}, c.want == timedOut)
			said := strings.Contains(got.Output, c.want) || c.want == timedOut && strings.Contains(got.Output, "i/o timeout") // a dial may time out on a busy machine
			if !said || got.Result == probe.Failure && got.Reason != probe.ReasonDNS {
				t.Errorf("got %+v, want %q", got, c.want)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		p := resolver(t, "dns", &zone{addr: deadAddr})
		if got := resolve(t, p, map[string]any{"name": "db.test"}, false); got.Reason != probe.ReasonDNS || !strings.Contains(got.Output, "refused") {
			t.Errorf("got %+v", got)
		}
	})
}

func TestLookUpEndsAtDeadline(t *testing.T) {
	z := nameserver(t, func(string, dnsmessage.Message) [][]byte { return nil })
	target := probe.Target{Host: "10.0.0.7", Port: 53}
	b := bind(t, resolver(t, "dns", z), `{"req":{"name":"db.test"}}`, target)
	if got, err := overrun(t, b, probe.Request{Target: target}, 100*time.Millisecond); err != nil || got.Reason != probe.ReasonDeadline {
		t.Errorf("got %+v, %v, want a time-out", got, err)
	}
}

func TestInvalidLookUpsAreRefused(t *testing.T) {
	p := resolver(t, "dns", nameserver(t, func(_ string, q dnsmessage.Message) [][]byte { return [][]byte{answering(q, 0)} }))
	var got []string
	for _, req := range []map[string]any{
		{"name": ""},
		{"name": "a..b"},
		{"name": "10.0.0.1"},
		{"name": strings.Repeat("a.", 200) + "b"},
		{"name": "db.test", "type": "ANY"},
		{"name": 1},
		{"name": "db.test", "server": "target:x"},
	} {
		out := resolve(t, p, req, false)
		if out.Result != probe.Failure {
			t.Errorf("%v: got %+v", req, out)
		}
		got = append(got, out.Output)
	}
	want := []string{
		`dns: "" is not a name`,
		`dns: "a..b" is not a name`,
		`dns: "10.0.0.1" is not a name`,
		fmt.Sprintf(`dns: "%s" is not a name`, strings.Repeat("a.", 100)),
		`dns: unknown type "ANY"; known: A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT`,
		`dns: request: name: byte 8 of JSON: expected a string, got '1'`,
		`dial udp target:x: want a port from 1 to 65535`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultNameservers(t *testing.T) {
	if _, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), DNSServers: []string{"dns.internal:53"}}); err == nil || !strings.Contains(err.Error(), `nameserver "dns.internal:53": want an IP and a port`) {
		t.Errorf("got %v", err)
	}
	h, err := wasm.New(wasm.Config{CacheDir: filepath.Join(t.TempDir(), "cache"), Interpreter: true, DNSServers: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p := loadAs(t, h, "dns", asking("dns", allow), grants(t, "dns")...)
	if got := resolve(t, p, map[string]any{"name": "db.test"}, false); got.Output != "dns: there is no nameserver" {
		t.Errorf("got %+v", got)
	}
}
