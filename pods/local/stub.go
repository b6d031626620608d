package local

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

type pod struct {
	done       chan struct{}
	persistent bool
}
type savedPod struct{}
type stateDir struct{ path string }
type container struct {
	dir string
	env []string
}

func (s *stateDir) load(*slog.Logger) (map[types.UID]savedPod, error) { return nil, nil }
func (s *stateDir) remove(uid types.UID)                              {}
func (p *pod) sync()                                                  {}
func (p *pod) change(*v1.Pod) bool                                    { return false }
func (p *pod) terminate(<-chan struct{})                              {}
func (p *pod) updateProbes(context.Context) error                     { return nil }
func (p *pod) published() *v1.Pod                                     { return nil }
func (p *pod) byID(string) *container                                 { return nil }
func (p *Pods) newPodLocked(*v1.Pod) *pod                             { return nil }
func (p *Pods) run(context.Context, *pod) error                       { return nil }

// Load reads all manifests. Its error is [Problems] when manifests are wrong.
func (s *Source) Load() (Loaded, error) { return Loaded{}, nil }

// Stamp returns a text that changes when the files that Load would read do: their
// names, sizes or times. It reads none of them.
func (s *Source) Stamp() (string, error) { return "", nil }
