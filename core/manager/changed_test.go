package manager_test

import (
	"context"
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/manager/managertest"
	"github.com/daeace23/prober/probe"
)

func TestChangedProbes(t *testing.T) {
	for name, scoped := range map[string]bool{"default": false, "container-scoped": true} {
		t.Run(name, func(t *testing.T) {
			managertest.TestChangedProbes(t, func(t *testing.T, w *managertest.World) managertest.Subject {
				m, err := manager.New(manager.Config{Status: w, Handlers: worldHandlers{w}, ContainerScoped: scoped})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = m.Close() })
				return subject{m}
			})
		})
	}
}

// subject is a manager without typed probes.
type subject struct{ *manager.Manager }

func (s subject) AddPod(ctx context.Context, pod *v1.Pod) error { return s.Manager.AddPod(ctx, pod) }

func (s subject) UpdatePod(ctx context.Context, pod *v1.Pod) error {
	return s.Manager.UpdatePod(ctx, pod)
}

// worldHandlers runs the commands of exec probes in a world.
type worldHandlers struct{ world *managertest.World }

func (h worldHandlers) Prepare(_ string, config []byte, _ probe.Target) (probe.Handler, error) {
	var exec v1.ExecAction
	if err := json.Unmarshal(config, &exec); err != nil {
		return nil, err
	}
	return probe.HandlerFunc(func(ctx context.Context, _ probe.Request) (probe.Outcome, error) {
		code, err := h.world.Exec(ctx, exec.Command)
		switch {
		case err != nil: // the deadline has passed
			return probe.Outcome{Result: probe.Failure, Output: err.Error()}, nil
		case code != 0:
			return probe.Outcome{Result: probe.Failure}, nil
		}
		return probe.Outcome{Result: probe.Success}, nil
	}), nil
}
