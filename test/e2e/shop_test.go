//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestMain lets this binary be the service of the pages about migration: see shop.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "shop" {
		os.Exit(serveShop(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// serveShop serves on an address. It reports its start to a test, and the test decides whether it is healthy.
func serveShop(args []string) int {
	address, test, pidfile := args[0], args[1], args[2]
	pid := strconv.Itoa(os.Getpid())
	l, err := net.Listen("tcp", address)
	if err == nil && pidfile != "-" {
		err = os.WriteFile(pidfile, []byte(pid), 0o600)
	}
	if err == nil {
		_, err = http.Get(test + "/started?pid=" + pid)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			resp, err := http.Get(test + r.URL.Path + "?pid=" + pid)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer resp.Body.Close()
			w.WriteHeader(resp.StatusCode)
			_, _ = io.Copy(w, resp.Body)
		}))
	}()
	<-ctx.Done()
	return 0
}

// shop is the service of a page as the test sees it.
type shop struct {
	address string
	program string // starts it in the foreground
	pidfile string // "-": none

	mu     sync.Mutex
	starts []int        // process IDs
	ill    map[int]bool // answer 503
	good   map[int]int  // answers 200
	bad    map[int]int  // answers 503
}

// newShop makes the program of a service, without starting it.
func newShop(t *testing.T, pidfile string) *shop {
	t.Helper()
	s := &shop{address: freeAddress(t), pidfile: pidfile, ill: map[int]bool{}, good: map[int]int{}, bad: map[int]int{}}
	control := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(control.Close)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.program = filepath.Join(t.TempDir(), "shop")
	script := fmt.Sprintf("#!/bin/sh\nexec %s shop %s %s %s\n", exe, s.address, control.URL, s.pidfile)
	if err := os.WriteFile(s.program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) serve(w http.ResponseWriter, r *http.Request) {
	pid, _ := strconv.Atoi(r.URL.Query().Get("pid"))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == "/started":
		s.starts = append(s.starts, pid)
	case r.URL.Path != "/healthz":
		w.WriteHeader(http.StatusNotFound)
	case s.ill[pid]:
		s.bad[pid]++
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		s.good[pid]++
	}
}

// healthy waits until the nth start has answered a check, and returns its process ID.
func (s *shop) healthy(t *testing.T, n int) (pid int) {
	t.Helper()
	await(t, fmt.Sprintf("start %d to be checked", n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.starts) < n {
			return false
		}
		pid = s.starts[n-1]
		return s.good[pid] > 0
	})
	return pid
}

// fail makes a process answer with 503 from now on.
func (s *shop) fail(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ill[pid] = true
}

// failed returns how often a process has answered with 503.
func (s *shop) failed(pid int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad[pid]
}

// started returns the number of starts.
func (s *shop) started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.starts)
}

// put writes the files of a page, with replaced paths and addresses, and returns their folder.
func put(t *testing.T, files map[string]string, replace ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(replace); i += 2 {
		if !slices.ContainsFunc(slices.Collect(maps.Values(files)), func(text string) bool { return strings.Contains(text, replace[i]) }) {
			t.Errorf("no file has %q", replace[i])
		}
	}
	here := strings.NewReplacer(replace...)
	for name, text := range files {
		path, mode := filepath.Join(dir, name), os.FileMode(0o600)
		if strings.HasPrefix(text, "#!") {
			mode = 0o700
		}
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(here.Replace(text)), mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// last returns the process ID of the last start, or 0.
func (s *shop) last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.starts) == 0 {
		return 0
	}
	return s.starts[len(s.starts)-1]
}

func (s *shop) port(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
