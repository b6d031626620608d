package access

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/daeace23/prober/internal/clip"
)

// How a caller is authenticated.
const (
	ViaSocket = "socket"
	ViaToken  = "token"
)

// Caller is who sent a request.
type Caller struct {
	Via  string // [ViaSocket] or [ViaToken]; "" for a caller that may only read
	From string // an IP address, or the user at the other end of the socket
	PID  int    // of the process at the other end of the socket; 0 if not known
}

// Reason is why a request is refused.
type Reason string

// All reasons.
const (
	WrongHost     Reason = "host"        // the Host header names another server
	OtherSite     Reason = "origin"      // a page of another site sent it
	NoCredentials Reason = "credentials" // it needs credentials, and has none
	WrongToken    Reason = "token"
	TooMany       Reason = "rate"        // too many wrong credentials were tried
	BadConfig     Reason = "config"      // the file of [Web] or [Token] cannot be used
	Crowded       Reason = "connections" // too many are open
)

// Refusal is the response to a request that is refused.
type Refusal struct {
	Status int // of HTTP
	Reason Reason
	Text   string // for the caller
	Err    error  // for the log, with details that the caller may not see; nil: Text has all
}

// Guard decides which requests are answered. Its exported fields are read-only after the first request.
type Guard struct {
	Web    Web
	Addr   net.Addr // of the TCP listener
	Hosts  Hosts
	Token  *Token
	Socket string // path of the socket; "" for none

	scrapes  atomic.Pointer[Token]
	throttle Throttle
}

// SetScrapes sets the token that scrapes over TCP need; nil: none. The agent's own is no such token, nor
// the other way round.
func (g *Guard) SetScrapes(t *Token) { g.scrapes.Store(t) }

// Check returns who sent r, and why r is refused; nil if it is allowed. All methods but GET, HEAD
// and OPTIONS, and all paths below /debug/, need credentials, and so may [ScrapePath].
func (g *Guard) Check(r *http.Request) (Caller, *Refusal) {
	caller, local := r.Context().Value(callerKey{}).(Caller)
	if !local {
		caller.From = remoteIP(r)
		g.acceptPassword(r, caller.From)
		if err := g.Web.CheckAgain(g.Addr); err != nil {
			return caller, &Refusal{http.StatusServiceUnavailable, BadConfig, "the web config cannot be used; the agent's log says why", err}
		}
		if !g.Hosts.Allow(r.Host) {
			return caller, &Refusal{http.StatusForbidden, WrongHost, wrongHost(r.Host), nil}
		}
	}
	if !ownSite(r) {
		return caller, &Refusal{http.StatusForbidden, OtherSite, "a page of another site sent this request", nil}
	}
	scrapes := g.scrapes.Load()
	switch {
	case local:
		return caller, nil
	case needsCredentials(r):
		return g.authenticate(r, caller, g.Token, g.howToAct)
	case scrapes != nil && r.URL.Path == ScrapePath:
		return g.authenticate(r, caller, scrapes, howToScrape)
	}
	return caller, nil
}

// acceptPassword notes that the name and the password of r are good: the server of [Web] has checked
// them if it has users, or r would not be here.
func (g *Guard) acceptPassword(r *http.Request, from string) {
	password := passwordOf(r)
	if password == "" {
		return
	}
	if checked, err := g.Web.hasUsers(); err == nil && checked {
		g.throttle.Accept(from, password)
	}
}

// authenticate checks the token in r. how returns which credentials r needs.
func (g *Guard) authenticate(r *http.Request, caller Caller, token *Token, how func(*http.Request) string) (Caller, *Refusal) {
	given := tokenOf(r)
	if given == "" {
		return caller, &Refusal{http.StatusUnauthorized, NoCredentials, how(r), nil}
	}
	if !g.throttle.Try(caller.From, given, time.Now()) {
		return caller, tooMany()
	}
	switch err := token.check(given); {
	case errors.Is(err, errWrongToken):
		return caller, &Refusal{http.StatusUnauthorized, WrongToken, err.Error(), nil}
	case err != nil:
		return caller, &Refusal{http.StatusUnauthorized, BadConfig, "the agent cannot read its token; its log says why", err}
	}
	g.throttle.Accept(caller.From, given)
	caller.Via = ViaToken
	return caller, nil
}

// howToAct returns which credentials r needs.
func (g *Guard) howToAct(r *http.Request) string {
	text := r.Method + " " + clip.Marked(r.URL.Path, maxShown, "…") + " over TCP needs the token of --token-file in a header, " +
		"as Authorization: Bearer TOKEN or " + TokenHeader + ": TOKEN"
	if g.Socket != "" {
		text += "; the unix socket " + g.Socket + " needs none"
	}
	return text
}

func howToScrape(r *http.Request) string {
	return r.Method + " " + ScrapePath + " over TCP needs the token of blackbox.tokenFile in prober.yaml in a header, " +
		"as Authorization: Bearer TOKEN or " + TokenHeader + ": TOKEN"
}

func needsCredentials(r *http.Request) bool {
	return !isRead(r.Method) || strings.HasPrefix(r.URL.Path, "/debug/")
}

func isRead(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// callerKey is the context key of the [Caller] of a connection to the socket.
type callerKey struct{}

// SocketContext returns the context of a connection to the agent's socket. It is the
// [http.Server.ConnContext] of the server of that socket only.
func SocketContext(ctx context.Context, conn net.Conn) context.Context {
	from, pid := peerOf(conn)
	return context.WithValue(ctx, callerKey{}, Caller{Via: ViaSocket, From: from, PID: pid})
}

func remoteIP(r *http.Request) string { return hostOf(r.RemoteAddr) }

// hostOf returns the host of HOST:PORT, or address without a port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

// maxShown is the limit of a part of a request in errors and the log, in bytes.
const maxShown = 100
