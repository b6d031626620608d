package access

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

const unknownPeer = "a user of this host"

// peerOf returns the user and the process at the other end of a connection to a socket.
func peerOf(conn net.Conn) (user string, pid int) {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return unknownPeer, 0
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return unknownPeer, 0
	}
	var who *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { who, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || failed != nil {
		return unknownPeer, 0
	}
	return fmt.Sprintf("uid %d", who.Uid), int(who.Pid)
}
