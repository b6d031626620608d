package access

import (
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/net/netutil"
)

// MaxConns is how many connections over TCP there are at once. Further ones wait to be accepted, so
// that they cannot take the descriptors and the memory of the agent. The socket has no limit.
const MaxConns = 512

// Serve serves on listener until server is shut down. first is called with the handler that checks
// names and passwords, and returns what is called before it.
func (w Web) Serve(listener net.Listener, server *http.Server, log *slog.Logger, first func(http.Handler) http.Handler) error {
	listener = &wrapping{Listener: netutil.LimitListener(listener, MaxConns), wrap: func() { server.Handler = first(server.Handler) }}
	if w.ConfigFile == "" {
		return server.Serve(listener)
	}
	return web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &w.ConfigFile}, slog.New(warnings{log.Handler()}))
}

// wrapping calls wrap before the first connection: web.Serve has set the handler of its server then,
// and no request has come yet.
type wrapping struct {
	net.Listener
	once sync.Once
	wrap func()
}

// Accept implements [net.Listener].
func (l *wrapping) Accept() (net.Conn, error) {
	l.once.Do(l.wrap)
	return l.Listener.Accept()
}
