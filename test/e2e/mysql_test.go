//go:build e2e

package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// users creates users with each way to log in.
const users = `
CREATE USER probe@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('open sesame');
GRANT SLAVE MONITOR ON *.* TO probe@'%';
CREATE USER open@'%' IDENTIFIED BY '';
CREATE USER secured@'%' IDENTIFIED BY 'open sesame' REQUIRE SSL;
CREATE USER copier@'%' IDENTIFIED BY 'copy';
GRANT REPLICATION SLAVE ON *.* TO copier@'%';
`

// mariaDB is a running server.
type mariaDB struct {
	address, folder string
	stop            func()
}

// startMariaDB starts a server with a new data folder.
func startMariaDB(t *testing.T, args ...string) mariaDB {
	t.Helper()
	folder := dataFolder(t)
	data := filepath.Join(folder, "data")
	install := unprivileged(t, "mariadb-install-db", "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	install.Env = append(os.Environ(), "TMPDIR="+folder) // other users may have no access to ours
	run(t, install)
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	cmd := unprivileged(t, "mariadbd", append([]string{"--no-defaults", "--datadir=" + data, "--socket=" + filepath.Join(folder, "socket"),
		"--pid-file=" + filepath.Join(folder, "pid"), "--bind-address=" + host, "--port=" + port, "--skip-name-resolve",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=16M"}, args...)...)
	cmd.Env = install.Env
	listening(t, address, cmd)
	return mariaDB{address, folder, func() { cmd.Process.Kill(); cmd.Wait() }}
}

func (m mariaDB) sql(t *testing.T, statements string) string {
	t.Helper()
	return run(t, unprivileged(t, "mariadb", "--no-defaults", "-S", filepath.Join(m.folder, "socket"), "-u", "root", "-B", "-N", "-e", statements))
}

// pemFiles writes a certificate and its key, which only unprivileged commands can read.
func pemFiles(t *testing.T, c tls.Certificate) (cert, key, text string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
	folder := dataFolder(t)
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, data := range map[string][]byte{cert: certPEM, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		giveAway(t, path)
	}
	return cert, key, string(certPEM)
}

func jsonText(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMySQL probes with a plugin in Rust.
func TestMySQL(t *testing.T) {
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	db := startMariaDB(t, "--ssl-cert="+cert, "--ssl-key="+key, "--server-id=1", "--log-bin=log", "--max-connections=10", "--connect-timeout=600")
	db.sql(t, users)
	trusted := `"tls":true,"serverName":"mail.example.com","ca":` + jsonText(t, ca)
	for _, c := range []struct{ name, config, result, text string }{
		{"without a login", `{}`, "success", "MariaDB 10.11."},
		{"with a password", `{"user":"probe","password":"open sesame"}`, "success", " answers"},
		{"with a database", `{"user":"probe","password":"open sesame","database":"information_schema"}`, "success", " answers"},
		{"without a password", `{"user":"open"}`, "success", " answers"},
		{"with a wrong password", `{"user":"probe","password":"guess"}`, "failure", "Access denied for user 'probe'@'127.0.0.1' (using password: YES) (1045)"},
		{"without the password", `{"user":"probe"}`, "failure", "(using password: NO) (1045)"},
		{"missing user", `{"user":"lost"}`, "failure", "(1045)"},
		{"missing database", `{"user":"open","database":"lost"}`, "failure", "(1044)"},
		{"over TLS", `{"user":"secured","password":"open sesame",` + trusted + `}`, "success", " answers"},
		{"over TLS with a wrong password", `{"user":"secured","password":"guess",` + trusted + `}`, "failure", "(1045)"},
		{"without the TLS that a user needs", `{"user":"secured","password":"open sesame"}`, "failure", "(1045)"},
		{"certificate of an unknown authority", `{"tls":true,"serverName":"mail.example.com"}`, "failure", "certificate signed by unknown authority"},
		{"a certificate of another", `{"tls":true,"ca":` + jsonText(t, ca) + `}`, "failure", "127.0.0.1"},
		{"unverified certificate", `{"tls":true,"verify":"none"}`, "success", "takes connections"},
		{"no replica", `{"user":"probe","password":"open sesame","maxLag":"1s"}`, "success", "no replica, answers"},
		{"replication status without permission", `{"user":"open","maxLag":"1s"}`, "failure", "SLAVE MONITOR"},
		{"few connections", `{"user":"open","maxConnections":90}`, "success", " answers"},
		{"above the limit of connections", `{"user":"open","maxConnections":0}`, "warning", "of the connections are in use, above 0.0%"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "mysql", db.address, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") || strings.Contains(v.Output, "sesame") {
				t.Errorf("the output tells the password: %q", v.Output)
			}
		})
	}
	t.Run("server is not MySQL", func(t *testing.T) {
		v, code := probePlugin(t, "mysql", saying(t, "220 mail.example.com\r\n"), `{}`)
		want(t, v, code, "failure", `no MySQL: it says "220 "`)
	})
	t.Run("unsupported login method", func(t *testing.T) {
		// This must follow the tests above: the server requests a random existing method from unknown users.
		db.sql(t, "INSTALL SONAME 'auth_ed25519'; CREATE USER curved@'%' IDENTIFIED VIA ed25519 USING PASSWORD('open sesame')")
		v, code := probePlugin(t, "mysql", db.address, `{"user":"curved","password":"open sesame"}`)
		want(t, v, code, "warning", "asks for a login by client_ed25519")
	})
	t.Run("a replica", func(t *testing.T) { testReplica(t, db) })
	t.Run("too many connections", func(t *testing.T) {
		for range 12 {
			conn, err := net.Dial("tcp", db.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
		}
		await(t, "the connections to be taken", func() bool {
			v, _ := probePlugin(t, "mysql", db.address, `{}`)
			return v.Result == "failure" && strings.Contains(v.Output, "Too many connections (1040)")
		})
	})
	t.Run("stopped server", func(t *testing.T) {
		db.stop()
		v, code := probePlugin(t, "mysql", db.address, `{"user":"probe","password":"open sesame"}`)
		want(t, v, code, "failure", "refused")
	})
}

func testReplica(t *testing.T, primary mariaDB) {
	const config = `{"user":"open","maxLag":"2s"}`
	replica := startMariaDB(t, "--server-id=2")
	host, port, _ := net.SplitHostPort(primary.address)
	at := strings.Fields(primary.sql(t, "SHOW MASTER STATUS"))
	if len(at) < 2 {
		t.Fatalf("SHOW MASTER STATUS: %q", at)
	}
	replica.sql(t, "CREATE USER open@'%' IDENTIFIED BY ''; GRANT SLAVE MONITOR ON *.* TO open@'%';"+
		fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='%s', MASTER_PORT=%s, MASTER_USER='copier', MASTER_PASSWORD='copy', ", host, port)+
		fmt.Sprintf("MASTER_LOG_FILE='%s', MASTER_LOG_POS=%s", at[0], at[1]))

	t.Run("stopped replica", func(t *testing.T) {
		v, code := probePlugin(t, "mysql", replica.address, config)
		want(t, v, code, "failure", "the replication does not run: it is stopped")
	})
	t.Run("in step", func(t *testing.T) {
		replica.sql(t, "START SLAVE")
		await(t, "the replica to be in step", func() bool {
			v, _ := probePlugin(t, "mysql", replica.address, config)
			return v.Result == "success" && strings.Contains(v.Output, "a replica, answers; 0 s behind")
		})
	})
	t.Run("lagging replica", func(t *testing.T) {
		replica.sql(t, "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY=3600; START SLAVE")
		primary.sql(t, "CREATE DATABASE late")
		await(t, "the replica to be late", func() bool {
			v, _ := probePlugin(t, "mysql", replica.address, config)
			return v.Result == "warning" && strings.Contains(v.Output, "s behind, above 2s")
		})
	})
	t.Run("login is refused", func(t *testing.T) {
		replica.sql(t, "STOP SLAVE; CHANGE MASTER TO MASTER_PASSWORD='wrong'; START SLAVE")
		await(t, "the replication to fail", func() bool {
			v, _ := probePlugin(t, "mysql", replica.address, config)
			return v.Result == "failure" && strings.Contains(v.Output, "the replication does not run: error connecting to master")
		})
	})
}
