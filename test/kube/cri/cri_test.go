//go:build linux

// Package cri has tests that need containerd, but no kubelet: a kubelet would remove their pods.
package cri

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/test/kube/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// TestExec runs commands in a container.
func TestExec(t *testing.T) {
	bed.Up(t, bed.CRI)
	runtime := bed.RuntimeClient(t)
	sandbox := bed.RunSandbox(t, runtime, "web", true)
	id := bed.RunContainer(t, runtime, sandbox, "app", 0, nil)
	for _, test := range []struct {
		command string
		code    int32
		output  string
		err     codes.Code
	}{
		{command: "/app check 7", code: 7, output: "check 7\n"},
		{command: "/app sleep 1m", err: codes.DeadlineExceeded},
		{command: "/missing", err: codes.Unknown},
	} {
		resp, err := runtime.ExecSync(t.Context(), &cri.ExecSyncRequest{ContainerId: id, Cmd: strings.Fields(test.command), Timeout: 1})
		if status.Code(err) != test.err || resp.GetExitCode() != test.code || string(resp.GetStdout()) != test.output {
			t.Errorf("%s: code %d, output %q, %v", test.command, resp.GetExitCode(), resp.GetStdout(), err)
		}
	}
	bed.Await(t, "the app to answer", func() bool {
		resp, err := runtime.ExecSync(t.Context(), &cri.ExecSyncRequest{ContainerId: id, Cmd: []string{"/app", "check"}, Timeout: 10})
		return err == nil && resp.ExitCode == 0
	})
}

// TestContainersSurviveContainerd checks that containers keep running when containerd restarts.
func TestContainersSurviveContainerd(t *testing.T) {
	c := bed.Up(t, bed.CRI)
	runtime := bed.RuntimeClient(t)
	id := bed.RunContainer(t, runtime, bed.RunSandbox(t, runtime, "web", false), "app", 3, map[string]string{"EXIT_ON_TERM": "5"})
	state := func() *cri.ContainerStatus {
		resp, err := runtime.ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			t.Fatal(err)
		}
		return resp.Status
	}
	before := state()
	c.Containerd.Stop(t)
	c.Containerd.Start(t)
	if after := state(); after.State != cri.ContainerState_CONTAINER_RUNNING || after.StartedAt != before.StartedAt {
		t.Errorf("after the restart: %v", after)
	}
	if _, err := runtime.StopContainer(t.Context(), &cri.StopContainerRequest{ContainerId: id, Timeout: 30}); err != nil {
		t.Fatal(err)
	}
	if ended := state(); ended.State != cri.ContainerState_CONTAINER_EXITED || ended.ExitCode != 5 {
		t.Errorf("after its end: %v", ended)
	}
}
