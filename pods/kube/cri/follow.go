package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/daeace23/prober/internal/pace"
)

const (
	listEvery    = time.Second            // without events
	listAnyway   = 10 * time.Second       // with events
	listAtOnce   = 100 * time.Millisecond // minimum between two lists for events
	eventsTrust  = 3 * time.Second        // a stream of events is trusted after this time
	eventsRetry  = 30 * time.Second       // before an ended stream is opened again
	listTimeout  = 10 * time.Second
	askTimeout   = 2 * time.Second
	asksAtOnce   = 8
	retryFirst   = 250 * time.Millisecond
	retryLongest = 2 * time.Second
)

// follower keeps the state of a [Client] up to date. Its goroutine owns it.
type follower struct {
	*Client
	changed func(uid types.UID)
	scheme  string // scheme of container IDs: the name of the runtime

	wake      chan struct{} // an event has arrived
	ended     chan error    // error at the end of the event stream
	streaming bool
	streamed  time.Time // when the stream was opened
	reopen    time.Time // earliest time to open the stream again
	noEvents  bool      // the runtime does not implement events
}

// Run keeps the state of the node's containers up to date until ctx ends. It lists them at events of the runtime,
// or once a second if the runtime has no events. It calls changed for each pod whose containers have changed.
func (c *Client) Run(ctx context.Context, changed func(uid types.UID)) {
	f := &follower{Client: c, changed: changed, wake: make(chan struct{}, 1), ended: make(chan error, 1)}
	var stream sync.WaitGroup
	defer stream.Wait()
	for retry := time.Duration(0); ctx.Err() == nil; {
		f.open(ctx, &stream)
		err := f.list(ctx)
		if ctx.Err() != nil {
			return
		}
		f.setTrouble(err)
		if err != nil {
			retry = min(max(2*retry, retryFirst), retryLongest)
			f.noEvents, f.reopen = false, time.Time{} // the runtime may restart with another version
			f.pause(ctx, pace.Jitter(retry/2, retry), false)
			continue
		}
		retry = 0
		f.pause(ctx, f.interval(), true)
	}
}

// interval returns the time until the next list without an event.
func (f *follower) interval() time.Duration {
	if f.streaming && time.Since(f.streamed) >= eventsTrust {
		return listAnyway
	}
	return listEvery
}

// pause waits for at most atMost. The end of ctx or of the stream ends it earlier, and with events set, so does an
// event.
func (f *follower) pause(ctx context.Context, atMost time.Duration, events bool) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	wake := f.wake
	if !events {
		wake = nil
	}
	select {
	case <-ctx.Done():
	case <-timer.C:
	case err := <-f.ended:
		f.streaming = false
		f.noEvents = status.Code(err) == codes.Unimplemented
		f.reopen = time.Now().Add(eventsRetry)
		if !f.noEvents {
			f.log.Debug("the container runtime ended its events", "socket", f.socket, "error", err)
		}
	case <-wake:
		f.pause(ctx, listAtOnce, false)
	}
}

// open opens the stream of events, unless it is open or not supported. The caller must list the containers
// afterwards, to see changes from before the stream.
func (f *follower) open(ctx context.Context, running *sync.WaitGroup) {
	if f.streaming || f.noEvents || time.Now().Before(f.reopen) {
		return
	}
	f.streaming, f.streamed = true, time.Now()
	running.Go(func() { f.ended <- f.events(ctx) })
}

// events reads events until the stream ends. It ignores their content: each event only triggers a list, which also
// covers other events in flight.
func (f *follower) events(ctx context.Context) error {
	stream, err := f.runtime.GetContainerEvents(ctx, &runtime.GetEventsRequest{})
	if err != nil {
		return err
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// list replaces the state by the runtime's, and calls changed for each changed pod.
func (f *follower) list(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := f.name(ctx); err != nil {
		return err
	}
	answer, err := f.runtime.ListContainers(ctx, &runtime.ListContainersRequest{})
	if err != nil {
		return wrap("list containers", err)
	}
	if n := len(answer.GetContainers()); n > maxContainers {
		return fmt.Errorf("list containers: %d containers, more than %d", n, maxContainers)
	}
	old := f.state.Load()
	all, unknown := f.merge(old, answer.GetContainers())
	f.ask(ctx, all, unknown)
	next := stateOf(all)
	f.state.Store(next)
	for uid := range next.changedSince(old) {
		f.changed(uid)
	}
	return nil
}

// name asks the runtime for its name, which is the scheme of its container IDs.
func (f *follower) name(ctx context.Context) error {
	if f.scheme != "" {
		return nil
	}
	answer, err := f.runtime.Version(ctx, &runtime.VersionRequest{})
	if err != nil {
		return wrap("version", err)
	}
	name := answer.GetRuntimeName()
	if name == "" || len(name) > 63 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == ':' }) {
		return fmt.Errorf("version: %.80q is no name of a container runtime", name)
	}
	f.scheme = name
	return nil
}

// merge returns the containers of a list by ID. unknown has the containers whose details must be read: new ones, and
// ones whose state has changed. For the latter, all has the old details.
func (f *follower) merge(old *state, items []*runtime.Container) (all, unknown map[string]Container) {
	all, unknown = make(map[string]Container, len(items)), make(map[string]Container)
	for _, item := range items {
		c, ok := containerOf(f.scheme, item)
		if !ok {
			continue
		}
		before, known := old.all[item.GetId()]
		switch {
		case known && before.hasState(item.GetState()):
			all[item.GetId()] = before
		case known:
			all[item.GetId()], unknown[item.GetId()] = before, c
		case item.GetState() == runtime.ContainerState_CONTAINER_CREATED:
			all[item.GetId()] = c
		default:
			unknown[item.GetId()] = c
		}
	}
	return all, unknown
}

// ask reads the details of the containers in unknown, and sets them in all. After an error, a container keeps its
// old details until the next list. Containers that do not exist are deleted from all.
func (f *follower) ask(ctx context.Context, all, unknown map[string]Container) {
	var (
		asking sync.WaitGroup
		mu     sync.Mutex // guards all
		slots  = make(chan struct{}, asksAtOnce)
	)
	for id, c := range unknown {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			details, err := f.details(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				all[id] = c.withDetails(details)
			case errors.Is(err, ErrNoContainer):
				delete(all, id)
			}
		})
	}
	asking.Wait()
}

func (f *follower) details(ctx context.Context, id string) (*runtime.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := f.runtime.ContainerStatus(ctx, &runtime.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return nil, wrap("status of container "+id, err)
	}
	if answer.GetStatus().GetId() != id {
		return nil, fmt.Errorf("status of container %s: the runtime returned another container", id)
	}
	return answer.GetStatus(), nil
}
