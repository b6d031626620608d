// Package handlers has a registry of handlers by name.
//
// A [Registry] is a value: two managers in one program may have different handlers, and no handler
// registers itself. handlers/builtin has the built-in handlers, handlers/wasm runs WebAssembly plugins, and
// handlers/process runs plugins as processes. Four packages wrap any handler: handlers/replace replaces it
// while probes use it, handlers/shadow compares it with another one, handlers/quarantine pauses it while it
// is broken, and handlers/limit bounds its attempts in flight.
package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/internal/nearest"
	"github.com/daeace23/prober/internal/panics"
	"github.com/daeace23/prober/probe"
)

// Registry maps names to handlers. The zero value is empty and ready to use; it
// is safe for concurrent use.
type Registry struct {
	mu      sync.RWMutex
	entries map[string]entry
}

type entry struct {
	handler probe.Handler
	origin  string
}

// Register adds h under name. origin is "built in" or the path of a file. If the name is taken, the error
// contains the origin of the handler that has it.
func (r *Registry) Register(name, origin string, h probe.Handler) error {
	if name == "" || h == nil {
		return fmt.Errorf("register handler %q of %s: a name and a handler are required", name, origin)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[name]; ok {
		return fmt.Errorf("handler %q of %s: the name is taken by %s", name, origin, e.origin)
	}
	if r.entries == nil {
		r.entries = make(map[string]entry)
	}
	r.entries[name] = entry{h, origin}
	return nil
}

// Remove removes the handler called name and returns it, or nil if there is none. It does not close the
// handler.
func (r *Registry) Remove(name string) probe.Handler {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.entries[name].handler
	delete(r.entries, name)
	return h
}

// Lookup returns the handler called name. The error for an unknown name is an
// [UnknownError].
func (r *Registry) Lookup(name string) (probe.Handler, error) {
	r.mu.RLock()
	e, ok := r.entries[name]
	r.mu.RUnlock()
	if !ok {
		return nil, &UnknownError{Name: name, Known: r.Names()}
	}
	return e.handler, nil
}

// Names returns the names of all handlers, sorted.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.entries))
}

// Prepare returns the handler called name, bound to config and target. An empty
// config stands for "{}". A handler that is not a [probe.Preparer] takes no config.
func (r *Registry) Prepare(name string, config []byte, target probe.Target) (probe.Handler, error) {
	h, err := r.Lookup(name)
	if err != nil {
		return nil, err
	}
	if len(config) == 0 || string(config) == "null" {
		config = []byte("{}")
	}
	bound, err := probe.Prepare(context.Background(), h, config, target)
	if err != nil {
		return nil, fmt.Errorf("handler %q: %w", name, err)
	}
	return bound, nil
}

// Close closes every handler that is an [io.Closer] and empties the registry. A Close that panics is an
// error.
func (r *Registry) Close() error {
	r.mu.Lock()
	entries := r.entries
	r.entries = nil
	r.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		c, ok := entries[name].handler.(io.Closer)
		if !ok {
			continue
		}
		if err := panics.Call(c.Close); err != nil {
			errs = append(errs, fmt.Errorf("close handler %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// UnknownError is the error for a name without a handler.
type UnknownError struct {
	Name  string   // "" if no name was given
	Known []string // all names, sorted
}

// Error lists the known names, and suggests the nearest one.
func (e *UnknownError) Error() string {
	known := strings.Join(e.Known, ", ")
	if e.Name == "" {
		return "no handler named; known: " + known
	}
	msg := fmt.Sprintf("unknown handler %q; known: %s", e.Name, known)
	if near := nearest.Name(e.Name, e.Known); near != "" {
		msg += fmt.Sprintf(" (did you mean %q?)", near)
	}
	return msg
}
