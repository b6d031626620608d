package access

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Limits of the connections over TCP. The socket has none.
const (
	// MaxConns is how many connections there are at once, beside the reserve.
	MaxConns = 512
	// MaxPeerConns is how many of them one peer has: an address, of IPv6 a /64.
	MaxPeerConns = MaxConns / 2
	// maxReserve is how many connections there are beyond these limits. They answer health only.
	maxReserve = 16
)

// conns are the connections of a listener. It always accepts: a connection beyond a limit closes
// another one, or gets a place in the reserve. It is safe for concurrent use.
type conns struct {
	crowded func(from string) // see [ServeConfig]; read-only
	most    int               // connections, half of them of one peer; read-only

	mu     sync.Mutex
	newest uint64 // number of the newest connection
	open   map[*conn]struct{}
	peers  map[netip.Prefix]int // regular connections by peer
}

// conn is one connection.
type conn struct {
	net.Conn
	table *conns
	peer  netip.Prefix

	// Guarded by the table's mu.
	number  uint64 // a lower one is older
	reserve bool
	waiting bool // for the header of a request, the first one or a further one
}

// listener returns a listener whose connections are in the table.
func (t *conns) listener(inner net.Listener) net.Listener { return &counting{inner, t} }

type counting struct {
	net.Listener
	table *conns
}

// Accept implements [net.Listener].
func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.table.add(c), nil
}

// add adds a connection, and closes the one that has to go for it.
func (t *conns) add(inner net.Conn) *conn {
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

// placeLocked decides whether c is in the reserve, and which connection has to go for it, nil for none.
func (t *conns) placeLocked(c *conn) (victim *conn) {
	own, all := t.peers[c.peer], 0
	for _, n := range t.peers {
		all += n
	}
	switch {
	case own >= t.most/2:
		victim = t.oldestLocked(func(o *conn) bool { return !o.reserve && o.waiting && o.peer == c.peer })
	case all >= t.most:
		victim = t.oldestOfGreatestLocked(c.peer)
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

// oldestOfGreatestLocked returns the connection that goes for one of peer: the oldest that waits for a header, of
// the peer with the most of those. If none waits, it returns the oldest of the peer with the most, which has to
// have two more than peer. A peer with no more connections than peer has loses none.
func (t *conns) oldestOfGreatestLocked(peer netip.Prefix) *conn {
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

// greatest returns the peer with the highest number, the lowest of equals.
func greatest(peers map[netip.Prefix]int) (peer netip.Prefix, most int) {
	for p, n := range peers {
		if n > most || n == most && p.Compare(peer) < 0 {
			peer, most = p, n
		}
	}
	return peer, most
}

// oldestLocked returns the oldest connection that matches; nil for none.
func (t *conns) oldestLocked(matches func(*conn) bool) (oldest *conn) {
	for c := range t.open {
		if matches(c) && (oldest == nil || c.number < oldest.number) {
			oldest = c
		}
	}
	return oldest
}

func (t *conns) removeLocked(c *conn) {
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

// state notes whether a connection waits for a header. It is an [http.Server.ConnState].
func (t *conns) state(nc net.Conn, state http.ConnState) {
	if c := connIn(nc); c != nil {
		t.mu.Lock()
		c.waiting = state == http.StateNew || state == http.StateIdle
		t.mu.Unlock()
	}
}

// connIn returns the connection of a table below TLS; nil if there is none.
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
	if c := connIn(nc); c != nil && c.reserve { // which is read-only after Accept
		return context.WithValue(ctx, reserveKey{}, true)
	}
	return ctx
}

// onlyHealth passes a request on a connection of the reserve to next if it asks for health. It is the last
// request of its connection.
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
