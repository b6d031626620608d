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

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// openWeb has the exchanges of the case answer requests at a listener.
func (l *loopback) openWeb(ln net.Listener, addr string) {
	web := &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.answer(w, r, addr) }),
		ErrorLog:    log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return l.ctx },
	}
	l.web = append(l.web, web)
	greeted := &webListener{Listener: ln, conns: make(chan net.Conn), done: make(chan struct{})}
	l.serving.Go(func() { l.acceptWeb(ln, addr, greeted) })
	l.serving.Go(func() { _ = web.Serve(greeted) })
}

// webListener hands on connections of which it is known whether they speak TLS.
type webListener struct {
	net.Listener
	conns chan net.Conn
	done  chan struct{} // closed when nobody comes any more
}

// Accept implements [net.Listener].
func (w *webListener) Accept() (net.Conn, error) {
	select {
	case conn := <-w.conns:
		return conn, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

// acceptWeb lets processes in, until the server is shut down.
func (l *loopback) acceptWeb(ln net.Listener, addr string, to *webListener) {
	defer close(to.done)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		l.hold(conn)
		l.serving.Go(func() {
			greeted := l.greet(conn, addr)
			if greeted == nil {
				_ = conn.Close()
				return
			}
			select {
			case to.conns <- greeted:
			case <-to.done:
				_ = conn.Close()
			}
		})
	}
}

// greet makes the TLS of a connection that begins with it; nil where that fails.
func (l *loopback) greet(conn net.Conn, addr string) net.Conn {
	first := make([]byte, 3)
	n, err := io.ReadAtLeast(conn, first, 1)
	if err != nil {
		return nil
	}
	begun := &replay{conn, first[:n]}
	if first[0] != tlsHandshake {
		return begun
	}
	for _, x := range l.net.webOf(addr) {
		shown := l.net.shownBy(x)
		if shown == nil {
			continue
		}
		secured, err := l.secure(begun, shown, l.hostAt(addr))
		if err == nil {
			return secured
		}
		l.net.mu.Lock()
		x.answered++ // as far as it can be
		l.net.mu.Unlock()
		return nil
	}
	_, _ = conn.Write([]byte(noTLS))
	return nil
}

// endWeb reports whether all requests have been answered.
func (l *loopback) endWeb() bool {
	ctx, cancel := context.WithTimeout(context.Background(), slack)
	defer cancel()
	ended := true
	for _, web := range l.web {
		ended = web.Shutdown(ctx) == nil && ended
		_ = web.Close()
	}
	return ended
}

// answer answers a request as the case says.
func (l *loopback) answer(w http.ResponseWriter, r *http.Request, addr string) {
	r.Host = l.replaced(r.Host)
	r.URL.Scheme, r.URL.Host = "http", r.Host
	if r.TLS != nil {
		r.URL.Scheme = "https"
	}
	resp, err := l.net.RoundTrip(r, addr)
	if err != nil {
		l.breakOff(w, err)
		return
	}
	defer resp.Body.Close()
	header := w.Header()
	header["Date"], header["Content-Type"] = nil, nil // net/http has its own
	maps.Copy(header, resp.Header)
	if to := header.Get("Location"); to != "" {
		header.Set("Location", l.rewriteText(to))
	}
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
