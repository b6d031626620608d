package echo_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/handlers/wasm/internal/echo"
)

var (
	four   = netip.MustParseAddr("10.0.0.7")
	six    = netip.MustParseAddr("fd00::7")
	router = map[bool]netip.Addr{false: netip.MustParseAddr("10.1.0.1"), true: netip.MustParseAddr("fd00::1")}
)

// reply returns the reply to a request.
func reply(sent []byte) []byte {
	got := slices.Clone(sent)
	got[0] = map[byte]byte{8: 0, 128: 129}[sent[0]]
	return got
}

// quote returns an ICMP error message about a packet that carried sent to an address.
func quote(to netip.Addr, kind, code byte, rest uint32, sent []byte) []byte {
	b := []byte{kind, code, 0, 0}
	b = binary.BigEndian.AppendUint32(b, rest)
	if to.Is6() {
		head := make([]byte, 40)
		head[0], head[6] = 0x60, 58
		copy(head[24:], to.AsSlice())
		return append(append(b, head...), sent...)
	}
	head := make([]byte, 20)
	head[0], head[9] = 0x45, 1
	copy(head[16:], to.AsSlice())
	return append(append(b, head...), sent...)
}

// scripted sends an unfragmented request to an address, and delivers the packets that come returns.
func scripted(t *testing.T, to netip.Addr, come ...func(sent []byte) echo.Packet) (echo.Reply, error) {
	t.Helper()
	return scriptedRequest(t, echo.Request{Addr: to, Payload: 32, DontFragment: true}, come...)
}

func scriptedRequest(t *testing.T, req echo.Request, come ...func(sent []byte) echo.Packet) (echo.Reply, error) {
	t.Helper()
	s := &echo.Script{Expired: make(chan struct{})}
	s.Receive = func(sent []byte) (echo.Packet, error) {
		if len(come) == 0 {
			<-s.Expired
			return echo.Packet{}, os.ErrDeadlineExceeded
		}
		p := come[0](sent)
		come = come[1:]
		return p, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r, err := echo.DoWith(ctx, req, s)
	if !s.Closed {
		t.Error("the socket is open")
	}
	return r, err
}

func from(addr netip.Addr, data func(sent []byte) []byte) func([]byte) echo.Packet {
	return func(sent []byte) echo.Packet {
		return echo.Packet{From: addr, To: netip.MustParseAddr("10.0.0.1"), HopLimit: 63, Data: data(sent)}
	}
}

func TestReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, to := range []netip.Addr{four, six} {
			got, err := scripted(t, to, func(sent []byte) echo.Packet {
				time.Sleep(20 * time.Millisecond)
				return from(to, reply)(sent)
			})
			want := echo.Reply{Local: netip.MustParseAddr("10.0.0.1"), Payload: 32, HopLimit: 63, RTT: 20 * time.Millisecond}
			if err != nil || got != want {
				t.Errorf("%s: got %+v, %v, want %+v", to, got, err, want)
			}
		}
	})
}

// changed returns a reply that differs from the right one in one byte.
func changed(at int) func([]byte) []byte {
	return func(sent []byte) []byte {
		got := reply(sent)
		got[at] ^= 1
		return got
	}
}

func TestForeignPacketsAreIgnored(t *testing.T) {
	foreign := map[string]func([]byte) echo.Packet{
		"another sender":         from(netip.MustParseAddr("10.0.0.8"), reply),
		"another type":           from(four, changed(0)),
		"another code":           from(four, changed(1)),
		"another identifier":     from(four, changed(4)),
		"another sequence":       from(four, changed(7)),
		"another payload":        from(four, changed(39)),
		"the request itself":     from(four, slices.Clone),
		"a longer reply":         from(four, func(sent []byte) []byte { return append(reply(sent), 0) }),
		"a shorter reply":        from(four, func(sent []byte) []byte { return reply(sent)[:20] }),
		"half a header":          from(four, func(sent []byte) []byte { return reply(sent)[:5] }),
		"nothing":                from(four, func([]byte) []byte { return nil }),
		"an error of another":    from(router[false], func(sent []byte) []byte { return quote(four, 3, 1, 0, changed(5)(slices.Clone(sent))) }),
		"an error of a neighbor": from(router[false], func(sent []byte) []byte { return quote(netip.MustParseAddr("10.0.0.8"), 3, 1, 0, sent) }),
		"an error, cut":          from(router[false], func(sent []byte) []byte { return quote(four, 3, 1, 0, sent)[:33] }),
		"a redirect":             from(router[false], func(sent []byte) []byte { return quote(four, 5, 1, 0, sent) }),
		"an error, other cookie": from(router[false], func(sent []byte) []byte {
			return quote(four, 11, 0, 0, append(slices.Clone(sent[:8]), make([]byte, 32)...))
		}),
		"an error of IPv6": from(router[true], func(sent []byte) []byte { return quote(six, 3, 0, 0, sent) }),
	}
	for name, packet := range foreign {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got, err := scripted(t, four, packet, packet, from(four, reply)); err != nil {
					t.Errorf("before the reply: got %+v, %v", got, err)
				}
				start := time.Now()
				_, err := scripted(t, four, packet)
				if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "no reply in time" || time.Since(start) != time.Second {
					t.Errorf("without the reply: got %v after %v", err, time.Since(start))
				}
			})
		})
	}
}

func TestMessagesOfRouters(t *testing.T) {
	for _, c := range []struct {
		to         netip.Addr
		kind, code byte
		rest       uint32
		want       string
		errno      syscall.Errno
	}{
		{four, 3, 0, 0, "10.1.0.1 says: network unreachable", syscall.ENETUNREACH},
		{four, 3, 1, 0, "10.1.0.1 says: host unreachable", syscall.EHOSTUNREACH},
		{four, 3, 3, 0, "10.1.0.1 says: port unreachable", syscall.ECONNREFUSED},
		{four, 3, 4, 1400, "10.1.0.1 says: packet too big, the MTU is 1400", syscall.EMSGSIZE},
		{four, 3, 13, 0, "10.1.0.1 says: prohibited by a filter", syscall.EHOSTUNREACH},
		{four, 3, 99, 0, "10.1.0.1 says: destination unreachable, code 99", syscall.EHOSTUNREACH},
		{four, 11, 0, 0, "10.1.0.1 says: time exceeded: the hop limit is used up", syscall.EHOSTUNREACH},
		{four, 11, 1, 0, "10.1.0.1 says: time exceeded: a fragment is missing", syscall.EHOSTUNREACH},
		{four, 12, 0, 0, "10.1.0.1 says: parameter problem, code 0", syscall.EHOSTUNREACH},
		{six, 1, 0, 0, "fd00::1 says: no route", syscall.ENETUNREACH},
		{six, 1, 3, 0, "fd00::1 says: address unreachable", syscall.EHOSTUNREACH},
		{six, 1, 4, 0, "fd00::1 says: port unreachable", syscall.ECONNREFUSED},
		{six, 2, 0, 1280, "fd00::1 says: packet too big, the MTU is 1280", syscall.EMSGSIZE},
		{six, 3, 0, 0, "fd00::1 says: time exceeded: the hop limit is used up", syscall.EHOSTUNREACH},
		{six, 4, 2, 0, "fd00::1 says: parameter problem, code 2", syscall.EHOSTUNREACH},
	} {
		_, err := scripted(t, c.to, from(router[c.to.Is6()], func(sent []byte) []byte { return quote(c.to, c.kind, c.code, c.rest, sent) }))
		if err == nil || err.Error() != c.want || !errors.Is(err, c.errno) {
			t.Errorf("type %d, code %d: got %v, want %s", c.kind, c.code, err, c.want)
		}
	}
	fragment := func(sent []byte) []byte { // a fragment of the request
		b := quote(six, 3, 1, 0, append([]byte{58, 0, 0, 1, 0, 0, 0, 1}, sent...))
		b[8+6] = 44
		return b
	}
	if _, err := scripted(t, six, from(six, fragment)); err == nil || err.Error() != "fd00::7 says: time exceeded: a fragment is missing" {
		t.Errorf("got %v", err)
	}
}

// TestPacketTooBigIsSentAgain answers requests that may be fragmented with "packet too big".
func TestPacketTooBigIsSentAgain(t *testing.T) {
	tooBig := from(router[true], func(sent []byte) []byte { return quote(six, 2, 0, 1280, sent) })
	req := echo.Request{Addr: six, Payload: 32}
	if _, err := scriptedRequest(t, req, tooBig, tooBig, tooBig, from(six, reply)); err != nil {
		t.Error(err)
	}
	if _, err := scriptedRequest(t, req, tooBig, tooBig, tooBig, tooBig); !errors.Is(err, syscall.EMSGSIZE) {
		t.Errorf("got %v, want that it is too long", err)
	}
}

func TestIdentifierOfTheSystem(t *testing.T) {
	s := &echo.Script{Fixed: 4711, Expired: make(chan struct{}), Receive: func(sent []byte) (echo.Packet, error) {
		if id := binary.BigEndian.Uint16(sent[4:]); id != 4711 {
			t.Errorf("got the identifier %d", id)
		}
		return echo.Packet{From: four, Data: reply(sent)}, nil
	}}
	if _, err := echo.DoWith(t.Context(), echo.Request{Addr: four, Payload: 1}, s); err != nil {
		t.Error(err)
	}
}

func TestRequestsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for range 8 {
		s := &echo.Script{Expired: make(chan struct{}), Receive: func(sent []byte) (echo.Packet, error) {
			seen[string(sent[4:8])], seen[string(sent[8:])] = true, true
			return echo.Packet{From: four, Data: reply(sent)}, nil
		}}
		if _, err := echo.DoWith(t.Context(), echo.Request{Addr: four, Payload: 16}, s); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 16 {
		t.Errorf("got %d different numbers and payloads of 8 requests, want 16", len(seen))
	}
}

func TestFloodOfForeignPackets(t *testing.T) {
	var before, after runtime.MemStats
	n, data := 0, make([]byte, 1400)
	s := &echo.Script{Expired: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	s.Receive = func([]byte) (echo.Packet, error) { // like a socket whose buffer is never empty
		if n++; n == 100_000 {
			cancel()
		}
		return echo.Packet{From: four, Data: data}, nil
	}
	runtime.ReadMemStats(&before)
	_, err := echo.DoWith(ctx, echo.Request{Addr: four, Payload: 56}, s)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, context.Canceled) || n > 100_001 {
		t.Errorf("got %v after %d packets", err, n)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := echo.Do(ctx, echo.Request{Addr: netip.MustParseAddr("192.0.2.1"), Payload: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestNotPermitted(t *testing.T) {
	err := &echo.NotPermittedError{Datagram: os.NewSyscallError("socket", syscall.EACCES), Raw: os.NewSyscallError("socket", syscall.EPERM)}
	want := "this user may not send echo requests: socket: permission denied; socket: operation not permitted (needs a group in net.ipv4.ping_group_range, or CAP_NET_RAW)"
	if err.Error() != want || errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v, want %s, and not what a denial is", err, want)
	}
}

func FuzzAnswers(f *testing.F) {
	sent := []byte{8, 0, 0, 0, 0, 1, 0, 2, 'c', 'o', 'o', 'k'}
	f.Add(false, reply(sent))
	f.Add(false, quote(four, 3, 4, 1400, sent))
	f.Add(true, quote(six, 2, 0, 1280, append([]byte{128}, sent[1:]...)))
	f.Fuzz(func(t *testing.T, ipv6 bool, data []byte) {
		to := four
		if ipv6 {
			to = six
		}
		done, err := echo.Answers(to, to, 1, 2, []byte("cook"), data)
		if err != nil && err.Error() == "" || !done && err != nil {
			t.Errorf("got %v, %v", done, err)
		}
	})
}
