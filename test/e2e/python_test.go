//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestPluginInPython runs a plugin that is a process and not in Go.
func TestPluginInPython(t *testing.T) {
	plugins := t.TempDir() // where nobody else can write, whatever the umask of who checked this out
	for name, mode := range map[string]os.FileMode{"prober-plugin-sqlite": 0o700, "prober-plugin-sqlite.yaml": 0o600} {
		data, err := os.ReadFile(filepath.Join("../../examples/python", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(plugins, name), data, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	db := filepath.Join(t.TempDir(), "jobs.db")
	fill := exec.Command("/usr/bin/python3", "-c", `import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("CREATE TABLE jobs (failed)")
db.executemany("INSERT INTO jobs VALUES (?)", [(1,), (0,), (1,)])
db.commit()`, db)
	if out, err := fill.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const failed, endless = `"SELECT count(*) FROM jobs WHERE failed"`,
		`"WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c) SELECT count(*) FROM c"`
	for _, c := range []struct{ name, file, query, more, result, text string }{
		{"below", db, failed, `,"warnAbove":2,"failAbove":10`, "success", "the query answers 2"},
		{"warning", db, failed, `,"warnAbove":1`, "warning", "the query answers 2"},
		{"failure", db, failed, `,"failAbove":1`, "failure", "the query answers 2"},
		{"no database", "/no/such.db", failed, ``, "failure", "unable to open database file"},
		{"no number", db, `"SELECT 'x'"`, ``, "unknown", "no number"},
		{"endless", db, endless, ``, "failure", "timed out after 5s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePluginIn(t, plugins, "sqlite", "127.0.0.1:1", `{"file":"`+c.file+`","query":`+c.query+c.more+`}`)
			want(t, v, code, c.result, c.text)
			if c.text == "the query answers 2" && (len(v.Metrics) != 1 || v.Metrics[0].Value != 2) {
				t.Errorf("metrics: %v", v.Metrics)
			}
		})
	}
	t.Run("a bad config", func(t *testing.T) {
		prober(t, plugins, 64, "probe", "plugin", "sqlite", "--plugins", ".", "--config", `{"file":"/x","query":"x","warnAbove":2,"failAbove":1}`)
	})
}
