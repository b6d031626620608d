//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package agent_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/daeace23/prober/agent"
	"github.com/daeace23/prober/pods/local/manifest"
)

// runOnce runs an agent with a state directory until it has applied its pods and saved them. An agent that
// rejects its files does not run.
func runOnce(t *testing.T, state, config, manifests string) {
	t.Helper()
	log := newLines()
	source := &files{Source: manifest.Source{Paths: []string{manifests}, System: runtime.GOOS}, stateDir: state}
	dir := shortDir(t)
	a, err := agent.New(t.Context(), agent.Config{
		Source: source.open, Listen: "127.0.0.1:0", Stderr: log, StateDir: state, ConfigFile: config,
		Socket: filepath.Join(dir, "s"), AddrFile: filepath.Join(state, "addr"),
	})
	if err != nil {
		t.Logf("refused: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	log.await(t, 0, "result changed")
	cancel()
	if err := <-ended; err != nil {
		t.Logf("ended: %v", err)
	}
}

// TestPreparedLinksInStateDirAreNotFollowed replaces each file and folder that an agent creates in its state
// directory by a link, and runs an agent. It must not change the target of the link.
//
// It is not parallel: see TestNewStateDirectoryInUseIsError.
func TestPreparedLinksInStateDirAreNotFollowed(t *testing.T) {
	manifests := filepath.Join(t.TempDir(), "pod.yaml")
	write(t, manifests, newTarget(t).external("shop"))
	config := filepath.Join(t.TempDir(), "prober.yaml")
	write(t, config, "apiVersion: prober.dev/v1\nkind: AgentConfig\nnotify:\n  receivers: [{name: a, webhook: {url: 'http://127.0.0.1:1'}}]\n")
	first := filepath.Join(t.TempDir(), "state")
	runOnce(t, first, config, manifests)
	var names []string
	err := filepath.WalkDir(first, func(path string, e fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(first, path); name != "." {
			names = append(names, name)
			if !e.IsDir() {
				names = append(names, name+".new")
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(append(names, "addr"), "\n")
	for _, want := range []string{"lock", "history", "history/history.db", "notifications.json", ".pod.json"} {
		if !strings.Contains(all, want) {
			t.Fatalf("no %s among\n%s", want, all)
		}
	}
	for name := range strings.SplitSeq(all, "\n") {
		t.Run(name, func(t *testing.T) {
			victims := t.TempDir()
			victim, folder, none := filepath.Join(victims, "file"), filepath.Join(victims, "folder"), filepath.Join(victims, "none")
			for _, to := range []string{victim, none, folder} {
				state := filepath.Join(t.TempDir(), "state")
				link := filepath.Join(state, name)
				err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.MkdirAll(folder, 0o700), os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink(to, link))
				if err != nil {
					t.Fatal(err)
				}
				runOnce(t, state, config, manifests)
				if text, err := os.ReadFile(victim); string(text) != "precious" {
					t.Errorf("the file has %q, %v", text, err)
				}
				if made, err := os.ReadDir(folder); len(made) > 0 || err != nil {
					t.Errorf("in the folder: %v, %v", made, err)
				}
				if _, err := os.Lstat(none); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the link to nothing has made a file: %v", err)
				}
			}
		})
	}
}
