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
	"time"

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
	case "stubborn": // does not end on SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("stubborn")
		select {}
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
// children of no one.
func fork(mark string) int {
	script := fmt.Sprintf(`for i in 1 2 3; do (MARK=%[1]s sleep 600 %[2]s) & done; setsid sh -c "MARK=%[1]s sleep 600 & sleep 601 & true" & exit 0`, mark, "")
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), "MARK="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("forked")
	time.Sleep(time.Hour)
	return 0
}
