//go:build e2e

package e2e

import (
	"maps"
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
	takeConnection(t, full, "PING\r\n", "+PONG")
	web := nginxPage(t)
	ping := byPlugin("redis", object{})
	guess := byPlugin("redis", object{"password": "guess"})
	limited := redisServer(t, "--user", "probe", "on", ">sesame", "+info").at
	certs, secured := newShopCertificates(t), make(map[string]string)
	for name, f := range certs.files {
		secured[name] = freeAddress(t)
		_, port, _ := net.SplitHostPort(secured[name])
		redisServer(t, "--tls-port", port, "--tls-cert-file", f.chain, "--tls-key-file", f.key, "--tls-ca-cert-file", f.chain, "--tls-auth-clients", "no")
	}
	rows := []fault{
		{"ping", plain, ping, "success", "PONG"},
		{"replication", plain, byPlugin("redis", object{"replication": true}), "success", "PONG from a master with 0 replicas"},
		{"password", locked, byPlugin("redis", object{"password": "open sesame"}), "success", "PONG"},
		{"stopped", redisServer(t).stop(), ping, "failure", "dial tcp {AT}: connect: connection refused"},
		{"SIGSTOP", redisServer(t).freeze(), within("1s", ping), "failure", "no answer to PING; the deadline of 1s has passed"},
		{"full queue", redisServer(t, "--tcp-backlog", "1").choke(), within("1s", ping), "failure", "timed out after 1s: dial tcp://{AT}: no answer to the SYN from {AT}"},
		{"wrong password", locked, guess, "failure", "AUTH: WRONGPASS invalid username-password pair or user is disabled."},
		{"no password", locked, ping, "failure", "PING: NOAUTH Authentication required."},
		{"too many clients", full, ping, "failure", "PING: ERR max number of clients reached"},
		{"nginx at the port", web, ping, "failure", `PING: not redis: it sent "HTTP/1.1 400 Bad Request"`},
		{"master is gone", redisServer(t, "--replicaof", "127.0.0.1 1").at, byPlugin("redis", object{"replication": true}), "failure", "the link to the master 127.0.0.1:1 is down"},
		{"cut answer", cut(t, plain, 3), ping, "failure", `PING: the server closed the connection after 3 bytes, "+PO"`},
		{"answer stops", stalled(t, plain, 3), within("1s", ping), "failure", `unfinished answer to PING: 3 bytes, "+PO"; the deadline of 1s has passed`},
		{"slow", slow(t, plain, 300*time.Millisecond), within("200ms", ping), "failure", "no answer to PING; the deadline of 200ms has passed"},
		{"few replicas", plain, byPlugin("redis", object{"minReplicas": 1}), "failure", "0 replicas are connected, want at least 1"},
		{"permission", limited, byPlugin("redis", object{"username": "probe", "password": "sesame"}), "failure", "PING: NOPERM …'ping' command"},
		{"TLS on a port without it", plain, within("1s", byPlugin("redis", object{"tls": true})), "failure", "timed out after 1s: starttls tcp {AT}: the TLS handshake is not finished; …"},
		{"no TLS on a port with it", secured[goodCert], ping, "failure", "PING: read tcp …->{AT}: read: connection reset by peer"},
	}
	return append(rows, certs.faults(secured, byPlugin("redis", certs.tls(object{"tls": true})), "", "PONG")...)
}

// silence is the cause of an attempt by expect or an example plugin that received nothing.
const silence = "timed out after 1s: read tcp {AT}: connected after …; … sent, 0 received"

// noGreeting is the cause of an attempt by a shipped plugin that received nothing from a server that speaks first.
const noGreeting = "no greeting of the server; the deadline of 1s has passed"

// down has the rows of a server that hangs, with the cause, and of a port without one.
func down(t *testing.T, hangs *server, probe object, cause string) []fault {
	return []fault{
		{"port closed", freeAddress(t), probe, "failure", "dial tcp {AT}: connect: connection refused"},
		{"SIGSTOP", hangs.freeze(), within("1s", probe), "failure", cause},
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
	web := nginxPage(t)
	tls := ask(certs.tls(object{"tls": true}))
	full := postgresServer(t, data, "max_connections=4", "superuser_reserved_connections=3").at
	sql(t, full, "CREATE ROLE shop LOGIN PASSWORD 'open sesame'")
	occupy(t, full)
	rows := []fault{
		{"ready", at, ask(object{}), "success", "PostgreSQL 15.…"},
		{"password", at, ask(object{"username": "shop", "password": "open sesame"}), "success", "PostgreSQL 15.…"},
		{"wrong password", at, ask(object{"username": "shop", "password": "guess"}), "failure", `FATAL: password authentication failed for user "shop" (28P01)`},
		{"no database", at, ask(object{"database": "gone"}), "failure", `FATAL: database "gone" does not exist (3D000)`},
		{"no entry of pg_hba.conf", at, ask(object{"username": "one"}), "failure", `FATAL: no pg_hba.conf entry for host "127.0.0.1", user "one", database "postgres", no encryption (28000)`},
		{"no TLS", at, tls, "failure", "the server does not offer TLS"},
		{"nginx at the port", web, ask(object{}), "failure", `not PostgreSQL: it sent "HTTP/1.1 400 Bad Request"`},
		{"cut answer", cut(t, at, 5), ask(object{}), "failure", "the login: the server closed the connection after 5 bytes"},
		{"other role", at, ask(object{"role": "standby"}), "failure", "the role is primary, want standby"},
		{"no table", at, ask(object{"query": "SELECT count(*) FROM jobs"}), "failure", `the query: ERROR: relation "jobs" does not exist (42P01)`},
		{"slow query", at, within("1s", ask(object{"query": "SELECT pg_sleep(60)"})), "failure", "no answer to the query; the deadline of 1s has passed"},
		{"too many clients", full, ask(object{"username": "shop", "password": "open sesame"}), "failure", "FATAL: …connection slots are reserved for … (53300)"},
		{"good certificate", secured[goodCert], tls, "success", "PostgreSQL 15.…"},
		{"expired certificate", secured[expiredCert], tls, "failure", `starttls: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time … is after …: certificate 1 of 2, "CN=shop.test", ended 2 days ago`},
		{"missing intermediate", secured[noIntermediate], tls, "failure", `starttls: tls: failed to verify certificate: x509: certificate signed by unknown authority: the server does not send the intermediate "CN=shop ca", or this is an authority that is not trusted`},
	}
	return append(rows, down(t, postgresServer(t, data), ask(object{}), "no answer to the login; the deadline of 1s has passed")...)
}

// occupy keeps a connection of a superuser to PostgreSQL until the end of the test.
func occupy(t *testing.T, at string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(at)
	marker := filepath.Join(dataFolder(t), "there")
	starts(t, pg(t, "psql", "-h", host, "-p", port, "-U", "postgres", "-c", "COPY (SELECT 1) TO '"+marker+"'", "-c", "SELECT pg_sleep(600)"))
	await(t, "the connection to "+at, func() bool { _, err := os.Stat(marker); return err == nil })
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
	does := func(own, statements string) {
		const users = "CREATE USER shop@'%' IDENTIFIED BY 'open sesame'; GRANT SLAVE MONITOR ON *.* TO shop@'%'; "
		run(t, unprivileged(t, "mariadb", "--no-defaults", "-S", own+"/s", "-u", "root", "-e", users+statements))
	}
	s, own := start()
	does(own, "CREATE USER full@'%' IDENTIFIED BY 'open sesame' WITH MAX_QUERIES_PER_HOUR 1; SET GLOBAL max_connect_errors=100000")
	replica, own := start("--server-id=2")
	does(own, "CHANGE MASTER 'east' TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='copier'")
	certs := newShopCertificates(t)
	secured := func(name string) string {
		f := ownCopy(t, certs.files[name])
		s, own := start("--ssl-cert="+f.chain, "--ssl-key="+f.key)
		does(own, "")
		return s.at
	}
	ask := func(fields object) object { return byPlugin("mysql", fields) }
	shop := func(fields object) object {
		maps.Copy(fields, object{"username": "shop", "password": "open sesame"})
		return ask(fields)
	}
	hangs, _ := start()
	web := nginxPage(t)
	rows := []fault{
		{"password", s.at, ask(object{"username": "shop", "password": "open sesame"}), "success", "…MariaDB…"},
		{"wrong password", s.at, ask(object{"username": "shop", "password": "guess"}), "failure", "…Access denied for user 'shop'@'127.0.0.1' (using password: YES)…"},
		{"unknown user", s.at, ask(object{"username": "gone", "password": "guess"}), "failure", "…Access denied for user 'gone'@'127.0.0.1' (using password: YES)…"},
		{"nginx at the port", web, within("1s", ask(object{})), "failure", noGreeting},
		{"ssh at the port", sshd(t, "").at, ask(object{}), "failure", `not MySQL: it sent "SSH-2.0-OpenSSH_…"`},
		{"cut greeting", cut(t, s.at, 8), ask(object{}), "failure", "the greeting: the server closed the connection after 8 bytes"},
		{"greeting stops", stalled(t, s.at, 8), within("1s", ask(object{})), "failure", "unfinished greeting of the server: 8 bytes; the deadline of 1s has passed"},
		{"no table", s.at, shop(object{"query": "SELECT count(*) FROM mysql.jobs"}), "failure", "the query: SELECT command denied to user 'shop'@'127.0.0.1' for table `mysql`.`jobs` (1142)"},
		{"quota", s.at, ask(object{"username": "full", "password": "open sesame", "query": "SELECT 1"}), "failure", "…has exceeded the 'max_queries_per_hour' resource (current value: 1) (1226)"},
		{"no replica", s.at, shop(object{"role": "replica"}), "failure", "the role is source, want replica"},
		{"named channel is stopped", replica.at, shop(object{"role": "replica"}), "failure", `channel "east": the replication does not run: it is stopped`},
		{"slow query", s.at, within("1s", shop(object{"query": "SELECT SLEEP(60)"})), "failure", "no answer to the query; the deadline of 1s has passed"},
		{"no TLS", s.at, shop(certs.tls(object{"tls": true})), "failure", "MariaDB 10.11.… does not offer TLS"},
		{"good certificate", secured(goodCert), shop(certs.tls(object{"tls": true})), "success", "MariaDB 10.11.… answers"},
		{"expired certificate", secured(expiredCert), shop(certs.tls(object{"tls": true})), "failure", `starttls: tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time … is after …: certificate 1 of 2, "CN=shop.test", ended 2 days ago`},
	}
	return append(rows, down(t, hangs, ask(object{}), noGreeting)...)
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
		{"stats", at, stats, "success", "memcached 1.6.…, up for …"},
		{"redis at the port", redisServer(t).at, stats, "failure", `not memcached: it sent "-ERR unknown command 'stats', with args beginning with:"`},
		{"cut answer", cut(t, at, 30), stats, "failure", `stats: the server closed the connection after 30 bytes, "…"`},
		{"answer stops", stalled(t, at, 30), within("1s", stats), "failure", `unfinished answer to stats: 30 bytes, "…"; the deadline of 1s has passed`},
		{"full queue", start("-b", "1").choke(), within("1s", stats), "failure", "timed out after 1s: dial tcp://{AT}: no answer to the SYN from {AT}"},
	}
	return append(rows, down(t, start(), stats, "no answer to stats; the deadline of 1s has passed")...)
}

func natsFaults(t *testing.T) []fault {
	start := func(args ...string) *server {
		at := freeAddress(t)
		host, port, _ := net.SplitHostPort(at)
		return serves(t, at, exec.Command("nats-server", append([]string{"-a", host, "-p", port, "-n", "alpha"}, args...)...))
	}
	certs := newShopCertificates(t)
	ask := func(fields object) object { return byPlugin("nats", fields) }
	trusted := ask(object{"tlsConfig": object{"serverName": "shop.test", "ca": certs.root}})
	secured := func(name string) string {
		return start("--tls", "--tlscert", certs.files[name].chain, "--tlskey", certs.files[name].key).at
	}
	rows := []fault{
		{"no login", start().at, ask(object{}), "success", "alpha, NATS 2.…, answers"},
		{"wrong password", start("--user", "shop", "--pass", "open sesame").at, ask(object{"username": "shop", "password": "guess"}), "failure", "the server refuses: Authorization Violation"},
		{"no TLS", start().at, ask(object{"tls": true}), "failure", "alpha does not offer TLS"},
		{"redis at the port", redisServer(t).at, within("1s", ask(object{})), "failure", noGreeting},
		{"good certificate", secured(goodCert), trusted, "success", "alpha, NATS 2.…, answers"},
		{"self-signed certificate", secured(selfSignedCert), trusted, "failure", `starttls: tls: failed to verify certificate: x509: certificate signed by unknown authority: self-signed certificate "CN=shop.test"`},
		{"wrong name", secured(wrongNameCert), trusted, "failure", "starttls: tls: failed to verify certificate: x509: certificate is valid for mail.test, not shop.test"},
	}
	return append(rows, down(t, start(), ask(object{}), noGreeting)...)
}
