package systemd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/agent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNotifySendsStepsToSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "n") // short: the path of a socket has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip(err) // Windows has no datagrams
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	for step, want := range map[agent.Step]string{agent.Ready: "READY=1", agent.Reloading: "RELOADING=1", agent.Stopping: "STOPPING=1"} {
		Notify(step)
		var b [1 << 10]byte
		n, err := socket.Read(b[:])
		if first, _, _ := strings.Cut(string(b[:n]), "\n"); err != nil || first != want {
			t.Errorf("step %d sends %q, %v; want %s", step, b[:n], err, want)
		}
	}
	os.Remove(path)
	Notify(agent.Ready) // returns although nothing listens
}

func TestIntervalIsThatOfTheUnit(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "30000000")
	if got := Interval(); got != 30*time.Second {
		t.Errorf("got %v, want 30 s", got)
	}
	for _, text := range []string{"", "0", "x"} {
		t.Setenv("WATCHDOG_USEC", text)
		if got := Interval(); got != 0 {
			t.Errorf("WATCHDOG_USEC=%q: got %v, want 0", text, got)
		}
	}
}

func TestWatchIsSilentWhileProbesAreStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const interval = 20 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		start := time.Now()
		stall := func() time.Duration { // from 30 s to 70 s
			if at := time.Since(start); at < 70*time.Second {
				return max(0, at-30*time.Second)
			}
			return 0
		}
		var alive []time.Duration
		told := false
		watch(ctx, interval, stall, func(state string) {
			if strings.HasPrefix(state, "WATCHDOG=1") {
				alive = append(alive, time.Since(start))
			}
			told = told || strings.HasPrefix(state, "STATUS=no probe has run")
		})
		if !told {
			t.Error("the stall is not told as status")
		}
		for i := 1; i < len(alive); i++ {
			during := alive[i] > 40*time.Second && alive[i] < 70*time.Second
			if gap := alive[i] - alive[i-1]; during || gap > interval/2 && alive[i-1] != 35*time.Second {
				t.Errorf("alive at %v, after %v", alive[i], gap)
			}
		}
		if n := len(alive); n != 8+7 {
			t.Errorf("alive %d times, at %v; want every 5 s up to 35 s, and from 70 s on", n, alive)
		}
	})
}
