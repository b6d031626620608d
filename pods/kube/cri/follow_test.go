package cri_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/pods/kube/cri"
)

func TestNewRelativeSocketIsRefused(t *testing.T) {
	t.Parallel()
	for _, socket := range []string{"", "run/containerd.sock"} {
		if _, err := cri.New(cri.Config{Socket: socket}); err == nil || !strings.Contains(err.Error(), "must be an absolute path") {
			t.Errorf("%q: %v", socket, err)
		}
	}
}

func TestRunWithoutEventsReadsOnlyChangedContainers(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.set(container("a0", "a", 0, exited), container("a1", "a", 1, running), container("b0", "b", 0, created))
	f.serve(t)
	c, changed := f.client(t)
	if uid := <-changed; uid != "a" {
		t.Fatalf("changed %q, want a", uid)
	}
	want := cri.Container{
		ID: "containerd://a1", PodUID: "a", Namespace: "default", Pod: "p-a", Name: "app", Restarts: 1, Running: true, StartedAt: started, SandboxID: "box",
	}
	if got, ok := c.Container("a", "app"); !ok || !same(got, want) {
		t.Errorf("got %+v, %t; want %+v", got, ok, want)
	}
	if _, ok := c.Container("b", "app"); ok {
		t.Error("a container that has not started is known as one that has")
	}
	for id, want := range map[string]types.UID{"containerd://a0": "a", "a1": "a", "containerd://b0": "b", "containerd://x": ""} {
		if uid, ok := c.Owner(id); uid != want || ok != (want != "") {
			t.Errorf("owner of %s: %q, %t", id, uid, ok)
		}
	}
	f.lists(2)
	f.set(container("a0", "a", 0, exited), container("a1", "a", 1, exited), container("b0", "b", 0, running))
	told := map[types.UID]bool{<-changed: true, <-changed: true}
	if !told["a"] || !told["b"] {
		t.Errorf("told %v", told)
	}
	want.Running, want.Exited, want.FinishedAt, want.ExitCode, want.Reason = false, true, started.Add(time.Minute), 7, "Error"
	if got, _ := c.Container("a", "app"); !same(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	f.lists(2)
	for call, want := range map[string]int{"version": 1, "events": 1, "status a0": 1, "status a1": 2, "status b0": 1} {
		if got := f.count(call); got != want {
			t.Errorf("%s: %d calls, want %d", call, got, want)
		}
	}
	f.set(container("b0", "b", 0, unknown)) // containers of a are removed; b's state is lost
	if uid := <-changed; uid != "a" {
		t.Errorf("changed %q, want a", uid)
	}
	if _, ok := c.Container("a", "app"); ok {
		t.Error("a container that was removed is still known")
	}
	if got, ok := c.Container("b", "app"); !ok || !got.Running {
		t.Errorf("a container whose state the runtime has lost: %+v, %t", got, ok)
	}
	if len(changed) != 0 {
		t.Errorf("told of %q, which has not changed", <-changed)
	}
}

// same compares the exported fields.
func same(a, b cri.Container) bool {
	if !a.StartedAt.Equal(b.StartedAt) || !a.FinishedAt.Equal(b.FinishedAt) {
		return false
	}
	return a.ID == b.ID && a.PodUID == b.PodUID && a.Namespace == b.Namespace && a.Pod == b.Pod && a.Name == b.Name && a.Restarts == b.Restarts &&
		a.Running == b.Running && a.Exited == b.Exited && a.ExitCode == b.ExitCode && a.Reason == b.Reason && a.SandboxID == b.SandboxID
}

func TestRunEventCausesListAtOnce(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.noEvents = false
	f.serve(t)
	_, changed := f.client(t)
	last := time.Now()
	for quiet := false; !quiet; { // one list a second until the stream is trusted
		select {
		case last = <-f.listed:
		case <-time.After(2500 * time.Millisecond):
			quiet = true
		}
	}
	f.set(container("a0", "a", 0, running))
	f.events <- &runtime.ContainerEventResponse{} // an empty event
	<-changed
	if took := time.Since(last); took > 9*time.Second {
		t.Errorf("the change was told %v after the last list: by the next list, not by the event", took)
	}
	before, begun := f.count("list"), time.Now()
	for range 5000 {
		f.events <- &runtime.ContainerEventResponse{ContainerId: "a0"}
	}
	if got, most := f.count("list")-before, int(time.Since(begun)/(100*time.Millisecond))+3; got > most {
		t.Errorf("a flood of events caused %d lists, more than %d", got, most)
	}
}

func TestRunFailedEventsAreReplacedByLists(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.eventsError = status.Error(codes.Internal, "out of order")
	f.set(container("a0", "a", 0, running))
	f.serve(t)
	c, changed := f.client(t)
	<-changed
	f.lists(2)
	if got := f.count("events"); got != 1 || c.Trouble() != nil {
		t.Errorf("%d streams of events were opened, trouble %v", got, c.Trouble())
	}
}

func TestRunRuntimeAwayKeepsStateAndReconnects(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	if err := f.silent(t).Trouble(); err == nil || !strings.Contains(err.Error(), "it was not asked yet") {
		t.Errorf("trouble before the first list: %v", err)
	}
	c, changed := f.client(t)
	f.logged("cannot be reached")
	f.set(container("a0", "a", 0, running))
	f.serve(t)
	f.logged("answers again")
	<-changed
	if err := c.Trouble(); err != nil {
		t.Errorf("trouble: %v", err)
	}
	f.crash()
	f.logged("cannot be reached")
	if err := c.Trouble(); !strings.Contains(err.Error(), f.socket) {
		t.Errorf("trouble %q does not name the socket", err)
	}
	if got, ok := c.Container("a", "app"); !ok || !got.Running {
		t.Errorf("while the runtime is away: %+v, %t", got, ok)
	}
	f.set(container("a1", "a", 1, running))
	f.serve(t)
	f.logged("answers again")
	<-changed
	if got, _ := c.Container("a", "app"); got.ID != "containerd://a1" {
		t.Errorf("after the runtime has come back: %+v", got)
	}
	if err := c.Trouble(); err != nil {
		t.Errorf("trouble: %v", err)
	}
}

func TestRunHostileAnswers(t *testing.T) {
	t.Parallel()
	t.Run("items without identity are skipped", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		long, nameless, podless, bare := container("l", "l", 0, running), container("n", "n", 0, running), container("p", "p", 0, running), &runtime.Container{Id: "bare"}
		long.Labels["io.kubernetes.pod.name"] = strings.Repeat("x", 1<<20)
		delete(nameless.Labels, "io.kubernetes.container.name")
		delete(podless.Labels, "io.kubernetes.pod.uid")
		noID := container("", "i", 0, running)
		noMeta := container("m", "m", 0, running)
		noMeta.Metadata = nil
		f.set(long, nameless, podless, bare, noID, nil, noMeta)
		f.serve(t)
		c, changed := f.client(t)
		if uid := <-changed; uid != "m" {
			t.Errorf("changed %q", uid)
		}
		f.lists(1)
		if err := c.Trouble(); err != nil || len(changed) != 0 {
			t.Errorf("trouble %v, %d more changes", err, len(changed))
		}
	})
	for name, answer := range map[string]*runtime.ContainerStatusResponse{
		"no status": {}, "status of another container": {Status: &runtime.ContainerStatus{Id: "other", State: running}},
	} {
		t.Run(name+" is read again", func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.details = func(_ context.Context, id string) (*runtime.ContainerStatusResponse, error) {
				if f.count("status "+id) < 3 {
					return answer, nil
				}
				return f.status(id)
			}
			f.set(container("a0", "a", 0, running))
			f.serve(t)
			c, changed := f.client(t)
			<-changed
			if got, ok := c.Container("a", "app"); !ok || !got.StartedAt.Equal(started) || f.count("status a0") != 3 {
				t.Errorf("got %+v, %t", got, ok)
			}
		})
	}
	t.Run("a container that is removed before it is read", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.details = func(_ context.Context, id string) (*runtime.ContainerStatusResponse, error) {
			if id == "a0" {
				return nil, status.Error(codes.NotFound, "gone")
			}
			return f.status(id)
		}
		f.set(container("a0", "a", 0, running), container("b0", "b", 0, running))
		f.serve(t)
		c, changed := f.client(t)
		if uid := <-changed; uid != "b" {
			t.Errorf("changed %q", uid)
		}
		f.lists(1)
		if _, ok := c.Container("a", "app"); ok || c.Trouble() != nil {
			t.Errorf("known %t, trouble %v", ok, c.Trouble())
		}
	})
	t.Run("one slow status hides no other container", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.details = func(ctx context.Context, id string) (*runtime.ContainerStatusResponse, error) {
			if id == "c0" {
				<-ctx.Done() // maybe before the client's own deadline, so that an answer would still count
				return nil, ctx.Err()
			}
			return f.status(id)
		}
		f.set(many(30)...)
		f.serve(t)
		_, changed := f.client(t)
		for range 29 {
			if uid := <-changed; uid == "u0" {
				t.Error("the slow one was told")
			}
		}
	})
	t.Run("too many containers", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.set(many(10_001)...)
		f.serve(t)
		c, _ := f.client(t)
		f.logged("cannot be reached")
		if err := c.Trouble(); err == nil || !strings.Contains(err.Error(), "10001 containers, more than 10000") {
			t.Errorf("trouble: %v", err)
		}
	})
	t.Run("a list larger than the maximum message", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		huge := container("a0", "a", 0, running)
		huge.Annotations = map[string]string{"x": strings.Repeat("x", 17<<20)}
		f.set(huge)
		f.serve(t)
		c, _ := f.client(t)
		f.logged("cannot be reached")
		if err := c.Trouble(); err == nil || !strings.Contains(err.Error(), "larger than max") {
			t.Errorf("trouble: %v", err)
		}
	})
	t.Run("a runtime with an invalid name", func(t *testing.T) {
		t.Parallel()
		f := newFake(t)
		f.name = "a name/of: evil"
		f.serve(t)
		c, _ := f.client(t)
		f.logged("cannot be reached")
		if err := c.Trouble(); !strings.Contains(err.Error(), `"a name/of: evil" is no name of a container runtime`) {
			t.Errorf("trouble: %v", err)
		}
	})
}

func TestCRIOScheme(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.name = "cri-o"
	f.set(container("a0", "a", 0, running))
	f.serve(t)
	c, changed := f.client(t)
	<-changed
	if got, _ := c.Container("a", "app"); got.ID != "cri-o://a0" {
		t.Errorf("ID %q", got.ID)
	}
}

func TestNoSocketIsTrouble(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c, _ := f.client(t)
	f.logged("cannot be reached")
	if err := c.Trouble(); !strings.Contains(err.Error(), "no such file") {
		t.Errorf("trouble: %v", err)
	}
}
