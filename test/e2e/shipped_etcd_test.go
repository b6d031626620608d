//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startEtcd starts a member, and returns a function that stops it. url is its address for clients, and peers has
// the names and the addresses of all members.
func startEtcd(t *testing.T, name, url string, peers map[string]string, args ...string) (stop func()) {
	t.Helper()
	var cluster []string
	for name, at := range peers {
		cluster = append(cluster, name+"=http://"+at)
	}
	cmd := unprivileged(t, "etcd", "--name", name, "--data-dir", filepath.Join(dataFolder(t), "data"), "--initial-cluster", strings.Join(cluster, ","),
		"--listen-client-urls", url, "--advertise-client-urls", url, "--unsafe-no-fsync", "--heartbeat-interval", "50", "--election-timeout", "500",
		"--listen-peer-urls", "http://"+peers[name], "--initial-advertise-peer-urls", "http://"+peers[name])
	cmd.Args = append(cmd.Args, args...)
	listening(t, strings.TrimPrefix(strings.TrimPrefix(url, "https://"), "http://"), cmd)
	return func() { cmd.Process.Kill(); cmd.Wait() }
}

// callEtcd calls a method of the gateway.
func callEtcd(t *testing.T, address, method, body string) {
	t.Helper()
	resp, err := http.Post("http://"+address+"/v3/"+method, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s", method, body, resp.Status, said)
	}
}

func TestShippedEtcd(t *testing.T) {
	t.Parallel()
	awaitHealth := func(address string) {
		t.Helper()
		await(t, "etcd to be healthy", func() bool {
			v, _ := probeShipped(t, "etcd", address, `{}`)
			return v.Result == "success"
		})
	}
	t.Run("one member", func(t *testing.T) {
		address := freeAddress(t)
		startEtcd(t, "one", "http://"+address, map[string]string{"one": freeAddress(t)}, "--quota-backend-bytes", "1048576")
		awaitHealth(address)
		runShipped(t, "etcd", address, []shippedCase{
			{"leader", `{"raftLag":{"max":100},"quota":"1Mi","quotaUsed":{"max":50}}`, "success", "healthy: etcd 3."},
			{"database above its bounds", `{"dbSize":{"max":1000}}`, "failure", "above 1000"},
			{"login without authentication", `{"username":"root","password":"guess"}`, "failure", "authentication is not enabled"},
		})
		callEtcd(t, address, "maintenance/alarm", `{"action":"ACTIVATE","memberID":"7","alarm":"CORRUPT"}`)
		runShipped(t, "etcd", address, []shippedCase{{"alarm", `{}`, "failure", "unhealthy; alarm CORRUPT of member 7, whose data differs"}})
		callEtcd(t, address, "maintenance/alarm", `{"action":"DEACTIVATE","memberID":"7","alarm":"CORRUPT"}`)
		callEtcd(t, address, "auth/user/add", `{"name":"root","password":"open sesame"}`)
		callEtcd(t, address, "auth/user/grant", `{"user":"root","role":"root"}`)
		callEtcd(t, address, "auth/enable", `{}`)
		runShipped(t, "etcd", address, []shippedCase{
			{"login", `{"username":"root","password":"open sesame"}`, "success", "the leader"},
			{"wrong password", `{"username":"root","password":"guess"}`, "failure", "invalid user ID or password"},
		})
	})
	t.Run("cluster without a majority", func(t *testing.T) {
		peers := map[string]string{"a": freeAddress(t), "b": freeAddress(t), "c": freeAddress(t)}
		clients, stops := map[string]string{}, map[string]func(){}
		for name := range peers {
			clients[name] = freeAddress(t)
			stops[name] = startEtcd(t, name, "http://"+clients[name], peers)
		}
		awaitHealth(clients["a"])
		stops["b"]()
		stops["c"]()
		var v verdict
		await(t, "the member to lose its leader", func() bool {
			v, _ = probeShipped(t, "etcd", clients["a"], `{}`)
			return strings.Contains(v.Output, "the cluster has no leader")
		})
		if v.Result != "failure" || !strings.HasPrefix(v.Output, "unhealthy") {
			t.Errorf("got %+v", v)
		}
	})
	t.Run("over TLS with a client certificate", func(t *testing.T) {
		cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
		address := freeAddress(t)
		startEtcd(t, "one", "https://"+address, map[string]string{"one": freeAddress(t)},
			"--cert-file", cert, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", cert)
		config := filepath.Join(t.TempDir(), "prober.yaml")
		text := fmt.Sprintf("apiVersion: prober.dev/v1\nkind: AgentConfig\ncredentials:\n- {name: etcd-client, cert: %s, key: %s, plugins: [etcd]}\n", cert, key)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		trusted := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
		v, code := probePluginIn(t, t.TempDir(), "etcd", address, `{"credentials":"etcd-client",`+trusted+`}`, "--agent-config", config)
		want(t, v, code, "success", "the leader")
		v, code = probePluginIn(t, t.TempDir(), "etcd", address, `{`+trusted+`}`)
		want(t, v, code, "failure", "certificate")
	})
	runShipped(t, "etcd", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", "GET /health: "}})
}
