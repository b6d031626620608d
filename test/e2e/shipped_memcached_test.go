//go:build e2e

package e2e

import (
	"net"
	"os/exec"
	"testing"
	"time"
)

func memcached(t *testing.T, args ...string) (address string) {
	t.Helper()
	address = freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("memcached", append([]string{"-u", "nobody", "-l", host, "-p", port}, args...)...))
	return address
}

func TestShippedMemcached(t *testing.T) {
	t.Parallel()
	address := memcached(t, "-c", "64")
	runShipped(t, "memcached", address, []shippedCase{
		{"statistics", `{}`, "success", "memcached 1.6."},
		{"bound of connections", `{"connectionsPercent":{"warnAbove":0.5}}`, "warning", "the percentage of connections in use is"},
		{"version", `{"stats":false}`, "success", " answers"},
		{"round trip", `{"roundTrip":"prober"}`, "success", `a value of "prober" came back`},
		{"stored key", `{"key":"prober"}`, "success", `the value is "prober `},
		{"another value", `{"key":"prober","value":{"equals":"x"}}`, "failure", `want "x"`},
		{"missing key", `{"key":"lost"}`, "failure", `the key "lost" is not stored`},
	})
	t.Run("metrics", func(t *testing.T) {
		v, _ := probeShipped(t, "memcached", address, `{}`)
		if used := metric(t, v, "connections_used_ratio"); used <= 0 || used > 0.5 {
			t.Errorf("connections_used_ratio is %v; want a few of 64", used)
		}
		for _, name := range []string{"evictions", "hit_ratio", "items", "memory_used_ratio", "stats_seconds", "uptime_seconds"} {
			metric(t, v, name)
		}
	})
	users := publicConfig(t, "probe:open-sesame\n")
	runShipped(t, "memcached", memcached(t, "-Y", users), []shippedCase{
		{"login", `{"username":"probe","password":"open-sesame"}`, "success", "memcached 1.6."},
		{"wrong password", `{"username":"probe","password":"guess"}`, "failure", "the login: CLIENT_ERROR authentication failure"},
		{"no login", `{}`, "failure", "stats: CLIENT_ERROR unauthenticated"},
	})
	runShipped(t, "memcached", memcached(t, "-m", "1", "-I", "512k", "-M"), []shippedCase{{"small memory", `{"memoryPercent":{"max":100}}`, "success", "of the memory in use"}})
	runShipped(t, "memcached", redis(t), []shippedCase{{"another protocol", `{}`, "failure", `not memcached: it sent "-ERR unknown command`}})
	runShipped(t, "memcached", freeAddress(t), []shippedCase{{"connection refused", `{}`, "failure", "refused"}})
}

func TestShippedMemcachedTLS(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	address := memcached(t, "-Z", "-o", "ssl_chain_cert="+cert+",ssl_key="+key)
	trusted := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	runShipped(t, "memcached", address, []shippedCase{
		{"over TLS", `{` + trusted + `}`, "success", "memcached 1.6."},
		{"certificate that ends soon", `{"certificateAge":{"warn":"48h"},` + trusted + `}`, "warning", "less than 48h"},
		{"unknown authority", `{"tls":true}`, "failure", "certificate"},
	})
}
