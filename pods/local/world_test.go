package local_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/handlers"
	"github.com/daeace23/prober/handlers/builtin"
	"github.com/daeace23/prober/internal/procgroup"
	"github.com/daeace23/prober/pods"
	"github.com/daeace23/prober/pods/local"
	"github.com/daeace23/prober/pods/local/manifest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == helperArgument {
		os.Exit(helper(os.Args[2], os.Args[3:]))
	}
	// Most of these tests wait for processes, and use little CPU time.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience is the timeout of every wait, far longer than on the slowest machine.
const patience = 3 * time.Minute

// world is an agent: pods, the manager that probes them, and a record of both.
type world struct {
	pods    *local.Pods
	manager *manager.Manager
	known   *handlers.Registry
	dir     string // directory shared by containers and probes
	stop    func()

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change
	latest   map[string]*v1.Pod
	past     map[string][]*v1.Pod
	removed  map[string]bool
	events   []string
	restarts []pods.Restart
	output   strings.Builder
	ticks    map[string]int // by "pod/container/kind"
	story    []string       // lines that containers and hooks wrote to the pipe DIR/log
}

// listen creates the pipe DIR/log and reads it until it is closed.
func (w *world) listen(t *testing.T) {
	name := filepath.Join(w.dir, "log")
	makePipe(t, name)
	pipe, err := os.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			w.note(func() { w.story = append(w.story, lines.Text()) })
		}
	})
	t.Cleanup(func() {
		pipe.Close()
		reading.Wait()
	})
}

// awaitStory waits until the story contains the words in this order. There may be others between them.
func (w *world) awaitStory(t *testing.T, words ...string) {
	t.Helper()
	w.await(t, fmt.Sprintf("story %q", words), func() bool {
		rest := w.story
		for _, word := range words {
			i := slices.Index(rest, word)
			if i < 0 {
				return false
			}
			rest = rest[i+1:]
		}
		return true
	})
}

func (w *world) told(word string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.story, word)
}

// Observe implements [worker.Observer].
func (w *world) Observe(i worker.Info) worker.ProbeObserver {
	return tickCounter{w, i.Pod + "/" + i.Container + "/" + i.Kind.String()}
}

type tickCounter struct {
	w   *world
	key string
}

func (c tickCounter) Tick(*worker.Tick)              { c.w.note(func() { c.w.ticks[c.key]++ }) }
func (c tickCounter) Skipped(worker.SkipReason, int) {}
func (c tickCounter) Close()                         {}

// awaitTicks waits until a probe has ticked n more times.
func (w *world) awaitTicks(t *testing.T, key string, n int) {
	t.Helper()
	n += w.tickCount(key)
	w.await(t, fmt.Sprintf("%d ticks of %s", n, key), func() bool { return w.ticks[key] >= n })
}

func (w *world) tickCount(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ticks[key]
}

// restarted records a restart. The status of the pod must already show it.
func (w *world) restarted(t *testing.T, r pods.Restart) {
	for _, pod := range w.pods.Pods() {
		for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if pod.UID == r.UID && s.Name == r.Container && s.RestartCount < r.Count {
				t.Errorf("%s: told of restart %d while the status says %d", r.Container, r.Count, s.RestartCount)
			}
		}
	}
	w.note(func() { w.restarts = append(w.restarts, r) })
}

// testHost returns a host that ignores all calls.
func testHost() pods.Host {
	return pods.Host{
		Logger: slog.New(slog.DiscardHandler), Recorder: noEvents{}, Output: io.Discard, Mark: procgroup.NewMark(),
		RunsPrograms: func(string) bool { return false }, RequestReload: func(string) {}, Restarted: func(pods.Restart) {},
	}
}

type noEvents struct{}

func (noEvents) Event(runtime.Object, string, string, string) {}

// newWorld starts an agent that ends with the test.
func newWorld(t *testing.T, configure ...func(*local.Config, *pods.Host)) *world {
	t.Helper()
	if goruntime.GOOS != "linux" {
		t.Skip("local pods need Linux")
	}
	dir, err := os.MkdirTemp("", "local") // the path of t.TempDir contains the test's name, which may need quotes in YAML
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{
		dir: dir, changed: make(chan struct{}),
		latest: make(map[string]*v1.Pod), past: make(map[string][]*v1.Pod), removed: make(map[string]bool),
		ticks: make(map[string]int),
	}
	w.listen(t)
	runner := &builtin.HostRunner{}
	cfg, host := local.Config{Runner: runner, RestartBackoff: 20 * time.Millisecond}, testHost()
	host.Recorder, host.Output = w, w
	host.Restarted = func(r pods.Restart) { w.restarted(t, r) }
	for _, f := range configure {
		f(&cfg, &host)
	}
	pods, err := local.New(cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	w.pods = pods
	runner.Environment, runner.User = pods.Environment, pods.User
	registry := &handlers.Registry{}
	w.known = registry
	if err := builtin.Register(registry, builtin.Config{Runner: runner}); err != nil {
		t.Fatal(err)
	}
	w.manager, err = manager.New(manager.Config{Status: pods, Handlers: registry, Recorder: w, RestartGrace: local.RestartGrace, Observers: []worker.Observer{w}})
	if err != nil {
		t.Fatal(err)
	}
	pods.Start(w.manager)
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	changes := pods.Watch(ctx)
	watching.Go(func() {
		for c := range changes {
			w.note(func() {
				w.latest[c.Pod.Name] = c.Pod
				w.past[c.Pod.Name] = append(w.past[c.Pod.Name], c.Pod)
				w.removed[c.Pod.Name] = c.Removed
			})
		}
	})
	w.stop = sync.OnceFunc(func() {
		end, cancelEnd := context.WithTimeout(context.Background(), patience)
		defer cancelEnd()
		if err := pods.Stop(end); err != nil {
			t.Error(err)
		}
		if err := w.manager.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		watching.Wait()
	})
	t.Cleanup(w.stop)
	return w
}

// Event implements [manager.Recorder].
func (w *world) Event(object runtime.Object, _, reason, message string) {
	ref := object.(*v1.ObjectReference)
	w.note(func() { w.events = append(w.events, ref.Name+" "+reason+" "+message) })
}

// Write implements [io.Writer], for the output of containers.
func (w *world) Write(b []byte) (int, error) {
	w.note(func() { w.output.Write(b) })
	return len(b), nil
}

func (w *world) note(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits until done returns true. It calls done with mu held, after every change.
func (w *world) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	timeout := time.After(patience)
	for {
		w.mu.Lock()
		ok, changed := done(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			w.mu.Lock()
			defer w.mu.Unlock()
			t.Fatalf("%s: not within %s\nevents:\n%s\nstory: %q\noutput:\n%s\npods: %s", what, patience,
				strings.Join(w.events, "\n"), w.story, w.output.String(), describe(w.latest))
		}
	}
}

func describe(pods map[string]*v1.Pod) string {
	var b strings.Builder
	for name, p := range pods {
		fmt.Fprintf(&b, "\n%s %s", name, p.Status.Phase)
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			fmt.Fprintf(&b, "\n  %s started=%v ready=%v restarts=%d %s", c.Name, c.Started != nil && *c.Started, c.Ready, c.RestartCount, c.State.String())
		}
	}
	return b.String()
}

// awaitPod waits until done returns true for the pod.
func (w *world) awaitPod(t *testing.T, name, what string, done func(*v1.Pod) bool) {
	t.Helper()
	w.await(t, name+" "+what, func() bool { return w.latest[name] != nil && done(w.latest[name]) })
}

// awaitEvent waits for an event whose text contains all parts.
func (w *world) awaitEvent(t *testing.T, parts ...string) {
	t.Helper()
	w.await(t, "event "+strings.Join(parts, " … "), func() bool { return w.countEvents(parts...) > 0 })
}

func (w *world) countEvents(parts ...string) int {
	n := 0
	for _, e := range w.events {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e, p) }) {
			n++
		}
	}
	return n
}

// awaitOutput waits until containers have written text n times.
func (w *world) awaitOutput(t *testing.T, text string, n int) {
	t.Helper()
	w.await(t, fmt.Sprintf("output %q %d times", text, n), func() bool { return strings.Count(w.output.String(), text) >= n })
}

// history calls do with every observed state of a pod.
func (w *world) history(name string, do func(*v1.Pod)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.past[name] {
		do(p)
	}
}

func (w *world) never(t *testing.T, what string, parts ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.countEvents(parts...); n > 0 {
		t.Errorf("%s: %d events with %q\n%s", what, n, parts, strings.Join(w.events, "\n"))
	}
}

// load reads manifests from text, with the replacements in vars. It returns no pods for an empty text.
func load(t *testing.T, text string, vars ...string) []*declared.Pod {
	t.Helper()
	if text == "" {
		return nil
	}
	loaded, err := (&manifest.Source{Paths: []string{"-"}, Stdin: strings.NewReader(strings.NewReplacer(vars...).Replace(text))}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Pods
}

// apply applies manifests, in which DIR is replaced by the world's directory and SELF by the test binary.
func (w *world) apply(t *testing.T, text string, vars ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text = strings.NewReplacer(vars...).Replace(text)
	if err := w.pods.Apply(t.Context(), load(t, text, "DIR", w.dir, "SELF", self+", "+helperArgument)); err != nil {
		t.Fatal(err)
	}
}

func (w *world) touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// portsGiven counts the ports returned by freePort.
var portsGiven atomic.Int32

// freePort returns an unused port of the loopback address. It returns each port once. It does not return an ephemeral
// port, which the system could assign to another test before it is used.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		port := strconv.Itoa(10_000 + (97*os.Getpid()+int(portsGiven.Add(1)))%10_000)
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			l.Close()
			return port
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

func status(p *v1.Pod, container string) v1.ContainerStatus {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.Name == container {
			return s
		}
	}
	return v1.ContainerStatus{}
}

func isReady(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}
