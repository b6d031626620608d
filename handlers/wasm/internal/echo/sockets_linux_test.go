package echo_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/daeace23/prober/handlers/wasm/internal/echo"
)

// inNamespace is an environment variable. It is set when the test program runs in its own network
// namespace. Its value is the kind of socket that the kernel permits there.
const inNamespace = "ECHO_TEST_SOCKETS"

var loopback = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}

// TestSockets runs the functions testSocket… in new network namespaces that have only a loopback
// interface: with datagram sockets, with raw sockets, and with neither.
func TestSockets(t *testing.T) {
	if kind := os.Getenv(inNamespace); kind != "" {
		testInNamespace(t, kind)
		return
	}
	for _, kind := range []string{"datagram", "raw", "none"} {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSockets$", "-test.v")
			cmd.Env = append(os.Environ(), inNamespace+"="+kind)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			if os.Getuid() != 0 {
				cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
				cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
			}
			out, err := cmd.CombinedOutput()
			if len(out) == 0 && errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
				t.Skipf("the sockets of the system are not tested: this kernel gives no network namespace: %v", err)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if text := string(out); strings.Contains(text, "--- SKIP") {
				t.Log(text)
			}
		})
	}
}

func testInNamespace(t *testing.T, kind string) {
	loopbackUp(t)
	if kind == "datagram" { // a new namespace permits them to no group
		if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0); err != nil {
			t.Skipf("the sockets of the system are not tested: %v", err)
		}
	}
	if kind == "none" {
		t.Run("refused", testSocketRefused)
		return
	}
	t.Run("replies", testSocketReplies)
	t.Run("source", testSocketSource)
	if kind == "datagram" {
		t.Run("size", testSocketSize)
	}
	t.Run("parallel", testSocketsInParallel)
	write := func(name, value string) {
		if err := os.WriteFile(name, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("/proc/sys/net/ipv4/icmp_echo_ignore_all", "1")
	write("/proc/sys/net/ipv6/icmp/echo_ignore_all", "1")
	t.Run("silence", testSocketSilence)
	t.Run("answers", testSocketAnswers)
	t.Run("flood", testSocketFlood)
}

// loopbackUp sets the loopback interface up.
func loopbackUp(t *testing.T) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var request struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:], "lo")
	request.flags = syscall.IFF_UP
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Skipf("the sockets of the system are not tested: loopback: %v", errno)
	}
}

func ping(t *testing.T, r echo.Request) (echo.Reply, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return echo.Do(ctx, r)
}

func testSocketReplies(t *testing.T) {
	for _, addr := range loopback {
		for _, r := range []echo.Request{
			{Payload: 1}, {Payload: 56}, {Payload: 1472, DontFragment: true}, {Payload: 65_499}, {Payload: 65_000, DontFragment: true},
			{Payload: 56, HopLimit: 1}, {Payload: 56, HopLimit: 255, DontFragment: true},
		} {
			r.Addr = addr
			got, err := ping(t, r)
			if err != nil || got.Payload != r.Payload || got.Local != addr || got.HopLimit == 0 || got.RTT <= 0 || got.Setup <= 0 {
				t.Errorf("%+v: got %+v, %v", r, got, err)
			}
		}
	}
}

func testSocketSource(t *testing.T) {
	from := netip.MustParseAddr("127.0.0.9")
	if got, err := ping(t, echo.Request{Addr: loopback[0], Source: from, Payload: 56}); err != nil || got.Local != from {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err := ping(t, echo.Request{Addr: loopback[0], Source: netip.MustParseAddr("192.0.2.1"), Payload: 56})
	if err == nil || err.Error() != "192.0.2.1 is not an address of this host" {
		t.Errorf("got %v", err)
	}
	if _, err := ping(t, echo.Request{Addr: netip.MustParseAddr("192.0.2.1"), Payload: 56}); !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("an address without a route: got %v", err)
	}
}

func testSocketSize(t *testing.T) {
	mtu(t, 1500)
	for _, addr := range loopback {
		if _, err := ping(t, echo.Request{Addr: addr, Payload: 1600, DontFragment: true}); !errors.Is(err, syscall.EMSGSIZE) {
			t.Errorf("%s: got %v, want that the message is too long", addr, err)
		}
		if got, err := ping(t, echo.Request{Addr: addr, Payload: 1600}); err != nil || got.Payload != 1600 {
			t.Errorf("%s: in pieces: got %+v, %v", addr, got, err)
		}
	}
	mtu(t, 65_536)
}

// mtu sets the MTU of the loopback interface.
func mtu(t *testing.T, size int32) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	var request struct {
		name [syscall.IFNAMSIZ]byte
		size int32
		_    [20]byte
	}
	copy(request.name[:], "lo")
	request.size = size
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFMTU, uintptr(unsafe.Pointer(&request))); errno != 0 {
		t.Fatal(errno)
	}
}

func testSocketsInParallel(t *testing.T) {
	errs := make(chan error)
	const n = 40
	for i := range n {
		go func() {
			got, err := echo.Do(t.Context(), echo.Request{Addr: loopback[i%2], Payload: 100 + i})
			if err == nil && got.Payload != 100+i {
				err = fmt.Errorf("got a payload of %d bytes", got.Payload)
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func testSocketSilence(t *testing.T) {
	for _, addr := range loopback {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := echo.Do(ctx, echo.Request{Addr: addr, Payload: 56})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", addr, err)
		}
	}
}

// responder answers each echo request to 127.0.0.1 with the messages that answer returns.
func responder(t *testing.T, answer func(sent []byte) [][]byte) {
	t.Helper()
	conn, err := net.ListenPacket("ip4:icmp", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	var requests ipv4.ICMPFilter
	requests.SetAll(true)
	requests.Accept(ipv4.ICMPTypeEcho)
	if err := ipv4.NewPacketConn(conn).SetICMPFilter(&requests); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		buf := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, b := range answer(slices.Clone(buf[:n])) {
				binary.BigEndian.PutUint16(b[2:], 0)
				binary.BigEndian.PutUint16(b[2:], checksum(b))
				_, _ = conn.WriteTo(b, from)
			}
		}
	}()
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// quoted is like quote, with an IP header that the kernel recognizes as the request's.
func quoted(kind, code byte, rest uint32, sent []byte) []byte {
	b := quote(loopback[0], kind, code, rest, sent)
	head := b[8:28]
	binary.BigEndian.PutUint16(head[2:], uint16(20+len(sent)))
	head[8] = 64
	copy(head[12:], loopback[0].AsSlice())
	binary.BigEndian.PutUint16(head[10:], checksum(head))
	return b
}

func testSocketAnswers(t *testing.T) {
	responders := []struct {
		name   string
		answer func(sent []byte) [][]byte
		want   string
	}{
		{"a reply with another payload comes first", func(sent []byte) [][]byte { return [][]byte{changed(20)(sent), reply(sent)} }, ""},
		{"time exceeded", func(sent []byte) [][]byte { return [][]byte{quoted(11, 0, 0, sent)} }, "127.0.0.1 says: time exceeded: the hop limit is used up"},
		{"host unreachable", func(sent []byte) [][]byte { return [][]byte{quoted(3, 1, 0, sent)} }, "127.0.0.1 says: host unreachable"},
		{"prohibited", func(sent []byte) [][]byte { return [][]byte{quoted(3, 13, 0, sent)} }, "127.0.0.1 says: prohibited by a filter"},
		{"packet too big", func(sent []byte) [][]byte { return [][]byte{quoted(3, 4, 1400, sent)} }, "127.0.0.1 says: packet too big, the MTU is 1400"},
	}
	for _, c := range responders {
		t.Run(c.name, func(t *testing.T) {
			responder(t, c.answer)
			_, err := ping(t, echo.Request{Addr: loopback[0], Payload: 56, DontFragment: true})
			if err == nil && c.want != "" || err != nil && err.Error() != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func testSocketFlood(t *testing.T) {
	stop := make(chan struct{})
	ended := make(chan struct{})
	conn, err := net.ListenPacket("ip4:icmp", "127.0.0.2")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		defer close(ended)
		m := icmp.Message{Type: ipv4.ICMPTypeEchoReply, Body: &icmp.Echo{ID: 1, Seq: 1, Data: make([]byte, 1000)}}
		b, _ := m.Marshal(nil)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = conn.WriteTo(b, &net.IPAddr{IP: net.IPv4(127, 0, 0, 1)})
			}
		}
	}()
	defer func() {
		close(stop)
		<-ended
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := echo.Do(ctx, echo.Request{Addr: loopback[0], Payload: 56}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	responder(t, func(sent []byte) [][]byte { return [][]byte{reply(sent)} })
	err = errors.New("nothing was sent")
	for i := 0; i < 20 && err != nil; i++ { // the kernel may drop packets between processors
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err = echo.Do(ctx, echo.Request{Addr: loopback[0], Payload: 56})
		cancel()
	}
	if err != nil {
		t.Errorf("a reply within the flood: %v", err)
	}
}

// testSocketRefused sends without the capability to open raw sockets.
func testSocketRefused(t *testing.T) {
	done := make(chan error, 1)
	go func() {
		// The thread has no capabilities from here on, and ends with this goroutine.
		runtime.LockOSThread()
		if err := dropCapabilities(); err != nil {
			done <- err
			return
		}
		_, err := echo.Do(t.Context(), echo.Request{Addr: loopback[0], Payload: 56})
		done <- err
	}()
	err := <-done
	if _, ok := errors.AsType[*echo.NotPermittedError](err); !ok || !strings.Contains(err.Error(), "net.ipv4.ping_group_range, or CAP_NET_RAW") {
		t.Errorf("got %v", err)
	}
}

// dropCapabilities drops all capabilities of this thread.
func dropCapabilities() error {
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}
