package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames returns the bytes that f writes.
func frames(f func(*http2.Framer)) string {
	var b bytes.Buffer
	framer := http2.NewFramer(&b, nil)
	framer.AllowIllegalWrites = true
	f(framer)
	return b.String()
}

// block returns a header block without indexed fields, so that it does not depend on earlier blocks. fields
// are pairs of name and value.
func block(fields ...string) []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSizeLimit(0)
	e.SetMaxDynamicTableSize(0)
	b.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1], Sensitive: true}); err != nil {
			panic(err)
		}
	}
	text := b.Bytes()
	if len(text) > 0 && text[0]&0xe0 == 0x20 { // a change of the size of the dynamic table
		text = text[1:]
	}
	return text
}

// Frames of a server. The client's first stream is 1.

func settings(s ...http2.Setting) string {
	return frames(func(f *http2.Framer) { _ = f.WriteSettings(s...) })
}

var acknowledged = frames(func(f *http2.Framer) { _ = f.WriteSettingsAck() })

func headersOn(stream uint32, ends bool, fields ...string) string {
	return frames(func(f *http2.Framer) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(fields...), EndHeaders: true, EndStream: ends})
	})
}

func headers(fields ...string) string  { return headersOn(1, false, fields...) }
func trailers(fields ...string) string { return headersOn(1, true, fields...) }

func data(payload string) string {
	return frames(func(f *http2.Framer) { _ = f.WriteData(1, false, []byte(payload)) })
}

func lastData(payload string) string {
	return frames(func(f *http2.Framer) { _ = f.WriteData(1, true, []byte(payload)) })
}

func resetStream(code http2.ErrCode) string {
	return frames(func(f *http2.Framer) { _ = f.WriteRSTStream(1, code) })
}

func goAway(last uint32, code http2.ErrCode, debug string) string {
	return frames(func(f *http2.Framer) { _ = f.WriteGoAway(last, code, []byte(debug)) })
}

func ping(payload string) string {
	return frames(func(f *http2.Framer) { _ = f.WritePing(false, [8]byte([]byte(payload))) })
}

func windowUpdate(stream, n uint32) string {
	return frames(func(f *http2.Framer) { _ = f.WriteWindowUpdate(stream, n) })
}

// frame returns a frame with any fields. length may differ from the payload's.
func frame(length int, kind http2.FrameType, flags http2.Flags, stream uint32, payload string) string {
	head := []byte{byte(length >> 16), byte(length >> 8), byte(length), byte(kind), byte(flags)}
	return string(binary.BigEndian.AppendUint32(head, stream)) + payload
}

// message returns a gRPC message.
func message(payload string) string {
	return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(payload)))) + payload
}

// walk calls f for each complete frame that a client has sent. It returns an error for other bytes.
func walk(got []byte, f func(http2.Frame)) error {
	rest, ok := bytes.CutPrefix(got, []byte(http2.ClientPreface))
	if !ok {
		return fmt.Errorf("no preface: %.40q", got)
	}
	framer := http2.NewFramer(nil, bytes.NewReader(rest))
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	framer.MaxHeaderListSize = 1 << 20
	for {
		read, err := framer.ReadFrame()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
		f(read)
	}
}

// preface waits until the client has sent its preface and settings.
var preface await = func(got []byte) bool {
	found := false
	_ = walk(got, func(f http2.Frame) { found = found || f.Header().Type == http2.FrameSettings })
	return found
}

// call waits for a whole request, and callAgain for two.
var (
	call      await = func(got []byte) bool { return calls(got) > 0 }
	callAgain await = func(got []byte) bool { return calls(got) > 1 }
)

func calls(got []byte) (n int) {
	_ = walk(got, func(f http2.Frame) {
		switch f := f.(type) {
		case *http2.DataFrame:
			if f.StreamEnded() {
				n++
			}
		case *http2.MetaHeadersFrame:
			if f.StreamEnded() {
				n++
			}
		}
	})
	return n
}

// describeFrames describes the frames of a client: first the requests in order, then the other frames,
// whose times relative to the requests are random. For net/http it sorts the headers, whose order is random,
// and omits RST_STREAM and GOAWAY, which may come too late.
func describeFrames(got []byte, grpc bool) string {
	if len(got) == 0 {
		return "nothing"
	}
	var requests, others []string
	err := walk(got, func(f http2.Frame) {
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			var fields []string
			for _, field := range f.Fields {
				fields = append(fields, remaining.ReplaceAllString(field.String(), "$1 TIME"))
			}
			if !grpc {
				slices.Sort(fields)
			}
			requests = append(requests, fmt.Sprintf("HEADERS %d ends=%v %q", f.StreamID, f.StreamEnded(), fields))
		case *http2.DataFrame:
			requests = append(requests, fmt.Sprintf("DATA %d ends=%v %q", f.StreamID, f.StreamEnded(), f.Data()))
		case *http2.SettingsFrame:
			if f.IsAck() {
				return // may come too late
			}
			text := "SETTINGS"
			_ = f.ForeachSetting(func(s http2.Setting) error { text += " " + s.String(); return nil })
			others = append(others, text)
		case *http2.GoAwayFrame:
			if !grpc {
				return
			}
			others = append(others, fmt.Sprintf("GOAWAY %v", f.ErrCode))
		case *http2.RSTStreamFrame:
			if !grpc {
				return
			}
			others = append(others, fmt.Sprintf("RST_STREAM %d %v", f.StreamID, f.ErrCode))
		}
	})
	if err != nil {
		others = append(others, err.Error())
	}
	return strings.Join(append(requests, others...), "; ")
}

// remaining matches the header field grpc-timeout.
var remaining = regexp.MustCompile(`(name = "grpc-timeout" value =|header field "grpc-timeout" =) "\w+"`)
