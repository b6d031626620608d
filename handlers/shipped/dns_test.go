package shipped_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// zone returns the records for a question of any type.
func zone(t *testing.T, question dnsmessage.Question) (answers, authorities []dnsmessage.Resource) {
	t.Helper()
	name := dnsmessage.MustNewName
	record := func(body dnsmessage.ResourceBody) dnsmessage.Resource {
		return dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, TTL: 60}, Body: body}
	}
	soa := record(&dnsmessage.SOAResource{NS: name("ns.test."), MBox: name("root.test."), Serial: 2024010101, Refresh: 1, Retry: 2, Expire: 3, MinTTL: 4})
	switch question.Type {
	case dnsmessage.TypeA:
		answers = []dnsmessage.Resource{record(&dnsmessage.AResource{A: [4]byte{10, 0, 0, 7}}), record(&dnsmessage.AResource{A: [4]byte{10, 0, 0, 8}})}
	case dnsmessage.TypeAAAA:
		answers = []dnsmessage.Resource{record(&dnsmessage.AAAAResource{AAAA: [16]byte{0xfd, 15: 1}})}
	case dnsmessage.TypeMX:
		answers = []dnsmessage.Resource{record(&dnsmessage.MXResource{Pref: 10, MX: name("mx1.test.")})}
	case dnsmessage.TypeSRV:
		answers = []dnsmessage.Resource{record(&dnsmessage.SRVResource{Priority: 1, Weight: 2, Port: 3, Target: name("db.test.")})}
	case dnsmessage.TypeTXT:
		answers = []dnsmessage.Resource{record(&dnsmessage.TXTResource{TXT: []string{"a b", "c\"d\\\xff"}})}
	case dnsmessage.TypeCNAME:
		answers = []dnsmessage.Resource{record(&dnsmessage.CNAMEResource{CNAME: name("other.test.")})}
	case dnsmessage.TypeSOA:
		answers = []dnsmessage.Resource{soa}
	default:
		authorities = []dnsmessage.Resource{soa}
	}
	return answers, authorities
}

// reply returns the answer to a query message.
func reply(t *testing.T, message []byte) []byte {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(message); err != nil || len(m.Questions) != 1 {
		t.Errorf("%x: %v", message, err)
		return nil
	}
	m.Response = true
	if strings.HasPrefix(m.Questions[0].Name.String(), "gone.") {
		m.RCode = dnsmessage.RCodeNameError
	} else {
		m.Answers, m.Authorities = zone(t, m.Questions[0])
	}
	packed, err := m.Pack()
	if err != nil {
		t.Error(err)
	}
	return packed
}

// nameserver starts a nameserver for UDP and TCP on one port. Over UDP it first sends an answer to another
// question.
func nameserver(t *testing.T) probe.Target {
	t.Helper()
	target := listen(t, func(c net.Conn) {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, message); err != nil {
			return
		}
		packed := reply(t, message)
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	})
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: target.Port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := socket.ReadFromUDP(buf)
			if err != nil {
				return
			}
			packed := reply(t, buf[:n])
			wrong := append([]byte{^packed[0]}, packed[1:]...)
			_, _ = socket.WriteToUDP(wrong, from)
			_, _ = socket.WriteToUDP(packed, from)
		}
	}()
	return target
}

// TestDNS queries a server that encodes its answers with golang.org/x/net.
func TestDNS(t *testing.T) {
	host, err := wasm.New(wasm.Config{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	dns, err := host.Load(t.Context(), found(t, "dns"))
	if err != nil {
		t.Fatal(err)
	}
	target := nameserver(t)
	const all = `"queryName":"shop.test",`
	for _, c := range []struct {
		config, want string
		metrics      map[string]float64
	}{
		{all + `"queryType":"A"`, "NOERROR, 2 records", map[string]float64{"dns_answer_rrs": 2, "dns_authority_rrs": 0, "dns_query_succeeded": 1, "ip_protocol": 4}},
		{all + `"queryType":"A","transportProtocol":"tcp"`, "NOERROR, 2 records", nil},
		{all + `"queryType":"ANY"`, "NOERROR, 0 records", map[string]float64{"dns_answer_rrs": 0, "dns_authority_rrs": 1}},
		{`"queryName":"gone.test.","queryType":"A"`, "the answer is NXDOMAIN, want NOERROR", map[string]float64{"dns_query_succeeded": 1}},
		{`"queryName":"gone.test.","queryType":"A","validRcodes":["NXDOMAIN","REFUSED"]`, "NXDOMAIN, 0 records", nil},
		{all + `"queryType":"A","validateAnswerRrs":{"failIfNotMatchesRegexp":["^shop\\.test\\.\\t60\\tIN\\tA\\t10\\.0\\.0\\.[78]$"]}`, "NOERROR", nil},
		{all + `"queryType":"A","validateAnswerRrs":{"failIfMatchesRegexp":["0\\.8$"]}`, `the answer section has "shop.test.\t60\tIN\tA\t10.0.0.8", which matches "0\\.8$"`, nil},
		{all + `"queryType":"A","validateAnswerRrs":{"failIfNotMatchesRegexp":["7$"]}`, `which does not match "7$"`, nil},
		{all + `"queryType":"A","validateAnswerRrs":{"failIfAllMatchRegexp":["10"]}`, "NOERROR", nil},
		{all + `"queryType":"A","validateAnswerRrs":{"failIfAllMatchRegexp":["7$"]}`, `which does not match "7$"`, nil},
		{all + `"queryType":"A","validateAnswerRrs":{"failIfNoneMatchesRegexp":["8$"]}`, "NOERROR", nil},
		{all + `"queryType":"A","validateAnswerRrs":{"failIfNoneMatchesRegexp":["9$"]}`, `nothing of the answer section matches "9$"`, nil},
		{all + `"queryType":"TYPE99","validateAnswerRrs":{"failIfNoneMatchesRegexp":["9$"]}`, `the answer section is empty, and must match "9$"`, nil},
		{all + `"queryType":"TYPE99","validateAuthorityRrs":{"failIfNotMatchesRegexp":["SOA\\tns.test. root.test. 2024010101 1 2 3 4$"]}`, "NOERROR", nil},
		{all + `"queryType":"SOA"`, "NOERROR, 1 records", map[string]float64{"dns_serial": 2024010101}},
		{all + `"queryType":"AAAA","validateAnswerRrs":{"failIfNotMatchesRegexp":["\\tAAAA\\tfd00::1$"]}`, "NOERROR", nil},
		{all + `"queryType":"MX","validateAnswerRrs":{"failIfNotMatchesRegexp":["\\tMX\\t10 mx1.test.$"]}`, "NOERROR", nil},
		{all + `"queryType":"SRV","validateAnswerRrs":{"failIfNotMatchesRegexp":["\\tSRV\\t1 2 3 db.test.$"]}`, "NOERROR", nil},
		{all + `"queryType":"CNAME","validateAnswerRrs":{"failIfNotMatchesRegexp":["\\tCNAME\\tother.test.$"]}`, "NOERROR", nil},
		{all + `"queryType":"TXT","validateAnswerRrs":{"failIfNotMatchesRegexp":["\\tTXT\\t\"a b\" \"c\\\\\"d\\\\\\\\\\\\255\"$"]}`, "NOERROR", nil},
	} {
		h, err := dns.Prepare([]byte("{"+c.config+"}"), target)
		if err != nil {
			t.Fatal(err)
		}
		out, err := h.Probe(t.Context(), probe.Request{Target: target})
		if err != nil || !strings.Contains(out.Output, c.want) {
			t.Errorf("%s: got %s %q, %v; want %q", c.config, out.Result, out.Output, err, c.want)
		}
		for name, want := range c.metrics {
			for _, m := range out.Metrics {
				if m.Name == name && m.Value == want {
					want = -1
				}
			}
			if want != -1 {
				t.Errorf("%s: no %s of %v in %v", c.config, name, want, out.Metrics)
			}
		}
	}
}
