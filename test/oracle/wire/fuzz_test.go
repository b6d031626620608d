package wire

import (
	"cmp"
	"crypto/tls"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// fuzzDeadline is the timeout of probes of servers that hang, and of gRPC servers that may never be ready.
const fuzzDeadline = 100 * time.Millisecond

// ending returns the last steps of a server of a fuzz target.
func ending(end uint8) []any {
	switch end % 8 {
	case 1: // rare, because it takes long
		return []any{hang}
	case 2, 6:
		return []any{2 * time.Millisecond, reset}
	case 3:
		return []any{abandon}
	default:
		return nil // an orderly close
	}
}

// brief is a probe with the timeout fuzzDeadline, unless it has its own.
type brief struct{ asker }

func (b brief) ask(port int) question {
	q := b.asker.ask(port)
	q.timeout = cmp.Or(q.timeout, fuzzDeadline)
	return q
}

// same fails the test if our answers are not among the kubelet's. If they differ, both sides run again, while
// nothing else runs.
func same(t *testing.T, s situation) {
	t.Helper()
	if s.server.hangs() || s.isGRPC() {
		s.probe = brief{s.probe}
	}
	var wg sync.WaitGroup
	var first, withCompat, withFixes answer
	wg.Go(func() { first = s.playOn(kubelet) })
	wg.Go(func() { withCompat = s.playOn(compat) })
	wg.Go(func() { withFixes = s.playOn(fixed) })
	wg.Wait()
	if s.normalize(withCompat) != s.normalize(compat.want(first)) {
		s.judgeAgain(t, compat)
	}
	if s.normalize(withFixes) != s.normalize(fixed.want(first)) {
		s.judgeAgain(t, fixed)
	}
}

// timedOut replaces the errors of a timeout by one text, because a short timeout may occur in any phase.
func timedOut(a answer) answer {
	for _, text := range []string{a.output, a.err} {
		if strings.Contains(text, "deadline exceeded") || strings.Contains(text, "Client.Timeout") || strings.Contains(text, "i/o timeout") || strings.Contains(text, "did not complete within") || strings.Contains(text, "timed out") {
			return answer{result: a.result, output: "TIMED OUT"}
		}
	}
	return a
}

// FuzzHTTPResponse sends text in two parts, after the request. The result of text before the request would be
// random.
func FuzzHTTPResponse(f *testing.F) {
	for _, text := range []string{
		whole, ok + "\r\nok", ok, "", "garbage", "HTTP/1.0 200\r\n\r\n", "HTTP/1.1 500 No\nX: y\n\n", "HTTP/1.1 100 Continue\r\n\r\n" + whole, strings.Repeat("HTTP/1.1 103 Hints\r\n\r\n", 6) + whole,
		ok + "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\n", ok + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n", ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", ok + "Content-Length: +2\r\n\r\nok",
		ok + "X: y\r\n z\r\nA : b\r\n\r\n", ok + " X: y\r\n\r\n", ok + ": y\r\n\r\n", ok + "X\x00: y\r\n\r\n", "HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 304 Same\r\n\r\nhello", "HTTP/1.1 300 Many\r\n\r\nhello", "HTTP/1.1 302 Found\r\nLocation: http://example.invalid/\r\n\r\n", "HTTP/1.1 301 X\r\nLocation: :\r\n\r\n", "HTTP/1.1 308 X\r\nLocation: ftp://a\r\n\r\n",
		ok + "Connection: keep-alive\r\nContent-Length: 20000\r\n\r\n" + strings.Repeat("x", 10<<10+1), "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n", "\r\n" + whole, "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 404\r\n\r\n", ok + "Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX y\r\n\r\n",
	} {
		for end := range uint8(4) {
			f.Add([]byte(text), uint16(len(text)/2), end)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, split uint16, end uint8) {
		all := strings.ReplaceAll(string(text), "{", "(") // not a port
		if strings.HasPrefix(all, "HTTP/1.1 101") || strings.HasPrefix(all, "HTTP/1.0 101") || strings.Contains(all, " 101") {
			end = 0 // the kubelet's probe never ends if such a server hangs
		}
		at := min(int(split), len(all))
		same(t, situation{server: answers(append([]any{all[:at], all[at:]}, ending(end)...)...), probe: get{path: "/a"}, differs: "fuzz"})
	})
}

// FuzzGRPCServer sends bytes after the preface, or after the call.
func FuzzGRPCServer(f *testing.F) {
	begin := settings() + acknowledged
	for _, text := range []string{grpcWhole, grpcHeaders, "", "HTTP/1.1 200 OK\r\n\r\n", begin + grpcWhole, resetStream(http2.ErrCodeRefusedStream), goAway(0, http2.ErrCodeNo, ""), ping("12345678") + grpcWhole, settings(http2.Setting{ID: 4, Val: 1 << 31}), grpcHeaders + data(message("\x08\x02")) + grpcOK, grpcHeaders + data("\x01\x00\x00\x00\x00") + grpcOK, trailers(":status", "404"), headers(":status", "503", "content-type", "text/html") + lastData("no")} {
		for end := range uint8(4) {
			f.Add([]byte(text), true, end)
			f.Add([]byte(text), false, end)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, ready bool, end uint8) {
		all := strings.ReplaceAll(string(text), "{", "(")
		if ready {
			same(t, situation{server: speaks(append([]any{all}, ending(end)...)...), probe: check{}, differs: fuzzGRPC(end)})
			return
		}
		same(t, situation{server: raw(append([]any{preface, all}, ending(end)...)...), probe: check{}, differs: "fuzz gRPC, unasked"})
	})
}

// FuzzGRPCFrames sends changed frames, see changed.
func FuzzGRPCFrames(f *testing.F) {
	parts := []string{
		grpcHeaders, data(serving), grpcOK, lastData(serving), trailers(":status", "200", "content-type", "application/grpc", "grpc-status", "5", "grpc-message", "a%20b"), headers(":status", "100"), headers(":status", "404", "content-type", "text/html"),
		settings(), settings(http2.Setting{ID: 1, Val: 0}), settings(http2.Setting{ID: 4, Val: 10}), acknowledged, ping("12345678"), windowUpdate(0, 10), windowUpdate(1, 10), resetStream(8), goAway(1, 0, "bye"), goAway(0, 0, ""),
		data(""), data("\x00\x00\x00\x00\x00"), data("\x01\x00\x00\x00\x01x"), data("\x00\x00\x00"), frame(4, 9, 4, 1, "abcd"), frame(5, 2, 0, 1, "\x00\x00\x00\x00\x10"), frame(3, 0x42, 0, 0, "abc"), frame(7, 0, 8, 1, "\x02\x00\x00\x00\x00\x00\x00"),
	}
	for i := range parts {
		f.Add([]byte{byte(i), 0, 0}, uint8(0))
		f.Add([]byte{0, 0, 0, byte(i), 0, 0, 1, 0, 0, 2, 0, 0}, uint8(0))
		f.Add([]byte{0, 0, 0, 1, 0, 0, byte(i), 4, 1, 2, 0, 0}, uint8(1))
	}
	f.Fuzz(func(t *testing.T, plan []byte, end uint8) {
		same(t, situation{server: speaks(append([]any{changed(parts, plan)}, ending(end)...)...), probe: check{}, differs: fuzzGRPC(end)})
	})
}

// fuzzGRPC returns the name of the difference for servers with an ending.
func fuzzGRPC(end uint8) string {
	switch end % 8 {
	case 2, 3, 6:
		return "fuzz gRPC, reset"
	default:
		return "fuzz gRPC"
	}
}

// changed returns a sequence of parts. Each three bytes of plan select a part, and change one byte of it or
// truncate it.
func changed(parts []string, plan []byte) string {
	var text strings.Builder
	for ; len(plan) >= 3 && text.Len() < 64<<10; plan = plan[3:] {
		part := []byte(parts[int(plan[0])%len(parts)])
		if plan[1] > 0 { // change one byte
			part[int(plan[1])%len(part)] ^= plan[2]
		} else if plan[2] > 0 {
			part = part[:int(plan[2])%len(part)]
		}
		text.Write(part)
	}
	return strings.ReplaceAll(text.String(), "{", "(")
}

// FuzzHTTP2Frames sends changed frames over TLS, in two parts, see changed.
func FuzzHTTP2Frames(f *testing.F) {
	// The parts have no WINDOW_UPDATE of the stream, because the kubelet's probe never ends if it is too
	// large, and no redirect, because it takes longer than the timeout. They have no RST_STREAM and GOAWAY,
	// because net/http at random returns them or the frames after them.
	parts := []string{
		settings(), acknowledged, webHeaders, headers(":status", "200"), data("bo"), lastData("dy"), lastData("body"), webWhole, trailers(":status", "204"), trailers("x", "y"), headers(":status", "103", "link", "a"), headers(":status", "500", "location", "/a"), trailers(":status", "302"),
		settings(http2.Setting{ID: 1, Val: 0}), settings(http2.Setting{ID: 3, Val: 1}, http2.Setting{ID: 5, Val: 16384}), ping("12345678"), windowUpdate(0, 10), data(""), data(strings.Repeat("x", 5000)), lastData(strings.Repeat("x", 6000)),
		frame(4, 9, 4, 1, "abcd"), frame(5, 2, 0, 1, "\x00\x00\x00\x00\x10"), frame(3, 0x42, 0, 0, "abc"), frame(7, 0, 9, 1, "\x02body\x00\x00"), frame(2, 1, 4, 1, "\x88\xbe"), frame(9, 1, 4, 1, "\x88\x40\x01x\x01y\x7e\x01z"), "HTTP/1.1 400 Bad Request\r\n\r\n",
	}
	for i := range parts {
		f.Add([]byte{0, 0, 0, 1, 0, 0, byte(i), 0, 0}, uint16(20), uint8(0))
		f.Add([]byte{0, 0, 0, byte(i), 0, 0, 2, 0, 0, 4, 0, 0, 5, 0, 0}, uint16(40), uint8(1))
		f.Add([]byte{0, 0, 0, 2, 0, 0, byte(i), 4, 1, 4, 0, 0, 5, 0, 0}, uint16(0), uint8(2))
	}
	f.Fuzz(func(t *testing.T, plan []byte, split uint16, end uint8) {
		all := changed(parts, plan)
		at := min(int(split), len(all))
		s := raw(append([]any{preface, call, all[:at], all[at:]}, ending(end)...)...)
		same(t, situation{server: s.secured(certified("h2")), probe: timed{secure}, differs: "fuzz HTTP/2"})
	})
}

// FuzzTLSPeer sends bytes instead of a hello, or truncates a real handshake.
func FuzzTLSPeer(f *testing.F) {
	c := &tls.Config{Certificates: []tls.Certificate{certificate(ed25519Key(), nil)}, SessionTicketsDisabled: true}
	for _, text := range []string{"", "HTTP/1.1 400 Bad Request\r\n\r\n", "\x15\x03\x03\x00\x02\x02\x28", "\x16\x03\x03\x00\x04\x0e\x00\x00\x00", "\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03" + strings.Repeat("r", 32) + "\x00\x13\x01\x00", "\x14\x03\x03\x00\x01\x01", "\x17\x03\x03\x00\x01x", "220 smtp\r\n", "\x16\x03\x03\xff\xff"} {
		for end := range uint8(4) {
			f.Add([]byte(text), uint16(0), end)
		}
	}
	for n := uint16(1); n < 1500; n += 50 {
		f.Add([]byte(nil), n, uint8(n/50))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint16, end uint8) {
		s := begins(append([]any{request, strings.ReplaceAll(string(text), "{", "(")}, ending(end)...)...)
		if cut > 0 {
			s = answers(whole).secured(c)
			s.cut, s.cutBy = int(cut%3000)+1, []act{cutOff, hang, reset}[end%3]
		}
		same(t, situation{server: s, probe: secure, differs: "fuzz"})
	})
}

func init() {
	differences["fuzz"] = func(a answer) answer { return timedOut(a) }
	// A connection may break while a frame is written or read.
	differences["fuzz HTTP/2"] = func(a answer) answer {
		for _, text := range []*string{&a.output, &a.err} {
			*text = strings.Replace(earlyClose.ReplaceAllString(*text, "CLOSED"), "unexpected CLOSED", "CLOSED", 1)
		}
		return timedOut(a)
	}
	// Two things are random: whether the client's last frames arrive before the connection ends, and whether
	// grpc-go calls again after a GOAWAY that comes right after the answer. Its reader marks the stream for
	// that while its writer is about to remove the stream.
	differences["fuzz gRPC"] = func(a answer) answer {
		for _, chance := range []string{"unread", "reconnects", "ready and gone"} {
			a = differences[chance](a)
		}
		return timedOut(a)
	}
	// A reset may occur before a client has sent its last frames.
	differences["fuzz gRPC, reset"] = func(a answer) answer {
		a.saw = ""
		return differences["fuzz gRPC"](a)
	}
	// grpc-go may notice an answer or a closed connection before the call, during it, or after it. If it is
	// before, the number of further connections depends on the speed of grpc-go.
	differences["fuzz gRPC, unasked"] = func(a answer) answer {
		if a.result == "failure" { // the reason is random too
			return answer{result: a.result}
		}
		a.saw = ""
		return differences["fuzz gRPC"](a)
	}
}
