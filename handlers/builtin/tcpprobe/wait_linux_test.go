package tcpprobe_test

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/daeace23/prober/handlers/builtin/internal/rig"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
)

func TestFullListenQueueIsUnansweredDial(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := bound.(*syscall.SockaddrInet4).Port
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)) // fills the queue
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h := rig.Prepare(t, tcpprobe.New(tcpprobe.Config{}), fmt.Sprintf(`{"port":%d,"host":"127.0.0.1"}`, port))
	rig.WantWaiting(t, rig.Hang(t, h), `^dial tcp 127.0.0.1:\d+: waiting for .*ms; no answer to the SYN: packets are dropped, or the listen queue is full$`)
}
