package abi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/abi"
)

func TestAnswersOfTheHost(t *testing.T) {
	peer := &abi.TLSInfo{Version: "TLS 1.3", Cipher: "c", ALPN: "h2", ServerName: "db", Certificates: []abi.Certificate{
		{Subject: "CN=db", NotBefore: time.Unix(1, 0), NotAfter: time.Unix(2, 0), SANs: []string{"db"}, SHA256: "ab"},
		{Subject: "CN=ca", NotBefore: time.Unix(3, 0), NotAfter: time.Unix(4, 0)},
	}}
	head := abi.HTTPHead{
		Status: 404, Proto: "HTTP/1.1", URL: "https://b/c", Remote: "10.0.0.7:443", Redirects: 2,
		Headers: map[string]string{"content-type": "text/plain"},
		DNS:     time.Microsecond, Connect: 1500 * time.Microsecond, TLS: time.Second, FirstByte: 3 * time.Millisecond, Peer: peer,
	}
	if got, err := abi.DecodeHTTPHead(abi.AppendHTTPHead(nil, &head)); err != nil || cmp.Diff(head, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(head, got))
	}
	info := abi.ConnInfo{Network: "tls", Local: "a:1", Remote: "b:2", DNS: 1, Connect: 123456789, TLS: time.Second, Peer: peer}
	if got, err := abi.DecodeConnInfo(abi.AppendConnInfo(nil, &info)); err != nil || cmp.Diff(info, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(info, got))
	}
	answer := abi.DNSAnswer{RCode: "NOERROR", Server: "10.0.0.2:53", Took: 3 * time.Millisecond, Answers: []abi.DNSRecord{
		{Name: "a", Type: "CNAME", TTL: 60, Data: "b"}, {Name: "b", Type: "A", Data: "10.0.0.7"},
	}}
	if got, err := abi.DecodeDNSAnswer(abi.AppendDNSAnswer(nil, &answer)); err != nil || cmp.Diff(answer, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(answer, got))
	}
	none := abi.DNSAnswer{RCode: "NXDOMAIN"}
	if got, err := abi.DecodeDNSAnswer(abi.AppendDNSAnswer(nil, &none)); err != nil || cmp.Diff(none, got) != "" {
		t.Errorf("%v\n%s", err, cmp.Diff(none, got))
	}
}

func TestAnswersOfAStrangeHost(t *testing.T) {
	for _, doc := range []string{``, `[]`, `{"status":"200"}`, `{"tls":1}`, `{"timings":{"dns":"1s"}}`, `{} {}`} {
		if _, err := abi.DecodeHTTPHead([]byte(doc)); err == nil {
			t.Errorf("head %s: want an error", doc)
		}
	}
	for _, doc := range []string{``, `{"timings":[]}`, `{"tls":{"peer":{}}}`} {
		if _, err := abi.DecodeConnInfo([]byte(doc)); err == nil {
			t.Errorf("info %s: want an error", doc)
		}
	}
	for _, doc := range []string{``, `{"answers":{}}`, `{"answers":[{"ttl":"x"}]}`, `{"seconds":null}`} {
		if _, err := abi.DecodeDNSAnswer([]byte(doc)); err == nil {
			t.Errorf("answer %s: want an error", doc)
		}
	}
	got, err := abi.DecodeHTTPHead([]byte(`{"later":{"x":[1]},"status":200,"timings":{"body":1}}`))
	if err != nil || got.Status != 200 {
		t.Errorf("got %+v, %v, want unknown fields ignored", got, err)
	}
}
