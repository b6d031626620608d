package access

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Limits of connections over TCP. The socket has no limits.
const (
	// MaxConns is the limit of concurrent connections, without the reserve.
	MaxConns = 512
	// MaxPeerConns is the limit for one peer: an IPv4 address or an IPv6 /64.
	MaxPeerConns = MaxConns / 2
	// maxReserve is the number of connections beyond these limits. They only serve health requests.
	maxReserve = 16
)

// connTable has the connections of a listener. It always accepts: a connection beyond a limit closes another
// one, or is put into the reserve. It is safe for concurrent use.
type connTable struct {
	crowded func(from string) // see [ServeConfig]; read-only
	most    int               // limit of connections, half of it for one peer; read-only

	mu     sync.Mutex
	newest uint64 // number of the newest connection
	open   map[*conn]struct{}
	peers  map[netip.Prefix]int // regular connections by peer
}

// conn is one connection.
type conn struct {
	net.Conn
	table *connTable
	peer  netip.Prefix

	// Guarded by the table's mu.
	number  uint64 // lower numbers are older
	reserve bool
	waiting bool // for the header of a request
}

// listener returns a listener whose connections are in the table.
func (t *connTable) listener(inner net.Listener) net.Listener { return &counting{inner, t} }

type counting struct {
	net.Listener
	table *connTable
}

// Accept implements [net.Listener].
func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.table.add(c), nil
}

// add adds a connection, and closes a connection that must make room for it.
func (t *connTable) add(inner net.Conn) *conn {
	c := &conn{Conn: inner, table: t, waiting: true}
	c.peer = networkOf(c.from())
	t.mu.Lock()
	victim := t.placeLocked(c)
	if victim != nil {
		t.removeLocked(victim)
	}
	if t.open == nil {
		t.open, t.peers = make(map[*conn]struct{}), make(map[netip.Prefix]int)
	}
	t.newest++
	c.number = t.newest
	t.open[c] = struct{}{}
	if !c.reserve {
		t.peers[c.peer]++
	}
	t.mu.Unlock()
	if victim != nil {
		_ = victim.Conn.Close()
		t.crowded(victim.from())
	}
	return c
}

// placeLocked decides whether c is in the reserve, and which connection must make room for it; nil for none.
func (t *connTable) placeLocked(c *conn) (victim *conn) {
	own, all := t.peers[c.peer], 0
	for _, n := range t.peers {
		all += n
	}
	switch {
	case own >= t.most/2:
		victim = t.oldestLocked(func(o *conn) bool { return !o.reserve && o.waiting && o.peer == c.peer })
	case all >= t.most:
		victim = t.victimLocked(c.peer)
	default:
		return nil
	}
	if victim != nil {
		return victim
	}
	c.reserve = true
	if len(t.open)-all < maxReserve {
		return nil
	}
	return t.oldestLocked(func(o *conn) bool { return o.reserve })
}

// victimLocked returns the connection to close for a new one of peer. Among the peers with more connections
// than peer, and peer itself, it chooses the one with the most connections that wait for a header, and
// returns its oldest of these. If no connection waits, it returns the oldest connection of the peer with the
// most connections, if that has at least two more than peer. It returns nil if there is no such connection.
func (t *connTable) victimLocked(peer netip.Prefix) *conn {
	own, waiting := t.peers[peer], make(map[netip.Prefix]int)
	for c := range t.open {
		if c.waiting && !c.reserve && (c.peer == peer || t.peers[c.peer] > own) {
			waiting[c.peer]++
		}
	}
	if most, n := greatest(waiting); n > 0 {
		return t.oldestLocked(func(o *conn) bool { return !o.reserve && o.waiting && o.peer == most })
	}
	if most, n := greatest(t.peers); n > own+1 {
		return t.oldestLocked(func(o *conn) bool { return !o.reserve && o.peer == most })
	}
	return nil
}

// greatest returns the peer with the highest number. Among equals it returns the lowest peer.
func greatest(peers map[netip.Prefix]int) (peer netip.Prefix, most int) {
	for p, n := range peers {
		if n > most || n == most && p.Compare(peer) < 0 {
			peer, most = p, n
		}
	}
	return peer, most
}

// oldestLocked returns the oldest connection that matches; nil if none matches.
func (t *connTable) oldestLocked(matches func(*conn) bool) (oldest *conn) {
	for c := range t.open {
		if matches(c) && (oldest == nil || c.number < oldest.number) {
			oldest = c
		}
	}
	return oldest
}

func (t *connTable) removeLocked(c *conn) {
	if _, ok := t.open[c]; !ok {
		return
	}
	delete(t.open, c)
	if c.reserve {
		return
	}
	if t.peers[c.peer]--; t.peers[c.peer] == 0 {
		delete(t.peers, c.peer)
	}
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.table.mu.Lock()
	c.table.removeLocked(c)
	c.table.mu.Unlock()
	return c.Conn.Close()
}

// state records whether a connection waits for a header. It is an [http.Server.ConnState].
func (t *connTable) state(nc net.Conn, state http.ConnState) {
	if c := connIn(nc); c != nil {
		t.mu.Lock()
		c.waiting = state == http.StateNew || state == http.StateIdle
		t.mu.Unlock()
	}
}

// connIn returns the table's connection below TLS; nil if there is none.
func connIn(nc net.Conn) *conn {
	if outer, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = outer.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

// reserveKey is the context key of a connection in the reserve.
type reserveKey struct{}

// connContext is an [http.Server.ConnContext].
func connContext(ctx context.Context, nc net.Conn) context.Context {
	if c := connIn(nc); c != nil && c.reserve { // reserve is read-only after Accept
		return context.WithValue(ctx, reserveKey{}, true)
	}
	return ctx
}

// onlyHealth lets connections of the reserve only request health, and closes them after one request. It
// passes other requests to next.
func onlyHealth(cfg *ServeConfig, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(reserveKey{}) == nil {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		if cfg.Health(r.URL.Path) && isRead(r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		cfg.Crowded(remoteIP(r))
		SetHeaders(w.Header())
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many connections are in use; try again later", http.StatusServiceUnavailable)
	})
}

// from returns the IP address of the peer.
func (c *conn) from() string { return hostOf(c.RemoteAddr().String()) }
