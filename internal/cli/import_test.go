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

// TestImportWritesSecrets has secrets with a value, one in a variable and one that prober refuses.
func TestImportWritesSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.WriteTree(t, ".", map[string]string{"config.yaml": `alerting:
  slack: {webhook-url: "https://hooks.slack.example/T/B/x"}
  discord: {webhook-url: "${DISCORD_URL}"}
endpoints:
- name: shop
  url: "https://ops:hunter2@shop.example/"
  headers: {X-Api-Key: hunter3}
  conditions: ["[STATUS] == 200"]
  alerts: [{type: slack}, {type: discord}]
external-endpoints: [{name: job, token: potato}]
`})
	if code, _, stderr := clitest.Run(nil, "import", "gatus", "config.yaml", "--write-secrets"); code != 64 || !strings.Contains(stderr, "--write-secrets needs the file of -o") {
		t.Errorf("without -o: exit code %d, %s", code, stderr)
	}
	code, _, stderr := clitest.Run(nil, "import", "gatus", "config.yaml", "--write-secrets", "-o", "prober.yaml")
	for _, want := range []string{
		"config.yaml:2: alerting.slack: secret: the URL of the webhook is written to secrets/slack-url\n",
		"config.yaml:3: alerting.discord: secret: write the URL of the webhook to secrets/discord-url, mode 0600\n",
	} {
		if code != 0 || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, stderr)
		}
	}
	want := map[string]string{"slack-url": "https://hooks.slack.example/T/B/x", "shop-password": "hunter2", "shop-x-api-key": "hunter3"}
	got := make(map[string]string)
	files, _ := filepath.Glob("secrets/*")
	for _, f := range files {
		text, err := os.ReadFile(f)
		info, _ := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", f, info.Mode(), err)
		}
		got[filepath.Base(f)] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if info, err := os.Stat("secrets"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
	text, _ := os.ReadFile("prober.yaml")
	if strings.Contains(string(text), "hunter") {
		t.Errorf("a secret is in\n%s", text)
	}
	validate(t, string(text))
	if code, _, stderr := clitest.Run(nil, "import", "gatus", "config.yaml", "--write-secrets", "-o", "other.yaml"); code != 64 || !strings.Contains(stderr, "secrets exists") {
		t.Errorf("over an existing folder: exit code %d, %s", code, stderr)
	}
}
