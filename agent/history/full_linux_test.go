package history_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/agent/states"
)

// inNamespace is the environment variable of this program in a mount namespace of its own.
const inNamespace = "HISTORY_TEST_MOUNT"

// TestFullFileSystem runs itself in a namespace with a file system of 128 KiB, and fills that.
func TestFullFileSystem(t *testing.T) {
	if dir := os.Getenv(inNamespace); dir != "" {
		fillFileSystem(t, dir)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFullFileSystem$", "-test.v")
	cmd.Env = append(os.Environ(), inNamespace+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER}
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	out, err := cmd.CombinedOutput()
	if len(out) == 0 && errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("a real file system is not filled: this kernel gives no mount namespace: %v", err)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func fillFileSystem(t *testing.T, dir string) {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := run(t, history.WithDisk(history.Config{StateDir: dir}, history.OSDisk{}))
		web := info("web", "1")
		r.store.Observe(web)
		r.settle()
		filler := filepath.Join(dir, "filler")
		if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		for i := range 400 {
			r.change(web, []states.State{states.Failure, states.Success}[i%2], fmt.Sprint("failure ", i))
			time.Sleep(10 * time.Second)
		}
		if trouble := r.store.Trouble(); len(trouble) != 1 || !strings.HasSuffix(trouble[0], "no space left on device") {
			t.Errorf("%q", trouble)
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		item := r.only()
		if item.IncidentCount != 200 || item.Incidents[199].Text != "failure 0" || r.store.Trouble() != nil || r.store.Dropped() != 0 {
			t.Errorf("%d incidents, %q, %d dropped", item.IncidentCount, r.store.Trouble(), r.store.Dropped())
		}
	})
}
