package local_test

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// helperArgument makes the test binary run one of the programs below.
const helperArgument = "__helper"

// linuxHelpers are the helpers that need Linux.
var linuxHelpers = make(map[string]func(argument string) int)

// helper runs a test program that is not possible as a shell script.
func helper(name string, args []string) int {
	switch name {
	case "http": // ADDRESS DIR: healthy while DIR/bad is missing
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
	case "flood":
		line := strings.Repeat("x", 1000)
		for {
			fmt.Println(line)
		}
	default:
		if run := linuxHelpers[name]; run != nil {
			return run(args[0])
		}
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

// marked returns the processes that have mark in their environment or arguments.
func marked(t *testing.T, mark string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, file := range [...]string{"environ", "cmdline"} {
			if text, err := os.ReadFile(filepath.Join("/proc", e.Name(), file)); err == nil && bytes.Contains(text, []byte(mark)) {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}
