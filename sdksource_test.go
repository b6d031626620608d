package prober_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober"
)

// The modules that a new process requires are those that sdk/process is built with.
func TestProcessModules(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./sdk/process").Output()
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Compact(slices.Sorted(strings.FieldsFuncSeq(string(out), func(r rune) bool { return r == '\n' })))
	got, sums, err := prober.ProcessModules()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, module := range got {
		if !strings.Contains(string(sums), module+" h1:") || !strings.Contains(string(sums), module+"/go.mod h1:") {
			t.Errorf("no sums of %s", module)
		}
	}
	files, err := prober.ProcessSDK()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := prober.SDK("go")
	if err != nil {
		t.Fatal(err)
	}
	if files["sdk/process/process.go"] == nil || files["sdk/process/process_test.go"] != nil || plain["sdk/process/process.go"] != nil {
		t.Error("sdk/process is what a process has more, without its tests")
	}
	size := 0
	for _, data := range files {
		size += len(data)
	}
	t.Logf("%d bytes in %d files, %d of them for processes alone", size, len(files), len(files)-len(plain))
}
