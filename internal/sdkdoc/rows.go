package main

// The rows of the tables: Go, Rust, C, AssemblyScript.

// functions has the names of the functions of the contract.
var functions = map[string][4]string{
	"prober_v1.request_read": {"Request", "Request::read", "prober_request", "Request"},
	"prober_v1.config_get":   {"Config.String Config.JSON", "config::get", "prober_config", "configText"},
	"prober_v1.result_write": {"-an `Outcome` with labels, `Details` or a `Reason`", "Outcome::details Outcome::reason", "prober_result_json", "Outcome.send resultJSON"},
	"prober_v1.message":      {"Successf Request.Progressf", "Outcome::success progress", "prober_success prober_progress", "success progress"},
	"prober_v1.metric":       {"-`Metrics` of an `Outcome`", "Outcome::metric", "prober_metric", "metric"},
	"prober_v1.log":          {"Request.Logf", "log", "prober_log", "log"},
	"prober_v1.log_enabled":  {"Request.Logf", "log", "prober_log", "log"},
	"prober_v1.deadline_ms":  {"-the deadline of the context", "deadline", "prober_deadline_ms", "deadline"},
	"prober_v1.last_error":   {"-the `error` of each call", "-the `io::Error` of each call", "prober_error_text", "lastError"},

	"prober_v1_net.dial":     {"Request.Dial Dial Dialer.DialContext", "net::dial_target net::dial net::dial_with", "prober_dial prober_dial_url prober_dial_with", "dial dialURL dialWith"},
	"prober_v1_net.read":     {"-`Read` of the `net.Conn`", "net::Conn::read", "prober_read prober_read_full prober_read_until", "Conn.read Conn.readLine"},
	"prober_v1_net.write":    {"-`Write` of the `net.Conn`", "net::Conn::write", "prober_write prober_write_text", "Conn.write Conn.writeText"},
	"prober_v1_net.close":    {"-`Close` of the `net.Conn`", "-when a `Conn` is dropped", "prober_close", "Conn.close"},
	"prober_v1_net.starttls": {"StartTLS", "net::Conn::start_tls", "prober_starttls prober_starttls_with", "Conn.startTLS"},
	"prober_v1_net.info":     {"Inspect PeerCertificates", "net::Conn::info", "prober_info", "Conn.info"},
	"prober_v1_net.poll":     {"-goroutines that read", "net::poll", "prober_poll", "poll"},

	"prober_v1_http.do":    {"HTTP", "http::get http::Request::send", "prober_http prober_http_send", "get HttpRequest.send"},
	"prober_v1_http.head":  {"HTTPResponse HTTPResponse.Values", "http::Response::head http::Response::headers", "prober_http_head prober_http_header prober_http_status", "HttpResponse.head HttpResponse.headers"},
	"prober_v1_http.read":  {"HTTPResponse.Body", "http::Response::read", "prober_http_read", "HttpResponse.read HttpResponse.bytes HttpResponse.text"},
	"prober_v1_http.close": {"HTTPResponse.Body", "-when a `Response` is dropped", "prober_http_close", "HttpResponse.close"},

	"prober_v1_dns.lookup": {"LookupDNS", "dns::lookup", "prober_dns prober_dns_ask", "resolve"},
	"prober_v1_dns.read":   {"LookupDNS", "dns::lookup", "prober_dns prober_dns_ask", "resolve"},

	"prober_v1_kv.get":    {"KV.Get", "kv::get", "prober_kv_get", "kvGet kvGetBytes"},
	"prober_v1_kv.set":    {"KV.Set", "kv::set", "prober_kv_set", "kvSet kvSetBytes"},
	"prober_v1_kv.delete": {"KV.Delete", "kv::delete", "prober_kv_delete", "kvDelete"},

	"prober_v1_icmp.echo": {"Echo", "icmp::echo", "prober_echo prober_ping", "EchoRequest.send"},
	"prober_v1_icmp.read": {"Echo", "icmp::echo", "prober_echo prober_ping", "EchoRequest.send"},

	"prober_v1_files.stat":   {"StatFile", "files::stat", "prober_file_stat", "fileStat"},
	"prober_v1_files.statfs": {"StatFilesystem", "files::statfs", "prober_file_statfs", "fileStatfs"},
	"prober_v1_files.read":   {"ReadFile", "files::read files::read_text", "prober_file_read", "fileRead fileText"},
	"prober_v1_files.list":   {"ListFolder", "files::list", "prober_file_list", "fileList"},
}

// returned is the reason for the field result of a Result.
const returned = "-the return value"

// inJSON is the reason for fields of a Result in C.
const inJSON = "-JSON of `prober_result_json`"

// fields has the names of the fields of documents that a guest writes.
var fields = map[string][4]string{
	"TLSOptions.serverName":  {"TLSOptions.ServerName", "net::Tls.server_name", "prober_tls.server_name", "TlsOptions.serverName"},
	"TLSOptions.alpn[]":      {"TLSOptions.ALPN", "net::Tls.alpn", "prober_tls.alpn", "TlsOptions.alpn"},
	"TLSOptions.verify":      {"TLSOptions.InsecureSkipVerify", "net::Tls.insecure", "prober_tls.insecure", "TlsOptions.insecure"},
	"TLSOptions.ca":          {"TLSOptions.CA", "net::Tls.ca", "prober_tls.ca", "TlsOptions.ca"},
	"TLSOptions.credentials": {"TLSOptions.Credentials", "net::Tls.credentials", "prober_tls.credentials", "TlsOptions.credentials"},
	"TLSOptions.minVersion":  {"TLSOptions.MinVersion", "net::Tls.min_version", "prober_tls.min_version", "TlsOptions.minVersion"},
	"TLSOptions.maxVersion":  {"TLSOptions.MaxVersion", "net::Tls.max_version", "prober_tls.max_version", "TlsOptions.maxVersion"},

	"HTTPRequest.method":         {"HTTPRequest.Method", "http::Request.method", "prober_http_request.method", "HttpRequest.method"},
	"HTTPRequest.url":            {"HTTPRequest.URL", "http::Request.url", "prober_http_request.url", "HttpRequest"},
	"HTTPRequest.headers.*":      {"HTTPRequest.Header", "http::Request.headers", "prober_http_request.headers", "HttpRequest.header"},
	"HTTPRequest.redirects":      {"HTTPRequest.Redirects", "http::Request.redirects", "prober_http_request.redirects", "HttpRequest.redirects"},
	"HTTPRequest.timeoutMs":      {"HTTPRequest.Timeout", "http::Request.timeout", "prober_http_request.timeout_ms", "HttpRequest.timeoutMs"},
	"HTTPRequest.http2":          {"HTTPRequest.HTTP2", "http::Request.http2", "prober_http_request.http2", "HttpRequest.http2"},
	"HTTPRequest.decompress":     {"HTTPRequest.Decompress", "http::Request.decompress", "prober_http_request.decompress", "HttpRequest.decompress"},
	"HTTPRequest.ipFamily":       {"HTTPRequest.IPFamily", "http::Request.ip_family", "prober_http_request.ip_family", "HttpRequest.ipFamily"},
	"HTTPRequest.sourceAddress":  {"HTTPRequest.SourceAddress", "http::Request.source_address", "prober_http_request.source_address", "HttpRequest.sourceAddress"},
	"HTTPRequest.proxy":          {"HTTPRequest.Proxy", "http::Request.proxy", "prober_http_request.proxy", "HttpRequest.proxy"},
	"HTTPRequest.proxyHeaders.*": {"HTTPRequest.ProxyHeader", "http::Request.proxy_headers", "prober_http_request.proxy_headers", "HttpRequest.proxyHeader"},
	"HTTPRequest.tls":            {"HTTPRequest.TLS", "http::Request.tls", "prober_http_request.tls", "HttpRequest.tls"},

	"DialURL.ipFamily":      {"Dialer.IPFamily", "net::Options.ip_family", "prober_dial_options.ip_family", "DialOptions.ipFamily"},
	"DialURL.sourceAddress": {"Dialer.SourceAddress", "net::Options.source_address", "prober_dial_options.source_address", "DialOptions.sourceAddress"},

	"DNSRequest.name":   {"DNSQuery.Name", "dns::lookup", "prober_dns_request.name", "resolve"},
	"DNSRequest.type":   {"DNSQuery.Type", "dns::lookup", "prober_dns_request.type", "resolve"},
	"DNSRequest.server": {"DNSQuery.Server", "dns::lookup", "prober_dns_request.server", "resolve"},

	"EchoRequest.host":          {"EchoRequest.Host", "icmp::Request.host", "prober_echo_request.host", "EchoRequest.host"},
	"EchoRequest.ipFamily":      {"EchoRequest.IPFamily", "icmp::Request.ip_family", "prober_echo_request.ip_family", "EchoRequest.ipFamily"},
	"EchoRequest.sourceAddress": {"EchoRequest.SourceAddress", "icmp::Request.source_address", "prober_echo_request.source_address", "EchoRequest.sourceAddress"},
	"EchoRequest.payload":       {"EchoRequest.Payload", "icmp::Request.payload", "prober_echo_request.payload", "EchoRequest.payload"},
	"EchoRequest.hopLimit":      {"EchoRequest.HopLimit", "icmp::Request.hop_limit", "prober_echo_request.hop_limit", "EchoRequest.hopLimit"},
	"EchoRequest.dontFragment":  {"EchoRequest.DontFragment", "icmp::Request.dont_fragment", "prober_echo_request.dont_fragment", "EchoRequest.dontFragment"},

	"Result.result":             {returned, returned, returned, returned},
	"Result.message":            {"Successf Failuref", "Outcome.message", inJSON, "Outcome"},
	"Result.metrics[].name":     {"-`probe.Metric`", "Metric.name", inJSON, "Outcome.metric"},
	"Result.metrics[].value":    {"-`probe.Metric`", "Metric.value", inJSON, "Outcome.metric"},
	"Result.metrics[].unit":     {"-`probe.Metric`", "Metric.unit", inJSON, "Outcome.metric"},
	"Result.metrics[].labels.*": {"-`probe.Metric`", "Metric.labels", inJSON, "Outcome.metric"},
	"Result.details.*":          {"-`probe.Outcome`", "Outcome.details", inJSON, "Outcome.details"},
	"Result.reason":             {"-`probe.Outcome`", "Outcome.reason", inJSON, "Outcome.reason"},
}

// documents has how a guest reads each document.
var documents = []row{
	{"Request", [4]string{"Request", "Request::text Request::json Request::has", "prober_request prober_has_feature", "Request.text Request.json Request.has"}},
	{"ConnInfo, TLSInfo", [4]string{"ConnInfo TLSInfo", "net::Conn::info", "prober_info", "Conn.info"}},
	{"HTTPHead", [4]string{"HTTPResponse", "http::Response::head", "prober_http_head", "HttpResponse.head"}},
	{"DNSAnswer", [4]string{"DNSAnswer DNSRecord", "dns::Answer dns::Record", "prober_dns", "DnsAnswer DnsRecord"}},
	{"EchoReply", [4]string{"EchoReply", "icmp::Reply", "prober_echo", "EchoReply"}},
	{"FileInfo", [4]string{"FileInfo", "files::Info", "prober_file_stat", "fileStat"}},
	{"FilesystemInfo", [4]string{"FilesystemInfo", "files::Filesystem", "prober_file_statfs", "fileStatfs"}},
	{"FileList", [4]string{"FileEntry", "files::Entry", "prober_file_list", "fileList"}},
	{"a value of a document, by its path", [4]string{"Lookup", "json::lookup json::text", "prober_json", "lookup lookupRaw"}},
}

// The reasons for helpers that an SDK leaves to others.
const (
	standard = "-the standard library"
	library  = "-none: compile a library of C into the guest"
	unported = "-none: port the source of another language"
)

// helpers has what plugins need beside the host.
var helpers = []row{
	{"strings and numbers of the config", [4]string{"Config.String Config.Int Config.Float", "config::string config::value", "prober_config prober_config_int prober_config_double", "configString configNumber"}},
	{"durations of the config", [4]string{"Config.Duration", "config::duration", "prober_config_seconds prober_config_millis", "configMillis"}},
	{"lists of the config", [4]string{"Config.Strings", "config::strings", "-`prober_config` of `list.0` and on", "configStrings"}},
	{"time of day, monotonic clock", [4]string{standard, "time::now time::ticks", "prober_now_ns prober_ticks_ns", "now ticks"}},
	{"a time as `2006-01-02T15:04:05Z`", [4]string{standard, "time::Utc::parse time::Utc", "prober_rfc3339 prober_parse_time", "rfc3339 parseTime"}},
	{"a time as `20060102T150405Z`", [4]string{standard, "time::Utc::basic", "prober_basic_time", "basicTime"}},
	{"random bytes", [4]string{standard, "random", "prober_random", "random"}},
	{"writing JSON", [4]string{standard, "json::quote json::object", "prober_add_quoted prober_add_field prober_add_pairs", "quote"}},
	{"hexadecimal, base64", [4]string{standard, "digest::to_hex digest::to_base64 digest::from_base64", library, unported}},
	{"MD5, SHA-1, SHA-256, SHA-512, HMAC, PBKDF2", [4]string{standard, "digest::md5 digest::sha1 digest::sha256 digest::sha512 digest::hmac_sha256 digest::hmac_sha512 digest::pbkdf2_sha256 digest::pbkdf2_sha512", library, unported}},
	{"all of a client for a protocol", [4]string{"-`sdk.Dial` in libraries that take a dialer, `sdk/sdkhttp`", "-crates over `Read` and `Write`", library, unported}},
}
