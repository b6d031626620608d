//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestOpenAPIDocumentIsValid checks the document with redocly.
func TestOpenAPIDocumentIsValid(t *testing.T) {
	t.Parallel()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	document, err := filepath.Abs("../../docs/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	lint := func(path string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(cache, "prober/redocly/node_modules/.bin/redocly"), "lint", "--config", "testdata/redocly.yaml", path)
		cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "CI=true")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := lint(document); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	wrong := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(wrong, []byte(`{"openapi":"3.1.0","info":{"title":"x","version":"1"},"paths":{"/x":{"get":{"responses":{"200":{}}}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := lint(wrong); err == nil {
		t.Errorf("a wrong document passes:\n%s", out)
	}
}
