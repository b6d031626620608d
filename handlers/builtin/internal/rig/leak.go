package rig

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/daeace23/prober/probe"
)

// WantNoLeak makes attempts at servers that do not read, and checks that the attempts leave neither
// descriptors nor goroutines. For each attempt, the server holds one of each until the end of the test,
// see [Hold].
func WantNoLeak(t *testing.T, h probe.Handler) {
	t.Helper()
	const attempts = 2
	goroutines, descriptors := runtime.NumGoroutine()+attempts, open()+attempts
	for range attempts { // one after another, because libraries may share connections
		if out, err := Attempt(t, h, probe.Request{}, 400*time.Millisecond); err != nil || out.Result != probe.Failure {
			t.Fatalf("got %+v, %v", out, err)
		}
	}
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > goroutines || open() > descriptors; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, want %d; %d descriptors, want %d\n%s",
				runtime.NumGoroutine(), goroutines, open(), descriptors, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// open returns the number of open descriptors, or 0 if the system does not report it.
func open() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}

// Hold writes text repeatedly, reads nothing, and holds the connection until the test ends.
func Hold(t *testing.T, c net.Conn, text []byte) {
	for len(text) > 0 {
		if _, err := c.Write(text); err != nil {
			break
		}
	}
	<-t.Context().Done()
}

// SmallBuffers dials a connection with small buffers.
func SmallBuffers(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return conn, err
}
