//go:build linux

package bed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// The same program runs in three stages: started by go test, as PID 1 of the namespaces, and as the tests
// in the namespaces.
const (
	stageVar = "PROBER_KUBE_STAGE" // "", "init" or "tests"
	dirVar   = "PROBER_KUBE_DIR"   // folder of the logs; its base is the name of the control group
	toolsVar = "PROBER_KUBE_TOOLS" // folder of the programs of Kubernetes
)

// NodeName is the name of the node, and its host name.
const NodeName = "node-1"

// Main runs the tests of a package in new namespaces. A TestMain calls it. It does not return. If a test
// fails, the logs of all programs are kept.
func Main(m *testing.M) {
	switch os.Getenv(stageVar) {
	case "":
		code, err := startNamespaces()
		if err != nil {
			fmt.Fprintln(os.Stderr, "bed:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	case "init":
		code, err := runInit()
		if err != nil {
			fmt.Fprintln(os.Stderr, "bed:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// startNamespaces starts PID 1 of new namespaces, and waits for its end. PID 1 has the read end of a pipe,
// and so learns when this process ends, even if it is killed.
func startNamespaces() (int, error) {
	if os.Getuid() != 0 {
		return 1, errors.New("the tests create namespaces and need root")
	}
	tools, err := buildTools()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "prober-kube-")
	if err != nil {
		return 1, err
	}
	alive, life, err := os.Pipe()
	if err != nil {
		return 1, err
	}
	defer life.Close()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageVar+"=init", dirVar+"="+dir, toolsVar+"="+tools)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stdout, os.Stderr, []*os.File{alive}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid:    true, // Ctrl-C reaches only this process
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		return 1, errors.Join(fmt.Errorf("new namespaces: %w", err), os.RemoveAll(dir))
	}
	alive.Close()
	if err := cmd.Wait(); cmd.ProcessState == nil {
		return 1, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// runInit is PID 1 of the namespaces. It runs the tests. It kills all processes after them, or when the
// process that started it has ended.
func runInit() (code int, err error) {
	dir := os.Getenv(dirVar)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE) // ignore them
	var abandoned atomic.Bool
	go func() {
		_, _ = io.ReadAll(os.NewFile(3, "alive"))
		abandoned.Store(true)
		_ = syscall.Kill(-1, syscall.SIGKILL)
	}()
	code, err = runTests(filepath.Base(dir))
	_ = syscall.Kill(-1, syscall.SIGKILL) // all but this process
	reap(-1)
	err = errors.Join(err, removeGroups(filepath.Base(dir)))
	if code != 0 && err == nil && !abandoned.Load() {
		fmt.Fprintln(os.Stderr, "bed: logs are in", dir)
		return code, nil
	}
	return code, errors.Join(err, os.RemoveAll(dir))
}

// runTests runs the tests, and returns their exit code. group is the control group of their pods.
func runTests(group string) (int, error) {
	program, err := os.Executable() // before enter mounts another /proc
	if err != nil {
		return 1, err
	}
	if err := errors.Join(enter(), makeGroups(group), os.Setenv(stageVar, "tests")); err != nil {
		return 1, err
	}
	tests, err := os.StartProcess(program, os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 1, err
	}
	return reap(tests.Pid), nil
}

// reap waits for child processes, including orphans that PID 1 has adopted, until the process pid has
// ended. It returns its exit code. If pid is -1, it waits for all of them and returns 0.
func reap(pid int) int {
	for {
		var status syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no children
			return 0
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal())
		case ended == pid:
			return status.ExitStatus()
		}
	}
}

// enter prepares the namespaces for the programs: mounts, the host name and the address of the node.
func enter() error {
	// As on a node with systemd, mounts propagate to the namespaces of pods. They do not propagate to the
	// host.
	for _, flags := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|flags, ""); err != nil {
			return fmt.Errorf("propagation of mounts: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	folders := []string{"/run", "/var/lib", "/var/log"}
	// Another mount below them, such as /run/netns by `ip netns`, would be hidden, and RebootNode could not
	// unmount it.
	if err := unmountBelow(folders...); err != nil {
		return err
	}
	for _, dir := range folders {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	if err := syscall.Sethostname([]byte(NodeName)); err != nil {
		return err
	}
	return errors.Join(run("ip", "link", "set", "lo", "up"), run("ip", "address", "add", NodeIP+"/32", "dev", "lo"))
}

// moduleDir returns the folder of this module. Tests run in the folders of their packages.
func moduleDir() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("the tests do not run in a folder of their module")
		}
		dir = filepath.Dir(dir)
	}
	return dir, err
}

// buildTools builds the missing programs of Kubernetes, while there is a network. It returns their folder.
func buildTools() (string, error) {
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(module, "tools/build"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// run runs a command. The error includes its output.
func run(name string, args ...string) error { return runInput("", name, args...) }

// runInput runs a command with input. The error includes its output.
func runInput(input, name string, args ...string) error {
	cmd := exec.Command(find(name), args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
}
