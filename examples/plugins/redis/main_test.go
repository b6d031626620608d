package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk/sdktest"
)

var suite = sdktest.NewSuite(check{})

func TestMain(m *testing.M) { suite.Main(m) }

// TestCases runs the cases natively, for coverage and for a debugger, and in the sandbox with
// the conformance checks, as prober plugin test does.
func TestCases(t *testing.T) { suite.Run(t) }

// server is a redis of a few commands.
type server struct {
	password string
	info     string
	garbage  string // sent in answer to anything
	silent   bool   // takes commands and never answers
}

func (s server) start(t *testing.T) probe.Target {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			wg.Go(func() {
				defer stop()
				defer conn.Close()
				s.serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		wg.Wait()
	})
	return probe.Target{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port}
}

func (s server) serve(conn net.Conn) {
	r := bufio.NewReader(conn)
	known := s.password == ""
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		reply := "-ERR unknown command\r\n"
		switch {
		case s.silent:
			continue
		case s.garbage != "":
			reply = s.garbage
		case args[0] == "AUTH":
			known = args[len(args)-1] == s.password
			reply = "+OK\r\n"
			if !known {
				reply = "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
			}
		case !known:
			reply = "-NOAUTH Authentication required.\r\n"
		case args[0] == "PING":
			reply = "+PONG\r\n"
		case args[0] == "INFO":
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(s.info), s.info)
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
		if s.garbage != "" {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	var n int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		args[i] = string(body[:size])
	}
	return args, nil
}

// lines returns the text of INFO.
func lines(fields ...string) string {
	return "# Replication\r\n" + strings.Join(fields, "\r\n") + "\r\n"
}

func replica(link string, ago int) string {
	return lines("role:slave", "master_host:10.0.0.1", "master_port:6379",
		"master_link_status:"+link, "master_last_io_seconds_ago:"+strconv.Itoa(ago))
}

func TestVerdicts(t *testing.T) {
	master := lines("role:master", "connected_slaves:2",
		"slave0:ip=10.0.0.2,port=6379,state=online,offset=10,lag=1",
		"slave1:ip=10.0.0.3,port=6379,state=online,offset=10,lag=7")
	for _, c := range []struct {
		name   string
		server server
		config string
		want   probe.Result
		output string
	}{
		{"a master alone", server{info: lines("role:master", "connected_slaves:0")}, `{}`, probe.Success, "PONG from a master of 0 replicas"},
		{"a master of replicas", server{info: master}, `{}`, probe.Success, "PONG from a master of 2 replicas"},
		{"a master with a replica behind", server{info: master}, `{"maxLag":"5s"}`, probe.Warning, "a replica is 7s behind, more than 5s"},
		{"a replica that follows", server{info: replica("up", 2)}, `{}`, probe.Success, "PONG from a replica, 2s behind the master"},
		{"a replica behind", server{info: replica("up", 12)}, `{}`, probe.Warning, "12s behind the master, more than 10s"},
		{"a replica behind, which is fine", server{info: replica("up", 12)}, `{"maxLag":"1m"}`, probe.Success, "12s behind the master"},
		{"a replica without its master", server{info: replica("down", -1)}, `{}`, probe.Failure, "the link to master 10.0.0.1:6379 is down"},
		{"a password", server{password: "secret", info: lines("role:master")}, `{"password":"secret"}`, probe.Success, "PONG"},
		{"a user", server{password: "secret", info: lines("role:master")}, `{"username":"probe","password":"secret"}`, probe.Success, "PONG"},
		{"a wrong password", server{password: "secret"}, `{"password":"guess"}`, probe.Failure, "AUTH: WRONGPASS"},
		{"a missing password", server{password: "secret"}, `{}`, probe.Failure, "PING: NOAUTH"},
		{"replication off", server{info: replica("down", -1)}, `{"replication":false}`, probe.Success, "PONG"},
		{"a strange role", server{info: lines("role:sentinel")}, `{}`, probe.Failure, `unknown role "sentinel"`},
		{"loading", server{garbage: "-LOADING Redis is loading the dataset in memory\r\n"}, `{}`, probe.Failure, "PING: LOADING"},
		{"no redis at all", server{garbage: "HTTP/1.1 400 Bad Request\r\n\r\n"}, `{}`, probe.Failure, `PING: "HTTP/1.1 400 Bad Request" is not a reply of redis`},
		{"a line without an end", server{garbage: "+" + strings.Repeat("x", 10_000)}, `{}`, probe.Failure, "a line without an end"},
		{"a huge reply", server{garbage: "$999999999\r\n"}, `{}`, probe.Failure, "a reply of 999999999 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := c.server.start(t)
			for kind, h := range suite.Handlers() {
				got, err := sdktest.Attempt(t, h, c.config, target, 10*time.Second)
				if err != nil || got.Result != c.want || !strings.Contains(got.Output, c.output) {
					t.Errorf("%s: got %v %q, %v, want %v %q", kind, got.Result, got.Output, err, c.want, c.output)
				}
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	target := probe.Target{Host: "127.0.0.1", Port: 1} // nothing listens on port 1
	for kind, h := range suite.Handlers() {
		got, err := sdktest.Attempt(t, h, `{}`, target, 10*time.Second)
		if err != nil || got.Result != probe.Failure || !strings.Contains(got.Output, "connection refused") {
			t.Errorf("%s: got %+v, %v", kind, got, err)
		}
	}
}

func TestSilence(t *testing.T) {
	target := server{silent: true}.start(t)
	for kind, h := range suite.Handlers() {
		got, err := sdktest.Attempt(t, h, `{}`, target, 2*time.Second)
		if err != nil || got.Result != probe.Failure || got.Output != "timed out after 2s" {
			t.Errorf("%s: got %+v, %v", kind, got, err)
		}
	}
}

func TestMetrics(t *testing.T) {
	target := server{info: replica("up", 3)}.start(t)
	for kind, h := range suite.Handlers() {
		got, err := sdktest.Attempt(t, h, `{}`, target, 10*time.Second)
		values := make(map[string]float64)
		for _, m := range got.Metrics {
			values[m.Name] = m.Value
		}
		if err != nil || values["replication_lag_seconds"] != 3 || values["ping_seconds"] <= 0 {
			t.Errorf("%s: got %v, %v", kind, values, err)
		}
	}
}

func TestBadConfigs(t *testing.T) {
	for config, want := range map[string]string{
		`{"maxLag":"soon"}`:    "config.maxLag: ",
		`{"maxLag":5}`:         "config.maxLag: got number, want string",
		`{"maxlag":"5s"}`:      "additional properties 'maxlag' not allowed",
		`{"username":"probe"}`: "config.username: needs a password",
	} {
		if _, err := suite.Handlers()["guest"].Prepare([]byte(config), probe.Target{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", config, err, want)
		}
	}
}
