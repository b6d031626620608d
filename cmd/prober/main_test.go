package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"prober": main})
}

func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": code, "serve": serve,
		},
	})
}

// code CODE PROGRAM ARG... runs a program that must end with CODE.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// serve KIND VAR starts a server on loopback for the rest of the script and puts its
// address into VAR.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: serve http|https|tcp|grpc VAR")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	stop := func() {}
	switch args[0] {
	case "http", "https":
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: webPages()}}
		if args[0] == "https" {
			server.StartTLS()
		} else {
			server.Start()
		}
		stop = server.Close
	case "tcp":
		stop = func() { _ = listener.Close() }
	case "grpc":
		server, states := grpc.NewServer(), health.NewServer()
		states.SetServingStatus("down", healthpb.HealthCheckResponse_NOT_SERVING)
		healthpb.RegisterHealthServer(server, states)
		go func() { _ = server.Serve(listener) }()
		stop = server.Stop
	default:
		ts.Fatalf("unknown kind %q", args[0])
	}
	ts.Defer(stop)
	ts.Setenv(args[1], listener.Addr().String())
}

func webPages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ok", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s from %s, query %q", r.Header.Get("X-Name"), r.Host, r.URL.RawQuery)
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user+password != "annpass" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}
