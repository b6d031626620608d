package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxMessage is the maximum size in bytes of a response of the runtime: the same limit as in the kubelet and in
// containerd's server.
const maxMessage = 16 << 20

// Container is the state of a container in the runtime. If neither Running nor Exited is set, the container was
// created but not started.
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

	created int64 // nanoseconds; orders containers of the same attempt
}

// Config is what a [Client] needs.
type Config struct {
	Socket string       // path, absolute; required
	Logger *slog.Logger // nil: slog's default
}

// ErrNoContainer means that the container does not exist in the runtime, or does not run.
var ErrNoContainer = errors.New("no such container is running")

// Client is a connection to the runtime. It is safe for concurrent use. It reconnects by itself.
type Client struct {
	log     *slog.Logger
	socket  string
	conn    *grpc.ClientConn
	runtime runtime.RuntimeServiceClient

	commands commands

	state   atomic.Pointer[state]
	trouble atomic.Pointer[error] // error of the last list; errNotAsked before the first one
}

var errNotAsked = errors.New("it was not asked yet")

// New returns a client. It connects at the first call.
func New(cfg Config) (*Client, error) {
	if !filepath.IsAbs(cfg.Socket) {
		return nil, fmt.Errorf("CRI socket %q: must be an absolute path", cfg.Socket)
	}
	reconnect := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
		MinConnectTimeout: 5 * time.Second,
	}
	conn, err := grpc.NewClient("passthrough:///localhost",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", cfg.Socket)
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(reconnect),
	)
	if err != nil {
		return nil, fmt.Errorf("CRI socket %s: %w", cfg.Socket, err)
	}
	c := &Client{log: cfg.Logger, socket: cfg.Socket, conn: conn, runtime: runtime.NewRuntimeServiceClient(conn)}
	if c.log == nil {
		c.log = slog.Default()
	}
	c.state.Store(&state{})
	c.trouble.Store(new(errNotAsked))
	return c, nil
}

// Container returns the newest instance of a container by its name. It does not block. ok is false if none is known.
func (c *Client) Container(uid types.UID, name string) (Container, bool) {
	found, ok := c.state.Load().newest[key{uid, name}]
	return found, ok
}

// Owner returns the UID of the pod that a container belongs to in the runtime, independent of the pod's status. It
// does not block.
func (c *Client) Owner(containerID string) (uid types.UID, ok bool) {
	found, ok := c.state.Load().all[bare(containerID)]
	return found.PodUID, ok
}

// Trouble returns the error of the last list; nil if it succeeded. Meanwhile, the last known state stays in use.
func (c *Client) Trouble() error {
	if err := *c.trouble.Load(); err != nil {
		return fmt.Errorf("container runtime at %s: %w", c.socket, err)
	}
	return nil
}

// setTrouble records the error of a list, and logs when errors begin and end.
func (c *Client) setTrouble(err error) {
	before := *c.trouble.Swap(&err)
	switch {
	case err == nil && before == errNotAsked:
		c.log.Info("the container runtime lists its containers", "socket", c.socket)
	case err != nil && (before == nil || before == errNotAsked):
		c.log.Warn("the container runtime cannot be reached; its last known state stays in use", "socket", c.socket, "error", err)
	case err == nil && before != nil:
		c.log.Info("the container runtime answers again", "socket", c.socket)
	}
}

// bare returns the ID of a container without the scheme, as the runtime has it.
func bare(containerID string) string {
	if _, id, ok := strings.Cut(containerID, "://"); ok {
		return id
	}
	return containerID
}
