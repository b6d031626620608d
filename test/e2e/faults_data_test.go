//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
		{"stopped", redisServer(t).stop(), ping, "failure", "dial tcp {AT}: connect: connection refused"},
		{"SIGSTOP", redisServer(t).freeze(), within("1s", ping), "failure", "timed out after 1s: read tcp {AT}: connected after …; … bytes sent, 0 received"},
		{"full queue", redisServer(t, "--tcp-backlog", "1").choke(), within("1s", ping), "failure", "timed out after 1s: dial tcp://{AT}: no answer to the SYN from {AT}"},
		{"wrong password", locked, guess, "failure", "AUTH: WRONGPASS invalid username-password pair or user is disabled."},
		{"no password", locked, ping, "failure", "PING: NOAUTH Authentication required."},
		{"too many clients", full, ping, "failure", "PING: ERR max number of clients reached"},
		{"nginx at the port", web, ping, "failure", `PING: "HTTP/1.1 400 Bad Request" is not a reply of redis`},
		{"master is gone", redisServer(t, "--replicaof", "127.0.0.1 1").at, ping, "failure", "the link to master 127.0.0.1:1 is down"},
		{"cut answer", cut(t, plain, 3), ping, "failure", "PING: the server closed the connection"},
		{"answer stops", stalled(t, plain, 3), within("1s", ping), "failure", "timed out after 1s: read tcp {AT}: connected after …; … bytes sent, 3 received"},
		{"slow", slow(t, plain, 300*time.Millisecond), within("200ms", ping), "failure", "timed out after 200ms: read tcp {AT}: connected after …; … bytes sent, 0 received"},
	}
}

// down has the rows of a server that hangs and of a port without one.
func down(t *testing.T, hangs *server, probe object) []fault {
	return []fault{
		{"port closed", freeAddress(t), probe, "failure", "dial tcp {AT}: connect: connection refused"},
		{"SIGSTOP", hangs.freeze(), within("1s", probe), "failure", "timed out after 1s: read tcp {AT}: connected after …; … sent, 0 received"},
	}
}

// postgresServer starts a server on a copy of a data folder.
func postgresServer(t *testing.T, data string, settings ...string) *server {
	t.Helper()
	own := filepath.Join(dataFolder(t), "data")
	run(t, exec.Command("cp", "-a", data, own))
	at := freeAddress(t)
	host, port, _ := net.SplitHostPort(at)
	cmd := pg(t, "postgres", "-D", own, "-h", host, "-p", port, "-k", "", "-c", "fsync=off")
	for _, s := range settings {
		cmd.Args = append(cmd.Args, "-c", s)
	}
	s := serves(t, at, cmd)
	await(t, "PostgreSQL to be ready", func() bool { return pg(t, "pg_isready", "-q", "-h", host, "-p", port).Run() == nil })
	return s
}

func postgresFaults(t *testing.T) []fault {
	data, certs := filepath.Join(dataFolder(t), "data"), newShopCertificates(t)
	run(t, pg(t, "initdb", "-D", data, "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"))
	write(t, data, "pg_hba.conf", "host all postgres 127.0.0.1/32 trust\nhost all shop 127.0.0.1/32 scram-sha-256\n")
	at := postgresServer(t, data).at
	sql(t, at, "CREATE ROLE shop LOGIN PASSWORD 'open sesame'")
	sql(t, at, "CREATE ROLE one SUPERUSER")
	secured := make(map[string]string)
	for _, name := range []string{goodCert, expiredCert, noIntermediate} {
		f := ownCopy(t, certs.files[name])
		secured[name] = postgresServer(t, data, "ssl=on", "ssl_cert_file="+f.chain, "ssl_key_file="+f.key).at
	}
	ask := func(fields object) object { return byPlugin("postgres", fields) }
	web := freeAddress(t)
	nginx(t, web, page(web))
	tls := ask(object{"tls": true, "serverName": "shop.test", "ca": certs.root})
	rows := []fault{
		{"ready", at, ask(object{}), "success", "PostgreSQL 15.…"},
		{"password", at, ask(object{"user": "shop", "password": "open sesame"}), "success", "PostgreSQL 15.…"},
		{"wrong password", at, ask(object{"user": "shop", "password": "guess"}), "failure", `FATAL: password authentication failed for user "shop" (28P01)`},
		{"no database", at, ask(object{"database": "gone"}), "failure", `FATAL: database "gone" does not exist (3D000)`},
		{"no entry of pg_hba.conf", at, ask(object{"user": "one"}), "failure", `FATAL: no pg_hba.conf entry for host "127.0.0.1", user "one", database "postgres", no encryption (28000)`},
		{"no TLS", at, tls, "failure", "the server does not offer TLS"},
		{"nginx at the port", web, ask(object{}), "failure", `no PostgreSQL: it says "HTTP/"`},
		{"cut answer", cut(t, at, 5), ask(object{}), "failure", "the server hung up"},
		{"good certificate", secured[goodCert], tls, "success", "PostgreSQL 15.…"},
		{"expired certificate", secured[expiredCert], tls, "failure", `starttls: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time … is after …: certificate 1 of 2, "CN=shop.test", ended 2 days ago`},
		{"missing intermediate", secured[noIntermediate], tls, "failure", `starttls: tls: failed to verify certificate: x509: certificate signed by unknown authority: the server does not send the intermediate "CN=shop ca", or this is an authority that is not trusted`},
	}
	return append(rows, down(t, postgresServer(t, data), ask(object{}))...)
}

// ownCopy returns copies of files that only unprivileged commands can read.
func ownCopy(t *testing.T, f certificateFiles) certificateFiles {
	t.Helper()
	dir := dataFolder(t)
	for _, path := range []*string{&f.chain, &f.key} {
		text, err := os.ReadFile(*path)
		if err != nil {
			t.Fatal(err)
		}
		*path = filepath.Join(dir, filepath.Ext(*path))
		if err := os.WriteFile(*path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		giveAway(t, *path)
	}
	return f
}

func mariaDBFaults(t *testing.T) []fault {
	folder := dataFolder(t)
	data := filepath.Join(folder, "data")
	install := unprivileged(t, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	install.Env = append(os.Environ(), "TMPDIR="+folder)
	run(t, install)
	start := func(args ...string) (*server, string) {
		own := dataFolder(t)
		run(t, exec.Command("cp", "-a", data, own))
		at := freeAddress(t)
		host, port, _ := net.SplitHostPort(at)
		cmd := unprivileged(t, "mariadbd", append([]string{"--no-defaults", "--datadir=" + own + "/data", "--socket=" + own + "/s", "--pid-file=" + own + "/pid",
			"--bind-address=" + host, "--port=" + port, "--skip-name-resolve", "--innodb-buffer-pool-size=16M"}, args...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+own)
		return serves(t, at, cmd), own
	}
	s, own := start()
	run(t, unprivileged(t, "mariadb", "--no-defaults", "-S", own+"/s", "-u", "root", "-e", "CREATE USER shop@'%' IDENTIFIED BY 'open sesame'; CREATE USER full@'%' IDENTIFIED BY 'open sesame' WITH MAX_QUERIES_PER_HOUR 1; SET GLOBAL max_connect_errors=100000"))
	ask := func(fields object) object { return byPlugin("mysql", fields) }
	hangs, _ := start()
	web := freeAddress(t)
	nginx(t, web, page(web))
	rows := []fault{
		{"password", s.at, ask(object{"user": "shop", "password": "open sesame"}), "success", "…MariaDB…"},
		{"wrong password", s.at, ask(object{"user": "shop", "password": "guess"}), "failure", "…Access denied for user 'shop'@'127.0.0.1' (using password: YES)…"},
		{"unknown user", s.at, ask(object{"user": "gone", "password": "guess"}), "failure", "…Access denied for user 'gone'@'127.0.0.1' (using password: YES)…"},
		{"nginx at the port", web, within("1s", ask(object{})), "failure", "timed out after 1s: read tcp {AT}: connected after …; 0 bytes sent, 0 received"},
		{"cut greeting", cut(t, s.at, 8), ask(object{}), "failure", "the server hung up"},
	}
	return append(rows, down(t, hangs, ask(object{}))...)
}

func memcachedFaults(t *testing.T) []fault {
	start := func(args ...string) *server {
		at := freeAddress(t)
		host, port, _ := net.SplitHostPort(at)
		return serves(t, at, exec.Command("memcached", append([]string{"-u", "nobody", "-l", host, "-p", port}, args...)...))
	}
	stats := byPlugin("memcached", object{})
	at := start().at
	rows := []fault{
		{"stats", at, stats, "success", "…up for …"},
		{"redis at the port", redisServer(t).at, stats, "failure", "no statistics: the server says -ERR unknown command 'stats', with args beginning with:"},
		{"cut answer", cut(t, at, 30), stats, "failure", "the server hung up in the middle of its statistics"},
		{"answer stops", stalled(t, at, 30), within("1s", stats), "failure", "timed out after 1s: read tcp {AT}: connected after …; … bytes sent, 30 received"},
		{"full queue", start("-b", "1").choke(), within("1s", stats), "failure", "timed out after 1s: dial tcp://{AT}: no answer to the SYN from {AT}"},
	}
	return append(rows, down(t, start(), stats)...)
}

func natsFaults(t *testing.T) []fault {
	start := func(args ...string) *server {
		at := freeAddress(t)
		host, port, _ := net.SplitHostPort(at)
		return serves(t, at, exec.Command("nats-server", append([]string{"-a", host, "-p", port, "-n", "alpha"}, args...)...))
	}
	certs := newShopCertificates(t)
	ask := func(fields object) object { return byPlugin("nats", fields) }
	trusted := ask(object{"serverName": "shop.test", "ca": certs.root})
	secured := func(name string) string {
		return start("--tls", "--tlscert", certs.files[name].chain, "--tlskey", certs.files[name].key).at
	}
	rows := []fault{
		{"no login", start().at, ask(object{}), "success", "alpha, NATS 2.…, answers"},
		{"wrong password", start("--user", "shop", "--pass", "open sesame").at, ask(object{"user": "shop", "password": "guess"}), "failure", "the server says 'Authorization Violation'"},
		{"no TLS", start().at, ask(object{"tls": true}), "failure", "alpha does not offer TLS"},
		{"redis at the port", redisServer(t).at, within("1s", ask(object{})), "failure", "timed out after 1s: read tcp {AT}: connected after …; 0 bytes sent, 0 received"},
		{"good certificate", secured(goodCert), trusted, "success", "alpha, NATS 2.…, answers"},
		{"self-signed certificate", secured(selfSignedCert), trusted, "failure", `starttls: tls: failed to verify certificate: x509: certificate signed by unknown authority: self-signed certificate "CN=shop.test"`},
		{"wrong name", secured(wrongNameCert), trusted, "failure", "starttls: tls: failed to verify certificate: x509: certificate is valid for mail.test, not shop.test"},
	}
	return append(rows, down(t, start(), ask(object{}))...)
}
