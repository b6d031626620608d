// Package cri speaks to the container runtime of a node over its socket: the states of
// containers, sooner than the kubelet publishes them; commands in containers; and their end.
package cri

import (
	"context"
	"errors"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Container is a container of a pod, as the runtime sees it.
type Container struct {
	ID                    string // with the scheme that the kubelet writes: containerd://…
	PodUID                types.UID
	Namespace, Pod, Name  string
	Restarts              int32 // the attempt number of the kubelet, which is its restart count
	Running, Exited       bool
	StartedAt, FinishedAt time.Time
	ExitCode              int32
	Reason                string // of the exit
	SandboxID             string
}

// Config is what a [Client] needs.
type Config struct {
	Socket string // path
	Logger *slog.Logger
}

// ErrNoContainer means that the runtime has no such container, or that it does not run.
var ErrNoContainer = errors.New("no such container is running")

// Client is a connection to the runtime. It is safe for concurrent use. It reconnects by itself.
type Client struct{}

// New returns a client, and connects to nothing.
func New(Config) (*Client, error) { return nil, errors.New("not written yet") }

// Run follows the containers of the node until ctx ends: by the events of the runtime, or by one
// list a second where it has none. It calls changed for each pod whose containers have changed.
func (c *Client) Run(ctx context.Context, changed func(uid types.UID)) { <-ctx.Done() }

// Container returns the newest start of a container, from memory; false if none is known.
func (c *Client) Container(uid types.UID, name string) (Container, bool) { return Container{}, false }

// Overlay sets in status what the runtime knows better than the kubelet has published. pod has
// the restart policies. A status that is newer than what the runtime has told stays as it is.
func (c *Client) Overlay(pod *v1.Pod, status *v1.PodStatus) {}

// Owner returns the pod of a container, which the runtime and not the pod's status says.
func (c *Client) Owner(containerID string) (uid types.UID, ok bool) { return "", false }

// RunInContainer runs cmd in a container, as builtin.CommandRunner says.
func (c *Client) RunInContainer(ctx context.Context, containerID string, cmd []string, timeout time.Duration) ([]byte, error) {
	return nil, errors.New("not written yet")
}

// Stop ends a container: SIGTERM, and SIGKILL after grace. It returns when the container has
// ended.
func (c *Client) Stop(ctx context.Context, containerID string, grace time.Duration) error {
	return errors.New("not written yet")
}

// NetworkNamespace returns the path of the network namespace of a pod, below the /proc of this
// process; an error for a pod in the network of its node.
func (c *Client) NetworkNamespace(ctx context.Context, uid types.UID) (path string, err error) {
	return "", errors.New("not written yet")
}

// Trouble returns why the runtime cannot be asked at present; nil if it can.
func (c *Client) Trouble() error { return nil }
