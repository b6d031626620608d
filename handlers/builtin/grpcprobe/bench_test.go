package grpcprobe

import (
	"bytes"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/daeace23/prober/handlers/builtin/internal/network"
)

// BenchmarkExchange measures a health check without its connection: encoding the request, and decoding
// the answer of a grpc-go server.
func BenchmarkExchange(b *testing.B) {
	var settings, answer bytes.Buffer
	f := http2.NewFramer(&settings, nil)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384})
	f = http2.NewFramer(&answer, nil)
	_ = f.WriteSettingsAck()
	_ = f.WriteWindowUpdate(0, 5)
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, BlockFragment: []byte("\x88_\x8b\x1du\xd0b\r&=LMed")})
	_ = f.WriteData(1, false, []byte{0, 0, 0, 0, 2, 8, 1})
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: []byte("@\x88\x9a\xca\xc8\xb2\x124\xda\x8f\x010@\x89\x9a\xca\xc8\xb5%B\a1\x7f\x00")})
	conn := &replay{parts: [][]byte{settings.Bytes(), answer.Bytes()}}
	r := request{authority: "10.0.0.1:8080", userAgent: "kube-probe/1.36 grpc-go/1.85.0", deadline: time.Now().Add(time.Hour)}
	b.ReportAllocs()
	for b.Loop() {
		conn.read = 0
		x := newExchange(new(network.Progress))
		if err := x.run(conn, &r); err != nil || x.failure != nil || x.response.GetStatus() != 1 {
			b.Fatal(err, x.failure, x.response.GetStatus())
		}
		x.release()
	}
}

// replay is a connection whose server has already sent everything. Each read returns a part.
type replay struct {
	net.Conn
	parts [][]byte
	read  int
}

func (c *replay) Read(b []byte) (int, error) {
	c.read++
	return copy(b, c.parts[c.read-1]), nil
}

func (c *replay) Write(b []byte) (int, error) { return len(b), nil }
