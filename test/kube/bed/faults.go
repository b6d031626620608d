//go:build linux

package bed

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// RebootNode simulates a power failure and a boot of the node: all containers are killed, the state in /run
// is removed, and the boot ID changes. RebootNode returns when the kubelet has reported the node as ready.
// The control plane and programs that a test has started outside of pods keep running.
func (c *Cluster) RebootNode(t testing.TB) {
	t.Helper()
	c.Kubelet.Kill(t)
	c.Containerd.Kill(t)
	err := errors.Join(killContainers(), forgetContainers(), removeGroups(Group()), makeGroups(Group()), newBoot())
	if err != nil {
		t.Fatal(err)
	}
	c.Containerd.Start(t)
	c.Kubelet.Start(t)
}

// killContainers ends the processes of all pods, and of containerd.
func killContainers() error {
	for {
		pids, err := containerProcesses()
		if len(pids) == 0 || err != nil {
			return err
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// containerProcesses returns the processes of pods, and those that containerd has started.
func containerProcesses() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		pid, notNumber := strconv.Atoi(e.Name())
		if notNumber != nil {
			continue
		}
		groups, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cgroup"))
		name, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
		if strings.Contains(string(groups), ":"+Group()+"/") || strings.HasPrefix(string(name), "containerd-shim") {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// forgetContainers removes state that does not survive a boot: mounts, files in /run, network devices. The
// network namespaces of pods end with their mounts.
func forgetContainers() error {
	return errors.Join(unmountBelow("/run", "/var/lib"),
		os.RemoveAll("/run/containerd"), os.RemoveAll("/run/netns"),
		run("ip", "link", "delete", "bed0"))
}

// unmountBelow unmounts all file systems below the folders.
func unmountBelow(tops ...string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(mounts)), "\n")
	slices.Reverse(lines) // later mounts may be below earlier ones
	for _, line := range lines {
		for _, top := range tops {
			if dir := strings.Fields(line)[1]; strings.HasPrefix(dir, top+"/") {
				err = errors.Join(err, os.NewSyscallError("unmount "+dir, syscall.Unmount(dir, syscall.MNT_DETACH)))
			}
		}
	}
	return err
}

// newBoot changes the boot ID in the mount namespace.
func newBoot() error {
	const kernel = "/proc/sys/kernel/random/boot_id"
	r := make([]byte, 16)
	_, _ = rand.Read(r)
	file := Dir + "/boot_id"
	id := fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", r[:4], r[4:6], r[6:8], r[8:10], r[10:])
	if err := os.WriteFile(file, id, 0o444); err != nil {
		return err
	}
	_ = syscall.Unmount(kernel, 0) // the mount of an earlier call
	return syscall.Mount(file, kernel, "", syscall.MS_BIND, "")
}

// Drop drops packets until undo is called or the test ends. rule is a rule of nft without its verdict, such
// as `ip daddr 10.88.77.2 tcp dport 8080`. It applies to packets that the node sends, receives and
// forwards, so to the packets of its processes and of its pods.
func Drop(t testing.TB, rule string) (undo func()) {
	t.Helper()
	shared.mu.Lock()
	shared.names++
	table := fmt.Sprint("inet bed_drop_", shared.names)
	shared.mu.Unlock()
	var chains strings.Builder
	for _, hook := range []string{"input", "output", "forward"} {
		fmt.Fprintf(&chains, "chain %s { type filter hook %s priority 0; %s drop; }\n", hook, hook, rule)
	}
	if err := runInput("table "+table+" {\n"+chains.String()+"}\n", "nft", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	done := false
	undo = func() {
		if !done {
			done = true
			if err := runInput("delete table "+table+"\n", "nft", "-f", "-"); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(undo)
	return undo
}
