package cri_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/pods/kube/cri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a scripted container runtime behind a real socket.
type fake struct {
	runtime.UnimplementedRuntimeServiceServer
	socket string
	name   string // of the runtime
	server *grpc.Server
	served sync.WaitGroup

	listed chan time.Time // time of each list request
	log    chan string    // of the client
	events chan *runtime.ContainerEventResponse

	exec    func(context.Context, *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error)
	stop    func(*runtime.StopContainerRequest) error
	details func(context.Context, string) (*runtime.ContainerStatusResponse, error) // nil: from the list
	sandbox func(*runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error)
	boxes   []*runtime.PodSandbox

	noEvents    bool
	eventsError error

	mu    sync.Mutex
	list  []*runtime.Container
	slow  chan struct{} // lists wait until it is closed
	asked map[string]int
}

func newFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &fake{
		socket: filepath.Join(dir, "s"), name: "containerd", listed: make(chan time.Time, 1000), log: make(chan string, 1000), noEvents: true,
		events: make(chan *runtime.ContainerEventResponse), asked: map[string]int{},
	}
	return f
}

// serve starts the runtime, or starts it again.
func (f *fake) serve(t *testing.T) {
	t.Helper()
	os.Remove(f.socket)
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxSendMsgSize(64 << 20))
	runtime.RegisterRuntimeServiceServer(server, f)
	f.server = server
	f.served.Go(func() { server.Serve(l) })
	t.Cleanup(f.crash)
}

func (f *fake) crash() {
	f.server.Stop()
	f.served.Wait()
}

// client returns a running client of f, and a channel of the changed pods.
func (f *fake) client(t *testing.T) (c *cri.Client, changed chan types.UID) {
	t.Helper()
	c = f.silent(t)
	changed = make(chan types.UID, 20_000)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, func(uid types.UID) { changed <- uid }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return c, changed
}

// silent returns a client without Run.
func (f *fake) silent(t *testing.T) *cri.Client {
	t.Helper()
	c, err := cri.New(cri.Config{Socket: f.socket, Logger: slog.New(slog.NewTextHandler(logLines(f.log), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// logLines sends each line of a log to a channel.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// logged waits for a log message that contains text.
func (f *fake) logged(text string) {
	for !strings.Contains(<-f.log, text) {
	}
}

// set replaces the containers.
func (f *fake) set(list ...*runtime.Container) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = list
}

// lists waits for n lists that begin after the call.
func (f *fake) lists(n int) {
	for len(f.listed) > 0 {
		<-f.listed
	}
	for range n {
		<-f.listed
	}
}

func (f *fake) count(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[call]
}

func (f *fake) note(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[call]++
}

func (f *fake) Version(context.Context, *runtime.VersionRequest) (*runtime.VersionResponse, error) {
	f.note("version")
	return &runtime.VersionResponse{RuntimeName: f.name}, nil
}

func (f *fake) ListContainers(ctx context.Context, _ *runtime.ListContainersRequest) (*runtime.ListContainersResponse, error) {
	f.note("list")
	f.mu.Lock()
	slow, list := f.slow, f.list
	f.mu.Unlock()
	if slow != nil {
		select {
		case <-slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case f.listed <- time.Now():
	default:
	}
	return &runtime.ListContainersResponse{Containers: list}, nil
}

func (f *fake) ContainerStatus(ctx context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	f.note("status " + r.ContainerId)
	if f.details != nil {
		return f.details(ctx, r.ContainerId)
	}
	return f.status(r.ContainerId)
}

// started is the start time of all containers.
var started = time.Unix(1_790_000_000, 123)

// status returns the state from the list, with times and exit code 7.
func (f *fake) status(id string) (*runtime.ContainerStatusResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.list {
		if c.GetId() != id {
			continue
		}
		s := &runtime.ContainerStatus{Id: id, State: c.State, Metadata: c.Metadata, CreatedAt: c.CreatedAt, StartedAt: started.UnixNano()}
		if c.State == runtime.ContainerState_CONTAINER_EXITED {
			s.FinishedAt, s.ExitCode, s.Reason = started.Add(time.Minute).UnixNano(), 7, "Error"
		}
		return &runtime.ContainerStatusResponse{Status: s}, nil
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func (f *fake) GetContainerEvents(_ *runtime.GetEventsRequest, s grpc.ServerStreamingServer[runtime.ContainerEventResponse]) error {
	f.note("events")
	if f.eventsError != nil {
		return f.eventsError
	}
	if f.noEvents {
		return status.Error(codes.Unimplemented, "method GetContainerEvents not implemented")
	}
	for {
		select {
		case <-s.Context().Done():
			return nil
		case e := <-f.events:
			if err := s.Send(e); err != nil {
				return err
			}
		}
	}
}

func (f *fake) ExecSync(ctx context.Context, r *runtime.ExecSyncRequest) (*runtime.ExecSyncResponse, error) {
	f.note("exec")
	return f.exec(ctx, r)
}

func (f *fake) StopContainer(_ context.Context, r *runtime.StopContainerRequest) (*runtime.StopContainerResponse, error) {
	return &runtime.StopContainerResponse{}, f.stop(r)
}

func (f *fake) ListPodSandbox(context.Context, *runtime.ListPodSandboxRequest) (*runtime.ListPodSandboxResponse, error) {
	return &runtime.ListPodSandboxResponse{Items: f.boxes}, nil
}

func (f *fake) PodSandboxStatus(_ context.Context, r *runtime.PodSandboxStatusRequest) (*runtime.PodSandboxStatusResponse, error) {
	return f.sandbox(r)
}

const (
	created = runtime.ContainerState_CONTAINER_CREATED
	running = runtime.ContainerState_CONTAINER_RUNNING
	exited  = runtime.ContainerState_CONTAINER_EXITED
	unknown = runtime.ContainerState_CONTAINER_UNKNOWN
)

// container returns an item of a list, for the container "app" of the pod uid.
func container(id, uid string, attempt uint32, state runtime.ContainerState) *runtime.Container {
	return &runtime.Container{
		Id: id, PodSandboxId: "box", State: state, CreatedAt: int64(attempt) + 1, Metadata: &runtime.ContainerMetadata{Name: "app", Attempt: attempt},
		Labels: map[string]string{
			"io.kubernetes.pod.uid": uid, "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.name": "p-" + uid, "io.kubernetes.container.name": "app",
		},
	}
}

func many(n int) (list []*runtime.Container) {
	for i := range n {
		list = append(list, container(fmt.Sprint("c", i), fmt.Sprint("u", i), 0, running))
	}
	return list
}
