package http2_test

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"github.com/daeace23/prober/handlers/builtin/internal/http2"
)

// sink is a connection that records written bytes.
type sink struct {
	net.Conn
	bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) { return s.Buffer.Write(p) }

func (s *sink) Read([]byte) (int, error) { return 0, net.ErrClosed }

// headers returns a HEADERS frame with a payload, and continuation a CONTINUATION frame.
func headers(flags byte, payload string) []byte {
	return append(http2.AppendHeader(nil, http2.Headers, flags, http2.StreamID, len(payload)), payload...)
}

func continuation(flags byte, payload string) []byte {
	return append(http2.AppendHeader(nil, http2.Continuation, flags, http2.StreamID, len(payload)), payload...)
}

var (
	ack      = http2.AppendHeader(nil, http2.Settings, http2.Ack, http2.ConnectionID, 0)
	settings = http2.AppendSettings(nil, http2.Setting{ID: http2.EnablePush})
	window   = http2.AppendWindowUpdate(nil, http2.ConnectionID, 1)
	reset    = http2.AppendReset(nil, http2.Cancel)
)

func TestReplayDropsSentFrames(t *testing.T) {
	request := bytes.Join([][]byte{headers(http2.EndStream, "a"), continuation(0, "b"), continuation(http2.EndHeaders, "c")}, nil)
	written := bytes.Join([][]byte{[]byte(http2.ClientPreface), settings, window, request, ack, ack, window, reset}, nil)
	for _, size := range []int{1, 7, 9, 40, len(written)} {
		var conn sink
		x := &http2.Exchange{In: []byte("received")}
		x.Sent = http2.Sent{Acks: 1, Settings: true, Window: true, Request: true}
		r := x.Replay(&conn, []byte(http2.ClientPreface), 3)
		var early [8]byte
		if n, ok, err := r.Read(early[:]); string(early[:n]) != "rec" || !ok || err != nil {
			t.Errorf("read %q, %v, %v before the request", early[:n], ok, err)
		}
		for rest := written; len(rest) > 0; {
			part := rest[:min(size, len(rest))]
			if n, err := r.Write(part); n != len(part) || err != nil {
				t.Fatalf("wrote %d, %v, want %d", n, err, len(part))
			}
			rest = rest[len(part):]
		}
		if want := bytes.Join([][]byte{ack, window, reset}, nil); !bytes.Equal(conn.Bytes(), want) {
			t.Errorf("in parts of %d bytes: the server got %q, want %q", size, conn.Bytes(), want)
		}
		var late [8]byte
		if n, ok, err := r.Read(late[:]); string(late[:n]) != "eived" || !ok || err != nil {
			t.Errorf("read %q, %v, %v after the request", late[:n], ok, err)
		}
		if _, ok, _ := r.Read(late[:]); ok {
			t.Error("there is more to read")
		}
	}
}

func TestReplayRefusesAnotherPreface(t *testing.T) {
	var conn sink
	r := new(http2.Exchange).Replay(&conn, []byte(http2.ClientPreface), 0)
	if _, err := r.Write([]byte("GET / HTTP/1.1\r\n")); err != http2.ErrPrefaceDiffers || conn.Len() > 0 {
		t.Errorf("got %v, wrote %q", err, conn.Bytes())
	}
}

func TestReplayCloseEndsRead(t *testing.T) {
	x := &http2.Exchange{In: []byte("received")}
	x.Sent.Request = true
	r := x.Replay(new(sink), nil, 0)
	r.Close()
	if n, ok, err := r.Read(make([]byte, 8)); n != 0 || !ok || err != net.ErrClosed {
		t.Errorf("got %d, %v, %v", n, ok, err)
	}
}

// TestExchangeKnowsServers checks that the first frames of common servers are handled.
func TestExchangeKnowsServers(t *testing.T) {
	for name, c := range map[string]struct {
		received []byte
		want     error
	}{
		"nginx": {http2.AppendWindowUpdate(http2.AppendSettings(nil, http2.Setting{ID: http2.MaxConcurrentStreams, Value: 128},
			http2.Setting{ID: http2.InitialWindowSize, Value: 65536}, http2.Setting{ID: http2.MaxFrameSize, Value: 1<<24 - 1}), http2.ConnectionID, 1<<31-1-65535), nil},
		"window above the most": {http2.AppendWindowUpdate(http2.AppendSettings(nil), http2.ConnectionID, 1<<31-65535), http2.ErrOther},
		"no settings":           {window, http2.ErrOther},
		"invalid setting":       {http2.AppendSettings(nil, http2.Setting{ID: http2.MaxFrameSize, Value: 1}), http2.ErrOther},
		"two acknowledgements":  {bytes.Join([][]byte{settings, ack, ack}, nil), http2.ErrOther},
		"unknown frame":         {append(bytes.Clone(settings), 0, 0, 0, 0x42, 0, 0, 0, 0, 0), http2.ErrOther},
	} {
		x := &http2.Exchange{In: c.received, Limit: 1 << 14}
		x.Init(func(hpack.HeaderField) {})
		if err := x.HandleAll(nil); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestAppendShortTextMatchesHPACK(t *testing.T) {
	for _, text := range []string{"a", "127.0.0.1:8443", strings.Repeat("{", 10), strings.Repeat("long", 100), strings.Repeat("~", 200)} {
		var want bytes.Buffer
		if err := hpack.NewEncoder(&want).WriteField(hpack.HeaderField{Name: ":authority", Value: text}); err != nil {
			t.Fatal(err)
		}
		if got := http2.AppendShortText([]byte{0x40 | 1}, text); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q: got %x, want %x", text, got, want.Bytes())
		}
	}
}
