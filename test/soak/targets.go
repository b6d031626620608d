//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// targets describes the process of the targets, and the ports that it listens on.
type targets struct {
	Ports [ports]int
	Odd   oddTargets
	Nice  int // the niceness of the process
	Pid   int
}

// oddTargets are the ports for the odd pods, for runKills and, Outages, for runDay. Their connections are not logged.
type oddTargets struct{ HTTP, TCP, GRPC, Redis, Hang, Reset, Refuse, Outages int }

// entry is one entry of the log of the targets: a connection, or another event that Verdict names.
type entry struct {
	At      int64 // UnixNano
	Key     uint32
	Verdict verdict
}

// verdict is the result that an attempt must have, or another event.
type verdict uint8

const (
	succeeds verdict = iota
	fails
	gateOpened // not a connection: portGate is listened on
	gateClosed // not a connection: portGate is closed
	complete   // not a connection: all entries until At are written
	inTrouble  // not a connection: the targets have too many connections or descriptors
)

// entrySize is the size of an entry in the pipe.
const entrySize = 8 + 4 + 1

// keyOf identifies a probe by its pod and port.
func keyOf(pod int, p port) uint32 { return uint32(pod)<<4 | uint32(p) }

// runTargets starts the targets in a child process. It has a high priority if this user may set it, since
// a slow target would look like a slow agent. The log is read from the pipe log.
func runTargets(ctx context.Context, c *children) (all targets, log *bufio.Reader, err error) {
	log, err = c.start(ctx, asTargets, "nice", "-n", "-5")
	if err != nil {
		return all, nil, err
	}
	line, err := log.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &all)
	}
	if err != nil {
		err = fmt.Errorf("targets: %w", err)
	}
	return all, log, err
}

// server is the process of the targets.
type server struct {
	mu  sync.Mutex
	log []entry
}

// serveTargets serves until the standard input ends, which ends the process, or until an error.
func serveTargets() error {
	s := new(server)
	all := targets{Pid: os.Getpid()}
	nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	all.Nice = 20 - nice // the system call returns 20 - nice
	if err := s.listen(&all); err != nil {
		return err
	}
	if err := all.Odd.listen(s); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return s.writeLog(os.Stdout)
}

// listen starts the listeners whose connections are logged.
func (s *server) listen(all *targets) error {
	direct, err := net.Listen("tcp", "127.0.0.1:0") // HTTP behind the proxy
	if err != nil {
		return err
	}
	go s.serveConns(direct, speakHTTP)
	directRedis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go s.serveConns(directRedis, speakRedis)
	directGRPC, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go serveGRPC(directGRPC)
	for p := range ports {
		l, err := listenLow()
		if err != nil {
			return err
		}
		all.Ports[p] = l.Addr().(*net.TCPAddr).Port
		logged := &loggedListener{Listener: l, server: s, port: p}
		switch p {
		case portFaultyHTTP:
			go newProxy(direct.Addr(), httpFaults).serve(logged)
		case portFaultyRedis:
			go newProxy(directRedis.Addr(), redisFaults).serve(logged)
		case portFaultyGRPC:
			go newProxy(directGRPC.Addr(), grpcFaults).serve(logged)
		case portGate:
			go s.gate(logged)
		case portGRPC:
			go serveGRPC(logged)
		case portRedis:
			go s.serveConns(logged, speakRedis)
		case portAPI, portDBReady, portDBLive:
			go s.serveConns(logged, func(net.Conn) {})
		default:
			go s.serveConns(logged, speakHTTP)
		}
	}
	return nil
}

// listenLow listens on a port below the range that the kernel uses for clients, so that the port can be
// closed and opened again.
func listenLow() (l net.Listener, err error) {
	for range 100 {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", 10000+rand.N(22000)))
		if err == nil {
			return l, nil
		}
	}
	return nil, err
}

// loggedListener logs the connections that it accepts.
type loggedListener struct {
	net.Listener
	server *server
	port   port
}

// Accept accepts a connection and logs it as successful.
func (l *loggedListener) Accept() (net.Conn, error) {
	conn, key, err := l.accept()
	if err == nil {
		l.server.record(key, succeeds)
	}
	return conn, err
}

// accept accepts a connection without logging it, and returns the key of its probe.
func (l *loggedListener) accept() (net.Conn, uint32, error) {
	var conn net.Conn
	err := l.server.accept(func() (err error) { conn, err = l.Listener.Accept(); return err })
	if err != nil {
		return nil, 0, err
	}
	ip := conn.LocalAddr().(*net.TCPAddr).IP.To4()
	return conn, keyOf(int(ip[2])<<8|int(ip[3]), l.port), nil
}

func (s *server) record(key uint32, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, entry{time.Now().UnixNano(), key, v})
}

// writeLog writes the log to w every tenth of a second.
func (s *server) writeLog(w io.Writer) error {
	var b bytes.Buffer
	var spare []entry
	for {
		time.Sleep(100 * time.Millisecond)
		s.mu.Lock()
		log := append(s.log, entry{At: time.Now().UnixNano(), Verdict: complete})
		s.log = spare[:0]
		s.mu.Unlock()
		b.Reset()
		for _, e := range log {
			b.Write(binary.LittleEndian.AppendUint64(b.AvailableBuffer(), uint64(e.At)))
			b.Write(binary.LittleEndian.AppendUint32(b.AvailableBuffer(), e.Key))
			b.WriteByte(byte(e.Verdict))
		}
		spare = log
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
	}
}

// The gate is open for gateOpen, then closed for gateShut, and so on.
const (
	gateOpen = 40 * time.Second
	gateShut = 25 * time.Second
)

// gate closes and opens the listener again and again.
func (s *server) gate(l *loggedListener) {
	address := l.Addr().String()
	for {
		s.record(0, gateOpened)
		go s.serveConns(l, func(net.Conn) {})
		time.Sleep(gateOpen)
		s.record(0, gateClosed)
		_ = l.Close()
		time.Sleep(gateShut)
		again, err := net.Listen("tcp", address)
		if err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
			return
		}
		l = &loggedListener{Listener: again, server: s, port: l.port}
	}
}

// accept calls next until it succeeds or the listener is closed. It logs other errors as inTrouble: the
// process is out of descriptors.
func (s *server) accept(next func() error) error {
	for {
		err := next()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return err
		}
		s.record(0, inTrouble)
		time.Sleep(10 * time.Millisecond)
	}
}

// serveConns calls do for each connection, and then closes it.
func (s *server) serveConns(l net.Listener, do func(net.Conn)) {
	for {
		var conn net.Conn
		err := s.accept(func() (err error) { conn, err = l.Accept(); return err })
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			do(conn)
		}()
	}
}

// speakHTTP answers one request.
func speakHTTP(conn net.Conn) {
	if request, err := http.ReadRequest(bufio.NewReaderSize(conn, 512)); err == nil && request.Method == http.MethodGet {
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n")
	}
}

// speakRedis answers PING and INFO like a Redis server without replicas.
func speakRedis(conn net.Conn) {
	for r := bufio.NewReaderSize(conn, 256); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch strings.ToUpper(strings.TrimSpace(line)) {
		case "PING":
			fmt.Fprint(conn, "+PONG\r\n")
		case "INFO":
			const info = "role:master\r\nconnected_slaves:0\r\n"
			fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
		}
	}
}

func serveGRPC(l net.Listener) {
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	_ = s.Serve(l)
}

// listen starts the targets that are not logged.
func (o *oddTargets) listen(s *server) (err error) {
	serve := func(number *int, serve func(net.Listener)) {
		l, failed := listenLow()
		if failed != nil {
			err = failed
			return
		}
		*number = l.Addr().(*net.TCPAddr).Port
		go serve(l)
	}
	serve(&o.HTTP, func(l net.Listener) { _ = http.Serve(l, pages()) })
	serve(&o.TCP, func(l net.Listener) { s.serveConns(l, func(net.Conn) {}) })
	serve(&o.GRPC, serveGRPC)
	serve(&o.Redis, func(l net.Listener) { s.serveConns(l, speakRedis) })
	serve(&o.Hang, func(l net.Listener) { s.serveConns(l, discard) })
	serve(&o.Reset, func(l net.Listener) { s.serveConns(l, reset) })
	serve(&o.Outages, func(l net.Listener) { s.serveConns(l, speakOutages) })
	serve(&o.Refuse, func(l net.Listener) { _ = l.Close() })
	return err
}

func discard(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func reset(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }

// pages are the paths of the HTTP server of the odd pods.
func pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"status":"ok"}`) })
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad", http.StatusInternalServerError) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(3 * time.Second):
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprintln(w, "the beginning")
	})
	var shut atomic.Bool // /gate hangs
	mux.HandleFunc("/gate", func(w http.ResponseWriter, r *http.Request) {
		if shut.Load() {
			<-r.Context().Done()
		}
	})
	mux.HandleFunc("/shut", func(http.ResponseWriter, *http.Request) { shut.Store(true) })
	mux.HandleFunc("/open", func(http.ResponseWriter, *http.Request) { shut.Store(false) })
	return mux
}
