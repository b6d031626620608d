package agent_test

import (
	"os"
	"path/filepath"
	"testing"
)

// What was refused for who may change or run it is looked at again when that is put right:
// its bytes and its time stay what they are.
func TestAChangedModeIsSeen(t *testing.T) {
	r, _, folder := withPlugins(t)
	program := filepath.Join(folder, "prober-plugin-late")
	write(t, program+".yaml", "apiVersion: prober.dev/v1\nname: late\nversion: 1.0.0\n")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, next := r.lines.await(t, 0, "plugins cannot all be used", "prober-plugin-late is not executable")
	if err := os.Chmod(program, 0o777); err != nil {
		t.Fatal(err)
	}
	_, next = r.lines.await(t, next, "plugins cannot all be used", "prober-plugin-late is writable to others")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	r.lines.await(t, next, "plugins reloaded", `cause="changed files"`)
}
