package cli_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/daeace23/prober/internal/cli/clitest"
)

var updateImports = flag.Bool("update-imports", false, "write the golden files")

// TestImport imports the files of each archive in importcmd/testdata/TOOL with the real command, and validates its
// output. An archive has the arguments in its comment, the inputs, and then prober.yaml, plugins and stderr.
func TestImport(t *testing.T) {
	for tool, least := range map[string]int{"blackbox": 10, "gatus": 10, "uptime-kuma": 10, "cloudprober": 10, "nagios": 10, "monit": 10} {
		archives, err := filepath.Glob(filepath.Join("importcmd", "testdata", tool, "*.txtar"))
		if err != nil || len(archives) < least {
			t.Errorf("%s: %d archives, want %d; %v", tool, len(archives), least, err)
		}
		for _, path := range archives {
			path, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Run(tool+"/"+strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { testArchive(t, tool, path) })
		}
	}
}

func testArchive(t *testing.T, tool, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	args := append([]string{"import", tool}, strings.Fields(string(archive.Comment))...)
	want, inputs := make(map[string]string), archive.Files[:0:0]
	for _, f := range archive.Files {
		if f.Name == "prober.yaml" || f.Name == "stderr" || strings.HasPrefix(f.Name, "plugins/") {
			want[f.Name] = string(f.Data)
			continue
		}
		inputs = append(inputs, f)
		clitest.WriteTree(t, ".", map[string]string{f.Name: string(f.Data)})
		if !strings.Contains(string(archive.Comment), f.Name) && !strings.HasPrefix(f.Name, "data/") {
			args = append(args, f.Name)
		}
	}
	code, stdout, stderr := clitest.Run(nil, args...)
	if wantCode := map[bool]int{true: 1, false: 0}[strings.Contains(stderr, ": no equal: ")]; code != wantCode {
		t.Errorf("exit code %d, want %d", code, wantCode)
	}
	got := map[string]string{"prober.yaml": stdout, "stderr": stderr}
	files := []txtar.File{{Name: "prober.yaml", Data: []byte(stdout)}, {Name: "stderr", Data: []byte(stderr)}}
	manifests, _ := filepath.Glob("plugins/*/plugin.yaml")
	for _, m := range manifests {
		text, err := os.ReadFile(m)
		if err != nil {
			t.Fatal(err)
		}
		got[m], files = string(text), append(files, txtar.File{Name: m, Data: text})
	}
	if *updateImports {
		out := txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: append(inputs, files...)})
		if err := os.WriteFile(path, out, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	validate(t, stdout)
}

// validate checks a file with `prober validate --config`.
func validate(t *testing.T, file string) {
	t.Helper()
	clitest.WriteTree(t, ".", map[string]string{"prober.yaml": file})
	args := []string{"validate", "--config", "prober.yaml"}
	if _, err := os.Stat("plugins"); err == nil {
		args = append(args, "--plugins", "plugins")
	}
	if code, stdout, stderr := clitest.Run(nil, args...); code != 0 {
		t.Errorf("prober validate: exit code %d\n%s%s\n%s", code, stdout, stderr, file)
	}
}
