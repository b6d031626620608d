package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTablesAreCurrent(t *testing.T) {
	page, err := os.ReadFile("../../docs/abi.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := replace(string(page), "../../sdk")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("docs/abi.md is not current: run `make docs` (-want +got)\n%s", diff)
	}
}

func TestCellsAreChecked(t *testing.T) {
	s := &source{names: []string{"a", "B.c"}, text: `"field":`}
	for _, c := range []struct{ cell, literal, want string }{
		{"a B.c", "field", ""},
		{"-a reason", "none", ""},
		{"", "", "empty"},
		{"- ", "", "empty"},
		{"a d", "", "does not have d"},
		{"a", "other", `does not write the field "other"`},
	} {
		err := s.check(c.cell, c.literal)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q, %q: got %v, want %q", c.cell, c.literal, err, c.want)
		}
	}
}

// TestSourcesAreRead checks that each reader finds the kinds of names, and no other types.
func TestSourcesAreRead(t *testing.T) {
	for i, c := range []struct{ has, lacks string }{
		{"Dial Dialer.DialContext HTTPRequest.HTTP2 Request.Progressf", "Host.Dial hostDial.x"},
		{"progress digest::sha512 json::lookup net::Conn::read net::Tls.ca http::Request::send", "lookup net::Tls.url"},
		{"prober_ping prober_success prober_tls.alpn prober_http_request.proxy_headers", "prober_dns_request.proxy"},
		{"dial HttpRequest.send HttpResponse.head Request.kind", "netDial kind"},
	} {
		s, err := languages[i].read("../../sdk")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check(c.has, ""); err != nil {
			t.Errorf("%s: %v", languages[i].name, err)
		}
		for name := range strings.SplitSeq(c.lacks, " ") {
			if s.check(name, "") == nil {
				t.Errorf("%s: found %s", languages[i].name, name)
			}
		}
	}
}

func TestMissingLinesAreAnError(t *testing.T) {
	if _, err := replace("no tables", "../../sdk"); err == nil {
		t.Error("want an error")
	}
}
