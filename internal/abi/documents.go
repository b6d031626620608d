package abi

import "time"

// DialURL documents the argument of dial:
//
//	""                       the probe's target, over tcp or its unix socket
//	tcp://host:port
//	udp://host:port
//	tls://host:port          TLS made by the host, with the options below
//	unix:///path
//
// Without a host and a port, as in "tls://", the target's are used. A query sets the [Route]:
// ?ipFamily=4,6&sourceAddress=10.0.0.1. With tls:// it also sets the fields of [TLSOptions]:
// ?serverName=db.internal&alpn=h2&alpn=http/1.1&verify=none. A ca is too long for a URL and needs
// starttls.
type DialURL = string

// Route selects the addresses of a connection. It is in the query of a [DialURL], and in an [HTTPRequest].
type Route struct {
	// IPFamily is one of the values below. "" means any address, in the resolver's order.
	IPFamily string
	// SourceAddress is the local IP address. "" lets the system choose.
	SourceAddress string
}

// The values of [Route].IPFamily. With the last two, the other family is used if there is no address of the
// first one.
const (
	IPv4Only  = "4"
	IPv6Only  = "6"
	IPv4First = "4,6"
	IPv6First = "6,4"
)

// TLSOptions configures TLS. It is the argument of starttls, and is also in the query of a tls:// URL and in
// an [HTTPRequest]. As JSON:
//
//	{"serverName": "db.internal", "alpn": ["h2"], "verify": "full", "ca": "-----BEGIN CERTIFICATE…"}
//
// Every field may be absent. The default of serverName is the dialed host. verify is "full", or "none" to
// accept any certificate. ca replaces the system's certificate authorities. credentials is the name of
// credentials that the operator has allowed the plugin to use: a client certificate, or certificate
// authorities. The guest never sees them. minVersion and maxVersion are TLS10, TLS11, TLS12 or TLS13.
type TLSOptions struct {
	ServerName             string
	ALPN                   []string
	Verify                 string
	CA                     string // PEM
	Credentials            string
	MinVersion, MaxVersion string
}

// The values of [TLSOptions].Verify.
const (
	VerifyFull = "full"
	VerifyNone = "none"
)

func (o *TLSOptions) fields() []field {
	return []field{
		{"serverName", &o.ServerName}, {"alpn", &o.ALPN}, {"verify", &o.Verify}, {"ca", &o.CA},
		{"credentials", &o.Credentials}, {"minVersion", &o.MinVersion}, {"maxVersion", &o.MaxVersion},
	}
}

// HTTPRequest is the argument of do. As JSON:
//
//	{"method": "GET", "url": "https://api.example.com/v1?x=y", "headers": {"Accept": "text/plain"},
//	 "redirects": 3, "timeoutMs": 500, "tls": {…}, "http2": true, "decompress": "gzip", "ipFamily": "4",
//	 "sourceAddress": "10.0.0.1", "proxy": "http://proxy.internal:3128", "proxyHeaders": {…}}
//
// Only url is required. A URL without a host (http:///healthz, https:///healthz) goes to the probe's target.
// redirects is how many redirects are followed: 0 by default, at most [MaxRedirects]. Each must be granted.
// tls is a [TLSOptions]. http2 offers HTTP/2 over TLS. decompress is the encoding of the body that the host
// decodes: gzip or deflate.
type HTTPRequest struct {
	Method       string
	URL          string
	Headers      map[string]string
	Redirects    int
	TimeoutMs    int64 // 0 means until the deadline
	TLS          TLSOptions
	HTTP2        bool
	Decompress   string
	Route        Route
	Proxy        string // http://HOST:PORT; "" means none
	ProxyHeaders map[string]string
}

// The values of [HTTPRequest].Decompress.
const (
	Gzip    = "gzip"
	Deflate = "deflate"
)

func (r *HTTPRequest) fields() []field {
	return []field{
		{"method", &r.Method}, {"url", &r.URL}, {"headers", &r.Headers}, {"redirects", &r.Redirects},
		{"timeoutMs", &r.TimeoutMs}, {"tls", r.TLS.fields()}, {"http2", &r.HTTP2}, {"decompress", &r.Decompress},
		{"ipFamily", &r.Route.IPFamily}, {"sourceAddress", &r.Route.SourceAddress},
		{"proxy", &r.Proxy}, {"proxyHeaders", &r.ProxyHeaders},
	}
}

// HTTPHead is the result of head. As JSON:
//
//	{"status": 200, "proto": "HTTP/1.1", "url": "https://…", "redirects": 0, "remote": "10.0.0.7:443",
//	 "headers": {"content-type": "text/plain"},
//	 "timings": {"dns": 0.001, "connect": 0.002, "tls": 0.01, "firstByte": 0.02},
//	 "phases": {"resolve": 0.002, "connect": 0.004, "tls": 0.01, "processing": 0.03},
//	 "length": 12, "repeated": [{"name": "set-cookie", "value": "a=1"}, …], "tls": {…}}
//
// The names of headers are in lower case, and the values of one name are joined by ", ". repeated has each
// line of the names that occurred more than once. url is the final one after redirects. timings are for the
// last hop, in seconds, and phases are sums over all hops. The phase processing lasts from the connection to
// the first byte of the answer. length is the size of the body before decompression, or -1 if unknown. tls
// is as in a [ConnInfo], and absent without TLS.
type HTTPHead struct {
	Status                       int
	Proto, URL, Remote           string
	Redirects                    int
	Headers                      map[string]string
	Repeated                     []HTTPHeader
	DNS, Connect, TLS, FirstByte time.Duration
	Phases                       HTTPPhases
	Length                       int64
	Peer                         *TLSInfo
}

// HTTPHeader is one line of a header.
type HTTPHeader struct{ Name, Value string }

func (h *HTTPHeader) fields() []field { return []field{{"name", &h.Name}, {"value", &h.Value}} }

// HTTPPhases has the durations of the phases of an exchange, each summed over all hops.
type HTTPPhases struct{ Resolve, Connect, TLS, Processing time.Duration }

func (h *HTTPHead) fields() []field {
	return []field{
		{"status", &h.Status}, {"proto", &h.Proto}, {"url", &h.URL}, {"redirects", &h.Redirects}, {"remote", &h.Remote},
		{"headers", &h.Headers},
		{"repeated", listOf(&h.Repeated, 0, (*HTTPHeader).fields)},
		{"timings", []field{{"dns", &h.DNS}, {"connect", &h.Connect}, {"tls", &h.TLS}, {"firstByte", &h.FirstByte}}},
		{"phases", []field{
			{"resolve", &h.Phases.Resolve}, {"connect", &h.Phases.Connect}, {"tls", &h.Phases.TLS}, {"processing", &h.Phases.Processing},
		}},
		{"length", &h.Length}, {"tls", &h.Peer},
	}
}

// DNSRequest is the argument of lookup. As JSON:
//
//	{"name": "db.internal", "type": "A", "server": "10.0.0.2:53"}
//
// type is A (the default), AAAA, CNAME, MX, NS, PTR, SOA, SRV or TXT. server replaces the
// servers of the system. It may be "target", the probe's target. A grant must allow it over
// UDP.
type DNSRequest struct{ Name, Type, Server string }

func (r *DNSRequest) fields() []field {
	return []field{{"name", &r.Name}, {"type", &r.Type}, {"server", &r.Server}}
}

// DNSAnswer is the result of a lookup. As JSON:
//
//	{"rcode": "NOERROR", "server": "10.0.0.2:53", "seconds": 0.003,
//	 "answers": [{"name": "db.internal", "type": "A", "ttl": 60, "data": "10.0.0.7"}]}
//
// rcode is NOERROR, NXDOMAIN, SERVFAIL, REFUSED, …. data is as in a zone file: "10 mx.example.com"
// for MX, "0 5 5432 db.internal" for SRV. The strings of a TXT record are joined.
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

func (a *DNSAnswer) fields() []field {
	return []field{
		{"rcode", &a.RCode}, {"server", &a.Server}, {"seconds", &a.Took},
		{"answers", listOf(&a.Answers, 0, (*DNSRecord).fields)},
	}
}

func (r *DNSRecord) fields() []field {
	return []field{{"name", &r.Name}, {"type", &r.Type}, {"ttl", &r.TTL}, {"data", &r.Data}}
}

// EchoRequest is the argument of echo. As JSON:
//
//	{"host": "db.internal", "ipFamily": "4,6", "sourceAddress": "10.0.0.1", "payload": 56, "hopLimit": 64,
//	 "dontFragment": true}
//
// Every field may be absent. host is a name or an address, by default the probe's target. payload
// is the number of bytes after the ICMP header, [DefaultEcho] by default and [MaxEcho] at most.
// hopLimit is 1 to 255, in IPv4 the TTL. Its default is the system's.
type EchoRequest struct {
	Host         string
	Route        Route
	Payload      int
	HopLimit     int
	DontFragment bool
}

// DefaultEcho is the default of [EchoRequest].Payload, in bytes.
const DefaultEcho = 56

func (r *EchoRequest) fields() []field {
	return []field{
		{"host", &r.Host}, {"ipFamily", &r.Route.IPFamily}, {"sourceAddress", &r.Route.SourceAddress},
		{"payload", &r.Payload}, {"hopLimit", &r.HopLimit}, {"dontFragment", &r.DontFragment},
	}
}

// EchoReply describes the reply to an echo request. As JSON:
//
//	{"local": "10.0.0.1", "remote": "10.0.0.7", "payload": 56, "hopLimit": 64,
//	 "timings": {"dns": 0.001, "setup": 0.0001, "rtt": 0.002}}
//
// local and remote are addresses. hopLimit is the hop limit of the received reply, or 0 if unknown. timings
// are in seconds: to resolve the name, to open the socket, and from the request to the reply.
type EchoReply struct {
	Local, Remote     string
	Payload, HopLimit int
	DNS, Setup, RTT   time.Duration
}

func (r *EchoReply) fields() []field {
	return []field{
		{"local", &r.Local}, {"remote", &r.Remote}, {"payload", &r.Payload}, {"hopLimit", &r.HopLimit},
		{"timings", []field{{"dns", &r.DNS}, {"setup", &r.Setup}, {"rtt", &r.RTT}}},
	}
}

// FileInfo describes a file. As JSON:
//
//	{"type": "file", "size": 1048576, "mode": 420, "mtime": 1767225600, "uid": 0, "gid": 0}
//
// type is one of the values below. mode has the permission bits, and mtime is in seconds since 1970. uid
// and gid are 0 on systems without them.
type FileInfo struct {
	Type     string
	Size     int64
	Mode     int
	Modified time.Time
	UID, GID int
}

// The values of [FileInfo].Type and [FileEntry].Type.
const (
	TypeFile      = "file"
	TypeDirectory = "directory"
	TypeSymlink   = "symlink" // only in a [FileList]: symlinks are followed
	TypeFIFO      = "fifo"
	TypeSocket    = "socket"
	TypeDevice    = "device"
	TypeOther     = "other"
)

func (i *FileInfo) fields() []field {
	return []field{
		{"type", &i.Type}, {"size", &i.Size}, {"mode", &i.Mode}, {"mtime", &i.Modified}, {"uid", &i.UID}, {"gid", &i.GID},
	}
}

// FilesystemInfo describes the file system of a path. As JSON:
//
//	{"total": 1073741824, "free": 536870912, "available": 482344960, "inodes": 65536, "inodesFree": 60000,
//	 "readOnly": true}
//
// The sizes are in bytes. available is the part of free that every user may use. inodes is 0 if the file
// system has no fixed number of them.
type FilesystemInfo struct {
	Total, Free, Available int64
	Inodes, InodesFree     int64
	ReadOnly               bool
}

func (i *FilesystemInfo) fields() []field {
	return []field{
		{"total", &i.Total}, {"free", &i.Free}, {"available", &i.Available}, {"inodes", &i.Inodes}, {"inodesFree", &i.InodesFree},
		{"readOnly", &i.ReadOnly},
	}
}

// FileList has the entries of a folder, sorted by name, without . and .. As JSON:
//
//	{"entries": [{"name": "db.tar", "type": "file"}]}
type FileList struct{ Entries []FileEntry }

// FileEntry is an entry of a [FileList].
type FileEntry struct{ Name, Type string }

func (l *FileList) fields() []field {
	return []field{{"entries", listOf(&l.Entries, 0, (*FileEntry).fields)}}
}

func (e *FileEntry) fields() []field { return []field{{"name", &e.Name}, {"type", &e.Type}} }
