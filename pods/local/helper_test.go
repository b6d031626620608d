package local_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// helperArgument makes the test binary one of the programs below.
const helperArgument = "__helper"

// helper is what containers run where a shell would not do.
func helper(name string, args []string) int {
	switch name {
	case "http": // ADDRESS DIR: healthy while DIR/bad is missing; says so
		return serveHTTP(args[0], args[1])
	case "grpc": // ADDRESS: the health protocol
		return serveGRPC(args[0])
	case "stubborn": // FILE: does not end on SIGTERM; makes the file when it is about to ignore it
		ignored := make(chan os.Signal, 1)
		signal.Notify(ignored, syscall.SIGTERM)
		fmt.Println("stubborn")
		if err := os.WriteFile(args[0], nil, 0o600); err != nil {
			fmt.Println(err)
		}
		for range ignored {
			fmt.Println("ignored SIGTERM")
		}
		return 0
	case "agent": // MANIFEST
		return runAgent(args[0])
	case "forker": // MARK: double-forks processes out of its session, then waits
		return fork(args[0])
	case "flood":
		line := strings.Repeat("x", 1000)
		for {
			fmt.Println(line)
		}
	default:
		fmt.Fprintln(os.Stderr, "no such helper:", name)
		return 64
	}
}

func serveGRPC(address string) int {
	l, err := net.Listen("tcp", address)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	fmt.Println(s.Serve(l))
	return 1
}

func serveHTTP(address, dir string) int {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(rw http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(filepath.Join(dir, "bad")); err == nil {
			http.Error(rw, "bad", http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/redirect", func(rw http.ResponseWriter, req *http.Request) {
		http.Redirect(rw, req, req.URL.Query().Get("loc"), http.StatusFound)
	})
	mux.HandleFunc("/error", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) })
	fmt.Println(http.ListenAndServe(address, mux))
	return 1
}

// fork starts a shell in a session of its own, which leaves processes behind that are
// children of no one, one of them in yet another session.
func fork(mark string) int {
	cmd := exec.Command("/bin/sh", "-c", `for i in 1 2 3; do (sleep 600 &); done; setsid sh -c "sleep 600 & sleep 601 &"; exit 0`)
	cmd.Env = append(os.Environ(), "MARK="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("forked")
	wait()
	return 0
}

// wait waits for a signal that never comes. Without one that is asked for, the Go
// runtime would see a deadlock.
func wait() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	<-never
}
