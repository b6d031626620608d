package attempt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/daeace23/prober/bench/internal/child"
	"github.com/daeace23/prober/bench/internal/record"
	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// PluginJob is the name of the job of [ServePlugins].
const PluginJob = "plugins"

// The subjects of [ServePlugins], in the order in which they alternate.
const (
	CReset   = "C, reset"
	CPooled  = "C, pooled"
	GoReset  = "Go, reset"
	GoPooled = "Go, pooled"
	Process  = "process of go-plugin"
	Cached   = "Go, from the cache" // measures a start, not an attempt

	BareCached = "wazero, from the cache"

	ProcessStart = "process of go-plugin, its start"
	ProcessAlone = "process of go-plugin, alone" // until it has written its handshake line
)

// PluginRequest requests attempts of plugins, one at a time.
type PluginRequest struct {
	C, Go   string // paths of guests; if C is "", its attempts fail
	Process string // path of a plugin of go-plugin
	Rounds  int
	Seconds float64 // duration of a round of one subject
}

// ServePlugins is the job of a child. Its answer is a list of runs.
func ServePlugins(ctx context.Context, c *child.Conn) error {
	var r PluginRequest
	if err := c.Next(&r); err != nil {
		return err
	}
	runs, err := measurePlugins(ctx, &r)
	if err != nil {
		return err
	}
	return c.Reply(runs)
}

func measurePlugins(ctx context.Context, r *PluginRequest) (runs []record.Run, err error) {
	cache, err := os.MkdirTemp("", "prober-cache")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(cache)
	host, err := wasm.New(wasm.Config{CacheDir: cache})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	subjects := []string{CReset, CPooled, GoReset, GoPooled, Process, Limit}
	all := make([]attempt, len(subjects))
	for i, guest := range []struct {
		path      string
		isolation plugin.Isolation
	}{{r.C, plugin.Reset}, {r.C, plugin.Pooled}, {r.Go, plugin.Reset}, {r.Go, plugin.Pooled}} {
		if all[i], err = guestAttempt(ctx, host, guest.path, guest.isolation); err != nil {
			return nil, fmt.Errorf("%s: %w", subjects[i], err)
		}
	}
	started, closeProcess, err := processAttempt(ctx, r.Process)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeProcess()) }()
	bare, closeBare, err := bareAttempt(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeBare(ctx)) }()
	all[4], all[5] = started, bare
	if runs, err = alternate(ctx, subjects, all, 1, r.Rounds, time.Duration(r.Seconds*float64(time.Second))); err != nil {
		return nil, err
	}
	starts, err := measureStarts(ctx, filepath.Join(cache, "starts"), r.Go, r.Rounds)
	if err != nil {
		return nil, err
	}
	processes, err := measureProcessStarts(ctx, r.Process, r.Rounds)
	return slices.Concat(runs, starts, processes), err
}

func guestAttempt(ctx context.Context, host *wasm.Host, path string, isolation plugin.Isolation) (attempt, error) {
	if path == "" {
		return func(_, _ int) error { return errors.New("the guest was not built") }, nil
	}
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m := plugin.Minimal("hello")
	m.Isolation, m.Stateful = isolation, isolation == plugin.Pooled
	p, err := host.Load(ctx, plugin.Found{Module: module, Manifest: m})
	if err != nil {
		return nil, err
	}
	return pluginAttempt(p, `{}`)
}

// processAttempt starts a plugin process, and returns its attempt function and a function that ends it.
func processAttempt(ctx context.Context, path string) (attempt, func() error, error) {
	found, err := foundProcess(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := process.Load(ctx, process.Config{StartTimeout: time.Minute}, found)
	if err != nil {
		return nil, nil, err
	}
	one, err := pluginAttempt(p, `{"mode":"ok"}`)
	if err != nil {
		return nil, nil, errors.Join(err, p.Close())
	}
	return one, p.Close, nil
}

// foundProcess returns the program at path in the form in which plugins are found in a folder.
func foundProcess(path string) (plugin.Found, error) {
	manifest := "apiVersion: prober.dev/v1\nname: tester\nversion: 1.0.0\n"
	if err := os.WriteFile(path+".yaml", []byte(manifest), 0o600); err != nil {
		return plugin.Found{}, err
	}
	return plugin.ReadProcess(path)
}

// pluginAttempt returns an attempt function that sets a deadline.
func pluginAttempt(p probe.Preparer, config string) (attempt, error) {
	h, err := p.Prepare([]byte(config), probe.Target{})
	if err != nil {
		return nil, err
	}
	request := probe.Request{Attempt: 1, Spec: probe.Spec{Timeout: timeout}}
	return func(_, _ int) error {
		ctx := withDeadline(timeout)
		defer ctx.end()
		outcome, err := h.Probe(ctx, request)
		if err != nil || outcome.Result != probe.Success {
			return fmt.Errorf("result %v, output %q, error %v", outcome.Result, outcome.Output, err)
		}
		return nil
	}, nil
}

// nothing is (module (func (export "f"))).
const nothing = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x07\x05\x01\x01f\x00\x00" + "\x0a\x04\x01\x02\x00\x0b"

// bareAttempt calls an empty function through wazero, without a deadline.
func bareAttempt(ctx context.Context) (attempt, func(context.Context) error, error) {
	r := wazero.NewRuntime(ctx)
	m, err := r.Instantiate(ctx, []byte(nothing))
	if err != nil {
		return nil, nil, errors.Join(err, r.Close(ctx))
	}
	f := m.ExportedFunction("f")
	return func(_, _ int) error {
		_, err := f.Call(ctx)
		return err
	}, r.Close, nil
}
