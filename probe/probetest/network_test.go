package probetest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/probe/probetest"
)

func TestNetworkConnects(t *testing.T) {
	var network probetest.Network
	l, err := network.Listen("tcp", "10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := network.Listen("tcp", "10.0.0.1:80"); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("second listener: %v", err)
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "hello")
		_ = c.Close()
	}()
	c, err := network.DialContext(t.Context(), "tcp", "10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := io.ReadAll(c); err != nil || string(got) != "hello" {
		t.Errorf("read %q, %v", got, err)
	}
	if got := c.RemoteAddr().String(); got != "10.0.0.1:80" {
		t.Errorf("remote address %s", got)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
	if _, err := network.DialContext(t.Context(), "tcp", "10.0.0.1:80"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial after close: %v", err)
	}
}

func TestNetworkBlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network probetest.Network
		network.BlackHole("10.0.0.2:80")
		if _, err := network.Listen("tcp", "10.0.0.3:80"); err != nil {
			t.Fatal(err)
		}
		for _, address := range []string{"10.0.0.2:80", "10.0.0.3:80"} { // nobody accepts at the second
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			start := time.Now()
			_, err := network.DialContext(ctx, "tcp", address)
			cancel()
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) != time.Minute {
				t.Errorf("%s: %v after %v; want a timeout after 1m", address, err, time.Since(start))
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := network.DialContext(ctx, "tcp", "10.0.0.2:80"); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled dial: %v", err)
		}
	})
}
