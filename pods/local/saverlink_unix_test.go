//go:build unix

package local_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/pods/local"
)

// After the agent has started, others may create a link at the path of a state file.
func TestSaveDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	name := ""
	for range 2 { // the first iteration finds the name of the file
		pods, err := local.New(local.Config{StateDir: dir}, testHost())
		if err != nil {
			t.Fatal(err)
		}
		if name != "" {
			if err := errors.Join(os.Remove(name), os.Symlink(victim, name+".new"), os.Symlink(victim, name)); err != nil {
				t.Fatal(err)
			}
		}
		m, err := manager.New(manager.Config{Status: pods, Handlers: succeed{}, RestartGrace: local.RestartGrace})
		if err != nil {
			t.Fatal(err)
		}
		pods.Start(m)
		if err := pods.Apply(t.Context(), load(t, fmt.Sprintf(benchmarkPod, 1))); err != nil {
			t.Fatal(err)
		}
		awaitReady(t.Context(), t, pods, 1)
		if err := errors.Join(pods.Stop(t.Context()), m.Close()); err != nil {
			t.Fatal(err)
		}
		name, _ = stateFile(t, dir)
	}
	if text, err := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the victim has %q, %v", text, err)
	}
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the state is not saved: %v, %v", info, err)
	}
}
