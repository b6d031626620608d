package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// appArgument makes the test binary run appMain, in containers of a test.
const appArgument = "__app"

// appMain runs `KIND NAME CONTROL ADDRESS`: a server that listens once the test allows it, and whose health
// depends on flags of the test. The kind ask exits with 0 if the flag NAME is set. `python3 ARG...` is Python's web
// server.
func appMain(args []string) int {
	if args[0] == "python3" {
		fmt.Fprintln(os.Stderr, serveFolder(args[1:]))
		return 1
	}
	kind, name, control := args[0], args[1], args[2]
	if kind == "ask" {
		if flagged(control, name) {
			return 0
		}
		return 1
	}
	if res, err := http.Get(control + "/start/" + name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	} else if err := res.Body.Close(); err != nil {
		return 1
	}
	listener, err := net.Listen("tcp", args[3])
	if err == nil {
		err = map[string]func(net.Listener, string, string) error{
			"http": appHTTP, "grpc": appGRPC, "resp": appRESP,
		}[kind](listener, control, name)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// flagged asks the test whether a flag is set.
func flagged(control, flag string) bool {
	res, err := http.Get(control + "/flag/" + flag)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// appHTTP answers /WHAT by the flag NAME-WHAT.
func appHTTP(l net.Listener, control, name string) error {
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !flagged(control, name+"-"+strings.TrimPrefix(r.URL.Path, "/")) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
}

// appGRPC answers the health of service WHAT by the flag NAME-WHAT.
func appGRPC(l net.Listener, control, name string) error {
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, &appHealth{control: control, name: name})
	return s.Serve(l)
}

type appHealth struct {
	healthpb.UnimplementedHealthServer
	control, name string
}

func (h *appHealth) Check(_ context.Context, req *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if flagged(h.control, h.name+"-"+req.GetService()) {
		return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_NOT_SERVING}, nil
}

// appRESP is a redis that is loading until the flag NAME-ready is set.
func appRESP(l net.Listener, control, name string) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			for r := bufio.NewReader(conn); ; {
				word, err := r.ReadString('\n')
				if err != nil {
					return
				}
				switch {
				case !strings.Contains("PING INFO", strings.TrimSpace(word)): // lengths, and the argument of INFO
				case !flagged(control, name+"-ready"):
					fmt.Fprint(conn, "-LOADING the dataset is not in memory yet\r\n")
				case strings.HasPrefix(word, "PING"):
					fmt.Fprint(conn, "+PONG\r\n")
				default:
					const info = "role:master\r\nconnected_slaves:0\r\n"
					fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
				}
			}
		}()
	}
}

// control has the flags of apps, and decides when they start.
type control struct {
	mu     sync.Mutex
	flags  map[string]bool
	starts map[string]int           // how often each app has started
	gates  map[string]chan struct{} // closed when the app may start
}

func newControl(gated ...string) *control {
	c := &control{flags: make(map[string]bool), starts: make(map[string]int), gates: make(map[string]chan struct{})}
	for _, name := range gated {
		c.gates[name] = make(chan struct{})
	}
	return c
}

func (c *control) set(value bool, flags ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range flags {
		c.flags[f] = value
	}
}

func (c *control) letStart(name string) { close(c.gates[name]) }

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c.mu.Lock()
	gate, set := c.gates[name], c.flags[name]
	if what == "start" {
		c.starts[name]++
		if c.starts[name] > 1 {
			c.flags[name+"-live"] = true // a restart heals
		}
	}
	c.mu.Unlock()
	switch {
	case what == "start" && gate != nil:
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	case what == "flag" && !set:
		w.WriteHeader(http.StatusNotFound)
	}
}

// serveFolder serves a folder, as `python3 -m http.server PORT --bind ADDRESS --directory FOLDER` does.
func serveFolder(args []string) error {
	if len(args) != 7 || args[0] != "-m" || args[1] != "http.server" || args[3] != "--bind" || args[5] != "--directory" {
		return errors.New("usage: -m http.server PORT --bind ADDRESS --directory FOLDER")
	}
	return http.ListenAndServe(net.JoinHostPort(args[4], args[2]), http.FileServer(http.Dir(args[6])))
}
