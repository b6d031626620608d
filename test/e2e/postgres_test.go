//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daeace23/prober/plugin"
)

const postgresBin = "/usr/lib/postgresql/15/bin"

// logins allows each way to log in: without a password, with a clear-text password, with SCRAM,
// with MD5, and over TLS only.
const logins = `host all postgres 127.0.0.1/32 trust
host replication postgres 127.0.0.1/32 trust
host all clear 127.0.0.1/32 password
host all scram 127.0.0.1/32 scram-sha-256
host all md5 127.0.0.1/32 md5
hostssl all secured 127.0.0.1/32 scram-sha-256
`

// unprivileged returns a command that does not run as root, because database servers refuse root.
func unprivileged(t *testing.T, path string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	if os.Getuid() == 0 {
		uid, gid := nobody(t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	return cmd
}

func pg(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	return unprivileged(t, filepath.Join(postgresBin, name), args...)
}

func nobody(t *testing.T) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid
}

// dataFolder returns a folder that belongs to the user of unprivileged commands. Its path is short
// enough for sockets.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(plugin.SocketTemp(), "prober-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	giveAway(t, dir)
	return dir
}

// giveAway makes the user of unprivileged commands the owner of a file.
func giveAway(t *testing.T, path string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	uid, gid := nobody(t)
	if err := os.Chown(path, uid, gid); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// serve starts PostgreSQL on a data folder, and returns its address and a function that stops it. A killed
// server would never release its shared memory.
func serve(t *testing.T, data string, settings ...string) (address string, stop func()) {
	t.Helper()
	address = freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	cmd := pg(t, "postgres", "-D", data, "-h", host, "-p", port, "-k", "", "-c", "fsync=off")
	for _, s := range settings {
		cmd.Args = append(cmd.Args, "-c", s)
	}
	stop = func() { cmd.Process.Signal(syscall.SIGQUIT); cmd.Wait() }
	listening(t, address, cmd)
	t.Cleanup(stop) // before listening kills it
	await(t, "PostgreSQL to be ready", func() bool {
		return pg(t, "pg_isready", "-q", "-h", host, "-p", port).Run() == nil
	})
	return address, stop
}

func sql(t *testing.T, address, statement string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	return run(t, pg(t, "psql", "-X", "-A", "-t", "-h", host, "-p", port, "-U", "postgres", "-c", statement))
}

func primary(t *testing.T) string {
	t.Helper()
	address, _ := startPrimary(t)
	return address
}

// startPrimary starts a server with roles. It also returns a function that stops it.
func startPrimary(t *testing.T, settings ...string) (address string, stop func()) {
	t.Helper()
	data := filepath.Join(dataFolder(t), "data")
	run(t, pg(t, "initdb", "-D", data, "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"))
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(logins), 0o644); err != nil {
		t.Fatal(err)
	}
	address, stop = serve(t, data, settings...)
	sql(t, address, `CREATE ROLE clear LOGIN PASSWORD 'open sesame'; CREATE ROLE scram LOGIN PASSWORD 'open sesame';
		CREATE ROLE secured LOGIN PASSWORD 'open sesame'; SET password_encryption = 'md5'; CREATE ROLE md5 LOGIN PASSWORD 'open sesame'`)
	return address, stop
}

// saying starts a server that sends one message to each client, and closes the connection.
func saying(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, text)
			conn.(*net.TCPConn).CloseWrite()
			go func() { io.Copy(io.Discard, conn); conn.Close() }()
		}
	}()
	return l.Addr().String()
}

// TestPostgres probes with a plugin in Rust.
func TestPostgres(t *testing.T) {
	cert, key, ca := pemFiles(t, selfSigned(t, 24*time.Hour))
	address, stop := startPrimary(t, "ssl=on", "ssl_cert_file="+cert, "ssl_key_file="+key)
	plain := primary(t)
	trusted := `"tls":true,"serverName":"mail.example.com","ca":` + jsonText(t, ca)
	for _, c := range []struct{ name, config, result, text string }{
		{"trusted", `{}`, "success", "PostgreSQL 15"},
		{"with a password in clear text", `{"user":"clear","password":"open sesame"}`, "success", "PostgreSQL 15"},
		{"with a wrong password", `{"user":"clear","password":"guess"}`, "failure", "(28P01)"},
		{"without the password", `{"user":"clear"}`, "success", "asks for a login by password"},
		{"by SCRAM", `{"user":"scram","password":"open sesame"}`, "success", "PostgreSQL 15"},
		{"by SCRAM with a wrong password", `{"user":"scram","password":"guess"}`, "failure", "(28P01)"},
		{"by SCRAM without the password", `{"user":"scram"}`, "success", "asks for a login by SCRAM-SHA-256"},
		{"unsupported login method", `{"user":"md5","password":"open sesame"}`, "warning", "asks for a login by MD5"},
		{"over TLS", `{"user":"secured","password":"open sesame",` + trusted + `}`, "success", "PostgreSQL 15"},
		{"over TLS with a wrong password", `{"user":"secured","password":"guess",` + trusted + `}`, "failure", "(28P01)"},
		{"without the TLS that a role needs", `{"user":"secured","password":"open sesame"}`, "failure", "(28000)"},
		{"certificate of an unknown authority", `{"tls":true,"serverName":"mail.example.com"}`, "failure", "certificate signed by unknown authority"},
		{"unverified certificate", `{"tls":true,"verify":"none"}`, "success", "PostgreSQL 15"},
		{"missing database", `{"database":"lost"}`, "failure", `database "lost" does not exist (3D000)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "postgres", address, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") || strings.Contains(v.Output, "sesame") {
				t.Errorf("the output tells the password: %q", v.Output)
			}
		})
	}
	t.Run("TLS that is not there", func(t *testing.T) {
		v, code := probePlugin(t, "postgres", plain, `{"tls":true}`)
		want(t, v, code, "failure", "the server does not offer TLS")
	})
	t.Run("server is not PostgreSQL", func(t *testing.T) {
		v, code := probePlugin(t, "postgres", saying(t, "220 mail.example.com\r\n"), `{}`)
		want(t, v, code, "failure", "no PostgreSQL: it says")
	})
	t.Run("connection refused", func(t *testing.T) {
		v, code := probePlugin(t, "postgres", freeAddress(t), `{}`)
		want(t, v, code, "failure", "refused")
	})
	t.Run("a standby", func(t *testing.T) { testStandby(t, address) })
	t.Run("stopped server", func(t *testing.T) {
		stop()
		v, code := probePlugin(t, "postgres", address, `{}`)
		want(t, v, code, "failure", "refused")
	})
}

func testStandby(t *testing.T, primary string) {
	data := filepath.Join(dataFolder(t), "data")
	host, port, _ := net.SplitHostPort(primary)
	run(t, pg(t, "pg_basebackup", "-R", "-c", "fast", "-N", "-h", host, "-p", port, "-U", "postgres", "-D", data))
	standby, _ := serve(t, data)
	sql(t, primary, "CREATE TABLE t (i int)")
	await(t, "the standby to be in step", func() bool {
		v, _ := probePlugin(t, "postgres", standby, `{}`)
		return v.Result == "success" && strings.Contains(v.Output, "a standby, answers; 0.0 s behind") &&
			strings.TrimSpace(sql(t, standby, "SELECT count(*) FROM pg_class WHERE relname = 't'")) == "1"
	})

	sql(t, standby, "SELECT pg_wal_replay_pause()")
	for i := range 3 {
		sql(t, primary, fmt.Sprintf("INSERT INTO t VALUES (%d)", i))
	}
	await(t, "the standby to lag", func() bool {
		v, _ := probePlugin(t, "postgres", standby, `{"maxLag":"10ms"}`)
		return v.Result == "warning" && strings.Contains(v.Output, "s behind, above 10ms") && len(v.Metrics) == 2
	})
	v, code := probePlugin(t, "postgres", standby, `{"maxLag":"10m"}`)
	want(t, v, code, "success", "a standby")
}
