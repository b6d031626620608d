package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// get sends a request over a new connection, which is closed when the test ends.
func (p *pipes) get(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := p.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// response reads a response completely.
func response(t *testing.T, from io.Reader) (*http.Response, []byte) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReaderSize(from, partBytes), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("after %d bytes: %v", len(body), err)
	}
	return res, body
}

// slowConn pauses before each read. A part of a list takes three reads.
type slowConn struct{ net.Conn }

func (c slowConn) Read(p []byte) (int, error) {
	time.Sleep(2 * time.Second)
	return c.Conn.Read(p)
}

// largePods is the number of pods that a test serves, of about 32 KiB each.
const largePods = 20

// serveLarge serves the API of an agent with a large list of pods, until the test ends.
func serveLarge(t *testing.T) *pipes {
	var desired []*v1.Pod
	for i := range largePods {
		pod := execPod(fmt.Sprintf("pod-%02d", i), 1_000_000)
		pod.Annotations = map[string]string{"large": strings.Repeat("x", 32<<10)}
		desired = append(desired, pod)
	}
	a, stop := followed(t, NewMemory(desired...), func() ([]byte, error) { return nil, nil })
	t.Cleanup(stop)
	listener, stopServing := serve(t, a)
	t.Cleanup(stopServing)
	return listener
}

// A client that reads 32 KiB in 6 s receives the whole list, although that takes longer than any other
// response may take.
func TestSlowReaderReceivesWholeList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, start := serveLarge(t), time.Now()
		_, body := response(t, slowConn{listener.get(t, "/api/v1/pods")})
		var list v1.PodList
		if err := json.Unmarshal(body, &list); err != nil || len(list.Items) != largePods {
			t.Errorf("%d pods, %v", len(list.Items), err)
		}
		if took := time.Since(start); took < time.Minute {
			t.Errorf("the reader was not slow: it took %s", took)
		}
	})
}

// Clients that stop reading a list lose their connection soon, and delay other clients only until then.
func TestStalledListReadersAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := serveLarge(t)
		for range 4 {
			listener.get(t, "/api/v1/pods")
		}
		synctest.Wait()
		start := time.Now()
		res, _ := response(t, listener.get(t, "/api/v1/probes?limit=1"))
		if took := time.Since(start); res.StatusCode != http.StatusOK || took != 10*time.Second {
			t.Errorf("status %d after %s, want 200 after 10s", res.StatusCode, took)
		}
	})
}

// The same over HTTP/2, whose clients stall by not enlarging the window.
func TestStalledListReadersAreDroppedOverHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := &http.Transport{
			DialContext: serveLarge(t).dial, Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
		}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		get := func(path string) *http.Response {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://localhost"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		for range 4 {
			defer get("/api/v1/pods").Body.Close()
		}
		start := time.Now()
		res := get("/api/v1/probes?limit=1")
		defer res.Body.Close()
		if took := time.Since(start); res.ProtoMajor != 2 || res.StatusCode != http.StatusOK || took != 10*time.Second {
			t.Errorf("%s: status %d after %s, want 200 after 10s", res.Proto, res.StatusCode, took)
		}
	})
}

// Many slow clients do not make the agent hold a list for each.
func TestSlowReadersOfListsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := serveLarge(t)
		var reading sync.WaitGroup
		for range 4 {
			conn := slowConn{listener.get(t, "/api/v1/pods")}
			reading.Go(func() { response(t, conn) })
		}
		synctest.Wait()
		start := time.Now()
		res, body := response(t, listener.get(t, "/api/v1/events"))
		want := `"message":"too many lists are being read; try again later","reason":"ServiceUnavailable","code":503`
		if took := time.Since(start); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), want) || took != 15*time.Second {
			t.Errorf("status %d %s after %s, want 503 %s after 15s", res.StatusCode, body, took, want)
		}
		if res, _ := response(t, listener.get(t, "/healthz")); res.StatusCode != http.StatusOK {
			t.Errorf("/healthz: status %d", res.StatusCode)
		}
		reading.Wait()
		if res, _ := response(t, listener.get(t, "/api/v1/events")); res.StatusCode != http.StatusOK {
			t.Errorf("status %d after the slow readers", res.StatusCode)
		}
	})
}

// fromPeer is the server's end of a connection with a chosen remote address.
type fromPeer struct {
	net.Conn
	peer netip.Addr
}

func (f fromPeer) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(f.peer, 1))
}

// dialFrom returns a connection with the remote address peer.
func (p *pipes) dialFrom(t *testing.T, peer string) net.Conn {
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close() })
	p.conns <- fromPeer{server, netip.MustParseAddr(peer)}
	return client
}

// occupy sends requests from an address, and never reads their responses.
func (p *pipes) occupy(t *testing.T, peer, path string, requests int) {
	for range requests {
		if _, err := fmt.Fprintf(p.dialFrom(t, peer), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
			t.Fatal(err)
		}
	}
}

// occupyStreams is occupy with HTTP/2 streams, whose client grants a small window.
func (p *pipes) occupyStreams(t *testing.T, peer, path string, requests int) {
	transport := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return p.dialFrom(t, peer), nil },
		Protocols:   new(http.Protocols), HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	for range requests {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://localhost"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
	}
}

// A peer that holds all slots of a path does not block other peers.
func TestSlowReadersKeepOnlyTheirShare(t *testing.T) {
	const crowd, bystander = "192.0.2.1", "198.51.100.1"
	for path, slots := range map[string]int{
		"/metrics": maxMetrics, "/api/v1/pods": maxLists, "/api/v1/stream": maxStreams, "/api/v1/stream?view=summary": maxStreams,
	} {
		for version, occupy := range map[string]func(p *pipes, t *testing.T, peer, path string, requests int){
			"1.1": (*pipes).occupy, "2": (*pipes).occupyStreams,
		} {
			t.Run(path+" over HTTP/"+version, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := serveLarge(t)
					occupy(p, t, crowd, path, slots)
					synctest.Wait()
					start, conn := time.Now(), p.dialFrom(t, bystander)
					fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
					res, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(start); res.StatusCode != http.StatusOK || took > 2*time.Second {
						t.Errorf("status %d after %s, want 200 within 2s", res.StatusCode, took)
					}
				})
			})
		}
	}
}
