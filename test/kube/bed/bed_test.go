//go:build linux

package bed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// modeVar makes this program run in new namespaces. Its value says how TestNamespacesLeaveNothing ends there:
// "ends", "fails" or "hangs".
const modeVar = "PROBER_KUBE_MODE"

func TestMain(m *testing.M) {
	if os.Getenv(modeVar) != "" {
		Main(m)
	}
	os.Exit(m.Run())
}

// testCluster prints its folder and namespaces when a pod of its cluster is ready.
func testCluster(t *testing.T, mode string) {
	c := Up(t, Node)
	namespace := c.Namespace(t)
	c.Create(t, namespace, Pod("web", map[string]string{"TERM_DELAY": "1h"}))
	c.AwaitPod(t, namespace, "web", "ready", HasCondition(corev1.PodReady, corev1.ConditionTrue))
	var spaces []string
	for _, kind := range []string{"pid", "net", "mnt", "uts", "ipc"} {
		space, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		spaces = append(spaces, space)
	}
	fmt.Println("INSIDE", os.Getenv(dirVar), strings.Join(spaces, " "))
	switch mode {
	case "fails":
		t.Error("this failure is expected")
	case "hangs":
		select {}
	}
}

// TestNamespacesLeaveNothing runs tests with a cluster, which end in several ways.
func TestNamespacesLeaveNothing(t *testing.T) {
	if mode := os.Getenv(modeVar); mode != "" {
		testCluster(t, mode)
		return
	}
	for _, test := range []struct {
		mode string
		code int
		logs bool // whether logs are kept
	}{
		{mode: "ends"},
		{mode: "fails", code: 1, logs: true},
		{mode: "hangs", code: -1}, // killed by this test
	} {
		t.Run(test.mode, func(t *testing.T) {
			before := hostState(t)
			cmd := exec.Command(os.Args[0], "-test.run=^TestNamespacesLeaveNothing$", "-test.v")
			cmd.Env = append(os.Environ(), modeVar+"="+test.mode)
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			dir, spaces := readTestCluster(t, out)
			if test.mode == "hangs" {
				if seen := members(t, spaces); len(seen) < 8 {
					t.Errorf("the test finds only the processes %q", seen)
				}
				_ = cmd.Process.Kill()
			}
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if test.mode == "hangs" { // PID 1 ends after the process that was killed
				Await(t, "the folder to be removed", func() bool { return !exists(dir) })
			}
			if kept := exists(filepath.Join(dir, "kubelet.log")); kept != test.logs {
				t.Errorf("logs are kept: %t, want %t", kept, test.logs)
			}
			if test.logs {
				_ = os.RemoveAll(dir)
			}
			if exists(dir) {
				t.Errorf("%s is left", dir)
			}
			Await(t, "PID 1 to end", func() bool { return len(members(t, spaces)) == 0 })
			if after := hostState(t); !slices.Equal(after, before) {
				t.Errorf("after the test:\n%q\nbefore:\n%q", after, before)
			}
			if left, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(dir)); len(left) > 0 || exists("/sys/fs/cgroup/"+filepath.Base(dir)) {
				t.Errorf("control groups are left: %q", left)
			}
		})
	}
}

// readTestCluster returns the folder and the namespaces that testCluster prints.
func readTestCluster(t *testing.T, out io.Reader) (dir string, spaces []string) {
	t.Helper()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) > 2 && f[0] == "INSIDE" {
			return f[1], f[2:]
		}
		t.Log(lines.Text())
	}
	t.Fatal("the cluster did not start")
	return "", nil
}

// members returns the names of the processes that are in one of the namespaces.
func members(t *testing.T, spaces []string) (names []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/*")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, link := range links {
		process := filepath.Dir(filepath.Dir(link))
		if space, _ := os.Readlink(link); slices.Contains(spaces, space) && !seen[process] {
			seen[process] = true
			name, _ := os.ReadFile(process + "/comm")
			names = append(names, strings.TrimSpace(string(name)))
		}
	}
	return names
}

// hostState returns what a cluster might leave behind outside of its namespaces: mounts, network devices and
// folders.
func hostState(t *testing.T) (all []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	all = strings.Split(string(mounts), "\n")
	devices, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range devices {
		addresses, _ := d.Addrs()
		all = append(all, fmt.Sprint(d.Name, addresses))
	}
	for _, dir := range []string{Dir, "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/etc/cni/net.d", "/opt/cni"} {
		all = append(all, fmt.Sprint(dir, exists(dir)))
	}
	return all
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
