//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestShippedHost checks the machine of the test, by its own /proc.
func TestShippedHost(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, folder, "pid", fmt.Sprintln(os.Getpid()))
	write(t, folder, "old", "0123456789")
	if err := os.Chtimes(filepath.Join(folder, "old"), time.Time{}, time.Now().Add(-48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(os.Args[0])
	all := []string{
		"--grant", "file:///proc", "--grant", "file:///proc/loadavg", "--grant", "file:///proc/meminfo", "--grant", "file:///proc/stat",
		"--grant", "file:///proc/*/stat", "--grant", "file:///proc/*/cmdline", "--grant", "file:///", "--grant", "file://" + folder + "/**",
	}
	for _, c := range []struct{ name, config, result, text string }{
		{"load and memory", `{"load":{"perCPU":true,"one":{"max":1000}},"memory":{"used":{"max":100}}}`, "success", "load "},
		{"load above max", `{"load":{"fifteen":{"min":1000000}}}`, "failure", "load of 15 min is "},
		{"disks", fmt.Sprintf(`{"disk":[{"path":"/","readOnly":true},{"path":%q,"used":{"max":100}}]}`, folder), "success", folder + " "},
		{"a full disk", fmt.Sprintf(`{"disk":[{"path":%q,"available":{"min":"1000000Ti"}}]}`, folder), "failure", "available space is "},
		{"a process by name", fmt.Sprintf(`{"process":[{"name":%q}]}`, name), "success", "of " + name},
		{"a process by its command line", fmt.Sprintf(`{"process":[{"cmdline":%q}]}`, os.Args[0]), "success", "of " + os.Args[0]},
		{"a process by its PID file", fmt.Sprintf(`{"process":[{"pidfile":%q}]}`, filepath.Join(folder, "pid")), "success", "1 of "},
		{"a process that does not run", `{"process":[{"name":"no-such-program"}]}`, "failure", "no process no-such-program"},
		{"an old file", fmt.Sprintf(`{"file":[{"path":%q,"age":{"fail":"24h"},"size":{"max":9}}]}`, filepath.Join(folder, "old")), "failure", "was changed 2 days ago, more than 24h; size of "},
		{"a file that does not exist", fmt.Sprintf(`{"file":[{"path":%q}]}`, filepath.Join(folder, "none")), "failure", "does not exist"},
		{"a link to elsewhere", fmt.Sprintf(`{"file":[{"path":%q}]}`, filepath.Join(folder, "out")), "failure", `grants: ["file:///etc/passwd"]`},
		{"a path that is not granted", `{"file":[{"path":"/etc/passwd"}]}`, "failure", `files are not granted: write in plugins of prober.yaml: {name: host, grants: ["file:///etc/passwd"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, code := probePluginIn(t, t.TempDir(), "host", "127.0.0.1", c.config, all...)
			want(t, v, code, c.result, c.text)
		})
	}
	v, code := probePluginIn(t, t.TempDir(), "host", "127.0.0.1", `{"load":{}}`)
	want(t, v, code, "failure", `grants: ["file:///proc/loadavg"]`)
}
