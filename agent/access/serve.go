package access

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/exporter-toolkit/web"
)

// ServeConfig is how [Web.Serve] serves. All fields but Conns are required.
type ServeConfig struct {
	Log *slog.Logger
	// First is called with the handler that checks names and passwords, and returns what is called before it.
	First func(http.Handler) http.Handler
	// Health reports whether a path is one of health, which is answered however many connections there are.
	Health func(path string) bool
	// Crowded is called after a connection was closed for another one, or got no answer but that there are
	// too many, with the IP address of its peer.
	Crowded func(from string)
	// Conns is how many connections there are at once, beside the reserve; 0 means [MaxConns]. One peer has
	// half of them.
	Conns int
}

// Serve serves on listener until server is shut down. It limits the connections, see [MaxConns].
func (w Web) Serve(listener net.Listener, server *http.Server, cfg ServeConfig) error {
	table := &conns{crowded: cfg.Crowded, most: cmp.Or(cfg.Conns, MaxConns)}
	server.ConnState, server.ConnContext = table.state, connContext
	listener = &wrapping{Listener: table.listener(listener), wrap: func() {
		server.Handler = onlyHealth(&cfg, cfg.First(server.Handler))
	}}
	if w.ConfigFile == "" {
		return server.Serve(listener)
	}
	return web.Serve(listener, server, &web.FlagConfig{WebConfigFile: &w.ConfigFile}, slog.New(warnings{cfg.Log.Handler()}))
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
