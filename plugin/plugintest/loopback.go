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

	"github.com/daeace23/prober/probe"
)

// loopback serves the peers at the target of one case on sockets of the loopback
// interface, in real time.
type loopback struct {
	net    *network
	target probe.Target // where they listen
	names  *strings.Replacer
	web    *http.Server // of what has exchanges; nil for none

	address, at string // of a target with a port: as the case has it, and in reality

	ctx     context.Context // of what is played
	cancel  context.CancelFunc
	dir     string // of sockets
	holders []io.Closer
	doors   []door

	accepting, serving sync.WaitGroup
	mu                 sync.Mutex
	last               map[string]bool // addresses of those who end the doors
	conns              []net.Conn
	ended              bool
}

// door is where somebody listens.
type door struct {
	network, at string // in reality
	io.Closer
}

func newLoopback(c *Case, index int) (*loopback, error) {
	l := &loopback{last: make(map[string]bool), names: strings.NewReplacer(), target: c.Target}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.net = newNetwork(c, &ownTime{}, rand.New(rand.NewPCG(uint64(index), 0)))
	l.net.native = true
	if err := l.listen(c); err != nil {
		l.close()
		return nil, fmt.Errorf("listen for the process: %w", err)
	}
	return l, nil
}

// listen opens the doors of the target. A port has those of its peers, or one of TCP.
func (l *loopback) listen(c *Case) error {
	network, addr := l.net.target(c)
	switch network {
	case "":
		return nil
	case "unix":
		return l.listenUnix(c, addr)
	}
	behaviours := make(map[string]Behaviour)
	for _, p := range l.net.peers {
		behaviours[p.network] = p.Behaviour
	}
	if len(behaviours) == 0 {
		behaviours["tcp"] = c.all
	}
	if len(l.net.web) > 0 {
		behaviours["tcp"] = l.net.web[0].Behaviour
	}
	port := "0"
	for _, network := range []string{"tcp", "udp"} {
		b, ok := behaviours[network]
		if !ok {
			continue
		}
		at, err := l.open(network, net.JoinHostPort("127.0.0.1", port), addr, b)
		if err != nil {
			return err
		}
		_, port, _ = net.SplitHostPort(at)
	}
	l.target.Host = "127.0.0.1"
	l.target.Port, _ = strconv.Atoi(port)
	l.at = net.JoinHostPort("127.0.0.1", port)
	l.address = net.JoinHostPort(c.Target.Host, strconv.Itoa(c.Target.Port))
	l.names = strings.NewReplacer(l.at, l.address)
	return nil
}

func (l *loopback) listenUnix(c *Case, addr string) (err error) {
	if l.dir, err = os.MkdirTemp("", "prober-"); err != nil {
		return err
	}
	b := c.all
	if len(l.net.peers) > 0 {
		b = l.net.peers[0].Behaviour
	}
	l.target.Unix, err = l.open("unix", filepath.Join(l.dir, "s"), addr, b)
	l.names = strings.NewReplacer(l.target.Unix, c.Target.Unix)
	return err
}

// open opens one door and returns where it is.
func (l *loopback) open(network, at, addr string, b Behaviour) (string, error) {
	if network == "udp" {
		return l.openPackets(at, addr, b)
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
	case len(l.net.web) > 0:
		l.openWeb(ln, addr)
		return at, nil
	}
	l.doors = append(l.doors, door{network, at, ln})
	l.accepting.Go(func() { l.accept(ln, network, addr) })
	return at, nil
}

func (l *loopback) openPackets(at, addr string, b Behaviour) (string, error) {
	packets, err := net.ListenPacket("udp", at)
	if err != nil {
		return "", err
	}
	at = packets.LocalAddr().String()
	switch b {
	case Refuse:
		l.passed("udp", addr)
		return at, packets.Close()
	case Timeout:
		l.passed("udp", addr)
		l.holders = append(l.holders, packets)
		return at, nil
	}
	l.doors = append(l.doors, door{"udp", at, packets})
	l.accepting.Go(func() { l.receive(packets, addr) })
	return at, nil
}

// passed says of peers that can not be seen to be dialled that they were.
func (l *loopback) passed(network, addr string) {
	for _, p := range l.net.peers {
		if p.network == network && p.addr == addr {
			l.net.connect(network, addr)
		}
	}
	for _, x := range l.net.web {
		x.answered++
	}
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
	if d.network == "udp" {
		_, _ = conn.Write([]byte("\n"))
	}
}

// close ends all that is left.
func (l *loopback) close() {
	l.cancel()
	if l.web != nil {
		_ = l.web.Close()
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
func (l *loopback) replaced(text string) string { return l.names.Replace(text) }

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

// closed is how whoever behaves so does not take connections, or "".
func closed(b Behaviour) Behaviour {
	if b == Refuse || b == Timeout {
		return b
	}
	return ""
}
