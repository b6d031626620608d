package plugin_test

import (
	"net/netip"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/daeace23/prober/plugin"
)

func grant(t testing.TB, text string) plugin.Grant {
	t.Helper()
	g, err := plugin.ParseGrant(text)
	if err != nil {
		t.Fatal(err)
	}
	if g.String() != text {
		t.Errorf("got %q, want %q", g, text)
	}
	return g
}

func dial(scheme, name, addr string, port uint16, path string) plugin.Dial {
	d := plugin.Dial{Scheme: scheme, Name: name, Port: port, Path: path}
	if addr != "" {
		d.Addr = netip.MustParseAddr(addr)
	}
	return d
}

func TestGrantsMatch(t *testing.T) {
	db := dial("tcp", "db.prod.internal", "10.0.0.7", 5432, "")
	literal := dial("tcp", "", "10.0.0.7", 5432, "")
	six := dial("tcp", "", "fd00::7", 5432, "")
	socket := dial("unix", "", "", 0, "/run/x.sock")
	ping := dial("icmp", "db.prod.internal", "10.0.0.7", 0, "")
	page := dial("https", "api.example.com", "192.0.2.1", 443, "/v1/pods")
	for _, c := range []struct {
		grant string
		dial  plugin.Dial
		want  bool
	}{
		{"tcp://db.prod.internal:5432", db, true},
		{"tcp://DB.prod.internal.:5432", db, true},
		{"tcp://db.prod.internal:5433", db, false},
		{"tcp://db.prod.internal:5432", literal, false},
		{"tcp://*.internal:5432", db, true},
		{"tcp://*.prod.internal:5432", db, true},
		{"tcp://*.db.prod.internal:5432", db, false},
		{"tcp://*.nal:5432", db, false},
		{"tcp://*:5432", db, true},
		{"tcp://*:*", literal, true},
		{"tcp://10.0.0.0/8:5432", db, true},
		{"tcp://10.0.0.0/8:5432", literal, true},
		{"tcp://10.0.0.0/29:5432", literal, true},
		{"tcp://10.0.0.8/29:5432", literal, false},
		{"tcp://10.0.0.7:5000-6000", literal, true},
		{"tcp://10.0.0.7:1,2,5432", literal, true},
		{"tcp://10.0.0.7:1,2-8", literal, false},
		{"tcp://[::ffff:10.0.0.7]:5432", literal, true},
		{"tcp://[fd00::/8]:5432", six, true},
		{"tcp://[fd00::7]:5432", six, true},
		{"tcp://0.0.0.0/0:5432", six, false},
		{"tcp://[::/0]:5432", literal, false},
		{"udp://10.0.0.7:5432", literal, false},
		{"tls://10.0.0.7:5432", literal, false},
		{"tls://api.example.com:443", page, true},
		{"tcp://api.example.com:443", page, true},
		{"udp://api.example.com:443", page, false},
		{"http://api.example.com:443", page, false},
		{"https://api.example.com", page, true},
		{"https://api.example.com/", page, false},
		{"https://api.example.com/*", page, true},
		{"https://api.example.com/v1/*", page, true},
		{"https://api.example.com/v1/pods", page, true},
		{"https://api.example.com/v2/*", page, false},
		{"https://api.example.com:8443/v1/*", page, false},
		{"https://192.0.2.0/24:443", page, true},
		{"https://[2001:db8::1]:443/a", page, false},
		{"unix:///run/x.sock", socket, true},
		{"unix:///run/y.sock", socket, false},
		{"tcp://*:*", socket, false},
		{"icmp://10.0.0.7", ping, true},
		{"icmp://10.0.0.0/8", ping, true},
		{"icmp://db.prod.internal", ping, true},
		{"icmp://*.internal", ping, true},
		{"icmp://*", ping, true},
		{"icmp://[fd00::/8]", ping, false},
		{"icmp://[fd00::/8]", dial("icmp", "", "fd00::7", 0, ""), true},
		{"icmp://fd00::7", dial("icmp", "", "fd00::7", 0, ""), true},
		{"icmp://*", db, false},
		{"tcp://*:*", ping, false},
		{"!10.0.0.0/8", ping, true},
		{"!10.0.0.7:22", ping, false},
		{"!icmp://10.0.0.7", ping, true},
		{"!icmp://10.0.0.7", db, false},
		{"target", db, false},
		{"kv", db, false},
		{"dns", db, false},
		{"!10.0.0.0/8", literal, true},
		{"!10.0.0.7", db, true},
		{"!10.0.0.7:22", db, false},
		{"!*.internal", db, true},
		{"!fd00::/8", six, true},
		{"!tcp://db.prod.internal", db, true},
		{"!udp://*", db, false},
	} {
		g := grant(t, c.grant)
		if got := g.Matches(c.dial); got != c.want {
			t.Errorf("%s, %+v: got %v, want %v", c.grant, c.dial, got, c.want)
		}
		if g.Deny() != (c.grant[0] == '!') {
			t.Errorf("%s: denies: %v", c.grant, g.Deny())
		}
	}
}

func TestGrantPaths(t *testing.T) {
	allow, deny := grant(t, "https://a/v1/*"), grant(t, "!https://a/v1/*")
	for path, inside := range map[string]bool{
		"/v1/x": true, "/v1/x/": true, "/v1/": true, "/v1/%41": true, "/v1/%7e-._!$&'()*+,=:@": true, "/v1/a.b..c": true,
		"/v2/x": false, "/v1": false, "": false, "/": false,
	} {
		d := dial("https", "a", "192.0.2.1", 443, path)
		if allow.Matches(d) != inside || deny.Matches(d) != inside {
			t.Errorf("%s: allowed %v, denied %v, want %v", path, allow.Matches(d), deny.Matches(d), inside)
		}
	}
}

// Some servers interpret these paths as other ones.
func TestGrantAmbiguousPaths(t *testing.T) {
	allow, deny, all := grant(t, "https://a/v1/*"), grant(t, "!https://a/v1/*"), grant(t, "https://a/*")
	for _, path := range []string{
		"/v1/../admin", "/v1/%2e%2e/admin", "/v1/.%2e/admin", "/v1/%2E./admin", "/v1/./x", "/v1/..", "/v1/.", "/v1/.../admin", // dot segments
		"/v1/..;/admin", "/v1;/x", "/v1/..;a=b/admin", "/v1/%3b/x", "/v1/x;jsessionid=1", "/v1/..%3B/admin", // parameters
		"/v1/%252e%252e/admin", "/v1/%25", "/v1/%2525", "/v1/..%252fadmin", "/v1/%u002e", "/v1/%zz", "/v1/%2", // escapes of escapes
		"/v1/%c0%ae%c0%ae/admin", "/v1/%c0%af", "/v1/%e0%80%ae", "/v1/%f0%80%80%ae", "/v1/%ff", "/v1/\xc0\xae", // overlong, broken
		"/v1/%ef%bc%8e%ef%bc%8e/admin", "/v1/%ef%bc%8fadmin", "/v1/\u2024\u2024/admin", "/v1/\u00e9", // full width
		"/v1/..%2fadmin", "/v1/%2F..%2Fadmin", `/v1/..\admin`, "/v1/..%5cadmin", "/v1/%5C", // other slashes
		"/v1//x", "//v1/x", "/v1/x//", "/v1/%2f/x", // empty segments
		"/v1/%00", "/v1/x%00.txt", "/v1/%0a", "/v1/%09../admin", "/v1/%7f", "/v1/%20", "/v1/..%20/admin", "/v1/x y", // controls and space
		"v1/x", "*", "%2fv1/x", // not absolute
	} {
		d := dial("https", "a", "192.0.2.1", 443, path)
		if allow.Matches(d) || !deny.Matches(d) || !all.Matches(d) {
			t.Errorf("%q: allowed %v, denied %v, allowed for all paths %v", path, allow.Matches(d), deny.Matches(d), all.Matches(d))
		}
	}
	if d := dial("https", "a", "192.0.2.1", 443, "/V1/x"); allow.Matches(d) || !deny.Matches(d) {
		t.Errorf("in upper case: allowed %v, denied %v", allow.Matches(d), deny.Matches(d))
	}
}

func TestGrantNamesAddress(t *testing.T) {
	for _, c := range []struct {
		grant, addr string
		want        bool
	}{
		{"tcp://169.254.169.254:80", "169.254.169.254", true},
		{"tcp://169.254.0.0/16:80", "169.254.169.254", false},
		{"tcp://*:80", "169.254.169.254", false},
		{"tcp://127.0.0.1:80", "127.0.0.1", true},
		{"tcp://127.0.0.0/8:80", "127.0.0.1", true},
		{"tcp://localhost:80", "127.0.0.1", true},
		{"tcp://localhost:80", "::1", true},
		{"tcp://0.0.0.0/0:80", "127.0.0.1", false},
		{"tcp://126.0.0.0/7:80", "127.0.0.1", false},
		{"tcp://[::1]:80", "::1", true},
		{"tcp://[::/0]:80", "::1", false},
		{"tcp://db:80", "127.0.0.1", false},
	} {
		if got := grant(t, c.grant).Names(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s names %s: got %v, want %v", c.grant, c.addr, got, c.want)
		}
	}
}

func TestGrantMayName(t *testing.T) {
	for _, c := range []struct {
		grant string
		dial  bool // looked up for tls://db.internal:443
		dns   bool // looked up for itself
	}{
		{"tcp://db.internal:443", true, false},
		{"tcp://*:443", true, false},
		{"tcp://*:80", false, false},
		{"tcp://10.0.0.0/8:443", false, false},
		{"udp://*:443", false, false},
		{"!tcp://db.internal:443", false, false},
		{"dns", false, true},
		{"dns://*.internal", false, true},
		{"dns://internal", false, false},
		{"kv", false, false},
	} {
		g := grant(t, c.grant)
		if got := g.MayName("tls", "db.internal", 443); got != c.dial {
			t.Errorf("%s: dial: got %v, want %v", c.grant, got, c.dial)
		}
		if got := g.MayLookUp("db.internal"); got != c.dns {
			t.Errorf("%s: dns: got %v, want %v", c.grant, got, c.dns)
		}
	}
}

func TestParseGrantErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "unknown; known: target, tcp://HOST:PORTS, ",
		"db:5432":                 "unknown; known: target, tcp://HOST:PORTS, ",
		"ftp://db:21":             `unknown scheme "ftp"; known: target, tcp://HOST:PORTS, `,
		"tcp://db":                "the port is missing",
		"icmp://db:7":             "must be icmp://HOST, without a port and a path",
		"icmp://10.0.0.7/a":       "must be icmp://HOST, without a port and a path",
		"icmp://":                 "is neither a name nor an address",
		"icmp":                    "unknown; known: ",
		"tcp://db:0":              `"0" is not a port`,
		"tcp://db:65536":          "is not a port",
		"tcp://db:9-1":            "is not a port",
		"tcp://db:1,,2":           `"" is not a port`,
		"tcp://db:80/x":           "only http and https have a path",
		"tcp://10.0.0.1/8:80":     "not the first address of its range",
		"tcp://10.0.0.0/33:80":    "only http and https have a path",
		"tcp://a.*.b:80":          "neither a name nor an address",
		"tcp://a*:80":             "neither a name nor an address",
		"tcp://0177.0.0.1:80":     "neither a name nor an address",
		"tcp://2130706433:80":     "neither a name nor an address",
		"tcp://0x7f.0x1:80":       "neither a name nor an address",
		"tcp://user@db:80":        "neither a name nor an address",
		"tcp://:80":               "neither a name nor an address",
		"https://a/b?c":           "a path ends before ?",
		"https://a/v1;x/*":        "the path is ambiguous",
		"https://a/v1/../*":       "the path is ambiguous",
		"https://a/v1//x":         "the path is ambiguous",
		"https://a/%76":           "the path is ambiguous",
		"https://a/\u00e9":        "the path is ambiguous",
		"!https://a/%2e%2e":       "the path is ambiguous",
		"unix://run/x.sock":       "must be unix:///path",
		"unix:///run/../x.sock":   "must be unix:///path",
		"unix:///run/*.sock":      "a socket must be named whole",
		"file://proc/loadavg":     "must be file:///path",
		"file:///proc/":           "must be file:///path",
		"file:///proc/../etc":     "must be file:///path",
		"file:///a\x00b":          "must be file:///path",
		"file:///**/a":            "a ** is the whole last segment",
		"file:///a/b**":           "a ** is the whole last segment",
		"file:///a/***":           "a ** is the whole last segment",
		"file":                    "unknown; known: ",
		"dns://10.0.0.1":          "neither a name nor an address",
		"!":                       "neither a name nor an address",
		"tcp://[::ffff:0:0/96]:1": "not the first address",
	} {
		if _, err := plugin.ParseGrant(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
	if _, err := plugin.ParseGrants([]string{"target", "x", "y"}); err == nil || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), `"y"`) {
		t.Errorf("got %v, want both", err)
	}
}

func FuzzGrant(f *testing.F) {
	for _, text := range []string{"tcp://10.0.0.0/8:1-2,3", "!fd00::/8", "https://a/b*", "tcp://[::1]:*", "unix:///a", "dns://*.b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := plugin.ParseGrant(text)
		if err != nil {
			return
		}
		// Only a literal address grants a metadata address.
		if metadata := netip.MustParseAddr("169.254.169.254"); g.Names(metadata) && !strings.Contains(text, "169.254.169.254") &&
			!strings.Contains(strings.ToLower(text), "a9fe") {
			t.Errorf("%q names the metadata address", text)
		}
	})
}

// FuzzGrantPath compares the paths that a grant allows with the ways in which servers read them.
func FuzzGrantPath(f *testing.F) {
	for _, p := range []string{"/v1/x", "/v1/..;/a", "/v1/%252e%252e/a", "/v1/%c0%ae", "/v1/a//b", "/v1/%2e%2e%2fa", `/v1/..\a`} {
		f.Add(p)
	}
	g := grant(f, "https://a/v1/*")
	f.Fuzz(func(t *testing.T, escaped string) {
		if !g.Matches(dial("https", "a", "192.0.2.1", 443, escaped)) {
			return
		}
		read := escaped
		for range 3 { // a proxy, a server and a framework
			plain, err := url.PathUnescape(read)
			if err != nil {
				t.Fatalf("%q: %v", escaped, err)
			}
			read = strings.ReplaceAll(plain, `\`, "/")
			var segments []string
			for segment := range strings.SplitSeq(read, "/") {
				segment, _, _ = strings.Cut(segment, ";")
				segments = append(segments, strings.Trim(segment, " \t\x00"))
			}
			if clean := path.Clean(strings.Join(segments, "/")); clean != "/v1" && !strings.HasPrefix(clean, "/v1/") {
				t.Fatalf("%q leads to %q", escaped, clean)
			}
		}
	})
}
