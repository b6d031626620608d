// Command registrar keeps a file of the endpoints that are ready. It connects to each endpoint every
// second, and writes FILE when the readiness of one changes.
//
//	go run ./registrar FILE web=10.0.0.7:80 db=10.0.0.8:5432 …
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
	"github.com/daeace23/prober/probe"
)

// registrar copies the readiness of endpoints into a file.
type registrar struct {
	probes  *group.Group[string] // by name of endpoint
	file    string
	retry   time.Duration     // until a file that could not be written is tried again
	ready   map[string]string // addresses by name, as they are written; owned by Run
	written map[string]string // nil if unknown
}

// Add starts the probe of an endpoint.
func (r *registrar) Add(tcp *tcpprobe.Handler, name, address string, period time.Duration) error {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("port of %s: %w", address, err)
	}
	handler, err := tcp.Bind(tcpprobe.Action{Host: host, Port: port})
	if err != nil {
		return err
	}
	task := &worker.Task{Subject: results.Subject{Pod: name, Container: address}}
	task.SetState(worker.Running(name, time.Now()))
	return r.probes.Add(name, group.Probe{
		Task: task, Kind: probe.Readiness, Handler: handler, Name: "tcp", Spec: probe.Spec{Period: period, FailureThreshold: 1},
	})
}

// Run writes the file until ctx ends. It may then be called again, by a program that restarts its
// parts. An update only means that an endpoint may have changed: Run writes its current readiness.
// Thus merged updates, and updates missed between two calls, do no harm.
func (r *registrar) Run(ctx context.Context) error {
	updates := r.probes.Subscribe(ctx) // before the first reading, so that no change is missed
	r.ready, r.written = make(map[string]string), nil
	for id := range r.probes.All() {
		r.readReadiness(id)
	}
	r.write(ctx)
	for name, u := range updates {
		r.readReadiness(group.ID[string]{Key: name, Task: u.Container, Kind: u.Kind})
		r.write(ctx)
	}
	return context.Cause(ctx)
}

// readReadiness reads the readiness of an endpoint. An endpoint without a probe is not ready.
func (r *registrar) readReadiness(id group.ID[string]) {
	delete(r.ready, id.Key)
	if s, ok := r.probes.Status(id); ok && s.Decided == results.Success {
		r.ready[id.Key] = id.Task
	}
}

// write writes the file if it differs. It retries until it succeeds or ctx ends. Meanwhile the updates
// of each endpoint are merged, and the probes continue.
func (r *registrar) write(ctx context.Context) {
	for r.written == nil || !maps.Equal(r.ready, r.written) {
		err := r.replace()
		if err == nil {
			r.written = maps.Clone(r.ready)
			return
		}
		fmt.Fprintln(os.Stderr, "registrar:", err)
		select {
		case <-time.After(r.retry):
		case <-ctx.Done():
			return
		}
	}
}

// replace replaces the file atomically, so that no reader sees a part of it.
func (r *registrar) replace() error {
	text, err := json.Marshal(r.ready)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(r.file), "."+filepath.Base(r.file)+".new")
	if err := os.WriteFile(next, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(next, r.file)
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) < 2 {
		return fmt.Errorf("usage: registrar FILE NAME=HOST:PORT …")
	}
	g, err := group.New[string](group.Config{})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, g.Shutdown(context.WithoutCancel(ctx))) }()
	r, tcp := &registrar{probes: g, file: args[0], retry: time.Second}, tcpprobe.New(tcpprobe.Config{})
	for _, arg := range args[1:] {
		name, address, _ := strings.Cut(arg, "=")
		if err := r.Add(tcp, name, address, time.Second); err != nil {
			return err
		}
	}
	return r.Run(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "registrar:", err)
		os.Exit(1)
	}
}
