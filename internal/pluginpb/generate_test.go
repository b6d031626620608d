//go:build e2e

package pluginpb_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// versions matches the comments with the version of protoc, which may differ.
var versions = regexp.MustCompile(`(?m)^//\s*(- )?protoc\s+v.*$`)

func TestGeneratedCodeIsCurrent(t *testing.T) {
	into := t.TempDir()
	if out, err := exec.Command("go", "run", "./generate", into).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"prober_plugin_v1.pb.go", "prober_plugin_v1_grpc.pb.go"} {
		want, err := os.ReadFile(filepath.Join(into, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if string(versions.ReplaceAll(got, nil)) != string(versions.ReplaceAll(want, nil)) {
			t.Errorf("%s is not what prober_plugin_v1.proto makes: run go generate ./internal/pluginpb", name)
		}
	}
}
