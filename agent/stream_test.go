package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/daeace23/prober/pods"
)

// followed returns an agent with working streams, but without servers and loops. run returns the result of
// commands in containers. stop ends the agent.
func followed(t testing.TB, memory *Memory, run func() ([]byte, error)) (a *Agent, stop func()) {
	t.Helper()
	open := memory.With(func(s *pods.Source) {
		s.RunInContainer = func(context.Context, string, []string, time.Duration) ([]byte, error) { return run() }
	})
	a, err := New(t.Context(), Config{Source: open, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { a.logChanges(ctx) })
	following.Go(func() { a.watchPods(ctx) })
	following.Go(func() { a.hub.Run(ctx, a.streamState()) })
	a.source.Start(ctx, a.manager)
	memory.start.Wait()
	return a, func() {
		cancel()
		following.Wait()
		a.close()
	}
}

// execPod returns a pod with two containers, each with a liveness and a readiness probe.
func execPod(name string, period int32) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	for _, container := range []string{"web", "cache"} {
		p := &v1.Probe{
			ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"true"}}},
			PeriodSeconds: period, TimeoutSeconds: 10, SuccessThreshold: 1, FailureThreshold: 2,
		}
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: container, Image: "example.com/" + container, LivenessProbe: p, ReadinessProbe: p})
	}
	return pod
}

// objects is the response writer of a stream. It keeps the newest item of each pod and probe.
type objects struct {
	*httptest.ResponseRecorder
	delay time.Duration // of each write
	known map[string]map[string]any
}

func (o *objects) SetWriteDeadline(time.Time) error { return nil }

func (o *objects) Write(p []byte) (int, error) {
	time.Sleep(o.delay)
	for frame := range bytes.SplitSeq(p, []byte("\n\n")) {
		head, data, _ := bytes.Cut(frame, []byte("\ndata: "))
		kind, ok := bytes.CutPrefix(head, []byte("event: "))
		if !ok || string(kind) == "event" {
			continue
		}
		item := make(map[string]any)
		if err := json.Unmarshal(data, &item); err != nil {
			return 0, err
		}
		name := identify(string(kind), item)
		if item["removed"] == true {
			delete(o.known, name)
		} else {
			o.known[name] = item
		}
	}
	return len(p), nil
}

// identify returns the kind and the identity of a pod or a probe, and removes its history.
func identify(kind string, item map[string]any) string {
	delete(item, "history")
	if meta, ok := item["metadata"].(map[string]any); ok {
		return fmt.Sprint(kind, " ", meta["uid"])
	}
	return fmt.Sprint(kind, " ", item["uid"], item["container"], item["kind"])
}

// listed returns the pods and probes of the lists, in the form of [objects].
func listed(t *testing.T, a *Agent) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	for _, kind := range []string{"pod", "probe"} {
		w := httptest.NewRecorder()
		a.router().ServeHTTP(w, httptest.NewRequest("GET", "/api/v1/"+kind+"s", nil))
		var list struct{ Items []map[string]any }
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			all[identify(kind, item)] = item
		}
	}
	return all
}

// Pods are added and removed, and probes tick, fail, and are paused. In the end every reader has the same
// items as the lists.
func TestStreamAgreesWithLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex // guards failing
		failing := false
		memory := NewMemory()
		a, stop := followed(t, memory, func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if failing {
				return nil, errors.New("no")
			}
			return []byte("yes"), nil
		})
		defer stop()
		act := func(pod, action string) {
			for _, container := range []string{"web", "cache"} {
				for _, kind := range []string{"liveness", "readiness"} {
					path := "/api/v1/probes/default/" + pod + "/" + container + "/" + kind + "/" + action
					a.router().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", path, nil))
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var readers []*objects
		var reading sync.WaitGroup
		for range 300 {
			pod := fmt.Sprint(random.IntN(10))
			switch random.IntN(6) {
			case 0:
				var desired []*v1.Pod
				for i := range 10 {
					if random.IntN(3) > 0 {
						desired = append(desired, execPod(fmt.Sprint(i), int32(1+random.IntN(3))))
					}
				}
				memory.Set(desired...)
				if err := memory.Reload(ctx, pods.Reload{}); err != nil {
					t.Fatal(err)
				}
			case 1:
				act(pod, []string{"pause", "resume", "trigger"}[random.IntN(3)])
			case 2:
				mu.Lock()
				failing = !failing
				mu.Unlock()
			case 3:
				if len(readers) < 20 {
					r := &objects{ResponseRecorder: httptest.NewRecorder(), delay: time.Duration(random.IntN(3)) * time.Second, known: make(map[string]map[string]any)}
					readers = append(readers, r)
					reading.Go(func() { a.router().ServeHTTP(r, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/stream", nil)) })
				}
			}
			time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
		}
		for i := range 10 {
			act(fmt.Sprint(i), "pause") // nothing ticks afterwards
		}
		time.Sleep(time.Minute)
		cancel()
		reading.Wait()
		want := listed(t, a)
		if len(want) < 10 || len(readers) < 10 {
			t.Fatalf("%d objects, %d readers", len(want), len(readers))
		}
		for _, r := range readers {
			if diff := cmp.Diff(want, r.known); diff != "" {
				t.Errorf("a reader with a delay of %s (-list +stream): %s", r.delay, diff)
			}
		}
	})
}

// pipes is a listener with in-memory connections.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	close func() // marks the listener as closed
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// serve serves the API of a over in-memory connections until the test ends.
func serve(t *testing.T, a *Agent) (p *pipes, stop func()) {
	p = &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.ended) })
	server := a.newServer()
	server.Handler = a.router() // without access control, as there is no address
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(p) })
	return p, func() {
		_ = server.Close()
		serving.Wait()
	}
}

// A stream without changes stays open over both versions of HTTP. HTTP/2 ends a stream at its write deadline,
// even if nothing is written.
func TestIdleStreamStaysOpen(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%t", http2), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, stop := followed(t, NewMemory(), nil)
				defer stop()
				p, stopServing := serve(t, a)
				defer stopServing()
				transport := &http.Transport{DialContext: p.dial, Protocols: new(http.Protocols)}
				transport.Protocols.SetHTTP1(!http2)
				transport.Protocols.SetUnencryptedHTTP2(http2)
				defer transport.CloseIdleConnections()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/api/v1/stream", nil)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				res, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if res.ProtoAtLeast(2, 0) != http2 {
					t.Errorf("got %s", res.Proto)
				}
				lines := bufio.NewScanner(res.Body)
				for range 2 * 20 { // including empty lines
					if !lines.Scan() {
						t.Fatalf("ended after %s: %v", time.Since(start), lines.Err())
					}
				}
				if took := time.Since(start); took != 5*time.Minute {
					t.Errorf("20 heartbeats took %s", took)
				}
			})
		})
	}
}

// A client that does not read loses its connection.
func TestDeadReaderIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, stop := followed(t, NewMemory(execPod("one", 1)), func() ([]byte, error) { return nil, nil })
		defer stop()
		p, stopServing := serve(t, a)
		defer stopServing()
		conn, err := p.dial(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		text, err := io.ReadAll(conn) // a pipe has no buffer: only the pending write can be read
		if err != nil || strings.Contains(string(text), "data: ") {
			t.Errorf("got %q, %v", text, err)
		}
	})
}
