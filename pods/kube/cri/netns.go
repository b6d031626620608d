package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrHostNetwork means that a pod has no network namespace of its own.
var ErrHostNetwork = errors.New("the pod is in the network of its node")

// sandboxInfo is the part of the verbose sandbox status that has the same format in containerd and CRI-O.
type sandboxInfo struct {
	RuntimeSpec struct {
		Linux struct {
			Namespaces []struct{ Type, Path string } `json:"namespaces"`
		} `json:"linux"`
	} `json:"runtimeSpec"`
}

// NetworkNamespace returns the path of the network namespace of a pod: a file that this process can
// open. The path is below /proc/1/root if this process shares the node's PID namespace but not its file system. The
// error is [ErrHostNetwork] for a pod in the network of its node.
func (c *Client) NetworkNamespace(ctx context.Context, uid types.UID) (path string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	id, err := c.sandboxOf(ctx, uid)
	if err != nil {
		return "", err
	}
	call := "status of the sandbox " + id
	answer, err := c.runtime.PodSandboxStatus(ctx, &runtime.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if err != nil {
		return "", wrap(call, err)
	}
	if answer.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtime.NamespaceMode_NODE {
		return "", ErrHostNetwork
	}
	var info sandboxInfo
	if err := json.Unmarshal([]byte(answer.GetInfo()["info"]), &info); err != nil {
		return "", fmt.Errorf("%s: %w", call, err)
	}
	for _, n := range info.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" && filepath.IsAbs(n.Path) {
			return visible(filepath.Clean(n.Path))
		}
	}
	return "", fmt.Errorf("%s: it has no path of a network namespace", call)
}

// sandboxOf returns the ID of the newest ready sandbox of a pod.
func (c *Client) sandboxOf(ctx context.Context, uid types.UID) (string, error) {
	answer, err := c.runtime.ListPodSandbox(ctx, &runtime.ListPodSandboxRequest{Filter: &runtime.PodSandboxFilter{
		State:         &runtime.PodSandboxStateValue{State: runtime.PodSandboxState_SANDBOX_READY},
		LabelSelector: map[string]string{labelUID: string(uid)},
	}})
	if err != nil {
		return "", wrap("list the sandboxes of pod "+string(uid), err)
	}
	var newest *runtime.PodSandbox
	for _, s := range answer.GetItems() {
		if s.GetId() != "" && s.GetLabels()[labelUID] == string(uid) && s.GetState() == runtime.PodSandboxState_SANDBOX_READY &&
			(newest == nil || s.GetCreatedAt() > newest.GetCreatedAt()) {
			newest = s
		}
	}
	if newest == nil {
		return "", fmt.Errorf("pod %s has no sandbox that is ready", uid)
	}
	return newest.GetId(), nil
}

// visible returns the path of a file of the node as seen by this process.
func visible(path string) (string, error) {
	_, err := os.Stat(path)
	if err == nil {
		return path, nil
	}
	if other := filepath.Join("/proc/1/root", path); !errors.Is(err, os.ErrPermission) {
		if _, err := os.Stat(other); err == nil {
			return other, nil
		}
	}
	return "", fmt.Errorf("the network namespace of the pod is not visible here: %w", err)
}
