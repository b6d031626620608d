//go:build linux

package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CRISocket is the socket of containerd.
const CRISocket = "/run/containerd/containerd.sock"

// containerd 2 reads this version too. Without CAP_SYS_RESOURCE, a process cannot have a lower
// oom_score_adj than its parent.
const containerdConfig = `version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "` + PauseImage + `"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + Dir + `/cni"
`

// With hairpinMode, a pod can reach its own address through the bridge.
const network = `{"cniVersion": "1.0.0", "name": "bed", "plugins": [{"type": "bridge", "bridge": "bed0", "isGateway": true,
	"hairpinMode": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.77.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// These rules replace kube-proxy for the Service of the API server.
const service = `table ip bed_service {
	chain prerouting { type nat hook prerouting priority -100; ip daddr ` + ServiceIP + ` tcp dport 443 dnat to ` + NodeIP + `:6443; }
	chain output { type nat hook output priority -100; ip daddr ` + ServiceIP + ` tcp dport 443 dnat to ` + NodeIP + `:6443; }
}
`

// The kubelet uses its usual paths. It evicts no pods, because the disk of the machine is not the cluster's.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://` + CRISocket + `
cgroupDriver: cgroupfs
cgroupRoot: %s
failCgroupV1: false
enforceNodeAllocatable: []
oomScoreAdj: 0
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
resolvConf: ` + Dir + `/resolv.conf
volumePluginDir: /var/lib/kubelet/volume-plugins
address: ` + NodeIP + `
maxPods: 200
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {memory.available: 1Mi, nodefs.available: 1Mi, imagefs.available: 1Mi}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 2s
`

// startContainerd starts containerd, and imports the images of the tests.
func (c *Cluster) startContainerd(ctx context.Context) error {
	err := errors.Join(
		os.MkdirAll(Dir+"/cni", 0o700),
		os.WriteFile(Dir+"/cni/10-bed.conflist", []byte(network), 0o600),
		os.WriteFile(Dir+"/containerd.toml", []byte(containerdConfig), 0o600),
	)
	if err != nil {
		return err
	}
	c.Containerd = &Daemon{name: "containerd", path: find("containerd"), args: []string{"--config", Dir + "/containerd.toml"}, ready: runtimeReady}
	if err := c.Containerd.begin(); err != nil {
		return err
	}
	images, err := buildImages()
	if err != nil {
		return err
	}
	if err := c.Containerd.await(ctx); err != nil {
		return err
	}
	for _, image := range images {
		if err := importImage(image); err != nil {
			return err
		}
	}
	return nil
}

// find returns the path of a program in PATH, /usr/sbin or /sbin. If there is none, it returns the name.
func find(name string) string {
	for _, dir := range append(strings.Split(os.Getenv("PATH"), ":"), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path
		}
	}
	return name // starting it returns the error
}

// startNode starts the controllers and the kubelet, and returns when pods can be scheduled.
func (c *Cluster) startNode(ctx context.Context) error {
	err := errors.Join(
		os.WriteFile(Dir+"/resolv.conf", []byte("nameserver "+NodeIP+"\n"), 0o644),
		os.WriteFile(Dir+"/kubelet.yaml", fmt.Appendf(nil, kubeletConfig, Group()), 0o600),
		runInput(service, "nft", "-f", "-"),
		c.beginControllers(),
	)
	if err != nil {
		return err
	}
	c.Kubelet = tool("kubelet", "--config="+Dir+"/kubelet.yaml", "--kubeconfig="+Kubeconfig("node"), "--hostname-override="+NodeName, "--node-ip="+NodeIP,
		"--maximum-dead-containers-per-container=20") // keep their logs, which tests read
	c.Kubelet.ready = func(ctx context.Context) error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return nodeReady(node, c.Kubelet.restarted)
	}
	if err := c.Kubelet.begin(); err != nil {
		return err
	}
	return c.Kubelet.await(ctx)
}

// nodeReady returns nil if pods can be scheduled to the node, according to a heartbeat of its kubelet that is
// later than after.
func nodeReady(node *corev1.Node, after time.Time) error {
	for _, c := range node.Status.Conditions {
		recent := c.LastHeartbeatTime.After(after) // in whole seconds
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && recent && len(node.Spec.Taints) == 0 {
			return nil
		}
	}
	return fmt.Errorf("the node is not ready: %+v, %v", node.Status.Conditions, node.Spec.Taints)
}
