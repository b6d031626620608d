package plugintest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// needsWebGuest says why a process cannot be shown an exchange, or "".
func (n *network) needsWebGuest(c *Case, x *exchange) string {
	_, target := n.target(c)
	u, err := url.Parse(x.Match.URL.Source)
	absolute := err == nil && x.Match.URL.regex == nil && u.Host != ""
	switch {
	case target == "" || c.Target.Unix != "":
		return "the target is no server of HTTP"
	case len(n.peers) > 0:
		return "one port is of host.net or of host.http"
	case x.TLS != nil || absolute && u.Scheme == "https":
		return "TLS is played, and a process makes it by itself"
	case absolute && n.at(u.Hostname(), portOf(u)) != target:
		return x.Match.URL.Source + " is not at the target, and a process dials by itself"
	case closed(x.Behaviour) != closed(n.web[0].Behaviour):
		return "a port of loopback is either open or not"
	}
	return ""
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// openWeb has the exchanges of the case answer requests at a listener.
func (l *loopback) openWeb(ln net.Listener, addr string) {
	l.web = &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.answer(w, r, addr) }),
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return l.ctx },
	}
	l.serving.Go(func() { _ = l.web.Serve(ln) })
}

// endWeb reports whether all requests have been answered.
func (l *loopback) endWeb() bool {
	if l.web == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), slack)
	defer cancel()
	err := l.web.Shutdown(ctx)
	_ = l.web.Close()
	return err == nil
}

// answer answers a request as the case says.
func (l *loopback) answer(w http.ResponseWriter, r *http.Request, addr string) {
	r.URL.Scheme, r.URL.Host, r.Host = "http", l.names.Replace(r.Host), l.names.Replace(r.Host)
	resp, err := l.net.RoundTrip(r, addr)
	if err != nil {
		l.breakOff(w, err)
		return
	}
	defer resp.Body.Close()
	header := w.Header()
	header["Date"], header["Content-Type"] = nil, nil // net/http has its own
	maps.Copy(header, resp.Header)
	w.WriteHeader(resp.StatusCode)
	_ = http.NewResponseController(w).Flush() // in chunks: whether the body ends is not known yet
	buf := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = resp.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = http.NewResponseController(w).Flush()
	}
	if err != io.EOF {
		l.breakOff(w, err)
	}
}

// breakOff ends a connection without an answer: with garbage, unless err says how.
func (l *loopback) breakOff(w http.ResponseWriter, err error) {
	conn, _, hijackErr := http.NewResponseController(w).Hijack()
	if hijackErr != nil {
		return
	}
	defer conn.Close()
	gone := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if gone || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) {
		hangUp(conn)
		return
	}
	_ = conn.SetDeadline(time.Now().Add(slack))
	_, _ = conn.Write(l.net.junk())
}

// rewritten returns a config in which the target's address is where the process finds it:
// as HOST:PORT, or in a URL.
func (l *loopback) rewritten(config []byte) []byte {
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

func (l *loopback) rewrite(value any) any {
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

func (l *loopback) rewriteText(text string) string {
	if l.at == "" || strings.EqualFold(text, l.address) {
		return cmp.Or(l.at, text)
	}
	u, err := url.Parse(text)
	if err == nil && u.Host != "" && strings.EqualFold(net.JoinHostPort(u.Hostname(), portOf(u)), l.address) {
		u.Host = l.at
		return u.String()
	}
	return text
}
