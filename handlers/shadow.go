package handlers

import (
	"context"

	"github.com/daeace23/prober/probe"
)

type shadow struct{}

type shadowBinding struct{}

func (s *shadowBinding) beside(ctx context.Context, h probe.Handler, req probe.Request) (probe.Outcome, error) {
	return h.Probe(ctx, req)
}

func (s *Swap) addShadow(*held)   {}
func (s *Swap) dropShadowLocked() {}
