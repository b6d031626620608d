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
	"syscall"
	"testing"

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
