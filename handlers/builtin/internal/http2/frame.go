// Package http2 has the client side of HTTP/2 (RFC 9113 and RFC 7541), for one request on one connection. It
// supports the frames that ordinary servers send. If other frames arrive, a library continues on the same
// connection, see [Replay].
package http2

import (
	"encoding/binary"

	"golang.org/x/net/http2/hpack"
)

// Types of frames, see RFC 9113, section 6.
const (
	Data         = 0
	Headers      = 1
	ResetStream  = 3
	Settings     = 4
	Ping         = 6
	GoAway       = 7
	WindowUpdate = 8
	Continuation = 9
)

// Flags of frames.
const (
	EndStream  = 1
	Ack        = 1
	EndHeaders = 4
	Padded     = 8
	Priority   = 0x20
)

const (
	HeaderSize   = 9 // size of a frame's header in bytes
	ConnectionID = 0 // the stream of frames that concern the connection
	StreamID     = 1 // the first stream of a client
)

// ClientPreface is the beginning of every connection.
const ClientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// IDs of settings, see RFC 9113, section 6.5.2.
const (
	HeaderTableSize      = 1
	EnablePush           = 2
	MaxConcurrentStreams = 3
	InitialWindowSize    = 4
	MaxFrameSize         = 5
	MaxHeaderListSize    = 6
)

// Setting is a parameter of a connection.
type Setting struct {
	ID    uint16
	Value uint32
}

// Header is the header of a frame.
type Header struct {
	Size        int // of the payload, in bytes
	Kind, Flags byte
	Stream      uint32
}

// HeaderOf decodes the header at the beginning of b.
func HeaderOf(b []byte) Header {
	return Header{
		Size: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), Kind: b[3], Flags: b[4],
		Stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

// Has reports whether h has a flag.
func (h Header) Has(flag byte) bool { return h.Flags&flag != 0 }

// AppendHeader appends the header of a frame. Its payload has size bytes.
func AppendHeader(b []byte, kind, flags byte, stream uint32, size int) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

// SetSize sets the size of the payload in the header at the beginning of b.
func SetSize(b []byte, size int) { b[0], b[1], b[2] = byte(size>>16), byte(size>>8), byte(size) }

// AppendSettings appends a frame with settings.
func AppendSettings(b []byte, settings ...Setting) []byte {
	b = AppendHeader(b, Settings, 0, ConnectionID, settingSize*len(settings))
	for _, s := range settings {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, s.ID), s.Value)
	}
	return b
}

// settingSize is the size of an encoded setting in bytes.
const settingSize = 6

// AppendWindowUpdate appends a frame that adds n bytes to a window.
func AppendWindowUpdate(b []byte, stream, n uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(b, WindowUpdate, 0, stream, 4), n)
}

// AppendReset appends a RST_STREAM frame with an error code.
func AppendReset(b []byte, code uint32) []byte {
	return binary.BigEndian.AppendUint32(AppendHeader(b, ResetStream, 0, StreamID, 4), code)
}

// Cancel is the error code CANCEL: the client does not need the response any more.
const Cancel = 8

// AppendText appends an HPACK string literal without Huffman coding.
func AppendText[T string | []byte](b []byte, s T) []byte {
	return append(appendLength(b, 0, len(s)), s...)
}

// AppendShortText appends an HPACK string literal, with Huffman coding if that makes it shorter.
func AppendShortText(b []byte, s string) []byte {
	const compressed = 0x80
	size := int(hpack.HuffmanEncodeLength(s))
	if size >= len(s) {
		return AppendText(b, s)
	}
	return hpack.AppendHuffmanString(appendLength(b, compressed, size), s)
}

// appendLength appends the length of a string literal, combined with a flag.
func appendLength(b []byte, flag byte, n int) []byte {
	const most = 0x7f // maximum in one byte
	if n < most {
		return append(b, flag|byte(n))
	}
	return binary.AppendUvarint(append(b, flag|most), uint64(n-most))
}

// IsName reports whether s is a valid field name without unusual characters. Only the names of pseudo-header
// fields have a colon, as the first character.
func IsName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && (c != ':' || i > 0) {
			return false
		}
	}
	return s != ""
}

// IsPrintable reports whether s has only printable ASCII characters.
func IsPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
