package secrets_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent/secrets"
	"github.com/daeace23/prober/config"
)

// folders creates a folder with files and links, and returns its path without links.
func folders(t *testing.T, files []string, links map[string]string) (dir string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPolicyResolve(t *testing.T) {
	dir := folders(t, []string{
		"allowed/plain", "allowed/..data/password", "other/private", "other/listed", "homes/a/token", "homes/b/private",
	}, map[string]string{
		"allowed/password": "..data/password", "allowed/out": "../other/private", "allowed/listed": "../other/listed",
		"link": "allowed", "homes/b/token": "../a/token", "homes/c": "b", "homes/b/mine": "private", "homes/a/mine": "token",
	})
	var file config.Agent
	for _, pattern := range []string{"/allowed/*", "/link/*", "/other/listed", "/homes/*/token", "/homes/*/mine"} {
		file.Secrets.Allow = append(file.Secrets.Allow, "file:"+dir+pattern)
	}
	file.Secrets.Allow = append(file.Secrets.Allow, "env:PG_*", "env:TOKEN")
	policy := secrets.PolicyOf("/etc/prober.yaml", &file)
	lookup := func(name string) (string, bool) { return "secret", name != "PG_UNSET" }
	const allowed = ""
	for _, c := range []struct{ name, source, secret, want string }{
		{"file", "file", dir + "/allowed/plain", allowed},
		{"link as of a Kubernetes secret", "file", dir + "/allowed/password", allowed},
		{"file in a folder that is a link", "file", dir + "/link/plain", allowed},
		{"link to a file that is listed", "file", dir + "/allowed/listed", allowed},
		{"file in a folder that matches", "file", dir + "/homes/a/token", allowed},
		{"link to a file that another folder allows", "file", dir + "/homes/b/token", allowed},
		{"link within a folder that matches", "file", dir + "/homes/a/mine", allowed},
		{"link in place of a folder that matches", "file", dir + "/homes/c/mine",
			`not allowed: it leads to ` + dir + `/homes/b/private: add "file:` + dir + `/homes/b/private" to secrets.allow in /etc/prober.yaml`},
		{"file that is not listed", "file", dir + "/other/private",
			`not allowed: add "file:` + dir + `/other/private" to secrets.allow in /etc/prober.yaml`},
		{"file below a folder that matches", "file", dir + "/allowed/..data/password",
			`not allowed: add "file:` + dir + `/allowed/..data/password" to secrets.allow in /etc/prober.yaml`},
		{"path with ..", "file", dir + "/allowed/../other/private", "not allowed: the path must not have .. in it"},
		{"link to a file that is not listed", "file", dir + "/allowed/out",
			`not allowed: it leads to ` + dir + `/other/private: add "file:` + dir + `/other/private" to secrets.allow in /etc/prober.yaml`},
		{"missing file", "file", dir + "/allowed/missing", "no such file or directory"},
		{"variable that matches", "env", "PG_PASSWORD", allowed},
		{"variable that is listed", "env", "TOKEN", allowed},
		{"variable that begins like one that is listed", "env", "TOKENS", `not allowed: add "env:TOKENS" to secrets.allow in /etc/prober.yaml`},
		{"variable that is not listed", "env", "PATH", `not allowed: add "env:PATH" to secrets.allow in /etc/prober.yaml`},
		{"variable that is not set", "env", "PG_UNSET", "the agent has no such variable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := policy.Resolve(lookup, new(secrets.Files), c.source, c.secret)
			if c.want == allowed && (err != nil || got != "secret") || c.want != allowed && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A relative path in secrets.allow and in references is relative to the folder of prober.yaml, and not to the
// working directory.
func TestPolicyRelativePath(t *testing.T) {
	dir := folders(t, []string{
		"etc/db.pw", "etc/a[b]/db.pw", "etc/ab/db.pw", "etc/sub/token", "work/db.pw", "work/sub/token", "real/inner/keep", "real/db.pw", "secret.pw",
	}, map[string]string{"etc/out.pw": "../work/db.pw", "etc/in.pw": "db.pw", "work/link": "../real/inner", "etc/moved": "../work/sub"})
	t.Chdir(filepath.Join(dir, "work"))
	for _, c := range []struct{ name, config, allow, secret, path, want string }{
		{"both relative", dir + "/etc/prober.yaml", "*.pw", "db.pw", "etc/db.pw", ""},
		{"relative prober.yaml", "../etc/prober.yaml", "*.pw", "db.pw", "etc/db.pw", ""},
		{"relative prober.yaml beside", "prober.yaml", "*.pw", "db.pw", "work/db.pw", ""},
		{"relative prober.yaml with a dot", "./prober.yaml", "sub/*", "./sub/token", "work/sub/token", ""},
		{"absolute pattern", dir + "/etc/prober.yaml", dir + "/etc/*.pw", "db.pw", "etc/db.pw", ""},
		{"absolute reference", dir + "/etc/prober.yaml", "*.pw", dir + "/etc/db.pw", "etc/db.pw", ""},
		{"file of the working directory", dir + "/etc/prober.yaml", "*.pw", dir + "/work/db.pw", "", "not allowed: add"},
		{"link to a file beside it", dir + "/etc/prober.yaml", "*.pw", "in.pw", "etc/db.pw", ""},
		{"link to a file elsewhere", dir + "/etc/prober.yaml", "*.pw", "out.pw", "", "it leads to " + dir + "/work/db.pw"},
		{"link in place of a folder", dir + "/etc/prober.yaml", "*/token", "moved/token", "", "it leads to " + dir + "/work/sub/token"},
		{"reference with ..", dir + "/etc/prober.yaml", "*.pw", "../work/db.pw", "", "must not have .. in it"},
		{"prober.yaml above a link", "link/../prober.yaml", "*.pw", "db.pw", "real/db.pw", ""},
		{"folder of prober.yaml like a pattern", dir + "/etc/a[b]/prober.yaml", "*.pw", "db.pw", "etc/a[b]/db.pw", ""},
		{"file that the folder matches as a pattern", dir + "/etc/a[b]/prober.yaml", "*.pw", dir + "/etc/ab/db.pw", "", "not allowed: add"},
	} {
		t.Run(c.name, func(t *testing.T) {
			secret := []byte("secret of " + c.name)
			if c.path != "" {
				if err := os.WriteFile(filepath.Join(dir, c.path), secret, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var file config.Agent
			file.Secrets.Allow = []string{"file:" + c.allow}
			policy, files := secrets.PolicyOf(c.config, &file), new(secrets.Files)
			got, err := policy.Resolve(nil, files, "file", c.secret)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
				}
				return
			}
			if err != nil || got != string(secret) {
				t.Errorf("got %q, %v", got, err)
			}
			if err := policy.Allows("file", c.secret); err != nil {
				t.Errorf("Allows: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, c.path), []byte("a longer secret of "+c.name), 0o600); err != nil {
				t.Fatal(err)
			}
			if changed := files.Begin(); len(changed) != 1 || changed[0] != c.secret {
				t.Errorf("changed: %q", changed)
			}
		})
	}
}
