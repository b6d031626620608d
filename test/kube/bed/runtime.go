//go:build linux

package bed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dialRuntime returns a client of containerd. The caller must close the connection.
func dialRuntime() (cri.RuntimeServiceClient, *grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+CRISocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	return cri.NewRuntimeServiceClient(conn), conn, nil
}

// runtimeReady returns nil if containerd answers.
func runtimeReady(ctx context.Context) error {
	client, conn, err := dialRuntime()
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = client.Status(ctx, &cri.StatusRequest{})
	return err
}

// RuntimeClient returns a client of containerd, which is closed at the end of the test.
func RuntimeClient(t testing.TB) cri.RuntimeServiceClient {
	t.Helper()
	client, conn, err := dialRuntime()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client
}

// Sandbox is a pod that a test has created through CRI.
type Sandbox struct {
	ID     string
	Config *cri.PodSandboxConfig
	IP     string // "" in the network of the node
}

// RunSandbox creates a pod with the labels that a kubelet sets. It removes the pod at the end of the test.
// If network is set, the pod has its own network namespace; otherwise it uses the node's.
func RunSandbox(t testing.TB, client cri.RuntimeServiceClient, pod string, network bool) *Sandbox {
	t.Helper()
	uid := fmt.Sprint("uid-", time.Now().UnixNano())
	mode, hostname := cri.NamespaceMode_NODE, ""
	if network {
		mode, hostname = cri.NamespaceMode_POD, pod
	}
	s := &Sandbox{Config: &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: pod, Namespace: "default", Uid: uid},
		Hostname: hostname,
		Labels: map[string]string{
			"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": uid,
		},
		LogDirectory: "/var/log/pods/" + uid,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    Group() + "/" + uid,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Network: mode, Pid: cri.NamespaceMode_CONTAINER}},
		},
	}}
	resp, err := client.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: s.Config})
	if err != nil {
		t.Fatal(err)
	}
	s.ID = resp.PodSandboxId
	t.Cleanup(func() {
		ctx, cancel := cleanupContext()
		defer cancel()
		if _, err := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: s.ID}); err != nil {
			t.Error(err)
		}
		if _, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: s.ID}); err != nil {
			t.Error(err)
		}
	})
	status, err := client.PodSandboxStatus(t.Context(), &cri.PodSandboxStatusRequest{PodSandboxId: s.ID})
	if err != nil {
		t.Fatal(err)
	}
	s.IP = status.Status.Network.GetIp()
	return s
}

// RunContainer starts test/kube/testapp in a pod, and returns the ID of the container. attempt is the
// number of earlier starts, as the kubelet counts them.
func RunContainer(t testing.TB, client cri.RuntimeServiceClient, s *Sandbox, name string, attempt uint32, environment map[string]string) string {
	t.Helper()
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &cri.ImageSpec{Image: AppImage},
		LogPath:  fmt.Sprintf("%s_%d.log", name, attempt),
		Labels: map[string]string{
			"io.kubernetes.container.name": name, "io.kubernetes.pod.name": s.Config.Metadata.Name,
			"io.kubernetes.pod.namespace": s.Config.Metadata.Namespace, "io.kubernetes.pod.uid": s.Config.Metadata.Uid,
		},
		Annotations: map[string]string{"io.kubernetes.container.restartCount": fmt.Sprint(attempt)},
		Linux:       &cri.LinuxContainerConfig{},
	}
	for key, value := range environment {
		config.Envs = append(config.Envs, &cri.KeyValue{Key: key, Value: []byte(value)})
	}
	created, err := client.CreateContainer(t.Context(), &cri.CreateContainerRequest{PodSandboxId: s.ID, Config: config, SandboxConfig: s.Config})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.StartContainer(t.Context(), &cri.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		t.Fatal(err)
	}
	return created.ContainerId
}
