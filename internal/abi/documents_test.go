package abi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/abi"
)

// roundTrip appends a document, checks that the result is valid JSON, and decodes it.
func roundTrip[T any](t *testing.T, want T, appendTo func([]byte, *T) []byte, decode func([]byte) (T, error)) {
	t.Helper()
	doc := appendTo(nil, &want)
	got, err := decode(doc)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || !json.Valid(doc) {
		t.Errorf("%v\n%s\n%s", err, doc, diff)
	}
}

func TestDocumentsRoundTrip(t *testing.T) {
	tls := abi.TLSOptions{ServerName: "db", ALPN: []string{"h2", "http/1.1"}, Verify: abi.VerifyNone, CA: "-----BEGIN\n"}
	peer := &abi.TLSInfo{Version: "TLS 1.3", Cipher: "c", ALPN: "h2", ServerName: "db", Certificates: []abi.Certificate{
		{Subject: "CN=db", NotBefore: time.Unix(1, 0), NotAfter: time.Unix(2, 0), SANs: []string{"db"}, SHA256: "ab"},
		{Subject: "CN=ca", NotBefore: time.Unix(3, 0), NotAfter: time.Unix(4, 0)},
	}}
	roundTrip(t, tls, abi.Append, abi.Decode[abi.TLSOptions])
	roundTrip(t, abi.HTTPRequest{
		Method: "POST", URL: "https:///a", Headers: map[string]string{"A": "b"}, Redirects: 2, TimeoutMs: 7, TLS: tls,
	}, abi.Append, abi.Decode[abi.HTTPRequest])
	roundTrip(t, abi.HTTPHead{
		Status: 404, Proto: "HTTP/1.1", URL: "https://b/c", Remote: "10.0.0.7:443", Redirects: 2,
		Headers: map[string]string{"content-type": "text/plain"},
		DNS:     time.Microsecond, Connect: 1500 * time.Microsecond, TLS: time.Second, FirstByte: 3 * time.Millisecond, Peer: peer,
	}, abi.Append, abi.Decode[abi.HTTPHead])
	roundTrip(t, abi.ConnInfo{
		Network: "tls", Local: "a:1", Remote: "b:2", DNS: 1, Connect: 123456789, TLS: time.Second, Peer: peer,
	}, abi.Append, abi.Decode[abi.ConnInfo])
	roundTrip(t, abi.DNSRequest{Name: "a.b", Type: "TXT", Server: "target"}, abi.Append, abi.Decode[abi.DNSRequest])
	roundTrip(t, abi.DNSAnswer{RCode: "NXDOMAIN"}, abi.Append, abi.Decode[abi.DNSAnswer])
	roundTrip(t, abi.EchoRequest{
		Host: "db", Route: abi.Route{IPFamily: abi.IPv4First, SourceAddress: "10.0.0.1"}, Payload: 8, HopLimit: 1, DontFragment: true,
	}, abi.Append, abi.Decode[abi.EchoRequest])
	roundTrip(t, abi.EchoReply{
		Local: "10.0.0.1", Remote: "10.0.0.7", Payload: 8, HopLimit: 64, DNS: 1, Setup: time.Microsecond, RTT: time.Second,
	}, abi.Append, abi.Decode[abi.EchoReply])
	roundTrip(t, abi.FileInfo{Type: "file", Size: 1 << 40, Mode: 0o644, Modified: time.Unix(1, 0), UID: 1, GID: 2}, abi.Append, abi.Decode[abi.FileInfo])
	roundTrip(t, abi.FilesystemInfo{Total: 5, Free: 4, Available: 3, Inodes: 2, InodesFree: 1, ReadOnly: true}, abi.Append, abi.Decode[abi.FilesystemInfo])
	roundTrip(t, abi.FileList{Entries: []abi.FileEntry{{Name: "a\n", Type: "file"}, {Name: "b", Type: "directory"}}}, abi.Append, abi.Decode[abi.FileList])
	roundTrip(t, abi.DNSAnswer{RCode: "NOERROR", Server: "10.0.0.2:53", Took: 3 * time.Millisecond, Answers: []abi.DNSRecord{
		{Name: "a", Type: "CNAME", TTL: 60, Data: "b"}, {Name: "b", Type: "A", Data: "10.0.0.7"},
	}}, abi.Append, abi.Decode[abi.DNSAnswer])
}

func TestDocumentsAsJSON(t *testing.T) {
	peer := &abi.TLSInfo{Version: "TLS 1.3", Cipher: "c", ALPN: "h2", ServerName: "db", Certificates: []abi.Certificate{{
		Subject: "CN=db", Issuer: "CN=ca", NotBefore: time.Unix(1, 0), NotAfter: time.Unix(2, 0), SANs: []string{"db", "10.0.0.7"}, SHA256: "ab",
	}}}
	const peerDoc = `"tls":{"version":"TLS 1.3","cipher":"c","alpn":"h2","serverName":"db",` +
		`"peer":[{"subject":"CN=db","issuer":"CN=ca","notBefore":1,"notAfter":2,"sans":["db","10.0.0.7"],"sha256":"ab"}]}`
	for want, got := range map[string][]byte{
		`{"network":"tls","local":"a:1","remote":"b:2","timings":{"dns":1,"connect":2,"tls":3},` + peerDoc + `}`: abi.Append(nil, &abi.ConnInfo{
			Network: "tls", Local: "a:1", Remote: "b:2", DNS: time.Second, Connect: 2 * time.Second, TLS: 3 * time.Second, Peer: peer,
		}),
		`{"network":"udp","timings":{"dns":0,"connect":0}}`: abi.Append(nil, &abi.ConnInfo{Network: "udp"}),
		`{"status":200,"proto":"HTTP/1.1","url":"u","redirects":1,"remote":"b:2","headers":{"a":"b"},` +
			`"timings":{"dns":0,"connect":0,"tls":0,"firstByte":1},"phases":{"resolve":0,"connect":0,"tls":0,"processing":0},` + peerDoc + `}`: abi.Append(nil, &abi.HTTPHead{
			Status: 200, Proto: "HTTP/1.1", URL: "u", Redirects: 1, Remote: "b:2", Headers: map[string]string{"a": "b"}, FirstByte: time.Second, Peer: peer,
		}),
		`{"rcode":"NOERROR","server":"s","seconds":1,"answers":[{"name":"a","type":"A","ttl":60,"data":"10.0.0.7"}]}`: abi.Append(nil, &abi.DNSAnswer{
			RCode: "NOERROR", Server: "s", Took: time.Second, Answers: []abi.DNSRecord{{Name: "a", Type: "A", TTL: 60, Data: "10.0.0.7"}},
		}),
	} {
		if string(got) != want || !json.Valid(got) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, doc := range []string{``, `[]`, `{"status":"200"}`, `{"tls":1}`, `{"timings":{"dns":"1s"}}`, `{} {}`} {
		if _, err := abi.Decode[abi.HTTPHead]([]byte(doc)); err == nil {
			t.Errorf("head %s: want an error", doc)
		}
	}
	for _, doc := range []string{``, `{"timings":[]}`, `{"tls":{"peer":{}}}`} {
		if _, err := abi.Decode[abi.ConnInfo]([]byte(doc)); err == nil {
			t.Errorf("info %s: want an error", doc)
		}
	}
	for _, doc := range []string{``, `{"answers":{}}`, `{"answers":[{"ttl":"x"}]}`, `{"seconds":null}`} {
		if _, err := abi.Decode[abi.DNSAnswer]([]byte(doc)); err == nil {
			t.Errorf("answer %s: want an error", doc)
		}
	}
	got, err := abi.Decode[abi.HTTPHead]([]byte(`{"later":{"x":[1]},"status":200,"timings":{"body":1}}`))
	if err != nil || got.Status != 200 {
		t.Errorf("got %+v, %v, want unknown fields ignored", got, err)
	}
}
