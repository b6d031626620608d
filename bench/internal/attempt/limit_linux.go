package attempt

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// limit makes attempts with the least possible work: for http, tcp and grpc blocking system calls, for https
// the handshake of crypto/tls, for exec a fork, an exec and a wait. They have no deadline, and do not parse
// answers completely.
func limit(kind string, port, c int) (attempt, error) {
	buffers := make([][]byte, c)
	for i := range buffers {
		buffers[i] = make([]byte, 4096)
	}
	switch kind {
	case "tcp":
		return func(_, i int) error { return connect(i, port, func(int) error { return nil }) }, nil
	case "http":
		requests := requestsTo(port)
		return func(slot, i int) error {
			return connect(i, port, func(fd int) error { return getRaw(fd, requests[i%addresses], buffers[slot]) })
		}, nil
	case "grpc":
		requests := checksOf(port)
		return func(slot, i int) error {
			return connect(i, port, func(fd int) error { return checkRaw(fd, requests[i%addresses], buffers[slot]) })
		}, nil
	case "https":
		requests := requestsTo(port)
		return func(slot, i int) error { return getTLS(i, port, requests[i%addresses], buffers[slot]) }, nil
	case "exec":
		return func(slot, _ int) error { return fork(buffers[slot]) }, nil
	default:
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
}

// connect opens a socket to a target, and closes it after use.
func connect(i, port int, use func(fd int) error) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer syscall.Close(fd)
	i %= addresses
	to := syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, byte(i / 250), byte(i%250 + 1)}}
	if err := syscall.Connect(fd, &to); err != nil {
		return os.NewSyscallError("connect", err)
	}
	return use(fd)
}

func requestsTo(port int) [][]byte {
	all := make([][]byte, addresses)
	for i := range all {
		all[i] = fmt.Appendf(nil, "GET /healthz HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\nConnection: close\r\n\r\n", address(i), port)
	}
	return all
}

var ok = []byte("HTTP/1.1 200 ")

func getRaw(fd int, request, buffer []byte) error {
	if _, err := syscall.Write(fd, request); err != nil {
		return os.NewSyscallError("write", err)
	}
	for n := 0; ; {
		m, err := syscall.Read(fd, buffer[n:])
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		if n += m; m > 0 {
			continue
		}
		if !bytes.HasPrefix(buffer[:n], ok) {
			return fmt.Errorf("answer %q", buffer[:n])
		}
		return nil
	}
}

func getTLS(i, port int, request, buffer []byte) error {
	raw, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: net.ParseIP(address(i)), Port: port})
	if err != nil {
		return err
	}
	if err := raw.SetDeadline(time.Now().Add(timeout)); err != nil {
		return errors.Join(err, raw.Close())
	}
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		return err
	}
	n, err := io.ReadAtLeast(conn, buffer, len(ok))
	if err != nil || !bytes.HasPrefix(buffer[:n], ok) {
		return fmt.Errorf("answer %q, error %v", buffer[:n], err)
	}
	return nil
}

// checksOf returns the bytes of one call of grpc.health.v1.Health/Check for each address: the
// preface of HTTP/2, empty settings, the headers without compression, and an empty message.
func checksOf(port int) [][]byte {
	all := make([][]byte, addresses)
	for i := range all {
		var headers []byte
		for _, h := range [][2]string{
			{":method", "POST"}, {":scheme", "http"}, {":path", "/grpc.health.v1.Health/Check"},
			{":authority", fmt.Sprintf("%s:%d", address(i), port)}, {"content-type", "application/grpc"}, {"te", "trailers"},
		} {
			headers = append(headers, 0) // literal, without indexing, with a new name: RFC 7541, 6.2.2
			for _, text := range h {
				headers = append(append(headers, byte(len(text))), text...)
			}
		}
		b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
		b = appendFrame(b, frameSettings, 0, 0, nil)
		b = appendFrame(b, frameHeaders, endHeaders, 1, headers)
		all[i] = appendFrame(b, frameData, endStream, 1, make([]byte, 5))
	}
	return all
}

// Frames of HTTP/2, RFC 9113.
const (
	frameData     = 0
	frameHeaders  = 1
	frameSettings = 4
	endStream     = 1
	endHeaders    = 4
	frameHeader   = 9 // bytes
)

func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// checkRaw reads until the stream has ended. The message must say SERVING.
func checkRaw(fd int, request, buffer []byte) error {
	if _, err := syscall.Write(fd, request); err != nil {
		return os.NewSyscallError("write", err)
	}
	serving := false
	for n := 0; ; {
		m, err := syscall.Read(fd, buffer[n:])
		if err != nil || m == 0 {
			return fmt.Errorf("no answer: %v", err)
		}
		n += m
		rest := buffer[:n]
		for len(rest) >= frameHeader {
			size := int(rest[0])<<16 | int(rest[1])<<8 | int(rest[2])
			if len(rest) < frameHeader+size {
				break
			}
			kind, flags, payload := rest[3], rest[4], rest[frameHeader:frameHeader+size]
			rest = rest[frameHeader+size:]
			serving = serving || kind == frameData && bytes.Equal(payload, []byte{0, 0, 0, 0, 2, 8, 1})
			if kind == frameHeaders && flags&endStream != 0 {
				if !serving {
					return errors.New("the target is not SERVING")
				}
				return nil
			}
		}
		n = copy(buffer, rest)
	}
}

// fork runs the command and reads its output to the end.
func fork(buffer []byte) error {
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	pid, err := syscall.ForkExec(truePath, []string{truePath}, &syscall.ProcAttr{Files: []uintptr{0, uintptr(pipe[1]), uintptr(pipe[1])}})
	_ = syscall.Close(pipe[1])
	defer syscall.Close(pipe[0])
	if err != nil {
		return os.NewSyscallError("fork", err)
	}
	for n := 1; n > 0; {
		if n, err = syscall.Read(pipe[0], buffer); err != nil && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return os.NewSyscallError("wait4", err)
	}
	if status != 0 {
		return fmt.Errorf("%s ended with status %d", truePath, status)
	}
	return nil
}
