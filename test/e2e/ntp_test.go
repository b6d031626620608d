//go:build e2e

package e2e

import (
	"encoding/binary"
	"math"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// chrony starts a time server that does not set the clock, and returns its address and a function
// that stops it. The server needs some time before it answers.
func chrony(t *testing.T, config string) (address string, stop func()) {
	t.Helper()
	address = freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	folder := dataFolder(t)
	config += "\nport " + port + "\ncmdport 0\nbindaddress 127.0.0.1\nbindcmdaddress /\nallow 127.0.0.1\npidfile " + filepath.Join(folder, "pid") + "\n"
	cmd := unprivileged(t, "chronyd", "-d", "-x", "-U", "-u", "nobody", "-f", publicConfig(t, config))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return address, func() { cmd.Process.Kill(); cmd.Wait() }
}

// TestNTP probes with a plugin in C.
func TestNTP(t *testing.T) {
	right, stop := chrony(t, "local stratum 1")
	awaitNTP(t, right, "success")
	t.Run("the same clock", func(t *testing.T) {
		var v verdict
		await(t, "an exchange that nothing has held up on its way", func() bool {
			var code int
			v, code = probePlugin(t, "ntp", right, `{"maxStratum":1,"warnOffset":"1h","failOffset":"1h"}`)
			want(t, v, code, "success", "stratum 1, ")
			return t.Failed() || math.Abs(metric(t, v, "offset_seconds")) < 0.1
		})
		if delay := metric(t, v, "delay_seconds"); delay <= 0 {
			t.Errorf("delay_seconds is %v", delay)
		}
		if len(v.Metrics) != 6 {
			t.Errorf("got metrics %v, want six", v.Metrics)
		}
	})
	t.Run("no offset is small enough", func(t *testing.T) {
		await(t, "an offset that is not 0 by chance", func() bool {
			v, code := probePlugin(t, "ntp", right, `{"warnOffset":"0us","failOffset":"1h"}`)
			return v.Result == "warning" && code == 1 && strings.Contains(v.Output, "above 0.000000 s")
		})
	})
	t.Run("high stratum", func(t *testing.T) {
		remote, _ := chrony(t, "local stratum 10")
		awaitNTP(t, remote, "success")
		v, code := probePlugin(t, "ntp", remote, `{"maxStratum":9}`)
		want(t, v, code, "failure", "the server is of stratum 10, above 9")
	})
	t.Run("unsynchronised server", func(t *testing.T) {
		lost, _ := chrony(t, "")
		await(t, "the server to answer", func() bool {
			v, _ := probePlugin(t, "ntp", lost, `{}`)
			return v.Result == "failure" && v.Output == "the server is not synchronised"
		})
	})
	t.Run("stopped server", func(t *testing.T) {
		stop()
		v, code := probePlugin(t, "ntp", right, `{}`)
		want(t, v, code, "failure", "refused")
	})
	t.Run("wrong clock", func(t *testing.T) {
		address := timeServer(t, 10*time.Minute)
		v, code := probePlugin(t, "ntp", address, `{}`)
		want(t, v, code, "failure", "s ahead, above 1.000000 s")
		v, code = probePlugin(t, "ntp", address, `{"failOffset":"1h"}`)
		want(t, v, code, "warning", "s ahead, above 0.100000 s")
	})
}

// metric returns the value of a metric of a verdict.
func metric(t *testing.T, v verdict, name string) float64 {
	t.Helper()
	for _, m := range v.Metrics {
		if m.Name == name {
			return m.Value
		}
	}
	t.Fatalf("no %s in %+v", name, v)
	return 0
}

func awaitNTP(t *testing.T, address, result string) {
	t.Helper()
	await(t, address+" to tell the time", func() bool {
		v, _ := probePlugin(t, "ntp", address, `{}`)
		return v.Result == result
	})
}

// timeServer is a server with a wrong clock, which chrony cannot have, because it uses the clock of the host.
// Before each answer it sends an unsolicited one.
func timeServer(t *testing.T, off time.Duration) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if n < 48 {
				continue
			}
			now := time.Now().Add(off)
			answer := make([]byte, 48)
			answer[0], answer[1] = 4<<3|4, 3
			for _, at := range []int{16, 32, 40} {
				binary.BigEndian.PutUint32(answer[at:], uint32(now.Unix()+2208988800))
			}
			conn.WriteTo(answer, from)
			copy(answer[24:32], buf[40:48])
			conn.WriteTo(answer, from)
		}
	}()
	return conn.LocalAddr().String()
}
