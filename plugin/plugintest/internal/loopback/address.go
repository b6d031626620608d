package loopback

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net"
	"net/url"
	"strings"

	"github.com/daeace23/prober/plugin/plugintest/internal/peer/web"
)

// replace makes [Loopback.Text] replace a loopback address by an address of the case.
func (l *Loopback) replace(at, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.replacements = append(l.replacements, at, address)
}

// Text returns text, with loopback addresses replaced by the addresses of the case.
func (l *Loopback) Text(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.NewReplacer(l.replacements...).Replace(text)
}

// Error is [Loopback.Text] for an error.
func (l *Loopback) Error(err error) error {
	if err == nil {
		return nil
	}
	return &textError{err, l.Text(err.Error())}
}

type textError struct {
	error
	text string
}

func (e *textError) Error() string { return e.text }
func (e *textError) Unwrap() error { return e.error }

// hostAt returns the host of an address, as the case names it.
func (l *Loopback) hostAt(addr string) string {
	host, _, err := net.SplitHostPort(l.Net.Hosts.Name(addr))
	if err != nil {
		return addr
	}
	return host
}

// Config returns config, with the HOST:PORT of the target replaced by its loopback address, also
// within URLs.
func (l *Loopback) Config(config []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil {
		return config
	}
	out, err := json.Marshal(l.rewrite(doc))
	if err != nil {
		return config
	}
	return out
}

func (l *Loopback) rewrite(value any) any {
	switch v := value.(type) {
	case string:
		return l.rewriteText(v)
	case []any:
		for i := range v {
			v[i] = l.rewrite(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = l.rewrite(v[name])
		}
	}
	return value
}

func (l *Loopback) rewriteText(text string) string {
	if l.at == "" || strings.EqualFold(text, l.address) {
		return cmp.Or(l.at, text)
	}
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && strings.EqualFold(net.JoinHostPort(u.Hostname(), web.Port(u)), l.address) {
		u.Host = l.at
		return u.String()
	}
	return text
}
