package access

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/exporter-toolkit/web"
)

// ServeConfig configures [Web.Serve]. All fields but Conns are required.
type ServeConfig struct {
	Log *slog.Logger
	// First wraps the handler that checks passwords.
	First func(http.Handler) http.Handler
	// Health reports whether a path is a health endpoint, which is served also beyond the limits of
	// connections.
	Health func(path string) bool
	// Crowded is called with the IP address of the peer after a connection was closed for another one, or a
	// request was rejected because of too many connections.
	Crowded func(from string)
	// Conns is the limit of concurrent connections, without the reserve; 0 means [MaxConns]. One peer may
	// have half of them.
	Conns int
}

// Serve serves on listener until server is shut down. It limits the connections, see [MaxConns].
func (w Web) Serve(listener net.Listener, server *http.Server, cfg ServeConfig) error {
	table := &connTable{crowded: cfg.Crowded, most: cmp.Or(cfg.Conns, MaxConns)}
	server.ConnState, server.ConnContext = table.state, connContext
	listener = &wrapping{Listener: table.listener(listener), wrap: func() {
		server.Handler = onlyHealth(&cfg, cfg.First(server.Handler))
	}}
	if w.ConfigFile == "" {
		return server.Serve(listener)
	}
	return web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &w.ConfigFile}, slog.New(warnings{cfg.Log.Handler()}))
}

// wrapping calls wrap before the first connection: web.Serve has set the handler of its server by then, and
// no request has arrived.
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
