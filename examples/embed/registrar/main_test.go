package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/daeace23/prober/core/group"
	"github.com/daeace23/prober/handlers/builtin/tcpprobe"
)

// rig is a registrar with one endpoint, db, whose listener the test opens and closes.
type rig struct {
	*registrar
	t       *testing.T
	address string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	g, err := group.New[string](group.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := &rig{&registrar{probes: g, file: filepath.Join(t.TempDir(), "endpoints.json"), retry: 10 * time.Millisecond}, t, "127.0.0.1:0"}
	first := r.listen()
	r.address = first.Addr().String()
	first.Close()
	if err := r.Add(tcpprobe.New(tcpprobe.Config{}), "db", r.address, 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) listen() net.Listener {
	r.t.Helper()
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { l.Close() })
	return l
}

// start runs the registrar until the function that it returns is called.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return stop
}

// await waits until the file has the given text.
func (r *rig) await(want string) {
	r.t.Helper()
	var text []byte
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, _ = os.ReadFile(r.file); string(text) == want+"\n" {
			return
		}
	}
	r.t.Fatalf("the file has %q, want %s", text, want)
}

func (r *rig) up() string { return `{"db":"` + r.address + `"}` }

func TestFileFollowsReadiness(t *testing.T) {
	r := newRig(t)
	r.start()
	r.await("{}")
	l := r.listen()
	r.await(r.up())
	l.Close()
	r.await("{}")
	r.listen()
	r.await(r.up())
}

func TestRestartedReaderRemovesStaleEndpoints(t *testing.T) {
	r := newRig(t)
	l := r.listen()
	stop := r.start()
	r.await(r.up())
	stop()
	l.Close()
	r.probes.Remove("db") // no reader receives the update of the removal
	r.start()
	r.await("{}")
}

func TestFileIsWrittenOncePossible(t *testing.T) {
	r := newRig(t)
	folder := filepath.Dir(r.file)
	r.file = filepath.Join(folder, "later", "endpoints.json") // its folder does not exist yet
	r.listen()
	r.start()
	if err := os.Mkdir(filepath.Dir(r.file), 0o755); err != nil {
		t.Fatal(err)
	}
	r.await(r.up())
}
