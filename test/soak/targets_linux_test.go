//go:build soak

package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// targets are the ports of what is probed.
type targets struct {
	HTTP, TCP, GRPC, Redis int // healthy, but for some paths of HTTP
	Hang, Reset, Refuse    int
	Nice                   int // of the process
}

// startTargets starts the targets in a process with a high priority, if this user may: slow targets
// are not tested.
func startTargets(t *testing.T) (all targets) {
	t.Helper()
	line, err := child(t, asTargets, "nice", "-n", "-5").ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &all)
	}
	if err != nil {
		t.Fatal("targets: ", err)
	}
	return all
}

func serveTargets() {
	var all targets
	nice, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		nice = 20
	}
	all.Nice = 20 - nice // the system call returns 20 - nice
	serve := func(port *int, serve func(net.Listener)) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		*port = l.Addr().(*net.TCPAddr).Port
		go serve(l)
	}
	each := func(do func(*net.TCPConn)) func(net.Listener) {
		return func(l net.Listener) {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					do(conn.(*net.TCPConn))
				}()
			}
		}
	}
	serve(&all.HTTP, func(l net.Listener) { _ = http.Serve(l, pages()) })
	serve(&all.TCP, each(func(*net.TCPConn) {}))
	serve(&all.GRPC, func(l net.Listener) {
		s := grpc.NewServer()
		healthpb.RegisterHealthServer(s, health.NewServer())
		_ = s.Serve(l)
	})
	serve(&all.Redis, each(speakRedis))
	serve(&all.Hang, each(func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }))
	serve(&all.Reset, each(func(c *net.TCPConn) { _ = c.SetLinger(0) }))
	serve(&all.Refuse, func(l net.Listener) { _ = l.Close() })
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		os.Exit(1)
	}
	select {}
}

// pages are the paths of the HTTP server.
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

// speakRedis answers PING and INFO as a redis without replicas does.
func speakRedis(conn *net.TCPConn) {
	for r := bufio.NewReader(conn); ; {
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
