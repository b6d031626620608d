//go:build e2e

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"testing"
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
