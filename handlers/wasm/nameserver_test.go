package wasm_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// zone is a nameserver on loopback, over UDP and TCP at one port.
type zone struct {
	addr   string
	answer func(network string, query dnsmessage.Message) [][]byte // returns the messages to send

	mu    sync.Mutex
	asked []string // networks of the queries, with the suffix e for EDNS
}

func (z *zone) reply(network string, msg []byte) [][]byte {
	var query dnsmessage.Message
	if err := query.Unpack(msg); err != nil {
		return nil
	}
	if len(query.Additionals) > 0 {
		network += "e"
	}
	z.mu.Lock()
	z.asked = append(z.asked, network)
	z.mu.Unlock()
	return z.answer(network, query)
}

// seen returns the transports of the queries since the last call.
func (z *zone) seen() string {
	z.mu.Lock()
	defer z.mu.Unlock()
	seen := strings.Join(z.asked, " ")
	z.asked = nil
	return seen
}

// nameserver serves a zone until the test ends.
func nameserver(t testing.TB, answer func(network string, query dnsmessage.Message) [][]byte) *zone {
	t.Helper()
	stream, packets := listenBoth(t)
	z := &zone{addr: stream.Addr().String(), answer: answer}
	var wg sync.WaitGroup
	wg.Go(func() { z.servePackets(packets) })
	wg.Go(func() {
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { z.serveStream(conn) })
		}
	})
	t.Cleanup(func() {
		stream.Close()
		packets.Close()
		wg.Wait()
	})
	return z
}

// listenBoth listens over tcp and udp on one port.
func listenBoth(t testing.TB) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 10 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if p, err := net.ListenPacket("udp", l.Addr().String()); err == nil {
			return l, p
		}
		l.Close()
	}
	t.Fatal("no port is free for both tcp and udp")
	return nil, nil
}

func (z *zone) servePackets(p net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := p.ReadFrom(buf)
		if err != nil {
			return
		}
		for _, msg := range z.reply("udp", buf[:n]) {
			_, _ = p.WriteTo(msg, from)
		}
	}
}

func (z *zone) serveStream(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, msg); err != nil {
		return
	}
	for _, msg := range z.reply("tcp", msg) {
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...))
	}
	_, _ = conn.Read(size[:]) // wait until the guest's host closes the connection
}

// answering returns the answer to a query, with bodies as records of its name.
func answering(query dnsmessage.Message, code dnsmessage.RCode, bodies ...dnsmessage.ResourceBody) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RCode: code}, Questions: query.Questions}
	for _, b := range bodies {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: query.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 60}, Body: b,
		})
	}
	msg, err := m.Pack()
	if err != nil {
		panic(err) // the test made an invalid message
	}
	return msg
}

// silence is a clock whose time passes only when a nameserver leaves a question unanswered. Then the
// wait for the answer ends at once. Other answers may take any time.
type silence struct {
	steppedClock
	start      time.Time
	unanswered chan struct{} // has an item for each question
}

func newSilence() *silence { return &silence{start: time.Now(), unanswered: make(chan struct{}, 100)} }

// observe returns an answer function that calls answer. If answer returns nothing, time passes.
func (s *silence) observe(answer func(network string, query dnsmessage.Message) [][]byte) func(string, dnsmessage.Message) [][]byte {
	return func(network string, query dnsmessage.Message) [][]byte {
		messages := answer(network, query)
		if len(messages) == 0 {
			s.unanswered <- struct{}{}
		}
		return messages
	}
}

func (s *silence) Now() time.Time { return s.start.Add(time.Duration(s.by.Load())) }

func (s *silence) Wait(ctx context.Context, wake <-chan struct{}, d time.Duration) bool {
	if d == 0 {
		return false
	}
	select {
	case <-wake:
		return true
	case <-s.unanswered:
		s.step(max(0, d)) // a negative d never passes
	case <-ctx.Done():
	}
	return false
}

// resolver returns a plugin whose host has these nameservers.
func resolver(t testing.TB, name string, servers ...*zone) *wasm.Handler {
	t.Helper()
	return resolverAt(t, nil, name, servers...)
}

// resolverAt is resolver with a clock. Nil means the system clock.
func resolverAt(t testing.TB, clock wasm.Clock, name string, servers ...*zone) *wasm.Handler {
	t.Helper()
	cfg := wasm.Config{CacheDir: testCache(scratch), Interpreter: interpreter, Clock: clock}
	for _, z := range servers {
		cfg.DNSServers = append(cfg.DNSServers, z.addr)
	}
	h, err := wasm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return loadAs(t, h, name, asking(name, allow), grants(t, "dns")...)
}

// unhurried encodes the timeout of look-ups that must succeed: 50 ms for each byte.
var unhurried = strings.Repeat("x", 60)

// resolve makes a guest look up a name. See dns.wat for short.
func resolve(t testing.TB, p *wasm.Handler, req map[string]any, short any) probe.Outcome {
	t.Helper()
	config := map[string]any{"req": req}
	if short != false {
		config["short"] = short
	}
	doc, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	target := probe.Target{Host: "10.0.0.7", Port: 53}
	got, err := attempt(t, bind(t, p, string(doc), target), probe.Request{Target: target}, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

type found struct {
	RCode, Server string
	Seconds       float64
	Answers       []struct {
		Name, Type, Data string
		TTL              uint32
	}
}

func answerOf(t testing.TB, out probe.Outcome) (f found) {
	t.Helper()
	if err := json.Unmarshal([]byte(out.Output), &f); err != nil || out.Result != probe.Success {
		t.Fatalf("got %+v, %v", out, err)
	}
	return f
}

// cut returns a truncated answer.
func cut(q dnsmessage.Message) [][]byte {
	msg := answering(q, 0)
	msg[2] |= 2
	return [][]byte{msg}
}

// deadAddr is an address without a listener.
const deadAddr = "127.0.0.1:1"
