// Command quickstart has the programs of the containers of pod.yaml: a small web app, a server with
// the part of Redis' protocol that the plugin needs, and a server that turns unhealthy after a while.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const usage = `usage:
  quickstart web ADDRESS           a web app: /, /ready, /healthz
  quickstart cache ADDRESS         answers PING, AUTH and INFO like Redis
  quickstart flaky ADDRESS AFTER   healthy for AFTER, then 500
  quickstart get URL               exits 0 when URL answers 200`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("a command and its argument are required\n%s", usage)
	}
	switch args[0] {
	case "web":
		return serveHTTP(ctx, args[1], web())
	case "cache":
		return serveCache(ctx, args[1])
	case "flaky":
		if len(args) < 3 {
			return fmt.Errorf("flaky needs a duration\n%s", usage)
		}
		after, err := time.ParseDuration(args[2])
		if err != nil {
			return err
		}
		return serveHTTP(ctx, args[1], flaky(after))
	case "get":
		return get(ctx, args[1])
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
}

func serveHTTP(ctx context.Context, address string, h http.Handler) error {
	server := &http.Server{Addr: address, Handler: h, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	return nil
}

func web() http.Handler {
	ready := time.Now().Add(3 * time.Second)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(ready) {
			http.Error(w, "warming up", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ready\n")
	})
	return mux
}

func flaky(after time.Duration) http.Handler {
	sick := time.Now().Add(after)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().After(sick) {
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		io.WriteString(w, "ok\n")
	})
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	fmt.Println(resp.Status)
	return nil
}

func serveCache(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go func() {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			answer(conn)
		}()
	}
}

// answer reads commands until the client leaves.
func answer(conn net.Conn) {
	r := bufio.NewReader(io.LimitReader(conn, 1<<20))
	for {
		command, err := readCommand(r)
		if err != nil || len(command) == 0 {
			return
		}
		if _, err := io.WriteString(conn, reply(command)); err != nil {
			return
		}
	}
}

func reply(command []string) string {
	switch strings.ToUpper(command[0]) {
	case "PING":
		return "+PONG\r\n"
	case "AUTH":
		return "+OK\r\n"
	case "INFO":
		info := "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"
		return fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
	case "QUIT":
		return "+OK\r\n"
	default:
		return fmt.Sprintf("-ERR unknown command '%s'\r\n", command[0])
	}
}

// readCommand reads one command: an array of bulk strings, or a line of words.
func readCommand(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	count, isArray := strings.CutPrefix(line, "*")
	if !isArray {
		return strings.Fields(line), nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > 64 {
		return nil, fmt.Errorf("bad array length %q", count)
	}
	command := make([]string, n)
	for i := range command {
		if command[i], err = readBulk(r); err != nil {
			return nil, err
		}
	}
	return command, nil
}

func readBulk(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	length, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(line, "$"), "\r\n"))
	if err != nil || length < 0 || length > 1<<16 {
		return "", fmt.Errorf("bad bulk length %q", line)
	}
	text := make([]byte, length+2)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", err
	}
	return string(text[:length]), nil
}
