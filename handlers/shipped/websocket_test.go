package shipped_test

import (
	"crypto/sha1" //nolint:gosec // of RFC 6455
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/probe"
)

// echo returns a server of golang.org/x/net/websocket that sends each message back, and speaks the subprotocol chat.
func echo() *websocket.Server {
	return &websocket.Server{
		Handshake: func(c *websocket.Config, r *http.Request) error {
			if r.URL.Path != "/echo" || r.Header.Get("X-Team") != "shop" {
				return websocket.ErrBadWebSocketOrigin
			}
			if len(c.Protocol) > 0 {
				c.Protocol = []string{"chat"}
			}
			return nil
		},
		Handler: func(c *websocket.Conn) {
			defer c.Close() // sends a close frame
			for {
				var data []byte
				if err := websocket.Message.Receive(c, &data); err != nil {
					return
				}
				c.PayloadType = websocket.TextFrame
				if data[0] == 0xff {
					c.PayloadType = websocket.BinaryFrame
				}
				if _, err := c.Write(data); err != nil {
					return
				}
			}
		},
	}
}

func TestWebSocketWithRealPeer(t *testing.T) {
	const team = `"headers":{"X-Team":"shop"}`
	const own = `"url":"/echo",` + team
	p := load(t, "websocket")
	long := strings.Repeat("0123456789", 7_000) // needs a length of 64 bits
	for name, c := range map[string]struct {
		config string
		want   probe.Result
		output string
		secure bool
	}{
		"opens":                   {`{` + own + `}`, probe.Success, "connected in ", false},
		"text":                    {`{` + own + `,"exchange":[{"send":"hello"},{"expect":"^hello$"}]}`, probe.Success, `: "hello"`, false},
		"text of 300 bytes":       {`{` + own + `,"exchange":[{"send":"` + long[:300] + `","expect":"9$"}]}`, probe.Success, "connected in ", false},
		"text of 70,000 bytes":    {`{` + own + `,"exchange":[{"send":"` + long + `","expect":"^(0123456789)+$"}]}`, probe.Success, "connected in ", false},
		"binary":                  {`{` + own + `,"exchange":[{"sendBase64":"/wBh","expect":"a$"}]}`, probe.Success, "connected in ", false},
		"ping":                    {`{` + own + `,"ping":true}`, probe.Success, ", a ping took ", false},
		"close":                   {`{` + own + `,"validCloseCodes":[1000,1001]}`, probe.Success, "connected in ", false},
		"another close code":      {`{` + own + `,"validCloseCodes":[3000]}`, probe.Failure, "the server closed the connection with 1000, want 3000", false},
		"subprotocol":             {`{` + own + `,"subprotocols":["other","chat"]}`, probe.Success, "connected in ", false},
		"subprotocol not offered": {`{` + own + `,"subprotocols":["other"]}`, probe.Failure, `the server chose the subprotocol "chat", which was not offered`, false},
		"refused":                 {`{"url":"/echo"}`, probe.Failure, "HTTP status 403, want 101", false},
		"no message":              {`{` + own + `,"timeout":"300ms","exchange":[{"expect":"x"}]}`, probe.Failure, `no message came that matches "x"; the timeout of 300ms has passed`, false},
		"another message":         {`{` + own + `,"timeout":"300ms","exchange":[{"send":"b","expect":"x"}]}`, probe.Failure, `no message matches "x", and the last one was "b"; the timeout of 300ms`, false},
		"over TLS":                {`{` + team + `,"url":"wss:///echo","tlsConfig":{"insecureSkipVerify":true},"ping":true,"exchange":[{"send":"hello","expect":"hello"}]}`, probe.Success, ", a ping took ", true},
		"unknown authority":       {`{` + team + `,"url":"wss:///echo"}`, probe.Failure, "certificate signed by unknown authority", true},
		"TLS and none":            {`{` + team + `,"url":"ws:///echo"}`, probe.Failure, "HTTP status 400, want 101", true},
	} {
		t.Run(name, func(t *testing.T) {
			target, _ := serveWeb(t, c.secure, echo().ServeHTTP)
			out, err := again(t, bind(t, p, c.config, target), target, patience)
			if err != nil || out.Result != c.want || !strings.Contains(out.Output, c.output) {
				t.Errorf("got %s %.300q, %v; want %s %q", out.Result, out.Output, err, c.want, c.output)
			}
		})
	}
}

// serveFrames starts a server that answers the handshake, sends data and ends its side of the connection.
func serveFrames(t *testing.T, data func() string) probe.Target {
	t.Helper()
	target, _ := serveWeb(t, false, func(w http.ResponseWriter, r *http.Request) {
		sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // of RFC 6455
		c, rest, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: keep-alive, upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n%s",
			base64.StdEncoding.EncodeToString(sum[:]), data())
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, rest)
	})
	return target
}

// frame returns a frame of a server. first is its first byte.
func frame(first byte, payload string) string {
	head := []byte{first}
	switch n := len(payload); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	return string(head) + payload
}

func TestWebSocketFrames(t *testing.T) {
	p := load(t, "websocket")
	const text, binaryFrame, closing, ping, pong, fragment, last = 0x81, 0x82, 0x88, 0x89, 0x8a, 0x01, 0x80
	for name, c := range map[string]struct {
		data string
		want string
	}{
		"fragments":                      {frame(fragment, "he") + frame(ping, "x") + frame(0, "ll") + frame(last, "o"), `: "hello"`},
		"fragments that split letters":   {frame(fragment, "hello \xc3") + frame(last, "\xa9"), `: "hello é"`},
		"other messages before":          {frame(text, "one") + frame(pong, "late") + frame(text, "hello"), `: "hello"`},
		"message of 1 MiB":               {frame(binaryFrame, strings.Repeat("x", 1<<20-5)+"hello"), "connected in "},
		"message above 1 MiB":            {frame(text, strings.Repeat("x", 1<<20+1)), "a frame of 1048577 bytes, more than 1048576"},
		"fragments above 1 MiB":          {frame(fragment, strings.Repeat("x", 1<<20)) + frame(last, "x"), "a message of more than 1048576 bytes"},
		"length of 64 bits":              {"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "a frame of 18446744073709551615 bytes"},
		"masked":                         {"\x81\x85abcdhello", "the server broke the protocol: a masked frame"},
		"extension":                      {frame(0xc1, "hello"), "a frame of an extension that was not agreed"},
		"unknown type":                   {frame(0x83, "hello"), "a frame of the unknown type 3"},
		"fragment without start":         {frame(last, "hello"), "a fragment without the start of its message"},
		"message within fragments":       {frame(fragment, "he") + frame(text, "hello"), "a message within the fragments of another one"},
		"fragmented ping":                {frame(0x09, "x"), "a control frame that is fragmented or longer than 125 bytes"},
		"long ping":                      {frame(ping, strings.Repeat("x", 126)), "a control frame that is fragmented or longer than 125 bytes"},
		"text that is not UTF-8":         {frame(text, "hello\xff"), "a text that is not UTF-8"},
		"close":                          {frame(closing, "\x03\xf3no \"room\""), `the server closed the connection with 1011 "no \"room\""`},
		"close without a code":           {frame(closing, ""), "the server closed the connection without a code"},
		"close of one byte":              {frame(closing, "x"), "a close frame of one byte"},
		"close that is not UTF-8":        {frame(closing, "\x03\xe8\xff"), "a close frame whose reason is not UTF-8"},
		"end":                            {"", "the server ended the connection without a close frame"},
		"end within a frame":             {"\x81\x05hel", "the server ended the connection without a close frame"},
		"pings without an end":           {strings.Repeat(frame(ping, strings.Repeat("x", 125)), 4_000), "more than 262144 bytes written"},
		"empty fragments without an end": {frame(fragment, "") + strings.Repeat(frame(0, ""), 3<<20), "more than 4194304 bytes read"},
	} {
		t.Run(name, func(t *testing.T) {
			target := serveFrames(t, func() string { return c.data })
			out, err := again(t, bind(t, p, `{"exchange":[{"expect":"hello"}]}`, target), target, patience)
			succeeds := strings.HasPrefix(c.want, ": ") || strings.HasPrefix(c.want, "connected")
			if err != nil || (out.Result == probe.Success) != succeeds || !strings.Contains(out.Output, c.want) || len(out.Output) > 500 {
				t.Errorf("got %s %.300q, %v; want %q", out.Result, out.Output, err, c.want)
			}
		})
	}
}

func TestWebSocketMetrics(t *testing.T) {
	target := serveFrames(t, func() string { return frame(0x81, "a") + frame(0x81, "hello") + frame(0x88, "\x03\xe8") })
	out, err := attempt(t, wasm.Config{}, "websocket", `{"exchange":[{"expect":"hello"}],"validCloseCodes":[1000]}`, target, patience)
	if err != nil || out.Result != probe.Success {
		t.Errorf("got %s %q, %v", out.Result, out.Output, err)
	}
	want := map[string]float64{"websocket_status_code": 101, "websocket_messages": 2, "websocket_close_code": 1000, "failed_due_to_regex": 0}
	for _, m := range out.Metrics {
		if value, ok := want[m.Name]; ok && m.Value == value {
			delete(want, m.Name)
		}
	}
	if len(want) > 0 {
		t.Errorf("no metrics %v in %v", want, out.Metrics)
	}
}

// TestMutatedWebSocketsAreNoSuccess has servers whose frames or responses to the handshake are cut or changed.
func TestMutatedWebSocketsAreNoSuccess(t *testing.T) {
	frames := mutated(frame(0x89, "ping") + frame(0x01, "he") + frame(0x80, "llo") + frame(0x82, strings.Repeat("x", 200)) + frame(0x88, "\x03\xe8bye"))
	var next atomic.Value
	target := serveFrames(t, func() string { return next.Load().(string) })
	h := bind(t, load(t, "websocket"), `{"exchange":[{"expect":"never"}]}`, target)
	for _, data := range frames {
		next.Store(data)
		out, err := again(t, h, target, patience)
		wantFailure(t, out, err, out.Reason, `"never"`)
		if out.Reason == probe.ReasonDeadline || len(out.Output) > 1000 {
			t.Errorf("%q: %q", data, out.Output)
		}
	}
	const response = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
	neverSuccess(t, "websocket", `{}`, mutated(response), func(c net.Conn, text string) {
		after(func(c net.Conn) { _, _ = io.WriteString(c, text) })(c)
	})
}
