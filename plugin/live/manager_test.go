package live_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/admit"
	"github.com/daeace23/prober/plugin/live"
	"github.com/daeace23/prober/plugin/trust"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 3 * time.Minute

// rig is a Manager of the plugins in a folder. The output of a plugin is its version.
type rig struct {
	*live.Manager
	t       *testing.T
	dir     string
	scanner *admit.Scanner
	reg     handlers.Registry
	end     context.CancelCauseFunc

	mu     sync.Mutex
	loads  map[string]int            // by name
	broken map[string]error          // errors of Load, by version
	busy   func(ctx context.Context) // called in each load if not nil
	errs   []error                   // arguments of the calls of Demanded
	made   map[string]*scripted      // loaded handlers, by version
}

// scripted is a handler of a plugin.
type scripted struct {
	version string
	refuse  atomic.Pointer[error] // error of Prepare
	silent  chan struct{}         // if not nil, Prepare closes it and never returns
	closed  atomic.Bool
}

func (h *scripted) Probe(context.Context, probe.Request) (probe.Outcome, error) {
	return probe.Outcome{Result: probe.Success, Output: h.version}, nil
}

var _ probe.ContextPreparer = (*scripted)(nil)

func (h *scripted) Prepare(config []byte, target probe.Target) (probe.Handler, error) {
	return h.PrepareContext(context.Background(), config, target)
}

func (h *scripted) PrepareContext(ctx context.Context, config []byte, _ probe.Target) (probe.Handler, error) {
	if h.silent != nil {
		close(h.silent)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if err := h.refuse.Load(); err != nil && strings.Contains(string(config), "refused") {
		return nil, *err
	}
	return &scripted{version: h.version}, nil
}

func (h *scripted) Close() error {
	h.closed.Store(true)
	return nil
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{
		t: t, dir: t.TempDir(), loads: make(map[string]int), broken: make(map[string]error), made: make(map[string]*scripted),
	}
	r.write("prober.yaml", "")
	if err := os.Mkdir(r.path("plugins"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.scanner = admit.NewScanner(admit.ScannerConfig{
		Config: admit.Config{ConfigFile: r.path("prober.yaml")}, PluginDirs: []string{r.path("plugins")}, Sources: admit.NewSources(admit.SourcesConfig{}),
	})
	ctx, end := context.WithCancelCause(context.Background())
	r.end = end
	r.Manager = live.New(ctx, live.Config{
		Registry: &r.reg, Load: r.load, Scan: func(wanted func(string) bool) (*admit.Snapshot, error) { return r.scanner.ScanFor(wanted) }, IdleAfter: time.Hour, Log: slog.New(slog.DiscardHandler),
		Demanded: func(err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.errs = append(r.errs, err)
		},
	})
	t.Cleanup(func() {
		end(errors.New("the test is over"))
		r.Close()
	})
	return r
}

func (r *rig) load(ctx context.Context, p admit.Plugin) (live.Loaded, error) {
	version := p.Manifest.Version
	r.mu.Lock()
	r.loads[p.Manifest.Name]++
	err, busy, h := r.broken[version], r.busy, r.made[version]
	if h == nil {
		h = &scripted{version: version}
		r.made[version] = h
	}
	r.mu.Unlock()
	if p.Module == nil {
		r.t.Error("a plugin is loaded without its code")
	}
	if busy != nil {
		busy(ctx)
	}
	return live.Loaded{Handler: h, Stats: func() live.Stats { return live.Stats{Idle: 1, Denied: 1} }}, err
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name, text string) {
	r.t.Helper()
	if name == "prober.yaml" {
		text = "apiVersion: prober.dev/v1\nkind: AgentConfig\n" + text
	}
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// put writes a version of a plugin to a file.
func (r *rig) put(file, name, version string) {
	r.t.Helper()
	module, err := plugin.Embed([]byte("\x00asm\x01\x00\x00\x00"), []byte("apiVersion: prober.dev/v1\nname: "+name+"\nversion: "+version+"\n"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.write(file, string(module))
}

func (r *rig) remove(file string) {
	r.t.Helper()
	if err := os.Remove(r.path(file)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) scan() *admit.Snapshot {
	r.t.Helper()
	v, err := r.scanner.ScanFor(r.Wants)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// apply applies the current files. The error must contain want; "" means no error.
func (r *rig) apply(want string) (changed bool) {
	r.t.Helper()
	changed, err := r.Apply(r.t.Context(), r.scan(), false)
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		r.t.Errorf("got %v, want %q", err, want)
	}
	return changed
}

// prepare binds the plugin called name to a probe until the test ends, or it is released.
func (r *rig) prepare(name string) probe.Handler {
	r.t.Helper()
	h, err := r.Prepare(r.t.Context(), name, nil, probe.Target{})
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// checkOutput checks the output of an attempt of h.
func checkOutput(t *testing.T, h probe.Handler, want string) {
	t.Helper()
	got, err := h.Probe(t.Context(), probe.Request{Attempt: 1})
	if text := fmt.Sprint(got.Output, err); text != want+"<nil>" {
		t.Errorf("got %s, want %s", text, want)
	}
}

// checkState checks the state and version of a plugin; "" means no version.
func (r *rig) checkState(name string, state live.State, version string) live.Status {
	r.t.Helper()
	s, ok := r.Status(name)
	got := ""
	if s.Plugin.Manifest != nil {
		got = s.Plugin.Manifest.Version
	}
	if !ok || s.State != state || got != version {
		r.t.Errorf("got state %d, version %q, want %d, %q", s.State, got, state, version)
	}
	return s
}

func TestFirstProbeLoads(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.put("plugins/b.wasm", "b", "1.0.0")
	if !r.apply("") {
		t.Error("there is no new plugin")
	}
	r.checkState("a", live.Unused, "1.0.0")
	h := r.prepare("a")
	checkOutput(t, h, "1.0.0")
	if s := r.checkState("a", live.Running, "1.0.0"); s.Probes != 1 || s.Generation != 1 || s.Plugin.Module != nil {
		t.Errorf("got %+v", s)
	}
	r.prepare("a")
	if r.apply("") || r.loads["a"] != 1 || r.loads["b"] != 0 {
		t.Errorf("loaded %v", r.loads)
	}
	if names := fmt.Sprint(r.reg.Names()); names != "[a b]" {
		t.Errorf("got %s", names)
	}
	if _, err := r.Prepare(t.Context(), "c", nil, probe.Target{}); err == nil || !strings.Contains(err.Error(), `unknown handler "c"`) {
		t.Errorf("got %v", err)
	}
}

func TestChangedFileReplaces(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.apply("")
	h := r.prepare("a")
	old := r.made["1.0.0"]
	r.put("plugins/a.wasm", "a", "2.0.0")
	if !r.apply("") {
		t.Error("nothing has changed")
	}
	checkOutput(t, h, "2.0.0")
	if s := r.checkState("a", live.Running, "2.0.0"); s.Generation != 2 || s.Stats.Denied < 1 {
		t.Errorf("got %+v", s)
	}
	probe.Release(h)
	r.end(errors.New("over"))
	if r.Close(); !old.closed.Load() {
		t.Error("the old version is not closed")
	}
}

// The new version of a plugin is read first by the snapshot for another plugin.
func TestChangedFileReadForAnotherProbeReplaces(t *testing.T) {
	r := newRig(t)
	old := time.Now().Add(-time.Hour)
	put := func(name, version string) {
		t.Helper()
		r.put("plugins/"+name+".wasm", name, version)
		old = old.Add(time.Second)
		if err := os.Chtimes(r.path("plugins/"+name+".wasm"), old, old); err != nil {
			t.Fatal(err)
		}
	}
	put("a", "1.0.0")
	put("b", "1.0.0")
	r.apply("")
	h := r.prepare("a")
	put("a", "2.0.0")
	r.prepare("b")
	checkOutput(t, h, "1.0.0")
	r.apply("")
	checkOutput(t, h, "2.0.0")
}

func TestBrokenVersionChangesNothing(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.apply("")
	h := r.prepare("a")
	r.put("plugins/a.wasm", "a", "2.0.0")
	r.broken["2.0.0"] = errors.New("it does not compile")
	for range 2 { // the second Apply does not try again
		r.apply("it does not compile")
	}
	if s := r.checkState("a", live.Running, "1.0.0"); s.Err == nil || r.loads["a"] != 2 {
		t.Errorf("got %+v, loaded %v", s, r.loads)
	}
	checkOutput(t, h, "1.0.0")
	delete(r.broken, "2.0.0")
	if changed, err := r.Apply(t.Context(), r.scan(), true); !changed || err != nil {
		t.Errorf("%t, %v", changed, err)
	}
	if s := r.checkState("a", live.Running, "2.0.0"); s.Err != nil {
		t.Errorf("got %+v", s)
	}
}

func TestFailedPluginIsTriedAgainWhenItChanges(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.broken["1.0.0"] = errors.New("it does not compile")
	r.apply("")
	release := r.Hold("a")
	for range 3 {
		if _, err := r.Prepare(t.Context(), "a", nil, probe.Target{}); err == nil || !strings.Contains(err.Error(), "it does not compile") {
			t.Errorf("got %v", err)
		}
	}
	if r.loads["a"] != 1 || len(r.errs) != 1 {
		t.Errorf("loaded %v, demanded %v", r.loads, r.errs)
	}
	r.checkState("a", live.Failed, "1.0.0")
	r.put("plugins/a.wasm", "a", "2.0.0")
	r.apply("") // a manifest names it
	r.checkState("a", live.Running, "2.0.0")
	release()

	r.put("plugins/a.wasm", "a", "1.0.0")
	r.apply("it does not compile")
	if r.UnloadUnused(time.Now().Add(time.Minute)) {
		t.Error("what runs was unloaded too early")
	}
}

func TestErrorOfUnusedPluginIsDropped(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.broken["1.0.0"] = errors.New("it does not compile")
	r.apply("")
	release := r.Hold("a")
	if _, err := r.Prepare(t.Context(), "a", nil, probe.Target{}); err == nil {
		t.Error("it was loaded")
	}
	if r.UnloadUnused(time.Now()) {
		t.Error("the error is dropped, though a manifest names the plugin")
	}
	release()
	if !r.UnloadUnused(time.Now()) {
		t.Error("the error is not dropped")
	}
	r.checkState("a", live.Unused, "1.0.0")
	r.apply("")
}

func TestUnusedPluginIsUnloaded(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.apply("")
	h := r.prepare("a")
	now := time.Now()
	for _, later := range []time.Duration{0, 2 * time.Hour} {
		r.UnloadUnused(now.Add(later))
		r.checkState("a", live.Running, "1.0.0") // it has a probe
	}
	probe.Release(h)
	release := r.Hold("a", "http", "a")
	r.UnloadUnused(now.Add(4 * time.Hour))
	r.checkState("a", live.Running, "1.0.0") // a manifest names it
	release()
	r.UnloadUnused(now.Add(5 * time.Hour))
	r.checkState("a", live.Running, "1.0.0") // not for long enough
	r.UnloadUnused(now.Add(6 * time.Hour))
	r.checkState("a", live.Unused, "1.0.0")
	h = r.prepare("a")
	checkOutput(t, h, "1.0.0")
	if s := r.checkState("a", live.Running, "1.0.0"); s.Generation != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestRemovedPluginIsWithdrawn(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.put("plugins/b.wasm", "b", "1.0.0")
	r.apply("")
	h := r.prepare("a")
	probe.Release(r.prepare("b"))
	r.remove("plugins/a.wasm")
	r.remove("plugins/b.wasm")
	r.apply("")
	if s := r.checkState("a", live.Withdrawn, ""); s.Probes != 1 {
		t.Errorf("got %+v", s)
	}
	if _, ok := r.Status("b"); ok {
		t.Error("a plugin without probes is not forgotten")
	}
	if _, err := h.Probe(t.Context(), probe.Request{}); !errors.Is(err, live.ErrWithdrawn) {
		t.Errorf("got %v", err)
	}
	if _, err := r.Prepare(t.Context(), "a", nil, probe.Target{}); !errors.Is(err, live.ErrWithdrawn) {
		t.Errorf("got %v", err)
	}
	r.put("plugins/other.wasm", "a", "2.0.0")
	r.apply("")
	checkOutput(t, h, "2.0.0")

	r.remove("plugins/other.wasm")
	r.apply("")
	probe.Release(h)
	r.UnloadUnused(time.Now())
	if _, ok := r.Status("a"); ok {
		t.Error("a withdrawn plugin without probes is not forgotten")
	}
	if names := r.reg.Names(); len(names) > 0 {
		t.Errorf("%q are registered", names)
	}
}

func TestFileOfAnotherPluginReplacesNothing(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.apply("")
	h := r.prepare("a")
	r.put("plugins/a.wasm", "b", "1.0.0")
	r.apply(`is the file of the plugin "a", which keeps running`)
	checkOutput(t, h, "1.0.0")
	if _, err := r.Prepare(t.Context(), "b", nil, probe.Target{}); err == nil || !strings.Contains(err.Error(), "another plugin needs another file") {
		t.Errorf("got %v", err)
	}
	for range 3 { // the error is returned again
		r.UnloadUnused(time.Now())
		r.apply(`is the file of the plugin "a"`)
	}
	if r.loads["b"] != 0 {
		t.Errorf("loaded %v", r.loads)
	}
}

func TestSecondPluginOfANameReplacesNothing(t *testing.T) {
	r := newRig(t)
	r.put("plugins/b.wasm", "a", "1.0.0")
	r.apply("")
	h := r.prepare("a")
	r.put("plugins/a.wasm", "a", "2.0.0")
	r.apply("the name is taken by")
	checkOutput(t, h, "1.0.0")
	if s := r.checkState("a", live.Running, "1.0.0"); s.Err == nil {
		t.Errorf("got %+v", s)
	}
}

func TestOlderSnapshotIsIgnored(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	old := r.scan()
	r.put("plugins/a.wasm", "a", "2.0.0")
	r.apply("")
	h := r.prepare("a")
	if changed, err := r.Apply(t.Context(), old, false); changed || err != nil {
		t.Errorf("%t, %v", changed, err)
	}
	checkOutput(t, h, "2.0.0")
	if got := r.Latest().Plugin("a").Plugin.Manifest.Version; got != "2.0.0" {
		t.Errorf("the latest snapshot has %s", got)
	}
}

// A hanging load delays no other plugin. The number of concurrent loads is limited.
func TestLoadsAreBoundedAndIndependent(t *testing.T) {
	r := newRig(t)
	var now, most atomic.Int32
	enough := make(chan struct{}, 100)
	var handlers []probe.Handler
	for i := range 8 {
		name := fmt.Sprint("p", i)
		r.put("plugins/"+name+".wasm", name, "1.0.0")
	}
	r.put("plugins/free.wasm", "free", "1.0.0")
	r.apply("")
	for i := range 8 {
		handlers = append(handlers, r.prepare(fmt.Sprint("p", i)))
	}
	for i := range 8 {
		name := fmt.Sprint("p", i)
		r.put("plugins/"+name+".wasm", name, "2.0.0")
	}
	hang := make(chan struct{})
	r.mu.Lock()
	r.busy = func(context.Context) {
		n := now.Add(1)
		for {
			m := most.Load()
			if n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		enough <- struct{}{}
		<-hang
		now.Add(-1)
	}
	r.mu.Unlock()
	applied := make(chan bool)
	go func() { applied <- r.apply("") }()
	for range 4 {
		<-enough
	}
	r.mu.Lock()
	r.busy = nil
	r.mu.Unlock()
	checkOutput(t, r.prepare("free"), "1.0.0") // it does not wait for the others
	checkOutput(t, handlers[0], "1.0.0")
	close(hang)
	if !<-applied || most.Load() != 4 {
		t.Errorf("%d were loaded at once", most.Load())
	}
	for _, h := range handlers {
		checkOutput(t, h, "2.0.0")
	}
}

func TestEndOfContextEndsPrepare(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	h := &scripted{silent: make(chan struct{})}
	r.made["1.0.0"] = h
	r.apply("")
	ended, enough := make(chan error, 1), errors.New("enough")
	go func() {
		_, err := r.Prepare(context.Background(), "a", nil, probe.Target{})
		ended <- err
	}()
	<-h.silent
	r.end(enough)
	select {
	case err := <-ended:
		if !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it is waited for")
	}
}

// Prepare returns when its context ends. A handler that the plugin returns later is released.
func TestPrepareEndsWithItsCaller(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	r.apply("")
	loading, hang := make(chan struct{}), make(chan struct{})
	r.busy = func(context.Context) { close(loading); <-hang }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.Prepare(ctx, "a", nil, probe.Target{})
		ended <- err
	}()
	<-loading
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.mu.Lock()
	r.busy = nil
	r.mu.Unlock()
	close(hang)
	h := r.prepare("a")
	probe.Release(h)
	r.end(errors.New("over"))
	r.Close()
	if s, _ := r.Status("a"); s.Probes != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestPluginWithoutAnswerIsCalledOnce(t *testing.T) {
	r := newRig(t)
	r.put("plugins/a.wasm", "a", "1.0.0")
	h, why := &scripted{version: "1.0.0"}, error(context.DeadlineExceeded)
	h.refuse.Store(&why)
	r.made["1.0.0"] = h
	r.apply("")
	for i, want := range []string{"deadline exceeded", "not called, since it recently did not answer", "deadline exceeded"} {
		if _, err := r.Prepare(t.Context(), "a", []byte(`{"refused":1}`), probe.Target{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if i == 1 {
			r.AskAgain()
		}
	}
	r.put("plugins/a.wasm", "a", "2.0.0") // another version may answer
	r.apply("")
	checkOutput(t, r.prepare("a"), "2.0.0")
}

func TestPrepareOfPluginInPendingRegistry(t *testing.T) {
	r := newRig(t)
	r.write("prober.yaml", "plugins: [{name: far, source: 'oci://localhost:1/far:1'}]\n")
	r.apply("")
	if _, err := r.Prepare(t.Context(), "far", nil, probe.Target{}); !errors.Is(err, admit.ErrPending) {
		t.Errorf("got %v", err)
	}
}

// A refused plugin is an error from its first probe until it is admitted. Then it counts as changed,
// so that its users try again.
func TestPluginIsRefusedWhenAskedFor(t *testing.T) {
	r := newRig(t)
	key, err := trust.Generate()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path("ops.pub"), key.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	r.write("prober.yaml", "trust: {require: true, keys: [ops.pub]}\n")
	r.put("plugins/a.wasm", "a", "1.0.0")
	for range 2 {
		r.apply("")
		r.checkState("a", live.Unused, "1.0.0")
	}
	const want = "not signed, and trust.require is set"
	if _, err := r.Prepare(t.Context(), "a", nil, probe.Target{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	for range 3 {
		if r.apply(want) {
			t.Error("a plugin that is still refused is a change")
		}
		if _, ok := r.Status("a"); ok {
			t.Error("a plugin that is refused may be used")
		}
	}
	r.write("prober.yaml", "")
	if !r.apply("") {
		t.Error("a plugin that is admitted now is no change")
	}
	r.prepare("a")
	r.checkState("a", live.Running, "1.0.0")
}
