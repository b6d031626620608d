package api

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"
)

// MaxOutput is the maximum number of bytes that are kept of stdout and of stderr each. The rest is discarded.
const MaxOutput = 16 << 10

// Exec runs cmd in a container through the API server. It returns its stdout followed by its stderr, and its
// exit code. An error means that the command could not be run, or that ctx ended. After the end of ctx the
// command may continue in the container. The UID is not checked, since the API does not offer it.
func (c *Client) Exec(ctx context.Context, pod Pod, container string, cmd []string) (output []byte, exitCode int, err error) {
	executor, err := c.executor(pod, container, cmd)
	if err != nil {
		return nil, 0, err
	}
	var stdout, stderr head
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
	output = append(stdout.bytes(), stderr.bytes()...)
	if ctx.Err() != nil {
		return output, 0, context.Cause(ctx)
	}
	if exit, ok := errors.AsType[exec.CodeExitError](err); ok {
		return output, exit.Code, nil
	}
	if err != nil {
		return output, 0, fmt.Errorf("exec in %s/%s through the API server: %w", pod.Namespace, pod.Name, err)
	}
	return output, 0, nil
}

// executor returns an executor that uses WebSockets, or SPDY if the API server does not support them.
func (c *Client) executor(pod Pod, container string, cmd []string) (remotecommand.Executor, error) {
	url := c.core.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").
		VersionedParams(&v1.PodExecOptions{Container: container, Command: cmd, Stdout: true, Stderr: true}, runtime.NewParameterCodec(scheme())).URL()
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", url)
	if err != nil {
		return nil, err
	}
	websocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	return remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
}

// head keeps the first [MaxOutput] bytes that are written to it. It is safe for concurrent use: a stream may still
// write after its context has ended.
type head struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements [io.Writer]. It never fails.
func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), MaxOutput-len(h.kept))]...)
	return len(p), nil
}

// bytes returns a copy of the kept bytes.
func (h *head) bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]byte(nil), h.kept...)
}
