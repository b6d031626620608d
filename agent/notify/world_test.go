package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/daeace23/prober/agent/notify"
	"github.com/daeace23/prober/agent/notify/format"
	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/states"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a network without sockets, so that the time of a bubble advances while a goroutine waits for it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// letter is a message that a receiver accepted.
type letter struct {
	format.Message
	at     time.Duration // since the start
	header http.Header
	raw    string
}

// summary returns "POD STATUS STATE" for each probe of a letter.
func (l *letter) summary() string {
	var all []string
	for _, p := range l.Probes {
		text := p.Pod + " " + p.State
		if p.Status != format.Failing {
			text = p.Pod + " " + p.Status
		}
		if p.Worst != "" {
			text += " was " + p.Worst
		}
		if p.Times > 0 {
			text += fmt.Sprint(" x", p.Times)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	text := strings.Join(all, ", ")
	if l.Repeated {
		text += " again"
	}
	return text
}

// world has a notifier and its receiver in a bubble.
type world struct {
	t      *testing.T
	start  time.Time
	net    *pipes
	cfg    notify.Config
	log    *bytes.Buffer
	conf   *config.Notify
	probes map[notify.Key]bool          // existing probes
	labels map[string]map[string]string // of pods

	*notify.Notifier
	stop func()

	mu      sync.Mutex
	answer  http.HandlerFunc // nil: accepts all messages
	raw     func(body string)
	delay   time.Duration // of the response to an accepted message
	letters []letter
	asked   int
}

const head = "apiVersion: prober.dev/v1\nkind: AgentConfig\n"

// parse returns the notify section of prober.yaml.
func parse(t testing.TB, text string) *config.Notify {
	t.Helper()
	c, err := config.Parse("prober.yaml", []byte(head+text))
	if err != nil {
		t.Fatal(err)
	}
	return c.Notify
}

// newWorld runs a notifier with one receiver, ops, and additional fields. It must be called in a bubble.
func newWorld(t *testing.T, fields string) *world {
	w := &world{t: t, start: time.Now(), net: newPipes(), log: new(bytes.Buffer), probes: make(map[notify.Key]bool), labels: make(map[string]map[string]string)}
	w.conf = parse(t, "notify: {receivers: [{name: ops, webhook: {url: 'http://ops.example/hook'}"+fields+"}]}")
	server := &http.Server{Handler: w}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(w.net) })
	t.Cleanup(func() {
		w.stop()
		close(w.net.done)
		_ = server.Close()
		serving.Wait()
		synctest.Wait()
	})
	w.cfg = notify.Config{Log: slog.New(slog.NewTextHandler(w.log, nil)), Dial: w.net.dial, Exists: func(k notify.Key) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.probes[k]
	}, Labels: func(uid, _ string, _ probe.Kind) (map[string]string, bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		pod := strings.TrimPrefix(uid, "uid-")
		return w.labels[pod], w.probes[key(pod)]
	}}
	w.run()
	return w
}

// run starts a new notifier.
func (w *world) run() {
	w.Notifier = notify.New(w.cfg)
	w.Set("prober.yaml", w.conf)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Notifier.Run(ctx) })
	w.stop = func() {
		cancel()
		running.Wait()
	}
	synctest.Wait() // each receiver waits for its first change
}

// ServeHTTP implements [http.Handler].
func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	w.asked++
	answer, raw := w.answer, w.raw
	w.mu.Unlock()
	if raw != nil {
		raw(string(body))
	}
	if answer != nil {
		answer(out, r)
		return
	}
	l := letter{at: time.Since(w.start).Round(100 * time.Millisecond), header: r.Header, raw: string(body)}
	if err := json.Unmarshal(body, &l.Message); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	w.letters = append(w.letters, l)
	delay := w.delay
	w.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
	}
}

func (w *world) answerWith(h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = h
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// takeLetters returns "TIME: SUMMARY" for each letter since the last call.
func (w *world) takeLetters() (all []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.letters {
		all = append(all, w.letters[i].at.String()+": "+w.letters[i].summary())
	}
	w.letters = nil
	return all
}

func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// expect compares the letters since the last call with want.
func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := w.takeLetters(); !slices.Equal(got, want) {
		w.t.Errorf("got  %q\nwant %q\n%s", got, want, w.log)
	}
}

func key(pod string) notify.Key {
	return notify.Key{Namespace: "default", Pod: pod, Container: "app", Kind: probe.Readiness}
}

// setState reports a new state of a probe.
func (w *world) setState(pod string, to states.State) {
	w.setStateOf(pod, "uid-"+pod, to, "text of "+pod)
}

func (w *world) setStateOf(pod, uid string, to states.State, text string) {
	w.mu.Lock()
	w.probes[key(pod)] = true
	w.mu.Unlock()
	w.Changed(&states.Change{Info: info(pod, uid), To: to, Time: time.Now(), Cause: states.Cause{Reason: "body", Text: text}})
}

func info(pod, uid string) worker.Info {
	return worker.Info{Subject: results.Subject{Namespace: "default", Pod: pod, PodUID: uid, Container: "app"}, Kind: probe.Readiness, Handler: "http"}
}

// label sets the labels of a pod, as a reload does. Its value is a list such as "team=shop,stage=prod".
func (w *world) label(pod, list string) {
	labels := make(map[string]string)
	for pair := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(pair, "=")
		labels[name] = value
	}
	w.mu.Lock()
	w.labels[pod] = labels
	w.mu.Unlock()
	w.Relabel()
}

// removed reports the end of a probe. gone means that no probe of its name exists.
func (w *world) removed(pod, uid string, gone bool) {
	w.mu.Lock()
	w.probes[key(pod)] = !gone
	w.mu.Unlock()
	w.Changed(&states.Change{Info: info(pod, uid), Time: time.Now(), Removed: true})
}

// bubble runs f in a bubble with a new world.
func bubble(t *testing.T, fields string, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, fields)) })
}

// secretFile writes text to a file, and returns its path.
func secretFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
