package plugintest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// loopback serves the world of one case on sockets of the loopback interface, in real time:
// what is at the target, and whatever else the guide leads a process to.
type loopback struct {
	net    *network
	ca     *authority
	spare  time.Duration // that an attempt may take
	host   string        // of the target, as the case has it
	target probe.Target  // where it is
	web    []*http.Server

	address, at string // of a target with a port: as the case has it, and in reality

	ctx     context.Context // of what is played
	cancel  context.CancelFunc
	dir     string // of sockets
	holders []io.Closer
	doors   []door
	led     map[string]string // where whoever is at an address is in reality; "" is nowhere

	accepting, serving sync.WaitGroup
	mu                 sync.Mutex
	last               map[string]bool   // addresses of those who end the doors
	spelling           []string          // addresses in reality, and as the case has them, in turn
	why                map[string]string // handshakes fail, by the address of who began them
	conns              []net.Conn
	ended              bool
}

// door is where somebody listens.
type door struct {
	network, at string // in reality
	io.Closer
}

func newLoopback(c *Case, index int, ca *authority) (*loopback, error) {
	l := &loopback{
		ca: ca, spare: c.Timeout, host: c.Target.Host, target: c.Target,
		last: make(map[string]bool), led: make(map[string]string), why: make(map[string]string),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.net = newNetwork(c, &ownTime{}, rand.New(rand.NewPCG(uint64(index), 0)))
	l.net.native = true
	if err := l.listen(c); err != nil {
		l.close()
		return nil, fmt.Errorf("listen for the process: %w", err)
	}
	return l, nil
}

// maxTries is how often two doors are looked for that have one number.
const maxTries = 16

// listen opens the doors of the target.
func (l *loopback) listen(c *Case) (err error) {
	network, addr := l.net.target(c)
	switch network {
	case "":
		return nil
	case "unix":
		l.target.Unix, err = l.lead("unix", addr)
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
	l.target.Host = "127.0.0.1"
	l.target.Port, err = strconv.Atoi(port)
	l.at = net.JoinHostPort("127.0.0.1", port)
	l.address = net.JoinHostPort(c.Target.Host, strconv.Itoa(c.Target.Port))
	l.spell(l.at, l.address)
	return err
}

// listenPort opens the doors of the one port at addr: those that the case has somebody
// behind, or one of TCP.
func (l *loopback) listenPort(addr string) (port string, err error) {
	_, packets := l.net.shows("udp", addr)
	port = "0"
	for _, network := range []string{"tcp", "udp"} {
		b, ok := l.net.shows(network, addr)
		if !ok && (network == "udp" || packets) {
			continue
		}
		at, err := l.open(network, net.JoinHostPort("127.0.0.1", port), addr, b)
		if err != nil {
			return "", err
		}
		if _, port, err = net.SplitHostPort(at); err != nil {
			return "", err
		}
		if b == Refuse {
			at = ""
		}
		l.led[network+" "+addr] = at
	}
	return port, nil
}

// lead returns where whoever is at an address is in reality, with a door that is opened if
// there is none yet; "" for nobody.
func (l *loopback) lead(network, addr string) (at string, err error) {
	key := network + " " + addr
	if at, ok := l.led[key]; ok {
		return at, nil
	}
	b, ok := l.net.shows(network, addr)
	switch {
	case !ok && network != "unix": // whoever knows a socket by its path dials it without a guide
		l.net.fault("the plugin dials %s://%s, of which host.net says nothing", network, l.net.spelt(addr))
		return "", nil
	case b == Refuse && network != "unix":
		l.passed(network, addr)
		return "", nil
	}
	at = "127.0.0.1:0"
	if network == "unix" {
		if at, err = l.socket(); err != nil {
			return "", err
		}
	}
	if at, err = l.open(network, at, addr, b); err != nil {
		return "", err
	}
	l.led[key] = at
	l.spell(at, l.net.spelt(addr))
	return at, nil
}

// socket returns the path of one that is not there yet.
func (l *loopback) socket() (path string, err error) {
	if l.dir == "" {
		l.dir, err = os.MkdirTemp(plugin.SocketTemp(), "prober-")
	}
	return filepath.Join(l.dir, strconv.Itoa(len(l.led))), err
}

// open opens one door and returns where it is.
func (l *loopback) open(network, at, addr string, b Behaviour) (string, error) {
	switch {
	case network == "udp":
		return l.openPackets(at, addr, b)
	case network == "tcp" && b == Refuse:
		l.passed(network, addr)
		return l.refuse()
	}
	ln, err := net.Listen(network, at)
	if err != nil {
		return "", err
	}
	at = ln.Addr().String()
	switch {
	case b == Refuse:
		l.passed(network, addr)
		return at, ln.Close()
	case b == Timeout && network == "tcp":
		l.passed(network, addr)
		held, err := fill(ln)
		l.holders = append(l.holders, held...)
		return at, err
	case network == "tcp" && len(l.net.webOf(addr)) > 0:
		l.openWeb(ln, addr)
		return at, nil
	}
	l.doors = append(l.doors, door{network, at, ln})
	l.accepting.Go(func() { l.accept(ln, network, addr) })
	return at, nil
}

// refuse returns a port at which nobody listens. The end of a connection has it: of a port
// that is free, another program may make its own.
func (l *loopback) refuse() (at string, err error) {
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
	l.holders = append(l.holders, conn)
	other, err := ln.Accept()
	if err != nil {
		return "", err
	}
	l.holders = append(l.holders, other)
	return conn.LocalAddr().String(), nil
}

// refusePackets refuses datagrams at a port that is kept: who has it hears one peer alone,
// from whose port nobody sends.
func (l *loopback) refusePackets(at string) (string, error) {
	local, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		return "", err
	}
	conn, err := net.DialUDP("udp", local, &net.UDPAddr{IP: local.IP, Port: 1})
	if err != nil {
		return "", err
	}
	l.holders = append(l.holders, conn)
	return conn.LocalAddr().String(), nil
}

func (l *loopback) openPackets(at, addr string, b Behaviour) (string, error) {
	if b == Refuse {
		l.passed("udp", addr)
		return l.refusePackets(at)
	}
	packets, err := net.ListenPacket("udp", at)
	if err != nil {
		return "", err
	}
	at = packets.LocalAddr().String()
	if b == Timeout {
		l.passed("udp", addr)
		l.holders = append(l.holders, packets)
		return at, nil
	}
	l.doors = append(l.doors, door{"udp", at, packets})
	l.accepting.Go(func() { l.receive(packets, addr) })
	return at, nil
}

// passed says of those that can not be seen to be dialled that they were.
func (l *loopback) passed(network, addr string) {
	for _, p := range l.net.peers {
		if p.network == network && p.addr == addr {
			l.net.connect(network, addr)
		}
	}
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	if network == "tcp" {
		for _, x := range l.net.webOf(addr) {
			x.answered++
		}
	}
	for _, z := range l.net.zoneOf(addr) {
		if z.Behaviour == Refuse {
			z.answered++
		}
	}
}

// spell notes how the case has an address.
func (l *loopback) spell(at, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spelling = append(l.spelling, at, address)
}

// hostAt is the host of an address, as the case has it.
func (l *loopback) hostAt(addr string) string {
	host, _, err := net.SplitHostPort(l.net.spelt(addr))
	if err != nil {
		return addr
	}
	return host
}

// hold has close end a connection.
func (l *loopback) hold(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns = append(l.conns, conn); l.ended {
		_ = conn.Close()
	}
}

func (l *loopback) isLast(addr net.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[addr.String()]
}

// end lets everybody in who has come, and waits until they have gone. It reports false of
// those who have not.
func (l *loopback) end() bool {
	for _, d := range l.doors {
		l.endDoor(d)
	}
	l.accepting.Wait()
	for _, h := range l.holders {
		_ = h.Close()
	}
	webEnded := l.endWeb()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		l.serving.Wait()
	}()
	patience := time.NewTimer(slack)
	defer patience.Stop()
	select {
	case <-gone:
		return webEnded
	case <-patience.C:
		return false
	}
}

// endDoor comes in last: who has come before was let in then.
func (l *loopback) endDoor(d door) {
	l.mu.Lock()
	defer l.mu.Unlock() // nobody asks who is the last one before it is known
	dialer := net.Dialer{Timeout: slack}
	if d.network == "unix" {
		dialer.LocalAddr = &net.UnixAddr{Name: d.at + ".last", Net: "unix"} // else it has no name
	}
	conn, err := dialer.Dial(d.network, d.at)
	if err != nil {
		_ = d.Close()
		return
	}
	defer conn.Close()
	l.last[conn.LocalAddr().String()] = true
	if packets, ok := d.Closer.(net.PacketConn); ok {
		_, _ = conn.Write([]byte("\n"))
		_ = packets.SetReadDeadline(time.Now().Add(slack)) // there may have been no room for it
	}
}

// close ends all that is left.
func (l *loopback) close() {
	l.cancel()
	for _, web := range l.web {
		_ = web.Close()
	}
	for _, d := range l.doors {
		_ = d.Close()
	}
	l.accepting.Wait()
	for _, h := range l.holders {
		_ = h.Close()
	}
	l.mu.Lock()
	l.ended = true
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.mu.Unlock()
	l.serving.Wait()
	if l.dir != "" {
		_ = os.RemoveAll(l.dir)
	}
}

// replaced spells addresses in a text as the case does.
func (l *loopback) replaced(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.NewReplacer(l.spelling...).Replace(text)
}

// spelt is replaced of an error.
func (l *loopback) spelt(err error) error {
	if err == nil {
		return nil
	}
	return &speltError{err, l.replaced(err.Error())}
}

type speltError struct {
	error
	text string
}

func (e *speltError) Error() string { return e.text }
func (e *speltError) Unwrap() error { return e.error }
