package oracle

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/probe"
)

// ours is prober's manager with its own exec handler.
type ours struct {
	*manager.Manager
	event func(fieldPath, eventType, reason, message string)
	// tamper, when set, changes each pod that is added: a way to build a fault in.
	tamper func(*v1.Pod)
}

var _ Side = (*ours)(nil)

// Ours makes prober's side with the given switches.
func Ours(compat manager.Compat) Maker { return Tampered(compat, nil) }

// Tampered makes prober's side, to which every pod is given as tamper leaves it.
func Tampered(compat manager.Compat, tamper func(*v1.Pod)) Maker {
	return func(o Outside) Side {
		registry := new(handlers.Registry)
		if err := builtin.Register(registry, builtin.Config{Runner: execRunner(o.Run), Compat: compat}); err != nil {
			panic(fmt.Sprintf("register the built-in handlers: %v", err))
		}
		m, err := manager.New(manager.Config{
			Status:   podStatuses(o.PodStatus),
			Handlers: registry,
			Recorder: eventRecorder(o.Event),
			Logger:   slog.New(slog.DiscardHandler),
			Compat:   compat,
		})
		if err != nil {
			panic(fmt.Sprintf("make a manager: %v", err))
		}
		return &ours{Manager: m, event: o.Event, tamper: tamper}
	}
}

// AddPod implements [Side]. The kubelet's has no error; ours must not be needed.
func (s *ours) AddPod(ctx context.Context, pod *v1.Pod) {
	if s.tamper != nil {
		s.tamper(pod)
	}
	if err := s.Manager.AddPod(ctx, pod); err != nil {
		s.event(pod.Name, "error", "AddPod", err.Error())
	}
}

// Cached implements [Side].
func (s *ours) Cached(kind, id string) string {
	k, err := probe.ParseKind(kind)
	if err != nil {
		return err.Error()
	}
	if r, ok := s.Results(k).Get(id); ok {
		return r.String()
	}
	return ""
}

// Close implements [Side].
func (s *ours) Close() {
	if err := s.Manager.Close(); err != nil {
		panic(fmt.Sprintf("close the manager: %v", err))
	}
}

type podStatuses func(types.UID) (v1.PodStatus, bool)

func (f podStatuses) PodStatus(uid types.UID) (v1.PodStatus, bool) { return f(uid) }

type execRunner func(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error)

func (r execRunner) RunInContainer(ctx context.Context, id string, cmd []string, timeout time.Duration) ([]byte, error) {
	return r(ctx, id, cmd, timeout)
}
