package dns

import (
	"strings"
	"testing"
)

func TestZoneFileRoundTrip(t *testing.T) {
	for data, typ := range map[string]string{
		"10.0.0.1": "A", "fd00::1": "AAAA", "a.b": "CNAME", "ns.b": "NS", "ptr.b": "PTR",
		"10 mx.b": "MX", "0 5 5432 db.b": "SRV", "ns.b admin.b 1 2 3 4 5": "SOA",
		strings.Repeat("long ", 100): "TXT",
	} {
		body, err := resource(recordTypes[typ], data)
		if err != nil || dataOf(body) != data {
			t.Errorf("%s: got %q, %v, want %q", typ, dataOf(body), err, data)
		}
	}
}

func TestZoneFileErrors(t *testing.T) {
	for _, c := range []struct{ typ, data, want string }{
		{"A", "fd00::1", "is not an address of the type A"},
		{"AAAA", "10.0.0.1", "is not an address of the type AAAA"},
		{"A", "a.b", "unexpected character"},
		{"MX", "mx.b", `"mx.b" must have 2 fields, as in a zone file`},
		{"SRV", "0 5 99999 db.b", "value out of range"},
		{"CNAME", strings.Repeat("a", 300), "length"},
	} {
		if body, err := resource(recordTypes[c.typ], c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: got %v, %v, want %q", c.typ, c.data, body, err, c.want)
		}
	}
}
