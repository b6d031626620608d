package blackbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/yamlpos"
)

// Module is a module of the file: a probe whose target is chosen by the scrape. It is read-only.
type Module struct {
	Name    string
	line    int // in the file
	fields  moduleFields
	timeout time.Duration // 0: the timeout of the scrape

	credentials string // name of the credentials of the client certificate; "" for none
	readsFiles  bool   // has fields with files, other than credentials

	handler     string
	config      map[string]any // of the handler, without the parts that depend on the target
	secrets     []string       // in config
	unsupported error          // why it cannot be used; nil if it can
	refused     []refusal      // all reasons
	node        *yamlpos.Node  // of the module, for [Define]
	unread      error          // of an unreadable file; nil if all were read
}

// unusable returns why the module cannot be used at present; nil if it can.
func (m *Module) unusable() error { return cmp.Or(m.unsupported, m.unread) }

// fresh returns the module with the present contents of its files, such as a renewed token.
func (m *Module) fresh() (*Module, error) {
	if !m.readsFiles {
		return m, nil
	}
	made := *m
	made.secrets, made.unread, made.refused = nil, nil, nil
	r := reader{module: &made}
	if err := r.convert(); err != nil {
		return &made, err
	}
	return &made, made.unread
}

// moduleFields are the fields of a module.
type moduleFields struct {
	Prober  string     `json:"prober"`
	Timeout string     `json:"timeout"`
	HTTP    httpFields `json:"http"`
	TCP     tcpFields  `json:"tcp"`
	DNS     dnsFields  `json:"dns"`
	ICMP    icmpFields `json:"icmp"`
	GRPC    grpcFields `json:"grpc"`
	Unix    any        `json:"unix"`
}

type tlsFields struct {
	InsecureSkipVerify bool   `json:"insecure_skip_verify"`
	CA                 string `json:"ca"`
	Cert               string `json:"cert"`
	Key                string `json:"key"`
	CAFile             string `json:"ca_file"`
	CertFile           string `json:"cert_file"`
	KeyFile            string `json:"key_file"`
	ServerName         string `json:"server_name"`
	MinVersion         string `json:"min_version"`
	MaxVersion         string `json:"max_version"`
}

type headerMatch struct {
	Header       string `json:"header"`
	Regexp       string `json:"regexp"`
	AllowMissing bool   `json:"allow_missing"`
}

type httpFields struct {
	PreferredIPProtocol         string              `json:"preferred_ip_protocol"`
	IPProtocolFallback          *bool               `json:"ip_protocol_fallback"`
	ValidStatusCodes            []int               `json:"valid_status_codes"`
	ValidHTTPVersions           []string            `json:"valid_http_versions"`
	Method                      string              `json:"method"`
	Headers                     map[string]string   `json:"headers"`
	HTTPHeaders                 any                 `json:"http_headers"`
	Body                        string              `json:"body"`
	BodyFile                    string              `json:"body_file"`
	BodySizeLimit               size                `json:"body_size_limit"`
	Compression                 string              `json:"compression"`
	FollowRedirects             *bool               `json:"follow_redirects"`
	NoFollowRedirects           *bool               `json:"no_follow_redirects"`
	FailIfSSL                   bool                `json:"fail_if_ssl"`
	FailIfNotSSL                bool                `json:"fail_if_not_ssl"`
	FailIfBodyMatchesRegexp     []string            `json:"fail_if_body_matches_regexp"`
	FailIfBodyNotMatchesRegexp  []string            `json:"fail_if_body_not_matches_regexp"`
	FailIfBodyJSONMatchesCEL    string              `json:"fail_if_body_json_matches_cel"`
	FailIfBodyJSONNotMatchesCEL string              `json:"fail_if_body_json_not_matches_cel"`
	FailIfHeaderMatches         []headerMatch       `json:"fail_if_header_matches"`
	FailIfHeaderNotMatches      []headerMatch       `json:"fail_if_header_not_matches"`
	TLSConfig                   tlsFields           `json:"tls_config"`
	BasicAuth                   *basicAuthFields    `json:"basic_auth"`
	Authorization               *authorization      `json:"authorization"`
	BearerToken                 string              `json:"bearer_token"`
	BearerTokenFile             string              `json:"bearer_token_file"`
	OAuth2                      any                 `json:"oauth2"`
	ProxyURL                    string              `json:"proxy_url"`
	NoProxy                     string              `json:"no_proxy"`
	ProxyFromEnvironment        bool                `json:"proxy_from_environment"`
	ProxyConnectHeader          map[string][]string `json:"proxy_connect_header"`
	SkipResolvePhaseWithProxy   bool                `json:"skip_resolve_phase_with_proxy"`
	EnableHTTP2                 *bool               `json:"enable_http2"`
	EnableHTTP3                 bool                `json:"enable_http3"`
}

type basicAuthFields struct {
	Username     string `json:"username"`
	UsernameFile string `json:"username_file"`
	Password     string `json:"password"`
	PasswordFile string `json:"password_file"`
}

type authorization struct {
	Type            string `json:"type"`
	Credentials     string `json:"credentials"`
	CredentialsFile string `json:"credentials_file"`
}

type tcpFields struct {
	PreferredIPProtocol string          `json:"preferred_ip_protocol"`
	IPProtocolFallback  *bool           `json:"ip_protocol_fallback"`
	SourceIPAddress     string          `json:"source_ip_address"`
	QueryResponse       []queryResponse `json:"query_response"`
	TLS                 bool            `json:"tls"`
	TLSConfig           tlsFields       `json:"tls_config"`
}

type queryResponse struct {
	Expect      string        `json:"expect"`
	ExpectBytes any           `json:"expect_bytes"`
	Send        string        `json:"send"`
	StartTLS    bool          `json:"starttls"`
	Labels      []expectLabel `json:"labels"`
}

type expectLabel struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dnsFields struct {
	PreferredIPProtocol string    `json:"preferred_ip_protocol"`
	IPProtocolFallback  *bool     `json:"ip_protocol_fallback"`
	SourceIPAddress     string    `json:"source_ip_address"`
	TransportProtocol   string    `json:"transport_protocol"`
	DNSOverTLS          bool      `json:"dns_over_tls"`
	TLSConfig           tlsFields `json:"tls_config"`
	QueryName           string    `json:"query_name"`
	QueryType           string    `json:"query_type"`
	QueryClass          string    `json:"query_class"`
	RecursionDesired    *bool     `json:"recursion_desired"`
	ValidRcodes         []string  `json:"valid_rcodes"`
	ValidateAnswer      *rrs      `json:"validate_answer_rrs"`
	ValidateAuthority   *rrs      `json:"validate_authority_rrs"`
	ValidateAdditional  *rrs      `json:"validate_additional_rrs"`
}

type rrs struct {
	FailIfMatchesRegexp     []string `json:"fail_if_matches_regexp"`
	FailIfAllMatchRegexp    []string `json:"fail_if_all_match_regexp"`
	FailIfNotMatchesRegexp  []string `json:"fail_if_not_matches_regexp"`
	FailIfNoneMatchesRegexp []string `json:"fail_if_none_matches_regexp"`
}

type icmpFields struct {
	PreferredIPProtocol string `json:"preferred_ip_protocol"`
	IPProtocolFallback  *bool  `json:"ip_protocol_fallback"`
	SourceIPAddress     string `json:"source_ip_address"`
	PayloadSize         int    `json:"payload_size"`
	DontFragment        bool   `json:"dont_fragment"`
	TTL                 int    `json:"ttl"`
}

type grpcFields struct {
	Service             string    `json:"service"`
	Metadata            any       `json:"metadata"`
	TLS                 bool      `json:"tls"`
	TLSConfig           tlsFields `json:"tls_config"`
	PreferredIPProtocol string    `json:"preferred_ip_protocol"`
	IPProtocolFallback  *bool     `json:"ip_protocol_fallback"`
}

// size is a number of bytes, such as 1024, 1.5MB and 1KiB. As in blackbox_exporter, a KB has 1,024.
type size int64

// UnmarshalJSON implements [json.Unmarshaler].
func (s *size) UnmarshalJSON(data []byte) error {
	text := string(data)
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	number, shift := text, 0
	for i, prefix := range []string{"K", "M", "G", "T"} {
		for _, unit := range []string{prefix + "iB", prefix + "B"} {
			if n, ok := strings.CutSuffix(text, unit); ok {
				number, shift = n, 10*(i+1)
			}
		}
	}
	if shift == 0 {
		number = strings.TrimSuffix(text, "B")
	}
	n, err := strconv.ParseFloat(number, 64)
	n *= float64(int64(1) << shift)
	if err != nil || !(n >= 0 && n <= 1<<60) { // also rejects NaN
		return fmt.Errorf("%.40s must be a number of bytes, such as 1024 or 10MB", text)
	}
	*s = size(n)
	return nil
}
