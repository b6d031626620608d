package wire

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// The parts of a successful answer over HTTP/2.
var (
	webHeaders = headers(":status", "200", "content-type", "text/plain", "content-length", "4", "date", "Mon, 02 Jan 2006 15:04:05 GMT")
	webWhole   = webHeaders + lastData("body")
)

// again returns a server that follows the first steps on its first connection, and answers on later ones.
func again(steps ...any) server {
	s := serve2(steps...)
	s.scripts = append(s.scripts, serve2(webWhole).scripts...)
	return s
}

// http2Table collects situations of HTTP/2 over TLS.
type http2Table []situation

func (t *http2Table) add(name string, s server, differs string) {
	if s.tls == nil {
		s.tls = certified("h2")
	}
	if differs == "" && s.hangs() {
		differs = "Texts of HTTPS time-outs"
	}
	*t = append(*t, situation{name, s, secure, differs})
}

func TestHTTP2Streams(t *testing.T) {
	var table http2Table
	for _, code := range []http2.ErrCode{0, 1, 2, 3, 5, 7, 8, 11, 13, 14, 0xffffffff} {
		if code != http2.ErrCodeProtocol { // golang.org/x/net retries it in the kubelet's version, but not in this module's
			table.add(fmt.Sprintf("RST_STREAM %v, then an answer", code), again(resetStream(code)), "")
		}
		table.add(fmt.Sprintf("RST_STREAM %v after headers", code), serve2(webHeaders+resetStream(code)), "")
		table.add(fmt.Sprintf("RST_STREAM %v after data", code), serve2(webHeaders+data("bo")+resetStream(code)), "")
		table.add(fmt.Sprintf("RST_STREAM %v after the answer", code), serve2(webWhole+resetStream(code)), "")
		for _, last := range []uint32{0, 1, 3, 1<<31 - 1} {
			table.add(fmt.Sprintf("GOAWAY %v, last %d, then an answer", code, last), again(goAway(last, code, "bye")), "")
			table.add(fmt.Sprintf("GOAWAY %v, last %d, before the answer", code, last), again(goAway(last, code, "bye"), 20*time.Millisecond, webWhole), "")
			table.add(fmt.Sprintf("GOAWAY %v, last %d, in the answer", code, last), again(webHeaders, 20*time.Millisecond, goAway(last, code, "bye"), 20*time.Millisecond, lastData("body")), "")
			table.add(fmt.Sprintf("GOAWAY %v, last %d, after the answer", code, last), again(webWhole+goAway(last, code, "bye")), "")
		}
	}
	for name, text := range map[string]string{
		"a path":           headers(":status", "302", "location", "/there") + lastData(""),
		"a path of a 307":  trailers(":status", "307", "location", "there?a"),
		"a 200":            headers(":status", "200", "location", "/there") + lastData("body"),
		"an invalid place": trailers(":status", "302", "location", ":"),
		"a scheme":         trailers(":status", "302", "location", "ftp://127.0.0.1/"),
	} {
		table.add("location of "+name, again(text), "")
	}
	judgeAll(t, table)
}

func TestHTTP2Frames(t *testing.T) {
	var table http2Table
	padded := func(kind http2.FrameType, flags http2.Flags, pad int, payload string) string {
		return frame(len(payload)+1+pad, kind, flags|8, 1, string([]byte{byte(pad)})+payload+strings.Repeat("\x00", pad))
	}
	head := string(block(":status", "200", "content-type", "text/plain"))
	long := string(block("x", strings.Repeat("y", 10000)))
	texts := map[string]string{
		"an answer":                     webWhole,
		"padded data":                   webHeaders + padded(0, 1, 10, "body"),
		"padded headers":                padded(1, 4, 10, head) + lastData("body"),
		"padding that is too long":      webHeaders + frame(4, 0, 8, 1, "\x0aabc") + lastData("body"),
		"padding of nothing":            webHeaders + frame(0, 0, 8, 1, "") + lastData("body"),
		"headers, padding too long":     frame(4, 1, 12, 1, "\x0aabc") + lastData("body"),
		"priority in headers":           frame(5+len(head), 1, 4|32, 1, "\x00\x00\x00\x00\x10"+head) + lastData("body"),
		"priority in short headers":     frame(3, 1, 4|32, 1, "\x00\x00\x00"),
		"PRIORITY":                      frame(5, 2, 0, 1, "\x00\x00\x00\x00\x10") + webWhole,
		"PRIORITY of a wrong length":    frame(4, 2, 0, 1, "\x00\x00\x00\x00") + webWhole,
		"PUSH_PROMISE":                  frame(4+len(head), 5, 4, 1, "\x00\x00\x00\x02"+head) + webWhole,
		"unknown frame":                 frame(3, 0x42, 0xff, 0, "abc") + webWhole,
		"unknown frame in the answer":   webHeaders + frame(3, 0x42, 0xff, 1, "abc") + lastData("body"),
		"empty data":                    webHeaders + data("") + data("body") + lastData(""),
		"1,000 empty data":              webHeaders + strings.Repeat(data(""), 1000) + lastData("body"),
		"3,000 bytes of data, in parts": headers(":status", "200") + strings.Repeat(data("abc"), 1000) + lastData(""),
		"data byte by byte":             webHeaders + data("b") + data("o") + data("d") + lastData("y"),
		"data that is too short":        webHeaders + lastData("bod"),
		"data that is too long":         webHeaders + data("body and ") + lastData("more"),
		"data that is much too long":    webHeaders + data(strings.Repeat("x", 9000)) + lastData("more"),
		"no data, with a length":        trailers(":status", "200", "content-length", "4"),
		"no data, with a length of 0":   trailers(":status", "200", "content-length", "0"),
		"no data":                       trailers(":status", "200"),
		"two lengths":                   headers(":status", "200", "content-length", "4", "content-length", "4") + lastData("body"),
		"a length with a sign":          headers(":status", "200", "content-length", "+4") + lastData("body"),
		"a length of 20 digits":         headers(":status", "200", "content-length", strings.Repeat("1", 20)) + lastData("body"),
		"a negative length":             headers(":status", "200", "content-length", "-1") + lastData("body"),
		"data on stream 0":              webHeaders + frame(4, 0, 0, 0, "body") + lastData("body"),
		"data on stream 3":              webHeaders + frame(4, 0, 0, 3, "body") + lastData("body"),
		"data on stream 2":              webHeaders + frame(4, 0, 0, 2, "body") + lastData("body"),
		"data after the answer":         webWhole + data("more"),
		"headers on stream 0":           headersOn(0, false, ":status", "200") + webWhole,
		"headers on stream 3":           headersOn(3, false, ":status", "200") + webWhole,
		"headers twice":                 webHeaders + webHeaders + lastData("body"),
		"headers after the answer":      webWhole + trailers(":status", "500"),
		"trailers":                      webHeaders + data("body") + trailers("x", "y"),
		"trailers that do not end":      webHeaders + data("body") + headers("x", "y"),
		"trailers without data":         headers(":status", "200") + trailers("x", "y"),
		"CONTINUATION":                  frame(5, 1, 0, 1, head[:5]) + frame(len(head)-5, 9, 4, 1, head[5:]) + lastData("body"),
		"CONTINUATION without headers":  frame(len(head), 9, 4, 1, head) + webWhole,
		"CONTINUATION on stream 3":      frame(5, 1, 0, 1, head[:5]) + frame(len(head)-5, 9, 4, 3, head[5:]) + lastData("body"),
		"a frame in CONTINUATION":       frame(5, 1, 0, 1, head[:5]) + ping("12345678") + frame(len(head)-5, 9, 4, 1, head[5:]) + lastData("body"),
		"headers that do not end":       frame(len(head), 1, 0, 1, head),
		"headers of 10,000 bytes":       frame(len(head)+len(long), 1, 4, 1, head+long) + lastData("body"),
		"a block that is garbage":       frame(5, 1, 4, 1, "\xff\xff\xff\xff\xff") + lastData("body"),
		"a block that is cut":           frame(3, 1, 4, 1, head[:3]) + lastData("body"),
		"an index that is unknown":      frame(2, 1, 4, 1, "\x88\xfe") + lastData("body"),
		"a table that is too large":     frame(4, 1, 4, 1, "\x3f\xe2\x1f\x88") + lastData("body"),
		"a table of 0":                  frame(2, 1, 4, 1, "\x20\x88") + lastData("body"),
		"fields of the table":           frame(len(head)+7, 1, 4, 1, "\x88\x40\x01x\x01y\xbe"+head[len(head):]) + lastData("body"),
		"a status after a field":        headers("x", "y", ":status", "200") + lastData("body"),
		"two statuses":                  headers(":status", "200", ":status", "500") + lastData("body"),
		"a pseudo field":                headers(":status", "200", ":path", "/") + lastData("body"),
		"a name with a colon":           headers(":status", "200", "a:b", "c") + lastData("body"),
		"a name with a space":           headers(":status", "200", "a b", "c") + lastData("body"),
		"an empty name":                 headers(":status", "200", "", "c") + lastData("body"),
		"a value with a tab":            headers(":status", "200", "a", "b\tc") + lastData("body"),
		"a value with a line":           headers(":status", "200", "a", "b\nc") + lastData("body"),
		"a value with a zero":           headers(":status", "200", "a", "b\x00c") + lastData("body"),
		"a value in UTF-8":              headers(":status", "200", "a", "ä") + lastData("body"),
		"a value with spaces":           headers(":status", "200", "a", " b ") + lastData("body"),
		"a trailer field":               headers(":status", "200", "trailer", "x") + lastData("body"),
		"an encoding":                   headers(":status", "200", "content-encoding", "gzip") + lastData("body"),
		"transfer-encoding":             headers(":status", "200", "transfer-encoding", "chunked") + lastData("body"),
		"a frame of 16384":              headers(":status", "200") + lastData(strings.Repeat("x", 16384)),
		"a frame of 16385":              headers(":status", "200") + frame(16385, 0, 1, 1, strings.Repeat("x", 16385)),
		"a frame of 16 MB":              webHeaders + frame(1<<24-1, 0, 0, 1, ""),
		"10,239 bytes":                  headers(":status", "200") + lastData(strings.Repeat("x", 10<<10-1)),
		"10,240 bytes":                  headers(":status", "200") + lastData(strings.Repeat("x", 10<<10)),
		"10,241 bytes":                  headers(":status", "200") + lastData(strings.Repeat("x", 10<<10+1)),
		"10,240 bytes, and no end":      headers(":status", "200") + data(strings.Repeat("x", 10<<10)),
		"5 MB":                          headers(":status", "200") + strings.Repeat(data(strings.Repeat("x", 16384)), 320) + lastData(""),
		"RST_STREAM of 3 bytes":         frame(3, 3, 0, 1, "\x00\x00\x00"),
		"RST_STREAM of stream 0":        frame(4, 3, 0, 0, "\x00\x00\x00\x00") + webWhole,
		"RST_STREAM of stream 3":        frame(4, 3, 0, 3, "\x00\x00\x00\x00") + webWhole,
		"PING of 7 bytes":               frame(7, 6, 0, 0, "1234567") + webWhole,
		"PING of stream 1":              frame(8, 6, 0, 1, "12345678") + webWhole,
		"PING that is an answer":        frame(8, 6, 1, 0, "12345678") + webWhole,
		"PING in the answer":            webHeaders + ping("12345678") + lastData("body"),
		"100 PINGs":                     strings.Repeat(ping("12345678"), 100) + webWhole,
		"GOAWAY of 7 bytes":             frame(7, 7, 0, 0, "1234567") + webWhole,
		"GOAWAY of stream 1":            frame(8, 7, 0, 1, "\x00\x00\x00\x01\x00\x00\x00\x00") + webWhole,
		"WINDOW_UPDATE":                 windowUpdate(0, 1) + windowUpdate(1, 1) + webWhole,
		"WINDOW_UPDATE of 0":            frame(4, 8, 0, 0, "\x00\x00\x00\x00") + webWhole,
		"WINDOW_UPDATE of 0, stream 1":  frame(4, 8, 0, 1, "\x00\x00\x00\x00") + webWhole,
		"WINDOW_UPDATE of 3 bytes":      frame(3, 8, 0, 0, "\x00\x00\x01") + webWhole,
		"WINDOW_UPDATE to the most":     windowUpdate(0, 1<<31-1<<16) + webWhole,
		"WINDOW_UPDATE above the most":  windowUpdate(0, 1<<31-1<<16) + windowUpdate(0, 1) + webWhole,
		"WINDOW_UPDATE of stream 3":     windowUpdate(3, 1<<31-1) + webWhole,
		"SETTINGS with ack, again":      acknowledged + webWhole,
		"SETTINGS of 5 bytes":           frame(5, 4, 0, 0, "\x00\x01\x00\x00\x00") + webWhole,
		"SETTINGS of stream 1":          frame(0, 4, 0, 1, "") + webWhole,
		"SETTINGS, ack with a payload":  frame(6, 4, 1, 0, "\x00\x03\x00\x00\x00\x01") + webWhole,
		"SETTINGS in the answer":        webHeaders + settings(http2.Setting{ID: 5, Val: 1 << 20}) + lastData("body"),
	}
	for name, text := range texts {
		table.add(name, serve2(text), "")
		table.add(name+", and a hang", serve2(text, hang), "")
		if len(text) < 500 {
			table.add(name+", slowly", serve2(slowly(text)), "")
		}
	}
	judgeAll(t, table)
}

func TestHTTP2Settings(t *testing.T) {
	var table http2Table
	for id := range http2.SettingID(10) {
		for _, value := range []uint32{0, 1, 2, 100, 4096, 16383, 16384, 65535, 1<<24 - 1, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			one := http2.Setting{ID: id, Val: value}
			name := fmt.Sprintf("%v = %d", id, value)
			table.add(name, raw(preface, call, settings(one)+acknowledged, webWhole), "")
			table.add(name+" in the answer", serve2(webHeaders+settings(one)+lastData("body")), "")
		}
	}
	table.add("1,000 settings", raw(preface, call, manySettings(1000)+acknowledged, webWhole), "")
	table.add("no acknowledgement", raw(preface, call, settings(), webWhole), "")
	table.add("an acknowledgement first", raw(preface, call, acknowledged+settings(), webWhole), "")
	for name, text := range map[string]string{"PING": ping("12345678"), "WINDOW_UPDATE": windowUpdate(0, 1), "GOAWAY": goAway(0, 0, "busy"), "GOAWAY with an error": goAway(0, 2, "busy"), "RST_STREAM": resetStream(7)} {
		table.add(name+" instead of settings", raw(preface, call, text), "")
	}
	judgeAll(t, table)
}

// TestHTTP2Cuts ends or hangs an answer after each of its bytes, and between its frames.
func TestHTTP2Cuts(t *testing.T) {
	var table http2Table
	text := settings(http2.Setting{ID: 3, Val: 100}) + acknowledged + windowUpdate(0, 1000) + ping("12345678") + webHeaders + data("bo") + lastData("dy")
	for n := range len(text) + 1 {
		pieces := []any{preface, call, text[:n]}
		for how, end := range map[string]act{"close": nil, "cut": cutOff, "reset": reset, "hang": hang} {
			if n%7 != 0 && how != "close" {
				continue
			}
			steps := pieces
			if end != nil {
				steps = append(pieces[:len(pieces):len(pieces)], 20*time.Millisecond, end)
			}
			table.add(fmt.Sprintf("%s after %d bytes", how, n), raw(steps...), "")
		}
		table.add(fmt.Sprintf("pause after %d bytes", n), raw(append(pieces[:len(pieces):len(pieces)], time.Millisecond, text[n:])...), "")
	}
	fixed := &tls.Config{Certificates: []tls.Certificate{certificate(ed25519Key(), nil)}, SessionTicketsDisabled: true, NextProtos: []string{"h2"}}
	for n := 0; n < 2000; n += 37 {
		for how, end := range map[string]act{"closed": cutOff, "reset": reset} {
			s := serve2(webWhole)
			s.tls, s.cut, s.cutBy = fixed, n+1, end
			table.add(fmt.Sprintf("%s after %d bytes of TLS", how, n+1), s, "")
		}
	}
	judgeAll(t, table)
}

// TestHTTP2WindowOverflowEnds checks a server that overflows the window of a stream. The kubelet's version of
// golang.org/x/net deadlocks, so its probe never ends. Our probe must end.
func TestHTTP2WindowOverflowEnds(t *testing.T) {
	s := situation{server: serve2(strings.Repeat(windowUpdate(1, 1<<31-1), 2)), probe: secure}
	for _, our := range []side{compat, fixed} {
		if got := s.playOn(our); got.result != "failure" || !strings.Contains(got.output+got.err, "FLOW_CONTROL_ERROR") {
			t.Errorf("%s: %v", our.name, got)
		}
	}
}
