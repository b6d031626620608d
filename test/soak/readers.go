//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// readLists reads the lists of the API every ten seconds.
func (w *world) readLists(ctx context.Context) {
	discard := func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	every(ctx, 10*time.Second, func(i int) {
		paths := []string{"/api/v1/events", "/api/v1/plugins", "/readyz?verbose"}
		switch i % 6 {
		case 2:
			paths = append(paths, "/api/v1/probes")
		case 5:
			paths = append(paths, "/api/v1/pods")
		}
		for _, path := range paths {
			if err := w.agent.ask(path, discard); err != nil && ctx.Err() == nil {
				w.failed(path, err)
			}
		}
	})
}

// readStreams runs nine readers of the stream besides the one that is checked: one fast, three slow, two
// that never read, and three that disconnect after a few seconds.
func (w *world) readStreams(ctx context.Context) {
	var readers sync.WaitGroup
	defer readers.Wait()
	for i := range 9 {
		readers.Go(func() {
			client := http.DefaultClient
			if i > 0 && i < 6 {
				client = streamClient(4 << 10)
				defer client.CloseIdleConnections()
			}
			every(ctx, time.Second, func(int) {
				ctx := ctx
				if i >= 6 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, time.Second+rand.N(10*time.Second))
					defer cancel()
				}
				body, err := w.agent.stream(ctx, client)
				if err != nil {
					return // ctx has ended, or the agent has refused
				}
				defer body.Close()
				switch {
				case i == 0 || i >= 6:
					_, _ = io.Copy(io.Discard, body)
				case i < 4:
					readSlowly(ctx, body)
				default:
					<-ctx.Done()
				}
			})
		})
	}
}

// readSlowly reads at 4 KiB a second.
func readSlowly(ctx context.Context, r io.Reader) {
	for part := make([]byte, 1<<10); ; {
		if _, err := r.Read(part); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// stream opens the stream of changes.
func (a *agent) stream(ctx context.Context, client *http.Client) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/api/v1/stream", nil)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("stream: %s", res.Status)
	}
	return res.Body, nil
}

// dialWithBuffer returns a function that dials with a receive buffer of buffer bytes.
func dialWithBuffer(buffer int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(buffer)
		}
		return conn, err
	}
}

// streamed has the observations of the checked reader of the stream.
type streamed struct {
	mu     sync.Mutex
	events int
	opened int
	ended  []string             // why and when streams ended; this program ends the last one
	ready  time.Time            // by then the last stream has sent its initial state
	last   map[string]time.Time // time of the last tick, by probeView.key; followed pods only
	delays durations            // from the end of a tick until its event was read; followed pods only
}

// isFollowed reports whether the checked reader records the delays of a pod's events.
func isFollowed(pod int) bool { return pod%filePods == 5 || pod%filePods == 16 }

// followStream reads the stream as fast as it can.
func (w *world) followStream(ctx context.Context) {
	every(ctx, time.Second, func(int) {
		body, err := w.agent.stream(ctx, http.DefaultClient)
		if err != nil {
			return
		}
		defer body.Close()
		opened := time.Now()
		w.stream.mu.Lock()
		w.stream.opened++
		w.stream.ready = opened.Add(10 * time.Second)
		w.stream.mu.Unlock()
		for in := bufio.NewReaderSize(body, 1<<16); ; {
			line, err := in.ReadBytes('\n')
			if err != nil {
				w.stream.end(err)
				return
			}
			data, ok := bytes.CutPrefix(line, []byte("data: "))
			if !ok {
				continue
			}
			w.stream.event(data, opened)
			w.recordTick(data)
		}
	})
}

// end records why a stream has ended.
func (s *streamed) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, fmt.Sprintf("%v at %s", err, clock(time.Now().UnixNano())))
}

var podField = []byte(`"pod":"p-`)

// event records an event of a stream that was opened at the time opened.
func (s *streamed) event(data []byte, opened time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	_, rest, ok := bytes.Cut(data, podField)
	if !ok || len(rest) < 5 {
		return
	}
	if pod, ok := podNumber("p-" + string(rest[:5])); !ok || !isFollowed(pod) {
		return
	}
	var p probeView
	if json.Unmarshal(data, &p) != nil || p.Last == nil || p.Kind == "" {
		return
	}
	if !p.Last.Time.After(s.last[p.key()]) {
		return // another change of the probe
	}
	s.last[p.key()] = p.Last.Time
	if end := p.Last.end(); end.After(opened) {
		s.delays = append(s.delays, time.Since(end))
	}
}

// recordTick adds the tick of an event to the ledger, if the event is about an exact probe.
func (w *world) recordTick(data []byte) {
	if !bytes.Contains(data, podField) || !bytes.Contains(data, attempts) {
		return // of another object, or of a probe without a tick
	}
	var p probeView
	if err := json.Unmarshal(data, &p); err != nil {
		w.failed("stream", err)
		return
	}
	if key, ok := w.keys[p.key()]; ok && p.Last != nil && !p.Removed {
		w.ledger.addTick(key, &p)
	}
}

var attempts = []byte(`"attempts":`)

// checkStream checks that the stream sends the last ticks of a list, 3 s after the list at the latest.
func (w *world) checkStream(items []probeView) {
	time.Sleep(3 * time.Second)
	w.stream.mu.Lock()
	defer w.stream.mu.Unlock()
	if time.Now().Before(w.stream.ready) {
		return
	}
	behind, example := 0, ""
	for _, p := range items {
		pod, ok := podNumber(p.Pod)
		if !ok || !isFollowed(pod) || p.Last == nil {
			continue
		}
		if p.Last.Time.After(w.stream.last[p.key()]) {
			behind++
			example = p.key()
		}
	}
	if behind > 0 {
		w.report.fault("a fast reader of the stream has not read the last tick of %d probes 3 s after a list has shown them, such as %s", behind, example)
	}
}

func (s *streamed) report(r *report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.add("stream", "%d events, opened %d times; delays %v", s.events, s.opened, s.delays)
	if s.opened > 1 {
		r.fault("the stream of a fast reader ended %d times: %q", s.opened-1, s.ended)
	}
}
