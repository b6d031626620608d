// Package loopback serves the simulated network of a case on sockets of the loopback interface,
// in real time, for a plugin that is a process. Read this file first: it opens the listeners.
// bridge.go and web.go serve connections, and guide.go tells the process where to dial.
package loopback

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/plugintest/internal/cert"
	"github.com/daeace23/prober/plugin/plugintest/internal/clock"
	"github.com/daeace23/prober/plugin/plugintest/internal/peer"
	"github.com/daeace23/prober/probe"
)

// Slack is the tolerance of durations in real time. It is also how long connections of a process may
// stay open after its attempt.
const Slack = time.Second

// Loopback serves one network, for one attempt.
type Loopback struct {
	Net    *peer.Network
	Target probe.Target // on loopback

	ca  *cert.Authority
	web []*http.Server

	address, at string // HOST:PORT of the target in the case and on loopback, if it has a port

	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	dir       string      // of unix sockets
	held      []io.Closer // sockets that are open but not served
	listeners []listener
	opened    map[string]string // loopback address by "network addr"; "" if it refuses connections

	accepting, serving sync.WaitGroup
	mu                 sync.Mutex
	lasts              map[string]bool   // local addresses of the connections of endListener
	replacements       []string          // loopback addresses and addresses of the case, alternating
	tlsErrors          map[string]string // errors of handshakes, by the address of the client
	conns              []net.Conn
	closed             bool
}

// listener is a socket on loopback that serves a peer.
type listener struct {
	network, at string
	io.Closer
}

// Listen serves the target of a network. It serves another peer once the process asks a [Guide] for
// it. seed determines random bytes.
func Listen(setup peer.Setup, seed uint64, ca *cert.Authority) (*Loopback, error) {
	l := &Loopback{
		Net: peer.New(setup, &clock.Real{}, seed), Target: setup.Target, ca: ca,
		lasts: make(map[string]bool), opened: make(map[string]string), tlsErrors: make(map[string]string),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if err := l.listenTarget(); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen for the process: %w", err)
	}
	return l, nil
}

// maxTries is the number of attempts to find a port that is free for both TCP and UDP.
const maxTries = 16

func (l *Loopback) listenTarget() (err error) {
	network, addr := l.Net.TargetAddr()
	switch network {
	case "":
		return nil
	case "unix":
		l.Target.Unix, err = l.listen("unix", addr)
		return err
	}
	var port string
	for range maxTries {
		if port, err = l.listenPort(addr); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	in := l.Net.Target
	l.address = net.JoinHostPort(in.Host, strconv.Itoa(in.Port))
	l.at = net.JoinHostPort("127.0.0.1", port)
	l.replace(l.at, l.address)
	l.Target.Host = "127.0.0.1"
	l.Target.Port, err = strconv.Atoi(port)
	return err
}

// listenPort serves the TCP and UDP peers at addr on one port. Without a peer it listens on TCP.
func (l *Loopback) listenPort(addr string) (port string, err error) {
	packets, _ := l.Net.At("udp", addr)
	port = "0"
	for _, network := range []string{"tcp", "udp"} {
		p, b := l.Net.At(network, addr)
		if p == nil && (network == "udp" || packets != nil) {
			continue
		}
		at, err := l.open(p, network, net.JoinHostPort("127.0.0.1", port), addr, b)
		if err != nil {
			return "", err
		}
		if _, port, err = net.SplitHostPort(at); err != nil {
			return "", err
		}
		if b == peer.Refuse {
			at = ""
		}
		l.opened[network+" "+addr] = at
	}
	return port, nil
}

// listen serves the peer at addr, and returns its loopback address. It returns "" if connections to
// addr are refused.
func (l *Loopback) listen(network, addr string) (at string, err error) {
	key := network + " " + addr
	if at, ok := l.opened[key]; ok {
		return at, nil
	}
	p, b := l.Net.At(network, addr)
	switch {
	case p == nil && network != "unix": // a process may dial a path without a guide
		l.Net.Unforeseen(network, addr)
		return "", nil
	case b == peer.Refuse && network != "unix":
		l.Net.MarkUsed(network, addr)
		return "", nil
	}
	at = "127.0.0.1:0"
	if network == "unix" {
		if at, err = l.socketPath(); err != nil {
			return "", err
		}
	}
	if at, err = l.open(p, network, at, addr, b); err != nil {
		return "", err
	}
	l.opened[key] = at
	l.replace(at, l.Net.Hosts.Name(addr))
	return at, nil
}

// socketPath returns the path of a new unix socket.
func (l *Loopback) socketPath() (path string, err error) {
	if l.dir == "" {
		l.dir, err = os.MkdirTemp(plugin.SocketTemp(), "prober-")
	}
	return filepath.Join(l.dir, strconv.Itoa(len(l.opened))), err
}

// open serves the peers of p at addr on a socket, and returns its address.
func (l *Loopback) open(p peer.Player, network, at, addr string, b peer.Behaviour) (string, error) {
	switch {
	case network == "udp":
		return l.openPackets(at, addr, b)
	case network == "tcp" && b == peer.Refuse:
		l.Net.MarkUsed(network, addr)
		return l.refuse()
	}
	ln, err := net.Listen(network, at)
	if err != nil {
		return "", err
	}
	at = ln.Addr().String()
	web, isWeb := p.(peer.HTTPPlayer)
	switch {
	case b == peer.Refuse:
		l.Net.MarkUsed(network, addr)
		return at, ln.Close()
	case b == peer.Timeout && network == "tcp":
		l.Net.MarkUsed(network, addr)
		held, err := fill(ln)
		l.held = append(l.held, held...)
		return at, err
	case isWeb:
		l.serveWeb(web, ln, addr)
		return at, nil
	}
	l.listeners = append(l.listeners, listener{network, at, ln})
	l.accepting.Go(func() { l.accept(ln, network, addr) })
	return at, nil
}

// refuse returns a TCP address that refuses connections. Its port is in use by one end of a
// connection, so that no other program can listen at it.
func (l *Loopback) refuse() (at string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}}
	conn, err := dialer.Dial("tcp", ln.Addr().String())
	if err != nil {
		return "", err
	}
	l.held = append(l.held, conn)
	other, err := ln.Accept()
	if err != nil {
		return "", err
	}
	l.held = append(l.held, other)
	return conn.LocalAddr().String(), nil
}

// refusePackets refuses datagrams at a port. A socket holds the port so that no other program gets
// it. The socket is connected to a port that sends nothing.
func (l *Loopback) refusePackets(at string) (string, error) {
	local, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		return "", err
	}
	conn, err := net.DialUDP("udp", local, &net.UDPAddr{IP: local.IP, Port: 1})
	if err != nil {
		return "", err
	}
	l.held = append(l.held, conn)
	return conn.LocalAddr().String(), nil
}

func (l *Loopback) openPackets(at, addr string, b peer.Behaviour) (string, error) {
	if b == peer.Refuse {
		l.Net.MarkUsed("udp", addr)
		return l.refusePackets(at)
	}
	packets, err := net.ListenPacket("udp", at)
	if err != nil {
		return "", err
	}
	at = packets.LocalAddr().String()
	if b == peer.Timeout {
		l.Net.MarkUsed("udp", addr)
		l.held = append(l.held, packets)
		return at, nil
	}
	l.listeners = append(l.listeners, listener{"udp", at, packets})
	l.accepting.Go(func() { l.receive(packets, addr) })
	return at, nil
}

// track registers a connection that Close must close.
func (l *Loopback) track(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns = append(l.conns, conn); l.closed {
		_ = conn.Close()
	}
}

// isLast reports whether endListener made the connection.
func (l *Loopback) isLast(addr net.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lasts[addr.String()]
}

// End stops accepting and waits for the present connections. It reports whether they have ended
// within [Slack].
func (l *Loopback) End() bool {
	for _, one := range l.listeners {
		l.endListener(one)
	}
	l.accepting.Wait()
	for _, h := range l.held {
		_ = h.Close()
	}
	webEnded := l.endWeb()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.serving.Wait()
	}()
	timeout := time.NewTimer(Slack)
	defer timeout.Stop()
	select {
	case <-ended:
		return webEnded
	case <-timeout.C:
		return false
	}
}

// endListener makes a last connection. Once it is accepted, all earlier ones have been.
func (l *Loopback) endListener(one listener) {
	l.mu.Lock()
	defer l.mu.Unlock() // isLast waits until the address of the connection is known
	dialer := net.Dialer{Timeout: Slack}
	if one.network == "unix" {
		dialer.LocalAddr = &net.UnixAddr{Name: one.at + ".last", Net: "unix"} // otherwise it has no name
	}
	conn, err := dialer.Dial(one.network, one.at)
	if err != nil {
		_ = one.Close()
		return
	}
	defer conn.Close()
	l.lasts[conn.LocalAddr().String()] = true
	if packets, ok := one.Closer.(net.PacketConn); ok {
		_, _ = conn.Write([]byte("\n"))
		_ = packets.SetReadDeadline(time.Now().Add(Slack)) // a full queue drops the datagram
	}
}

// Close closes all listeners and connections.
func (l *Loopback) Close() {
	l.cancel()
	for _, web := range l.web {
		_ = web.Close()
	}
	for _, one := range l.listeners {
		_ = one.Close()
	}
	l.accepting.Wait()
	for _, h := range l.held {
		_ = h.Close()
	}
	l.mu.Lock()
	l.closed = true
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.serving.Wait()
	l.Net.Close()
	if l.dir != "" {
		_ = os.RemoveAll(l.dir)
	}
}
