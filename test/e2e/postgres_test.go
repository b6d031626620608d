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
)

const postgresBin = "/usr/lib/postgresql/15/bin"

// logins is who may log in how: without a password, with one in clear text, or with SCRAM.
const logins = `host all postgres 127.0.0.1/32 trust
host replication postgres 127.0.0.1/32 trust
host all clear 127.0.0.1/32 password
host all scram 127.0.0.1/32 scram-sha-256
`

// unprivileged returns a command that does not run as root, as database servers demand.
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

// dataFolder is one that belongs to whom unprivileged commands run as.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "prober-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		uid, gid := nobody(t)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

// serve starts PostgreSQL on a data folder and returns its address.
func serve(t *testing.T, data string) string {
	t.Helper()
	address := freeAddress(t)
	host, port, _ := net.SplitHostPort(address)
	cmd := pg(t, "postgres", "-D", data, "-h", host, "-p", port, "-k", "", "-c", "fsync=off")
	listening(t, address, cmd)
	await(t, "PostgreSQL to be ready", func() bool {
		return pg(t, "pg_isready", "-q", "-h", host, "-p", port).Run() == nil
	})
	return address
}

func sql(t *testing.T, address, statement string) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	return run(t, pg(t, "psql", "-X", "-A", "-t", "-h", host, "-p", port, "-U", "postgres", "-c", statement))
}

func primary(t *testing.T) string {
	t.Helper()
	data := filepath.Join(dataFolder(t), "data")
	run(t, pg(t, "initdb", "-D", data, "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8"))
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(logins), 0o644); err != nil {
		t.Fatal(err)
	}
	address := serve(t, data)
	sql(t, address, `CREATE ROLE clear LOGIN PASSWORD 'open sesame'; CREATE ROLE scram LOGIN PASSWORD 'open sesame'`)
	return address
}

// saying is a server that says one thing to everybody, and hangs up.
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
	address := primary(t)
	for _, c := range []struct{ name, config, result, text string }{
		{"trusted", `{}`, "success", "PostgreSQL 15"},
		{"with a password in clear text", `{"user":"clear","password":"open sesame"}`, "success", "PostgreSQL 15"},
		{"with a wrong password", `{"user":"clear","password":"guess"}`, "failure", "(28P01)"},
		{"without the password", `{"user":"clear"}`, "success", "asks for a login by password"},
		{"with a login that the plugin cannot do", `{"user":"scram","password":"open sesame"}`, "success", "asks for a login by SASL"},
		{"of a database that is not there", `{"database":"lost"}`, "failure", `database "lost" does not exist (3D000)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePlugin(t, "postgres", address, c.config)
			want(t, v, code, c.result, c.text)
			if strings.Contains(v.Output, "guess") {
				t.Errorf("the output tells the password: %q", v.Output)
			}
		})
	}
	t.Run("a server that is no PostgreSQL", func(t *testing.T) {
		v, code := probePlugin(t, "postgres", saying(t, "220 mail.example.com\r\n"), `{}`)
		want(t, v, code, "failure", "no PostgreSQL: it says")
	})
	t.Run("nobody listens", func(t *testing.T) {
		v, code := probePlugin(t, "postgres", freeAddress(t), `{}`)
		want(t, v, code, "failure", "refused")
	})
	t.Run("a standby", func(t *testing.T) { testStandby(t, address) })
}

func testStandby(t *testing.T, primary string) {
	data := filepath.Join(dataFolder(t), "data")
	host, port, _ := net.SplitHostPort(primary)
	run(t, pg(t, "pg_basebackup", "-R", "-c", "fast", "-N", "-h", host, "-p", port, "-U", "postgres", "-D", data))
	standby := serve(t, data)
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
