package main

import (
	"context"
	"os"

	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
)

// register fills the registry: the built-in handlers, our own, and plugins.
func (a *agent) register(ctx context.Context, plugins []string) (err error) {
	cfg := builtin.Config{DialContext: a.network.DialContext, Runner: &builtin.HostRunner{}}
	if err := builtin.Register(&a.registry, cfg); err != nil {
		return err
	}
	if err := a.registry.Register("backlog", "this agent", &backlog{a.waiting}); err != nil {
		return err
	}
	if a.host, err = wasm.New(wasm.Config{DialContext: a.network.DialContext}); err != nil {
		return err
	}
	for _, path := range plugins {
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		handler, err := a.host.Load(ctx, plugin.Found{Module: code})
		if err != nil {
			return err
		}
		if err := a.registry.Register(handler.Manifest().Name, path, handler); err != nil {
			return err
		}
	}
	return nil
}
