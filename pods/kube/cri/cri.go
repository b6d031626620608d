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

// maxMessage is the most bytes of one answer of the runtime: the limit of the kubelet, and of
// containerd's own server.
const maxMessage = 16 << 20

// Container is a container of a pod, as the runtime sees it. One that neither runs nor has exited
// was created, and is about to start.
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

// ErrNoContainer means that the runtime has no such container, or that it does not run.
var ErrNoContainer = errors.New("no such container is running")

// Client is a connection to the runtime. It is safe for concurrent use. It reconnects by itself.
type Client struct {
	log     *slog.Logger
	socket  string
	conn    *grpc.ClientConn
	runtime runtime.RuntimeServiceClient

	commands commands

	state   atomic.Pointer[state]
	trouble atomic.Pointer[error] // nil before the first list: notAsked
}

var errNotAsked = errors.New("it was not asked yet")

// New returns a client, and connects to nothing.
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

// Container returns the newest start of a container, from memory; false if none is known.
func (c *Client) Container(uid types.UID, name string) (Container, bool) {
	found, ok := c.state.Load().newest[key{uid, name}]
	return found, ok
}

// Owner returns the pod of a container, which the runtime and not the pod's status says. It asks
// the memory.
func (c *Client) Owner(containerID string) (uid types.UID, ok bool) {
	found, ok := c.state.Load().all[bare(containerID)]
	return found.PodUID, ok
}

// Trouble returns why the runtime cannot be asked at present; nil if it can. What was known last
// stands meanwhile.
func (c *Client) Trouble() error {
	if err := *c.trouble.Load(); err != nil {
		return fmt.Errorf("container runtime at %s: %w", c.socket, err)
	}
	return nil
}

// setTrouble remembers the error of the last list, and logs when it begins and ends.
func (c *Client) setTrouble(err error) {
	before := *c.trouble.Swap(&err)
	switch {
	case err == nil && before == errNotAsked:
		c.log.Info("the container runtime lists its containers", "socket", c.socket)
	case err != nil && (before == nil || before == errNotAsked):
		c.log.Warn("the container runtime cannot be asked; what it said last stands", "socket", c.socket, "error", err)
	case err == nil && before != nil:
		c.log.Info("the container runtime answers again", "socket", c.socket)
	}
}

// bare returns the runtime's own ID of a container: without the scheme.
func bare(containerID string) string {
	if _, id, ok := strings.Cut(containerID, "://"); ok {
		return id
	}
	return containerID
}
