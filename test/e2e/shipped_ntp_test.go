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

func TestShippedNTP(t *testing.T) {
	t.Parallel()
	right, stop := chrony(t, "local stratum 1")
	awaitNTP(t, right, "success")
	t.Run("the same clock", func(t *testing.T) {
		var v verdict
		await(t, "an exchange that nothing has held up on its way", func() bool {
			var code int
			v, code = probeShipped(t, "ntp", right, `{"stratum":{"max":1},"offset":{"warn":"1h"}}`)
			want(t, v, code, "success", "stratum 1, ")
			return t.Failed() || math.Abs(metric(t, v, "offset_seconds")) < 0.1
		})
		if delay := metric(t, v, "delay_seconds"); delay <= 0 {
			t.Errorf("delay_seconds is %v", delay)
		}
		if len(v.Metrics) != 7 {
			t.Errorf("got metrics %v, want seven", v.Metrics)
		}
	})
	t.Run("no offset is small enough", func(t *testing.T) {
		await(t, "an offset that is not 0 by chance", func() bool {
			v, code := probeShipped(t, "ntp", right, `{"offset":{"warn":"0us","fail":"1h"}}`)
			return v.Result == "warning" && code == 1 && strings.Contains(v.Output, "more than 0.000000 s")
		})
	})
	remote, _ := chrony(t, "local stratum 10")
	awaitNTP(t, remote, "success")
	runShipped(t, "ntp", remote, []shippedCase{
		{"high stratum", `{"stratum":{"max":9}}`, "failure", "the stratum is 10, above 9"},
		{"root distance", `{"offset":{"warn":"1h"},"rootDistance":{"warn":"0us","fail":"1h"}}`, "warning", "by its root distance, more than 0us"},
	})
	t.Run("unsynchronized server", func(t *testing.T) {
		lost, _ := chrony(t, "")
		await(t, "the server to answer", func() bool {
			v, _ := probeShipped(t, "ntp", lost, `{}`)
			return v.Result == "failure" && v.Output == "the server is not synchronized"
		})
	})
	stop()
	runShipped(t, "ntp", right, []shippedCase{{"stopped server", `{}`, "failure", "refused"}})
	runShipped(t, "ntp", timeServer(t, 10*time.Minute), []shippedCase{
		{"wrong clock", `{}`, "failure", "s ahead, more than 1.000000 s"},
		{"wrong clock that warns", `{"offset":{"warn":"100ms","fail":"1h"}}`, "warning", "s ahead, more than 0.100000 s"},
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
		v, _ := probeShipped(t, "ntp", address, `{}`)
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
