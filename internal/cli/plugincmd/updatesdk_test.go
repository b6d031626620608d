package plugincmd_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daeace23/prober/internal/cli/clitest"
)

func TestUpdateSDK(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	run(t, "made ", "new", dir, "--lang", "rust")
	path := func(name string) string { return filepath.Join(dir, "prober-sdk", filepath.FromSlash(name)) }
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(path(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listed := func(name, text string) string { return fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name) }
	kv, sums := read("src/kv.rs"), read("SHA256SUMS")
	run(t, "the SDK in "+dir+" is that of prober ", "update-sdk", dir)

	// The SDK of an older prober: a file differs, one is missing, one is not there any more.
	older := strings.Replace(sums, listed("src/kv.rs", kv), listed("src/kv.rs", "// older"), 1)
	older = strings.Replace(older, listed("src/dns.rs", read("src/dns.rs")), listed("src/gone.rs", "// gone"), 1)
	write("src/kv.rs", "// older")
	write("src/gone.rs", "// gone")
	write("src/mine.rs", "// mine")
	write("SHA256SUMS", older)
	if err := os.Remove(path("src/dns.rs")); err != nil {
		t.Fatal(err)
	}
	const changes = "updated prober-sdk/SHA256SUMS\nadded prober-sdk/src/dns.rs\nremoved prober-sdk/src/gone.rs\nupdated prober-sdk/src/kv.rs\n"
	run(t, changes, "update-sdk", "--dry-run", dir)
	if read("src/kv.rs") != "// older" {
		t.Error("--dry-run has changed a file")
	}

	write("src/kv.rs", "// mine")
	write("src/gone.rs", "// mine")
	code, stdout, stderr := clitest.Run(nil, "plugin", "update-sdk", dir)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "modified files of the SDK: prober-sdk/src/gone.rs, prober-sdk/src/kv.rs\nprober: hint: --force replaces them\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	run(t, changes, "update-sdk", "--force", dir)
	if read("src/kv.rs") != kv || read("SHA256SUMS") != sums || read("src/mine.rs") != "// mine" {
		t.Error("the SDK is not that of this prober, or a file of the author was touched")
	}
	if _, err := os.Stat(path("src/gone.rs")); err == nil {
		t.Error("src/gone.rs is left")
	}
}

func TestUpdateSDKRefusesWhatItDoesNotKnow(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "demo")
	run(t, "made ", "new", dir, "--lang", "c")
	run(t, "made ", "new", dir+"-wat", "--lang", "wat")
	for _, c := range []struct{ sums, header, dir, want string }{
		{"", "", dir, "modified files of the SDK: prober-sdk/prober.h\nprober: hint: there is no SHA256SUMS"},
		{strings.Repeat("0", 64) + "  ../main.c\n", "", dir, "SHA256SUMS:1: want a digest, two spaces, and a path"},
		{"# no digest\nxyz  prober.h\n", "", dir, "SHA256SUMS:2: want a digest"},
		{"", "", dir + "-wat", "demo-wat has no folder prober-sdk\nprober: hint: `prober plugin build` uses the SDK of this prober"},
		{"", "", root, "plugin.yaml: no such file"},
	} {
		sums := filepath.Join(dir, "prober-sdk/SHA256SUMS")
		os.Remove(sums)
		clitest.WriteTree(t, dir, map[string]string{"prober-sdk/prober.h": c.header})
		if c.sums != "" {
			clitest.WriteTree(t, dir, map[string]string{"prober-sdk/SHA256SUMS": c.sums})
		}
		code, stdout, stderr := clitest.Run(nil, "plugin", "update-sdk", c.dir)
		if code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("exit code %d, want %q in\n%s%s", code, c.want, stdout, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "main.c")); err != nil {
		t.Error(err)
	}
}

// olderSDK makes a project in dir whose SDK has another src/kv.rs, which SHA256SUMS lists, and returns SHA256SUMS.
func olderSDK(t *testing.T, dir string) (sums string) {
	t.Helper()
	run(t, "made ", "new", dir, "--lang", "rust")
	kv, err := os.ReadFile(filepath.Join(dir, "prober-sdk/src/kv.rs"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "prober-sdk/SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	sums = strings.Replace(string(text), fmt.Sprintf("%x", sha256.Sum256(kv)), fmt.Sprintf("%x", sha256.Sum256([]byte("// older"))), 1)
	clitest.WriteTree(t, dir, map[string]string{"prober-sdk/SHA256SUMS": sums, "prober-sdk/src/kv.rs": "// older"})
	return sums
}

// An interrupted run can be repeated, since SHA256SUMS is written at the end.
func TestUpdateSDKAfterFailure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	sums := olderSDK(t, dir)
	src := filepath.Join(dir, "prober-sdk/src")
	if err := errors.Join(os.Rename(src, src+".away"), os.Symlink("nowhere", src)); err != nil {
		t.Fatal(err)
	}
	refused(t, 1, "src", "update-sdk", dir)
	checkFile(t, filepath.Join(dir, "prober-sdk/SHA256SUMS"), []byte(sums))
	if err := errors.Join(os.Remove(src), os.Rename(src+".away", src)); err != nil {
		t.Fatal(err)
	}
	run(t, "updated prober-sdk/SHA256SUMS\nupdated prober-sdk/src/kv.rs\n", "update-sdk", dir)
	run(t, "the SDK in "+dir+" is that of prober ", "update-sdk", dir)
}

func TestUpdateSDKFollowsNoLinks(t *testing.T) {
	for _, link := range []string{"prober-sdk", "prober-sdk/src"} {
		t.Run(link, func(t *testing.T) {
			root := t.TempDir()
			dir, away := filepath.Join(root, "demo"), filepath.Join(root, "away")
			olderSDK(t, dir)
			if err := errors.Join(os.Rename(filepath.Join(dir, link), away), os.Symlink(away, filepath.Join(dir, link))); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := clitest.Run(nil, "plugin", "update-sdk", "--force", dir)
			if code == 0 || stdout != "" {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
			kv := filepath.Join(away, strings.TrimPrefix("prober-sdk/src/kv.rs", link))
			checkFile(t, kv, []byte("// older"))
		})
	}
}
