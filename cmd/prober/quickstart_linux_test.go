package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/doctest"
)

// TestQuickstartPage runs docs/start/quickstart.md as a reader does.
func TestQuickstartPage(t *testing.T) {
	t.Parallel()
	doctest.Run(t, readerPage(t, "../../docs/start/quickstart.md"))
}

// TestFirstProbePage builds and runs the program of docs/embed/first-probe.md with this source of prober. A build
// from nothing takes 10 s.
func TestFirstProbePage(t *testing.T) {
	t.Parallel()
	page := readerPage(t, "../../docs/embed/first-probe.md")
	page.Env = append(page.Env, "GOWORK=off", "GOPROXY=off", "GOSUMDB=off")
	doctest.Run(t, page)
	main, ok := doctest.Files(t, page.File)["rotation/main.go"]
	if lines := strings.Count(main, "\n"); !ok || lines > 60 {
		t.Errorf("the program has %d lines, want at most 60", lines)
	}
}

// readerPage returns a page that runs on an address of its own, with free ports. Its python3 is this test binary,
// see serveFolder.
func readerPage(t *testing.T, file string) doctest.Page {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' %s python3 \"$@\"\n", program, appArgument)
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	address := ownLoopback()
	here := []string{
		"127.0.0.1", address, "127-0-0-1", strings.ReplaceAll(address, ".", "-"),
		"/tmp/prober-messages", filepath.Join(dir, "messages"), "=../prober\n", "=" + root + "\n",
	}
	free := freePorts(t, address, 4)
	for i, port := range []string{"8001", "8002", "8003", "9876"} {
		here = append(here, port, free[i])
	}
	socket := filepath.Join(shortTempDir(t), "s")
	return doctest.Page{
		File: file,
		Dir:  dir,
		Env: append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"),
			"PROBER_LISTEN="+address+":"+free[3], "PROBER_SOCKET="+socket, "PROBER_SERVER=unix:"+socket),
		Has:  func(string) bool { return false },
		Here: strings.NewReplacer(here...),
	}
}

// ownLoopback returns an address of the loopback interface that no other process of the tests uses.
func ownLoopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+pid>>16&63, pid>>8&255, 1+pid&127)
}

// freePorts returns n ports on which nothing listens, in the order of their texts.
func freePorts(t *testing.T, host string, n int) (ports []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // after the last one, so that they differ
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	slices.Sort(ports)
	return ports
}

// shortTempDir returns a folder whose path is short enough for sockets.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
