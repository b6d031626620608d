package abi

import "time"

// DialURL documents what dial takes:
//
//	""                       the probe's target, over tcp or its unix socket
//	tcp://host:port
//	udp://host:port
//	tls://host:port          TLS made by the host, with the options below
//	unix:///path
//
// An empty host and port, as in tls:// alone, are the target's. After tls:// a query
// sets the fields of [TLSOptions]: ?serverName=db.internal&alpn=h2&alpn=http/1.1&verify=none
// (a ca is for starttls, which has room for it).
type DialURL = string

// TLSOptions is how a connection is secured: of starttls, of a tls:// URL's query, and
// of [HTTPRequest]. As JSON:
//
//	{"serverName": "db.internal", "alpn": ["h2"], "verify": "full", "ca": "-----BEGIN CERTIFICATE…"}
//
// Every field may be absent. serverName is the dialled host by default; verify is
// "full", or "none" to take any certificate; ca replaces the roots of the system.
type TLSOptions struct {
	ServerName string
	ALPN       []string
	Verify     string
	CA         string // PEM
}

// The values of [TLSOptions].Verify.
const (
	VerifyFull = "full"
	VerifyNone = "none"
)

// DecodeTLSOptions reads options; no bytes are none.
func DecodeTLSOptions(data []byte) (TLSOptions, error) {
	var o TLSOptions
	if len(data) == 0 {
		return o, nil
	}
	d := decoder{scanner{data: data}}
	err := d.tlsOptions(&o)
	if err == nil {
		err = d.end()
	}
	return o, err
}

// AppendTLSOptions appends o to b as JSON.
func AppendTLSOptions(b []byte, o *TLSOptions) []byte {
	b = append(b, '{')
	b = appendField(b, "serverName", o.ServerName)
	b = appendTexts(b, "alpn", o.ALPN)
	b = appendField(b, "verify", o.Verify)
	b = appendField(b, "ca", o.CA)
	return append(b, '}')
}

func (d *decoder) tlsOptions(o *TLSOptions) error {
	texts := textFields{{"serverName", &o.ServerName}, {"verify", &o.Verify}, {"ca", &o.CA}}
	return d.fields(texts, func(name string) (bool, error) {
		if name != "alpn" {
			return false, nil
		}
		return true, d.texts(&o.ALPN)
	})
}

func (d *decoder) texts(to *[]string) error {
	return d.array(func(int) error {
		text, err := d.str()
		*to = append(*to, text)
		return err
	})
}

func appendTexts(b []byte, name string, texts []string) []byte {
	return appendList(b, name, len(texts), func(b []byte, i int) []byte { return AppendString(b, texts[i]) })
}

// HTTPRequest is what do takes. As JSON:
//
//	{"method": "GET", "url": "https://api.example.com/v1?x=y", "headers": {"Accept": "text/plain"},
//	 "redirects": 3, "timeoutMs": 500, "tls": {…}}
//
// Only url is required. A URL without a host (http:///healthz, https:///healthz) goes to
// the probe's target. redirects is how many are followed, 0 by default and
// [MaxRedirects] at most; each is authorised again. tls is a [TLSOptions].
type HTTPRequest struct {
	Method    string
	URL       string
	Headers   map[string]string
	Redirects int
	TimeoutMs int64 // 0: until the deadline
	TLS       TLSOptions
}

// DecodeHTTPRequest reads a request.
func DecodeHTTPRequest(data []byte) (HTTPRequest, error) {
	var r HTTPRequest
	d := decoder{scanner{data: data}}
	err := d.fields(textFields{{"method", &r.Method}, {"url", &r.URL}}, func(name string) (mine bool, err error) {
		switch name {
		case "headers":
			err = d.labels(&r.Headers)
		case "redirects":
			err = d.readInt(&r.Redirects)
		case "timeoutMs":
			err = d.readInt64(&r.TimeoutMs)
		case "tls":
			err = d.tlsOptions(&r.TLS)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil {
		err = d.end()
	}
	return r, err
}

// AppendHTTPRequest appends r to b as JSON.
func AppendHTTPRequest(b []byte, r *HTTPRequest) []byte {
	b = append(b, '{')
	b = appendField(b, "method", r.Method)
	b = appendField(b, "url", r.URL)
	b = appendMap(b, "headers", r.Headers)
	b = appendInt(b, "redirects", int64(r.Redirects))
	b = appendInt(b, "timeoutMs", r.TimeoutMs)
	return append(AppendTLSOptions(appendName(b, "tls"), &r.TLS), '}')
}

// HTTPHead is what head tells. As JSON:
//
//	{"status": 200, "proto": "HTTP/1.1", "url": "https://…", "redirects": 0, "remote": "10.0.0.7:443",
//	 "headers": {"content-type": "text/plain"},
//	 "timings": {"dns": 0.001, "connect": 0.002, "tls": 0.01, "firstByte": 0.02},
//	 "tls": {…}}
//
// The names of headers are in lower case, and the values of one name are joined by ", ".
// url is the last one after redirects. Timings are in seconds and of the last hop; tls is
// as in [ConnInfo], and absent without TLS.
type HTTPHead struct {
	Status                       int
	Proto, URL, Remote           string
	Redirects                    int
	Headers                      map[string]string
	DNS, Connect, TLS, FirstByte time.Duration
	Peer                         *TLSInfo
}

// AppendHTTPHead appends h to b as JSON.
func AppendHTTPHead(b []byte, h *HTTPHead) []byte {
	b = append(b, '{')
	b = appendInt(b, "status", int64(h.Status))
	b = appendField(b, "proto", h.Proto)
	b = appendField(b, "url", h.URL)
	b = appendInt(b, "redirects", int64(h.Redirects))
	b = appendField(b, "remote", h.Remote)
	b = appendMap(b, "headers", h.Headers)
	b = append(appendName(b, "timings"), '{')
	b = appendSeconds(b, "dns", h.DNS)
	b = appendSeconds(b, "connect", h.Connect)
	b = appendSeconds(b, "tls", h.TLS)
	b = append(appendSeconds(b, "firstByte", h.FirstByte), '}')
	return append(appendTLSInfo(b, h.Peer), '}')
}

// DNSRequest is what lookup takes. As JSON:
//
//	{"name": "db.internal", "type": "A", "server": "10.0.0.2:53"}
//
// type is A (the default), AAAA, CNAME, MX, NS, PTR, SOA, SRV or TXT. server is asked in
// place of the system's, and may be "target", the probe's own; it needs a grant to be
// dialled over udp.
type DNSRequest struct{ Name, Type, Server string }

// DecodeDNSRequest reads a request.
func DecodeDNSRequest(data []byte) (DNSRequest, error) {
	var r DNSRequest
	d := decoder{scanner{data: data}}
	err := d.fields(textFields{{"name", &r.Name}, {"type", &r.Type}, {"server", &r.Server}}, nil)
	if err == nil {
		err = d.end()
	}
	return r, err
}

// AppendDNSRequest appends r to b as JSON.
func AppendDNSRequest(b []byte, r *DNSRequest) []byte {
	b = append(b, '{')
	b = appendField(b, "name", r.Name)
	b = appendField(b, "type", r.Type)
	return append(appendField(b, "server", r.Server), '}')
}

// DNSAnswer is what a look-up found. As JSON:
//
//	{"rcode": "NOERROR", "server": "10.0.0.2:53", "seconds": 0.003,
//	 "answers": [{"name": "db.internal", "type": "A", "ttl": 60, "data": "10.0.0.7"}]}
//
// rcode is NOERROR, NXDOMAIN, SERVFAIL, REFUSED, …. data is as in a zone file: "10 mx.example.com"
// of MX, "0 5 5432 db.internal" of SRV; the strings of TXT are joined.
type DNSAnswer struct {
	RCode, Server string
	Took          time.Duration
	Answers       []DNSRecord
}

// DNSRecord is one record of a [DNSAnswer].
type DNSRecord struct {
	Name, Type string
	TTL        uint32
	Data       string
}

// AppendDNSAnswer appends a to b as JSON.
func AppendDNSAnswer(b []byte, a *DNSAnswer) []byte {
	b = append(b, '{')
	b = appendField(b, "rcode", a.RCode)
	b = appendField(b, "server", a.Server)
	b = appendSeconds(b, "seconds", a.Took)
	b = appendList(b, "answers", len(a.Answers), func(b []byte, i int) []byte {
		r := &a.Answers[i]
		b = append(b, '{')
		b = appendField(b, "name", r.Name)
		b = appendField(b, "type", r.Type)
		b = appendInt(b, "ttl", int64(r.TTL))
		return append(appendField(b, "data", r.Data), '}')
	})
	return append(b, '}')
}
