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

// The ways to authenticate a caller.
const (
	ViaSocket = "socket"
	ViaToken  = "token"
)

// Caller is the sender of a request.
type Caller struct {
	Via  string // [ViaSocket] or [ViaToken]; "" for a caller without credentials
	From string // an IP address, or the user at the other end of the socket
	PID  int    // of the process at the other end of the socket; 0 if unknown
}

// Reason is the kind of a refusal.
type Reason string

// All reasons.
const (
	WrongHost     Reason = "host"        // the Host header names another server
	OtherSite     Reason = "origin"      // a page of another site sent it
	NoCredentials Reason = "credentials" // it needs credentials and has none
	WrongToken    Reason = "token"
	TooMany       Reason = "rate"        // too many attempts with wrong credentials
	BadConfig     Reason = "config"      // the file of [Web] or [Token] is invalid
	Crowded       Reason = "connections" // too many connections are open
)

// Refusal is the response to a refused request.
type Refusal struct {
	Status int // HTTP status code
	Reason Reason
	Text   string // for the caller
	Err    error  // for the log, with details that the caller must not see; nil: Text is complete
}

// Guard decides which requests are served. Its exported fields are read-only after the first request.
type Guard struct {
	Web    Web
	Addr   net.Addr // of the TCP listener
	Hosts  Hosts
	Token  *Token
	Socket string // path of the socket; "" for none

	scrapes  atomic.Pointer[Token]
	throttle Throttle
}

// SetScrapes sets the token that scrapes over TCP need; nil: they need none. Scrapes do not accept the
// agent's own token, and actions do not accept the token of scrapes.
func (g *Guard) SetScrapes(t *Token) { g.scrapes.Store(t) }

// PushPath begins the paths whose next part is a token of its own.
const PushPath = "/push/"

// Check returns the sender of r, and why r is refused; nil if it is allowed. Methods other than GET, HEAD and
// OPTIONS, and paths below /debug/, need credentials. [ScrapePath] may need them, and paths below [PushPath]
// need none.
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

// acceptPassword records that the password in r is right: if [Web] has users, its server has already checked
// it.
func (g *Guard) acceptPassword(r *http.Request, from string) {
	password := passwordOf(r)
	if password == "" {
		return
	}
	if checked, err := g.Web.hasUsers(); err == nil && checked {
		g.throttle.Accept(from, password)
	}
}

// authenticate checks the token in r. how returns a message about the credentials that r needs.
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

// howToAct returns a message about the credentials that r needs.
func (g *Guard) howToAct(r *http.Request) string {
	text := r.Method + shownPath(r.URL.Path) + " over TCP needs the token of --token-file in a header, " +
		"as Authorization: Bearer TOKEN or " + TokenHeader + ": TOKEN"
	if g.Socket != "" {
		text += "; the unix socket " + g.Socket + " needs none"
	}
	return text
}

// shownPath returns " " and the path of a request for a text that is logged. It returns "" for a path that may
// have the token of a push, such as a path with the prefix of a proxy.
func shownPath(path string) string {
	if !strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/-/") && !strings.HasPrefix(path, "/debug/") || strings.Contains(path, "push") {
		return ""
	}
	return " " + clip.Marked(path, maxShown, "…")
}

func howToScrape(r *http.Request) string {
	return r.Method + " " + ScrapePath + " over TCP needs the token of blackbox.tokenFile in prober.yaml in a header, " +
		"as Authorization: Bearer TOKEN or " + TokenHeader + ": TOKEN"
}

func needsCredentials(r *http.Request) bool {
	return !isRead(r.Method) && !strings.HasPrefix(r.URL.Path, PushPath) || strings.HasPrefix(r.URL.Path, "/debug/")
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
