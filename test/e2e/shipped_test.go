//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shippedCase is an attempt of a shipped plugin at a real server.
type shippedCase struct{ name, config, result, text string }

// probeShipped runs a plugin that is part of prober.
func probeShipped(t *testing.T, plugin, target, config string) (verdict, int) {
	t.Helper()
	return probePluginIn(t, t.TempDir(), plugin, target, config)
}

// runShipped runs cases, whose messages may not have the passwords "guess" and "open sesame".
func runShipped(t *testing.T, plugin, target string, cases []shippedCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v, code := probeShipped(t, plugin, target, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") || strings.Contains(v.Output, "sesame") {
				t.Errorf("the output has the password: %q", v.Output)
			}
		})
	}
}

func TestShippedRedis(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	secured := freeAddress(t)
	_, port, _ := net.SplitHostPort(secured)
	redis(t, "--requirepass", "open sesame", "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	trusted := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	runShipped(t, "redis", secured, []shippedCase{
		{"over TLS", `{"password":"open sesame",` + trusted + `}`, "success", "PONG"},
		{"over TLS with a wrong password", `{"password":"guess",` + trusted + `}`, "failure", "AUTH: WRONGPASS"},
		{"over TLS without the password", `{` + trusted + `}`, "failure", "PING: NOAUTH"},
		{"a certificate that ends soon", `{"password":"open sesame","certificateAge":{"warn":"48h"},` + trusted + `}`, "warning", "less than 48h"},
		{"certificate of an unknown authority", `{"tls":true,"password":"open sesame"}`, "failure", "certificate"},
	})
	primary := redis(t, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
	host, port, _ := net.SplitHostPort(primary)
	replica := redis(t, "--replicaof", host+" "+port)
	lost := redis(t, "--replicaof", strings.Replace(freeAddress(t), ":", " ", 1))
	await(t, "the replica to be in sync", func() bool {
		v, _ := probeShipped(t, "redis", replica, `{"role":"replica","lag":{"fail":"30s"}}`)
		return v.Result == "success"
	})
	runShipped(t, "redis", primary, []shippedCase{
		{"primary", `{"role":"master","minReplicas":1,"database":1}`, "success", "PONG from a master with 1 replica"},
		{"primary with too few replicas", `{"minReplicas":2}`, "failure", "1 replicas are connected, want at least 2"},
		{"primary, want a replica", `{"role":"replica"}`, "failure", "the role is master, want replica"},
		{"missing database", `{"database":99}`, "failure", "SELECT: ERR"},
	})
	runShipped(t, "redis", lost, []shippedCase{{"replica without its primary", `{"replication":true}`, "failure", "the link to the master"}})
	runShipped(t, "redis", freeAddress(t), []shippedCase{{"connection refused", `{}`, "failure", "refused"}})
}

func TestShippedPostgres(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	address, _ := startPrimary(t, "ssl=on", "ssl_cert_file="+cert, "ssl_key_file="+key)
	sql(t, address, "CREATE TABLE jobs (state text); INSERT INTO jobs SELECT 'failed' FROM generate_series(1, 12); GRANT SELECT ON jobs TO scram")
	trusted := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	const scram = `"username":"scram","password":"open sesame"`
	const jobs = `,"query":"SELECT count(*) FROM jobs"`
	runShipped(t, "postgres", address, []shippedCase{
		{"trusted", `{}`, "success", "PostgreSQL 15"},
		{"by SCRAM", `{` + scram + `}`, "success", "PostgreSQL 15"},
		{"by SCRAM with a wrong password", `{"username":"scram","password":"guess"}`, "failure", "(28P01)"},
		{"by SCRAM without the password", `{"username":"scram"}`, "success", "asks for a login by SCRAM-SHA-256"},
		{"by MD5", `{"username":"md5","password":"open sesame"}`, "success", "PostgreSQL 15"},
		{"by MD5 with a wrong password", `{"username":"md5","password":"guess"}`, "failure", "(28P01)"},
		{"without the TLS that a role needs", `{"username":"secured","password":"open sesame"}`, "failure", "(28000)"},
		{"unverified certificate", `{"tls":true,"tlsConfig":{"insecureSkipVerify":true}}`, "success", "PostgreSQL 15"},
		{"in clear text without TLS", `{"username":"clear","password":"open sesame"}`, "failure", "needs TLS"},
		{"in clear text over TLS", `{"username":"clear","password":"open sesame",` + trusted + `}`, "success", "PostgreSQL 15"},
		{"over TLS", `{"username":"secured","password":"open sesame",` + trusted + `}`, "success", "PostgreSQL 15"},
		{"certificate of an unknown authority", `{"tls":true,"tlsConfig":{"serverName":"mail.example.com"}}`, "failure", "certificate"},
		{"value within its bounds", `{` + scram + jobs + `,"value":{"max":12,"equals":12}}`, "success", "the query: 12"},
		{"value that warns", `{` + scram + jobs + `,"value":{"warnAbove":10,"max":100}}`, "warning", "the value is 12, above 10"},
		{"value above max", `{` + scram + jobs + `,"value":{"max":11}}`, "failure", "the value is 12, above 11"},
		{"number of rows", `{` + scram + `,"query":"SELECT * FROM jobs","rows":{"max":3}}`, "failure", "the number of rows is 12, above 3"},
		{"query without permission", `{"username":"md5","password":"open sesame"` + jobs + `}`, "failure", "permission denied for table jobs (42501)"},
		{"query without rows", `{` + scram + `,"query":"SELECT 1 WHERE false","value":{"equals":1}}`, "failure", "the query has no row"},
		{"value that is NULL", `{` + scram + `,"query":"SELECT NULL","value":{"equals":1}}`, "failure", "the value is NULL"},
		{"primary", `{"role":"primary"}`, "success", "a primary"},
		{"primary, want a standby", `{"role":"standby"}`, "failure", "the role is primary, want standby"},
		{"missing database", `{"database":"lost"}`, "failure", `database "lost" does not exist (3D000)`},
	})
	t.Run("a standby", func(t *testing.T) {
		data := filepath.Join(dataFolder(t), "data")
		host, port, _ := net.SplitHostPort(address)
		run(t, pg(t, "pg_basebackup", "-R", "-c", "fast", "-N", "-h", host, "-p", port, "-U", "postgres", "-D", data))
		standby, _ := serve(t, data)
		await(t, "the standby to be in step", func() bool {
			v, _ := probeShipped(t, "postgres", standby, `{"role":"standby","lag":{"fail":"1m"}}`)
			return v.Result == "success" && strings.Contains(v.Output, "a standby, 0.0 s behind")
		})
		sql(t, standby, "SELECT pg_wal_replay_pause()")
		sql(t, address, "INSERT INTO jobs VALUES ('late')")
		await(t, "the standby to lag", func() bool {
			v, _ := probeShipped(t, "postgres", standby, `{"lag":{"fail":"10ms"}}`)
			return v.Result == "failure" && strings.Contains(v.Output, "s behind, more than 10ms")
		})
	})
	plain := primary(t)
	runShipped(t, "postgres", plain, []shippedCase{{"TLS that is not there", `{"tls":true}`, "failure", "the server does not offer TLS"}})
	runShipped(t, "postgres", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", "not PostgreSQL"}})
}

func TestShippedMySQL(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	db := startMariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key, "--server-id=1", "--log-bin=log", "--max-connections=10", "--connect-timeout=600")
	db.sql(t, users+"CREATE DATABASE shop; CREATE TABLE shop.jobs (state text); INSERT INTO shop.jobs VALUES ('a'), ('b'), (NULL); GRANT SELECT ON shop.* TO probe@'%';")
	trusted := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	const login = `"username":"probe","password":"open sesame"`
	const jobs = `,"database":"shop","query":"SELECT count(*) FROM jobs"`
	runShipped(t, "mysql", db.address, []shippedCase{
		{"without a login", `{}`, "success", "MariaDB 10.11."},
		{"with a password", `{` + login + `}`, "success", " answers"},
		{"with a wrong password", `{"username":"probe","password":"guess"}`, "failure", "(using password: YES) (1045)"},
		{"without a password", `{"username":"open"}`, "success", " answers"},
		{"without the password", `{"username":"probe"}`, "failure", "(using password: NO) (1045)"},
		{"without the TLS that a user needs", `{"username":"secured","password":"open sesame"}`, "failure", "(1045)"},
		{"over TLS", `{"username":"secured","password":"open sesame",` + trusted + `}`, "success", " answers"},
		{"over TLS with a wrong password", `{"username":"secured","password":"guess",` + trusted + `}`, "failure", "(1045)"},
		{"certificate of an unknown authority", `{"username":"open","tls":true,"tlsConfig":{"serverName":"mail.example.com"}}`, "failure", "certificate"},
		{"value within its bounds", `{` + login + jobs + `,"value":{"equals":3}}`, "success", "the query: 3"},
		{"value that warns", `{` + login + jobs + `,"value":{"warnAbove":2}}`, "warning", "the value is 3, above 2"},
		{"value above max", `{` + login + jobs + `,"value":{"max":2}}`, "failure", "the value is 3, above 2"},
		{"number of rows", `{` + login + `,"query":"SELECT * FROM shop.jobs","rows":{"min":4}}`, "failure", "the number of rows is 3, below 4"},
		{"query without permission", `{"username":"open","query":"SELECT 1 FROM shop.jobs"}`, "failure", "the query: SELECT command denied"},
		{"value that is NULL", `{` + login + `,"query":"SELECT NULL","value":{"equals":1}}`, "failure", "the value is NULL"},
		{"no replica", `{` + login + `,"role":"source"}`, "success", "no replica"},
		{"no replica, want one", `{` + login + `,"role":"replica"}`, "failure", "the role is source, want replica"},
		{"missing database", `{"username":"open","database":"lost"}`, "failure", "(1044)"},
	})
	t.Run("a replica", func(t *testing.T) {
		replica := startMariaDB(t, "--server-id=2")
		host, port, _ := net.SplitHostPort(db.address)
		at := strings.Fields(db.sql(t, "SHOW MASTER STATUS"))
		replica.sql(t, "CREATE USER open@'%' IDENTIFIED BY ''; GRANT SLAVE MONITOR ON *.* TO open@'%';"+
			fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='copier', MASTER_PASSWORD='copy', ", host, port)+
			fmt.Sprintf("MASTER_LOG_FILE='%s', MASTER_LOG_POS=%s", at[0], at[1]))
		runShipped(t, "mysql", replica.address, []shippedCase{{"stopped replica", `{"username":"open","role":"replica"}`, "failure", "the replication does not run: it is stopped"}})
		replica.sql(t, "START SLAVE")
		await(t, "the replica to be in step", func() bool {
			v, _ := probeShipped(t, "mysql", replica.address, `{"username":"open","role":"replica","lag":{"fail":"1m"}}`)
			return v.Result == "success" && strings.Contains(v.Output, "a replica, 0 s behind")
		})
		replica.sql(t, "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY=3600; START SLAVE")
		db.sql(t, "CREATE DATABASE late")
		await(t, "the replica to be late", func() bool {
			v, _ := probeShipped(t, "mysql", replica.address, `{"username":"open","lag":{"fail":"2s"}}`)
			return v.Result == "failure" && strings.Contains(v.Output, "s behind, more than 2s")
		})
		replica.sql(t, "STOP SLAVE; CHANGE MASTER TO MASTER_PASSWORD='wrong'; START SLAVE")
		await(t, "the login of the replica to be refused", func() bool {
			v, _ := probeShipped(t, "mysql", replica.address, `{"username":"open","role":"replica"}`)
			return v.Result == "failure" && strings.Contains(v.Output, "the replication does not run: error connecting to master")
		})
	})
	// This must follow the cases above: the server requests a random existing method from unknown users.
	db.sql(t, "INSTALL SONAME 'auth_ed25519'; CREATE USER curved@'%' IDENTIFIED VIA ed25519 USING PASSWORD('open sesame')")
	runShipped(t, "mysql", db.address, []shippedCase{{"unsupported login method", `{"username":"curved","password":"open sesame"}`, "failure", "client_ed25519"}})
	t.Run("too many connections", func(t *testing.T) {
		for range 12 {
			conn, err := net.Dial("tcp", db.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		await(t, "the connections to be taken", func() bool {
			v, _ := probeShipped(t, "mysql", db.address, `{}`)
			return v.Result == "failure" && strings.Contains(v.Output, "Too many connections (1040)")
		})
	})
	runShipped(t, "mysql", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", "not MySQL"}})
}

func TestShippedMQTT(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	folder := dataFolder(t)
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		giveAway(t, path)
		return path
	}
	plain, secured := freeAddress(t), freeAddress(t)
	_, port, _ := net.SplitHostPort(plain)
	_, securePort, _ := net.SplitHostPort(secured)
	passwords := file("passwords", "probe:open sesame\n")
	run(t, unprivileged(t, "mosquitto_passwd", "-U", passwords))
	config := file("mosquitto.conf", fmt.Sprintf("password_file %s\nacl_file %s\nlistener %s 127.0.0.1\nlistener %s 127.0.0.1\ncertfile %s\nkeyfile %s\n",
		passwords, file("acl", "user probe\ntopic readwrite prober/#\ntopic read status/#\n"), port, securePort, cert, key))
	listening(t, plain, unprivileged(t, "mosquitto", "-c", config))
	trusted := `"tls":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	const login = `"username":"probe","password":"open sesame"`
	runShipped(t, "mqtt", plain, []shippedCase{
		{"with a password", `{` + login + `}`, "success", "connected"},
		{"with a wrong password", `{"username":"probe","password":"guess"}`, "failure", "not authorized"},
		{"without a login", `{}`, "failure", "not authorized"},
		{"round trip", `{` + login + `,"roundTrip":"prober/probe"}`, "success", "came back"},
		{"no message", `{` + login + `,"message":{"topic":"status/cellar"}}`, "failure", `no message of "status/cellar"`},
	})
	runShipped(t, "mqtt", secured, []shippedCase{
		{"over TLS", `{` + login + `,` + trusted + `,"roundTrip":"prober/probe"}`, "success", "came back"},
		{"certificate of an unknown authority", `{` + login + `,"tls":true}`, "failure", "certificate"},
	})
	run(t, unprivileged(t, "mosquitto_pub", "-h", "127.0.0.1", "-p", port, "-u", "probe", "-P", "open sesame", "-t", "prober/status", "-m", "online", "-r"))
	runShipped(t, "mqtt", plain, []shippedCase{
		{"retained message", `{` + login + `,"message":{"topic":"prober/+","contains":"online"}}`, "success", `has "online"`},
		{"retained message with another text", `{` + login + `,"message":{"topic":"prober/status","contains":"offline"}}`, "failure", `the last one was "online"`},
	})
	runShipped(t, "mqtt", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", "not MQTT"}})
}

// ldif has the configuration and the entries of a directory.
const ldif = `dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: cn=ann,dc=example,dc=com
objectClass: person
cn: ann
sn: Ann
`

func TestShippedLDAP(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	folder := dataFolder(t)
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		giveAway(t, path)
		return path
	}
	config := file("slapd.conf", fmt.Sprintf(`include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile %[1]s/pid
TLSCertificateFile %[2]s
TLSCertificateKeyFile %[3]s
database mdb
maxsize 10485760
suffix "dc=example,dc=com"
rootdn "cn=probe,dc=example,dc=com"
rootpw "open sesame"
directory %[1]s
access to dn.base="cn=ann,dc=example,dc=com" by users read by * none
access to * by * read
`, folder, cert, key))
	run(t, unprivileged(t, "slapadd", "-f", config, "-l", file("entries.ldif", ldif)))
	plain, secured := freeAddress(t), freeAddress(t)
	listening(t, plain, unprivileged(t, "slapd", "-d", "0", "-f", config, "-h", "ldap://"+plain+" ldaps://"+secured))
	tlsConfig := `"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	const login = `"bindDN":"cn=probe,dc=example,dc=com","password":"open sesame"`
	const ann = `"baseDN":"dc=example,dc=com","scope":"subtree","filter":"(&(objectClass=person)(cn=ann))"`
	runShipped(t, "ldap", plain, []shippedCase{
		{"root DSE", `{}`, "success", "the search found 1 entry"},
		{"with a password", `{` + login + `,` + ann + `}`, "success", "the search found 1 entry"},
		{"with a wrong password", `{"bindDN":"cn=probe,dc=example,dc=com","password":"guess"}`, "failure", "invalid credentials (49)"},
		{"entry that others may not see", `{` + ann + `}`, "failure", "the search found no entry"},
		{"base that does not exist", `{"baseDN":"dc=lost"}`, "failure", "(32)"},
		{"number of entries", `{` + login + `,"baseDN":"dc=example,dc=com","scope":"subtree","entries":{"max":1}}`, "failure", "the number of entries is 2, above 1"},
		{"StartTLS", `{` + login + `,"startTLS":true,` + tlsConfig + `}`, "success", "the search found 1 entry"},
		{"StartTLS with a certificate of an unknown authority", `{"startTLS":true}`, "failure", "certificate"},
	})
	runShipped(t, "ldap", secured, []shippedCase{
		{"ldaps", `{` + login + `,"tls":true,` + tlsConfig + `}`, "success", "the search found 1 entry"},
		{"certificate that ends soon", `{"tls":true,"certificateAge":{"warn":"48h"},` + tlsConfig + `}`, "warning", "less than 48h"},
	})
	runShipped(t, "ldap", saying(t, "220 mail.example.com\r\n"), []shippedCase{{"another protocol", `{}`, "failure", "not LDAP"}})
}

func TestShippedSMTP(t *testing.T) {
	t.Parallel()
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	listening(t, address, exec.Command("/usr/bin/python3", "testdata/smarthost.py", port, cert, key, t.TempDir()))
	tlsConfig := `"startTLS":true,"tlsConfig":{"serverName":"mail.example.com","ca":` + jsonText(t, ca) + `}`
	runShipped(t, "smtp", address, []shippedCase{
		{"greeting", `{"extensions":["STARTTLS","SIZE"]}`, "success", "220 "},
		{"missing extension", `{"extensions":["DSN"]}`, "failure", "the server does not offer DSN"},
		{"login", `{"username":"prober","password":"s3cret",` + tlsConfig + `}`, "success", "220 "},
		{"login with a wrong password", `{"username":"prober","password":"guess",` + tlsConfig + `}`, "failure", "the login: the server says 535"},
		{"certificate of an unknown authority", `{"startTLS":true}`, "failure", "certificate"},
	})
	runShipped(t, "smtp", saying(t, "421 too many connections\r\n"), []shippedCase{{"busy server", `{}`, "failure", "the greeting: the server says 421 too many connections"}})
	runShipped(t, "smtp", saying(t, "SSH-2.0-OpenSSH_9\r\n"), []shippedCase{{"another protocol", `{}`, "failure", "not SMTP"}})
}
