//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"
)

// redisServer starts a real server with args.
func redisServer(t *testing.T, args ...string) *server {
	t.Helper()
	at := freeAddress(t)
	_, port, _ := net.SplitHostPort(at)
	return serves(t, at, exec.Command("redis-server", append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)...))
}

func redisFaults(t *testing.T) []fault {
	plain, locked := redisServer(t).at, redisServer(t, "--requirepass", "open sesame").at
	full := redisServer(t, "--maxclients", "1").at
	await(t, "a client", func() bool { // the connection that made sure that redis listens may still count
		busy, err := net.Dial("tcp", full)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { busy.Close() })
		fmt.Fprint(busy, "PING\r\n")
		line, _ := bufio.NewReader(busy).ReadString('\n')
		return line == "+PONG\r\n"
	})
	web := freeAddress(t)
	nginx(t, web, page(web))
	ping := byPlugin("redis", object{})
	guess := byPlugin("redis", object{"password": "guess"})
	return []fault{
		{"ping", plain, ping, "success", "PONG from a master of 0 replicas"},
		{"password", locked, byPlugin("redis", object{"password": "open sesame"}), "success", "PONG from a master of 0 replicas"},
		{"stopped", redisServer(t).stop(), ping, "failure", "dial tcp AT: connect: connection refused"},
		{"SIGSTOP", redisServer(t).freeze(), within("1s", ping), "failure", "timed out after 1s: read tcp AT: connected after …; … bytes sent, 0 received"},
		{"full queue", redisServer(t, "--tcp-backlog", "1").choke(), within("1s", ping), "failure", "timed out after 1s: dial tcp://AT: no answer to the SYN from AT"},
		{"wrong password", locked, guess, "failure", "AUTH: WRONGPASS invalid username-password pair or user is disabled."},
		{"no password", locked, ping, "failure", "PING: NOAUTH Authentication required."},
		{"too many clients", full, ping, "failure", "PING: ERR max number of clients reached"},
		{"nginx at the port", web, ping, "failure", `PING: "HTTP/1.1 400 Bad Request" is not a reply of redis`},
		{"master is gone", redisServer(t, "--replicaof", "127.0.0.1 1").at, ping, "failure", "the link to master 127.0.0.1:1 is down"},
		{"cut answer", cut(t, plain, 3), ping, "failure", "PING: the server closed the connection"},
		{"answer stops", stalled(t, plain, 3), within("1s", ping), "failure", "timed out after 1s: read tcp AT: connected after …; … bytes sent, 3 received"},
		{"slow", slow(t, plain, 300*time.Millisecond), within("200ms", ping), "failure", "timed out after 200ms: read tcp AT: connected after …; … bytes sent, 0 received"},
	}
}
