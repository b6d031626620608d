package target

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// listen starts all servers. They run until the process ends.
func listen(w *watch) (p Ports, err error) {
	if p.TCP, err = listenRaw(func(int) {}); err != nil {
		return p, err
	}
	if p.HTTP, err = listenRaw(func(fd int) { answer(fd, w) }); err != nil {
		return p, err
	}
	if p.HTTPKept, err = listenKept(); err != nil {
		return p, err
	}
	if p.HTTPS, err = listenTLS(); err != nil {
		return p, err
	}
	p.GRPC, err = listenGRPC()
	return p, err
}

const (
	backlog   = 4096
	acceptors = 4 // threads of each server that uses raw system calls
)

// listenRaw calls serve for each connection, and then closes it. It starts no goroutine for a connection, to
// use as little processor time as possible.
func listenRaw(serve func(fd int)) (port int, err error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, os.NewSyscallError("socket", err)
	}
	if err := syscall.BindToDevice(fd, "lo"); err != nil {
		return 0, os.NewSyscallError("setsockopt SO_BINDTODEVICE", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	if err := syscall.Listen(fd, backlog); err != nil {
		return 0, os.NewSyscallError("listen", err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	for range acceptors {
		go accept(fd, serve)
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}

func accept(listener int, serve func(fd int)) {
	runtime.LockOSThread()
	for {
		fd, _, err := syscall.Accept4(listener, syscall.SOCK_CLOEXEC)
		if err != nil {
			continue // the peer has closed the connection, or a signal interrupted the call
		}
		serve(fd)
		_ = syscall.Close(fd)
	}
}

var response = []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nok")

// answer reads once, and answers without checking the request.
func answer(fd int, w *watch) {
	w.arrived(fd)
	var request [4096]byte
	if n, err := syscall.Read(fd, request[:]); err == nil && n > 0 {
		_, _ = syscall.Write(fd, response)
	}
}

var responseKept = []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nok")

// listenKept answers each read of a connection, until the connection ends.
func listenKept() (port int, err error) {
	l, err := onLoopback()
	if err != nil {
		return 0, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				exit(err)
			}
			go func() {
				defer conn.Close()
				request := make([]byte, 4096)
				for n, err := conn.Read(request); n > 0 && err == nil; n, err = conn.Read(request) {
					if _, err := conn.Write(responseKept); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// onLoopback returns a listener on all addresses of the loopback interface only.
func onLoopback() (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var bound error
		err := c.Control(func(fd uintptr) { bound = syscall.BindToDevice(int(fd), "lo") })
		return errors.Join(err, bound)
	}}
	return config.Listen(context.Background(), "tcp4", "0.0.0.0:0")
}

func listenTLS() (port int, err error) {
	certificate, err := selfSigned()
	if err != nil {
		return 0, err
	}
	l, err := onLoopback()
	if err != nil {
		return 0, err
	}
	server := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog:  log.New(io.Discard, "", 0), // connections that end early
	}
	go func() { exit(server.ServeTLS(l, "", "")) }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func listenGRPC() (port int, err error) {
	l, err := onLoopback()
	if err != nil {
		return 0, err
	}
	server, service := grpc.NewServer(), health.NewServer()
	service.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(server, service)
	go func() { exit(server.Serve(l)) }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, "bench: error: target:", err)
	os.Exit(1)
}

func selfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "target"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
