package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// installed returns the files below a folder, relative to it.
func installed(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			path, err = filepath.Rel(dir, path)
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestInstallScriptInstallsAndRemoves(t *testing.T) {
	base := "prober_0.1.0_linux_" + runtime.GOARCH
	archive := build(t, "linux/"+runtime.GOARCH)[base+".tar.gz"]
	dir, root := t.TempDir(), t.TempDir()
	tar := exec.Command("tar", "xz", "-C", dir)
	tar.Stdin = strings.NewReader(string(archive))
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(want string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(dir, base, "install.sh"), args...)
		cmd.Env = append(os.Environ(), "DESTDIR="+root)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("install.sh %v: %v\n%s", args, err, out)
		}
	}
	run("installed 0.1.0", "--prefix=/opt/prober", "--service")
	files := installed(t, root)
	for _, name := range []string{
		"opt/prober/bin/prober", "opt/prober/bin/prober-probe", "opt/prober/share/man/man1/prober-run.1", "opt/prober/share/bash-completion/completions/prober",
		"opt/prober/share/doc/prober/THIRD_PARTY_LICENSES.txt", "etc/prober/prober.yaml", "etc/default/prober", "etc/systemd/system/prober.service",
	} {
		if !slices.Contains(files, name) {
			t.Errorf("%s is not installed", name)
		}
	}
	unit, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/prober.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/opt/prober/bin/prober run") || strings.Contains(string(unit), "/usr/bin/") {
		t.Errorf("the unit starts another program: %v\n%s", err, unit)
	}
	config := filepath.Join(root, "etc/prober/prober.yaml")
	if err := os.WriteFile(config, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("installed", "--prefix=/opt/prober", "--service") // again, as an upgrade does
	if text, err := os.ReadFile(config); err != nil || string(text) != "mine" {
		t.Errorf("an upgrade changes prober.yaml: %q, %v", text, err)
	}
	run("is removed", "--prefix=/opt/prober", "--uninstall")
	if diff := cmp.Diff([]string{"etc/default/prober", "etc/prober/prober.yaml"}, installed(t, root)); diff != "" {
		t.Errorf("after --uninstall (-want +got)\n%s", diff)
	}
}

func TestInstallScriptRefusesUnknownArguments(t *testing.T) {
	out, err := exec.Command("../../deploy/install.sh", "--nosuch").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 64 || !strings.Contains(string(out), "unknown argument --nosuch") {
		t.Errorf("%v\n%s", err, out)
	}
}
