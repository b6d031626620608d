package wire

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
)

// check is a gRPC probe.
type check struct {
	service *string
	podIP   string
	port    int
}

func (c check) ask(port int) question {
	if c.port != 0 {
		port = c.port
	}
	if c.podIP == "" {
		c.podIP = "127.0.0.1"
	}
	return question{action: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(port), Service: c.service}}, podIP: c.podIP}
}

// speaks returns a server that answers the preface and settings of HTTP/2, and follows the script after the
// call.
func speaks(steps ...any) server {
	return server{frames: true, scripts: []script{append(script{preface, settings(), acknowledged, call}, steps...)}}
}

// raw returns a server that only follows the script.
func raw(steps ...any) server { return server{frames: true, scripts: []script{steps}} }

// The parts of a successful answer.
var (
	grpcHeaders = headers(":status", "200", "content-type", "application/grpc")
	serving     = message("\x08\x01")
	grpcOK      = trailers("grpc-status", "0")
	grpcStatus  = trailers(":status", "200", "content-type", "application/grpc", "grpc-status", "5", "grpc-message", "a%20b") // an answer
	grpcWhole   = grpcHeaders + data(serving) + grpcOK
)

func TestGRPCAnswers(t *testing.T) {
	var table []situation
	add := func(name string, steps ...any) { table = append(table, situation{name, speaks(steps...), check{}, ""}) }
	answer := func(name, payload string) { add(name, grpcHeaders+data(payload)+grpcOK) }
	trailersOnly := func(name string, fields ...string) {
		add(name, trailers(append([]string{":status", "200", "content-type", "application/grpc"}, fields...)...))
	}
	add("serving", grpcWhole)
	for n := range 6 {
		answer(fmt.Sprintf("status %d", n), message(fmt.Sprintf("\x08%c", n)))
	}
	for name, payload := range map[string]string{
		"no field":                    "",
		"status 127":                  "\x08\x7f",
		"status -1":                   "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
		"status of 32 bits":           "\x08\xff\xff\xff\xff\x0f",
		"status of 64 bits":           "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
		"status that is 1 cut to 32":  "\x08\x81\x80\x80\x80\x10",
		"status 1 in ten bytes":       "\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00",
		"status 1 in eleven bytes":    "\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00",
		"status 1 in two bytes":       "\x08\x81\x00",
		"status twice":                "\x08\x02\x08\x01",
		"status twice, bad last":      "\x08\x01\x08\x02",
		"status and unknown fields":   "\x10\x05\x1a\x03abc\x08\x01\x25\x01\x02\x03\x04\x29\x01\x02\x03\x04\x05\x06\x07\x08",
		"unknown field":               "\x10\x05",
		"status as a string":          "\x0a\x01\x01",
		"status as fixed32":           "\x0d\x01\x00\x00\x00",
		"status as a group":           "\x0b\x0c",
		"group that is open":          "\x08\x01\x13",
		"end of no group":             "\x08\x01\x14",
		"tag that is cut":             "\x08",
		"varint that is cut":          "\x08\x80",
		"field 0":                     "\x00\x01\x08\x01",
		"wire type 6":                 "\x0e\x08\x01",
		"wire type 7":                 "\x0f",
		"length that is too long":     "\x08\x01\x12\x05a",
		"garbage":                     "\xff\xff\xff\xff",
		"text":                        "SERVING",
		"tag of two bytes":            "\x88\x00\x01",
		"huge field number":           "\xf8\xff\xff\xff\x0f\x01\x08\x01",
		"field number that overflows": "\xf8\xff\xff\xff\xff\x0f\x01\x08\x01",
		"unknown field of 1 MB":       "\x08\x01\x12\x80\x80\x40" + strings.Repeat("x", 1<<20),
	} {
		if len(payload) > 16<<10 {
			add(name, grpcHeaders, split(message(payload)), grpcOK)
			continue
		}
		answer(name, message(payload))
	}
	for name, payload := range map[string]string{
		"no message":                     "",
		"an empty message":               message(""),
		"two messages":                   serving + serving,
		"two messages, bad first":        message("\x08\x02") + serving,
		"three messages":                 serving + serving + serving,
		"a message and a byte":           serving + "\x00",
		"a message and half of one":      serving + "\x00\x00\x00\x00\x02\x08",
		"half of a prefix":               "\x00\x00",
		"a prefix":                       "\x00\x00\x00\x00\x02",
		"half of a message":              "\x00\x00\x00\x00\x02\x08",
		"a length that is too short":     "\x00\x00\x00\x00\x01\x08\x01",
		"a length of 4 MB":               "\x00\x00\x40\x00\x00\x08\x01",
		"a length of 4 MB and 1":         "\x00\x00\x40\x00\x01\x08\x01",
		"a length of 4 GB":               "\x00\xff\xff\xff\xff\x08\x01",
		"compressed without an encoding": "\x01\x00\x00\x00\x02\x08\x01",
		"an unknown flag":                "\x02\x00\x00\x00\x02\x08\x01",
		"all flags":                      "\xff\x00\x00\x00\x02\x08\x01",
		"compressed and empty":           "\x01\x00\x00\x00\x00",
		"text":                           "hello",
	} {
		answer(name+" as the payload", payload)
		add(name+", and the stream ends with it", grpcHeaders+lastData(payload))
		add(name+", and an error", grpcHeaders+data(payload)+trailers("grpc-status", "5", "grpc-message", "no"))
		add(name+", and a reset of the stream", grpcHeaders+data(payload)+resetStream(http2.ErrCodeNo))
		table = append(table, situation{name + ", and a hang", speaks(grpcHeaders+data(payload), hang), check{}, ""})
	}
	for _, encoding := range []string{"gzip", "identity", "", "br", "GZIP", "gzip,identity"} {
		add(fmt.Sprintf("encoding %q, not compressed", encoding), headers(":status", "200", "content-type", "application/grpc", "grpc-encoding", encoding)+data(serving)+grpcOK)
		add(fmt.Sprintf("encoding %q, compressed", encoding), headers(":status", "200", "content-type", "application/grpc", "grpc-encoding", encoding)+data("\x01\x00\x00\x00\x1a\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xe3\x60\x04\x00\xd7\x61\x5b\x8f\x02\x00\x00\x00")+grpcOK)
	}
	for code := range 20 {
		for name, text := range map[string]string{"none": "", "plain": "no such thing", "percent": "100%25 %e2%82%ac %zz %", "unicode": "€ ü", "newline": "a%0ab%0D", "long": strings.Repeat("x", 3000)} {
			fields := []string{"grpc-status", fmt.Sprint(code)}
			if name != "none" {
				fields = append(fields, "grpc-message", text)
			}
			trailersOnly(fmt.Sprintf("code %d, message %s", code, name), fields...)
			add(fmt.Sprintf("code %d, message %s, after headers", code, name), grpcHeaders+trailers(fields...))
			add(fmt.Sprintf("code %d, message %s, after a message", code, name), grpcHeaders+data(serving)+trailers(fields...))
		}
	}
	for _, code := range []string{"", "-1", "+5", "05", " 5", "5 ", "x", "5x", "0x5", "16", "17", "99", "2147483647", "2147483648", "4294967296", "4294967301", "99999999999999999999", "5.0", "００"} {
		trailersOnly(fmt.Sprintf("code %q alone", code), "grpc-status", code, "grpc-message", "m")
		add(fmt.Sprintf("code %q after a message", code), grpcHeaders+data(serving)+trailers("grpc-status", code, "grpc-message", "m"))
	}
	for name, fields := range map[string][]string{
		"no code":               {},
		"a message and no code": {"grpc-message", "m"},
		"two codes":             {"grpc-status", "0", "grpc-status", "5"},
		"two codes, good last":  {"grpc-status", "5", "grpc-status", "0"},
		"two messages":          {"grpc-status", "5", "grpc-message", "a", "grpc-message", "b"},
		"a code in upper case":  {"Grpc-Status", "0"},
		"more metadata":         {"grpc-status", "0", "x", "y", "x-bin", "AAEC", "x-bin", "!!!"},
		"a pseudo header":       {"grpc-status", "0", ":status", "200"},
		"an unknown pseudo":     {":foo", "x", "grpc-status", "0"},
		"a request's pseudo":    {":path", "/", "grpc-status", "0"},
		"connection":            {"grpc-status", "0", "connection", "close"},
		"te":                    {"grpc-status", "0", "te", "trailers"},
		"a bad name":            {"grpc-status", "0", "a b", "c"},
		"an empty name":         {"grpc-status", "0", "", "c"},
		"a bad value":           {"grpc-status", "0", "x", "a\x00\r\nb"},
		"details":               {"grpc-status", "5", "grpc-message", "m", "grpc-status-details-bin", details(codes.NotFound, "m")},
		"details of another":    {"grpc-status", "5", "grpc-message", "m", "grpc-status-details-bin", details(codes.Internal, "other")},
		"details of OK":         {"grpc-status", "5", "grpc-message", "m", "grpc-status-details-bin", details(codes.OK, "fine")},
		"details that are bad":  {"grpc-status", "5", "grpc-message", "m", "grpc-status-details-bin", "AAEC"},
		"details of no base64":  {"grpc-status", "5", "grpc-message", "m", "grpc-status-details-bin", "!!!"},
		"details and code 0":    {"grpc-status", "0", "grpc-status-details-bin", details(codes.Internal, "m")},
		"a pushback":            {"grpc-status", "14", "grpc-retry-pushback-ms", "10"},
		"attempts":              {"grpc-status", "14", "grpc-previous-rpc-attempts", "1"},
		"10 KB of metadata":     {"grpc-status", "0", "x", strings.Repeat("y", 10<<10)},
		"100 fields":            append([]string{"grpc-status", "0"}, hundred()...),
	} {
		trailersOnly("trailers with "+name+" alone", fields...)
		add("trailers with "+name, grpcHeaders+data(serving)+trailers(fields...))
	}
	for _, kind := range []string{"", "application/grpc", "application/grpc+proto", "application/grpc+json", "application/grpc;charset=utf-8", "application/grpc-web", "application/grpcx", "Application/GRPC", "application/grpc ", "text/html", "application/json", "x"} {
		add(fmt.Sprintf("content type %q", kind), headers(":status", "200", "content-type", kind)+data(serving)+grpcOK)
		add(fmt.Sprintf("content type %q of trailers alone", kind), trailers(":status", "200", "content-type", kind, "grpc-status", "5", "grpc-message", "m"))
	}
	add("no content type", headers(":status", "200")+data(serving)+grpcOK)
	add("two content types", headers(":status", "200", "content-type", "application/grpc", "content-type", "text/html")+data(serving)+grpcOK)
	for _, code := range []string{"", "0", "20", "100", "101", "103", "199", "201", "204", "301", "304", "400", "401", "403", "404", "408", "429", "500", "501", "502", "503", "504", "505", "999", "1000", "2000", "x", "-1", "+200", "0200", "200 ", " 200"} {
		add(fmt.Sprintf("HTTP status %q with gRPC", code), headers(":status", code, "content-type", "application/grpc")+data(serving)+grpcOK)
		add(fmt.Sprintf("HTTP status %q with HTML", code), headers(":status", code, "content-type", "text/html")+data("<html>no</html>")+lastData(""))
		add(fmt.Sprintf("HTTP status %q alone", code), trailers(":status", code))
		add(fmt.Sprintf("HTTP status %q alone with gRPC", code), trailers(":status", code, "content-type", "application/grpc"))
		add(fmt.Sprintf("HTTP status %q with a code", code), trailers(":status", code, "content-type", "application/grpc", "grpc-status", "5", "grpc-message", "m"))
		add(fmt.Sprintf("HTTP status %q before the answer", code), headers(":status", code)+grpcWhole)
	}
	add("HTML of 2 KB", headers(":status", "503", "content-type", "text/html")+data(strings.Repeat("x", 2000))+lastData(""))
	add("HTML of 10 KB", headers(":status", "503", "content-type", "text/html")+data(strings.Repeat("x", 10000))+lastData(""))
	add("HTML that is not valid UTF-8", headers(":status", "503", "content-type", "text/html")+data("\xff\xfe\x00")+lastData(""))
	table = append(table, situation{"HTML that hangs", speaks(headers(":status", "503", "content-type", "text/html")+data("<html>"), hang), check{}, ""})
	add("no status", headers("content-type", "application/grpc")+data(serving)+grpcOK)
	add("two statuses", headers(":status", "200", ":status", "500", "content-type", "application/grpc")+data(serving)+grpcOK)
	add("status at the end", headers("content-type", "application/grpc", ":status", "200")+data(serving)+grpcOK)
	judgeAll(t, table)
}

func hundred() []string {
	var fields []string
	for i := range 100 {
		fields = append(fields, fmt.Sprintf("x-%d", i), "y")
	}
	return fields
}

func details(code codes.Code, text string) string {
	b, err := proto.Marshal(status.New(code, text).Proto())
	if err != nil {
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(b)
}

// split writes a payload as DATA frames, as the windows of the client allow. The initial windows of the
// stream and the connection are 64 KB.
func split(payload string) act {
	return func(c *served) error {
		open := map[uint32]int{0: 65535, 1: 65535}
		seen := 0
		for len(payload) > 0 {
			window := func(got []byte) bool {
				n, sizes := 0, map[uint32]int{}
				_ = walk(got, func(f http2.Frame) {
					if f, ok := f.(*http2.WindowUpdateFrame); ok {
						n++
						sizes[f.StreamID] += int(f.Increment)
					}
				})
				if n > seen {
					seen = n
					for id, size := range sizes {
						open[id] = 65535 - sent(c) + size
					}
				}
				return min(open[0], open[1]) > 0
			}
			if err := c.await(window); err != nil {
				return err
			}
			n := min(len(payload), 16384, open[0], open[1])
			if err := c.do(data(payload[:n])); err != nil {
				return err
			}
			payload = payload[n:]
			open[0] -= n
			open[1] -= n
			c.sent += n
		}
		return nil
	}
}

func sent(c *served) int { return c.sent }

func TestGRPCFrames(t *testing.T) {
	var table []situation
	add := func(name string, steps ...any) { table = append(table, situation{name, speaks(steps...), check{}, ""}) }
	lateAdd := func(name string, steps ...any) {
		table = append(table, situation{name, speaks(steps...), timed{check{}}, "reconnects"})
	}
	for _, code := range []http2.ErrCode{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255, 0xffffffff} {
		chance := "reconnects"
		if code == http2.ErrCodeRefusedStream {
			chance = "refused and gone"
		}
		table = append(table,
			situation{fmt.Sprintf("RST_STREAM %v", code), speaks(resetStream(code)), timed{check{}}, chance},
			situation{fmt.Sprintf("RST_STREAM %v after headers", code), speaks(grpcHeaders + resetStream(code)), check{}, chance})
		add(fmt.Sprintf("RST_STREAM %v after a message", code), grpcHeaders+data(serving)+resetStream(code))
		add(fmt.Sprintf("RST_STREAM %v after the answer", code), grpcWhole+resetStream(code))
		for _, last := range []uint32{0, 1, 3, 1<<31 - 1} {
			lateAdd(fmt.Sprintf("GOAWAY %v, last %d", code, last), goAway(last, code, ""))
			lateAdd(fmt.Sprintf("GOAWAY %v, last %d, with a text, and a hang", code, last), goAway(last, code, "bye"), hang)
			lateAdd(fmt.Sprintf("GOAWAY %v, last %d, then the answer", code, last), goAway(last, code, "bye")+grpcWhole)
			lateAdd(fmt.Sprintf("GOAWAY %v, last %d, in the answer", code, last), grpcHeaders+goAway(last, code, "bye")+data(serving)+grpcOK)
			lateAdd(fmt.Sprintf("GOAWAY %v, last %d, after the answer", code, last), grpcWhole+goAway(last, code, "bye"))
			lateAdd(fmt.Sprintf("GOAWAY %v, last %d, after an answer without headers", code, last), grpcStatus+goAway(last, code, "bye"))
		}
		table = append(table, situation{fmt.Sprintf("GOAWAY %v instead of settings", code), raw(preface, goAway(0, code, "busy")), timed{check{}}, ""})
	}
	table = append(table, situation{"GOAWAY at the beginning", raw(preface, settings()+goAway(0, 0, "busy")), timed{check{}}, "ready and gone"},
		situation{"GOAWAY of too many pings at the beginning", raw(preface, settings()+goAway(0, http2.ErrCodeEnhanceYourCalm, "too_many_pings")), timed{check{}}, "ready and gone"})
	padded := func(kind http2.FrameType, flags http2.Flags, pad int, payload string) string {
		return frame(len(payload)+1+pad, kind, flags|8, 1, string([]byte{byte(pad)})+payload+strings.Repeat("\x00", pad))
	}
	head := string(block(":status", "200", "content-type", "application/grpc"))
	tail := string(block("grpc-status", "0"))
	field := string(block("x", strings.Repeat("y", 10000)))
	for name, text := range map[string]string{
		"padded data":                  grpcHeaders + padded(0, 0, 10, serving) + grpcOK,
		"padded headers":               padded(1, 4, 10, head) + data(serving) + grpcOK,
		"padding that is too long":     grpcHeaders + frame(4, 0, 8, 1, "\x0aabc") + grpcOK,
		"padding of nothing":           grpcHeaders + frame(0, 0, 8, 1, "") + data(serving) + grpcOK,
		"headers, padding too long":    frame(4, 1, 12, 1, "\x0aabc") + data(serving) + grpcOK,
		"priority in headers":          frame(5+len(head), 1, 4|32, 1, "\x00\x00\x00\x00\x10"+head) + data(serving) + grpcOK,
		"priority in short headers":    frame(3, 1, 4|32, 1, "\x00\x00\x00"),
		"PRIORITY":                     frame(5, 2, 0, 1, "\x00\x00\x00\x00\x10") + grpcWhole,
		"PRIORITY of a wrong length":   frame(4, 2, 0, 1, "\x00\x00\x00\x00") + grpcWhole,
		"PUSH_PROMISE":                 frame(4+len(head), 5, 4, 1, "\x00\x00\x00\x02"+head) + grpcWhole,
		"unknown frame":                frame(3, 0x42, 0xff, 0, "abc") + grpcWhole,
		"unknown frame on the stream":  frame(3, 0x42, 0xff, 1, "abc") + grpcWhole,
		"10,000 unknown frames":        strings.Repeat(frame(3, 0x42, 0xff, 0, "abc"), 10000) + grpcWhole,
		"empty data":                   grpcHeaders + data("") + data(serving) + data("") + grpcOK,
		"1,000 empty data":             grpcHeaders + strings.Repeat(data(""), 1000) + data(serving) + grpcOK,
		"data byte by byte":            grpcHeaders + data(serving[:1]) + data(serving[1:2]) + data(serving[2:5]) + data(serving[5:6]) + data(serving[6:]) + grpcOK,
		"data ends the stream":         grpcHeaders + lastData(serving),
		"data before headers":          data(serving) + grpcWhole,
		"data on stream 0":             grpcHeaders + frame(7, 0, 0, 0, serving) + grpcOK,
		"data on stream 3":             grpcHeaders + frame(7, 0, 0, 3, serving) + data(serving) + grpcOK,
		"data on stream 2":             grpcHeaders + frame(7, 0, 0, 2, serving) + data(serving) + grpcOK,
		"data after the answer":        grpcWhole + data(serving),
		"headers on stream 0":          headersOn(0, false, ":status", "200") + grpcWhole,
		"headers on stream 3":          headersOn(3, false, ":status", "200") + grpcWhole,
		"headers on stream 2":          headersOn(2, false, ":status", "200") + grpcWhole,
		"headers twice":                grpcHeaders + grpcHeaders + data(serving) + grpcOK,
		"trailers that do not end":     grpcHeaders + data(serving) + headers("grpc-status", "0"),
		"trailers twice":               grpcWhole + grpcOK,
		"CONTINUATION":                 frame(5, 1, 0, 1, head[:5]) + frame(len(head)-5, 9, 4, 1, head[5:]) + data(serving) + grpcOK,
		"CONTINUATION of every byte":   frame(1, 1, 0, 1, head[:1]) + continued(head[1:]) + data(serving) + grpcOK,
		"CONTINUATION of trailers":     grpcHeaders + data(serving) + frame(3, 1, 1, 1, tail[:3]) + frame(len(tail)-3, 9, 4, 1, tail[3:]),
		"CONTINUATION that is empty":   frame(len(head), 1, 0, 1, head) + frame(0, 9, 4, 1, "") + data(serving) + grpcOK,
		"10,000 empty CONTINUATIONs":   frame(len(head), 1, 0, 1, head) + strings.Repeat(frame(0, 9, 0, 1, ""), 10000) + frame(0, 9, 4, 1, "") + data(serving) + grpcOK,
		"CONTINUATION without headers": frame(len(head), 9, 4, 1, head) + grpcWhole,
		"CONTINUATION on stream 3":     frame(5, 1, 0, 1, head[:5]) + frame(len(head)-5, 9, 4, 3, head[5:]) + data(serving) + grpcOK,
		"a frame in CONTINUATION":      frame(5, 1, 0, 1, head[:5]) + ping("12345678") + frame(len(head)-5, 9, 4, 1, head[5:]) + data(serving) + grpcOK,
		"headers that do not end":      frame(len(head), 1, 0, 1, head),
		"a frame of 16384":             grpcHeaders + frame(16384, 0x42, 0, 0, strings.Repeat("x", 16384)) + data(serving) + grpcOK,
		"a frame of 16385":             grpcHeaders + frame(16385, 0x42, 0, 0, strings.Repeat("x", 16385)) + data(serving) + grpcOK,
		"a frame of 16 MB":             grpcHeaders + frame(1<<24-1, 0, 0, 1, ""),
		"SETTINGS of 5 bytes":          frame(5, 4, 0, 0, "\x00\x01\x00\x00\x00") + grpcWhole,
		"SETTINGS on stream 1":         frame(6, 4, 0, 1, "\x00\x01\x00\x00\x00\x00") + grpcWhole,
		"SETTINGS, ACK with a payload": frame(6, 4, 1, 0, "\x00\x01\x00\x00\x00\x00") + grpcWhole,
		"SETTINGS, ACK twice":          acknowledged + acknowledged + grpcWhole,
		"100 SETTINGS":                 strings.Repeat(settings(), 100) + grpcWhole,
		"10,000 SETTINGS":              strings.Repeat(settings(), 10000) + grpcWhole,
		"SETTINGS in the answer":       grpcHeaders + settings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0}) + data(serving) + grpcOK,
		"PING":                         ping("12345678") + grpcWhole,
		"PING of 7 bytes":              frame(7, 6, 0, 0, "1234567") + grpcWhole,
		"PING on stream 1":             frame(8, 6, 0, 1, "12345678") + grpcWhole,
		"PING, ACK of none":            frame(8, 6, 1, 0, "12345678") + grpcWhole,
		"100 PINGs":                    strings.Repeat(ping("12345678"), 100) + grpcWhole,
		"10,000 PINGs":                 strings.Repeat(ping("12345678"), 10000) + grpcWhole,
		"GOAWAY of 4 bytes":            frame(4, 7, 0, 0, "1234"),
		"GOAWAY on stream 1":           frame(8, 7, 0, 1, "12345678"),
		"RST_STREAM of 3 bytes":        frame(3, 3, 0, 1, "123"),
		"RST_STREAM on stream 0":       frame(4, 3, 0, 0, "1234"),
		"RST_STREAM on stream 3":       frame(4, 3, 0, 3, "\x00\x00\x00\x00") + grpcWhole,
		"RST_STREAM on stream 2":       frame(4, 3, 0, 2, "\x00\x00\x00\x00") + grpcWhole,
		"WINDOW_UPDATE":                windowUpdate(0, 1000) + windowUpdate(1, 1000) + grpcWhole,
		"WINDOW_UPDATE of 0":           windowUpdate(0, 0) + grpcWhole,
		"WINDOW_UPDATE of 0, stream 1": windowUpdate(1, 0) + grpcWhole,
		"WINDOW_UPDATE that overflows": windowUpdate(0, 1<<31-1) + windowUpdate(0, 1<<31-1) + grpcWhole,
		"WINDOW_UPDATE of 3 bytes":     frame(3, 8, 0, 0, "123") + grpcWhole,
		"WINDOW_UPDATE of stream 3":    windowUpdate(3, 5) + grpcWhole,
		"reserved bit of a stream":     frame(len(head), 1, 4, 1|1<<31, head) + data(serving) + grpcOK,
		"HPACK index 0":                frame(1, 1, 4, 1, "\x80") + data(serving) + grpcOK,
		"HPACK index of nothing":       frame(1, 1, 4, 1, "\xff") + data(serving) + grpcOK,
		"HPACK index far out":          frame(5, 1, 4, 1, "\xff\xff\xff\xff\x0f") + data(serving) + grpcOK,
		"HPACK table update":           frame(1+len(head), 1, 4, 1, "\x20"+head) + data(serving) + grpcOK,
		"HPACK table update, too big":  frame(4+len(head), 1, 4, 1, "\x3f\xe1\xff\x03"+head) + data(serving) + grpcOK,
		"HPACK table update, late":     frame(len(head)+1, 1, 4, 1, head+"\x20") + data(serving) + grpcOK,
		"HPACK literal that is cut":    frame(len(head)-1, 1, 4, 1, head[:len(head)-1]) + data(serving) + grpcOK,
		"HPACK bad Huffman":            frame(4, 1, 4, 1, "\x48\x82\xff\xff") + data(serving) + grpcOK,
		"HPACK static status":          frame(1, 1, 4, 1, "\x88") + data(serving) + grpcOK,
		"HPACK indexed":                frame(22, 1, 4, 1, "\x88\x5f\x8b\x1d\x75\xd0\x62\x0d\x26\x3d\x4c\x4d\x65\x64\x00\x01x\x01y\x00\x01") + data(serving) + grpcOK,
		"header list of 1 MB":          bigHeaders(1<<20) + data(serving) + grpcOK,
		"header list of 16 MB":         bigHeaders(16<<20) + data(serving) + grpcOK,
		"HTTP/1.1 after the call":      "HTTP/1.1 400 Bad Request\r\n\r\n",
		"garbage after the call":       strings.Repeat("garbage!", 10),
		"zeros after the call":         strings.Repeat("\x00", 100),
		"nothing":                      "",
	} {
		lateAdd(name, text)
		lateAdd(name+", and a hang", text, hang)
	}
	for name, steps := range map[string]script{
		"endless PINGs":             {endless(ping("12345678"))},
		"endless SETTINGS":          {endless(settings())},
		"endless unknown frames":    {endless(frame(3, 0x42, 0xff, 0, "abc"))},
		"endless empty data":        {grpcHeaders, endless(data(""))},
		"endless CONTINUATIONs":     {frame(len(head), 1, 0, 1, head), endless(frame(0, 9, 0, 1, ""))},
		"endless big CONTINUATIONs": {frame(len(head), 1, 0, 1, head), endless(frame(len(field), 9, 0, 1, field))},
		"endless WINDOW_UPDATEs":    {endless(windowUpdate(0, 0))},
		"endless 1xx":               {endless(headers(":status", "103"))},
		"endless garbage":           {endless("garbage")},
		"endless zeros":             {endless("\x00")},
	} {
		table = append(table, situation{name, speaks(append(steps, hang)...), check{}, "unread"})
	}
	judgeAll(t, table)
}

func continued(text string) string {
	var b strings.Builder
	for i := range text {
		flags := http2.Flags(0)
		if i == len(text)-1 {
			flags = 4
		}
		b.WriteString(frame(1, 9, flags, 1, text[i:i+1]))
	}
	return b.String()
}

// bigHeaders returns response headers with size bytes of metadata.
func bigHeaders(size int) string {
	text := string(block(":status", "200", "content-type", "application/grpc"))
	var b strings.Builder
	b.WriteString(frame(len(text), 1, 0, 1, text))
	field := string(block("x", strings.Repeat("y", 15<<10)))
	for range size / len(field) {
		b.WriteString(frame(len(field), 9, 0, 1, field))
	}
	b.WriteString(frame(0, 9, 4, 1, ""))
	return b.String()
}

func TestGRPCSettings(t *testing.T) {
	var table []situation
	for id := range uint16(9) {
		for _, value := range []uint32{0, 1, 100, 16383, 16384, 65535, 1<<24 - 1, 1 << 24, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			s := http2.Setting{ID: http2.SettingID(id), Val: value}
			table = append(table, situation{fmt.Sprintf("setting %d is %d", id, value), raw(preface, settings(s), acknowledged, call, grpcWhole), timed{check{}}, ""})
		}
	}
	for name, steps := range map[string]script{
		"never":                         {preface, hang},
		"never, and closed":             {preface},
		"never, and a reset":            {preface, 20 * time.Millisecond, reset},
		"closed at once":                {},
		"reset at once":                 {reset},
		"hang at once":                  {hang},
		"half":                          {preface, settings()[:5], hang},
		"half, and closed":              {preface, settings()[:5]},
		"not the first frame":           {preface, ping("12345678") + settings() + acknowledged, call, grpcWhole},
		"after an unknown frame":        {preface, frame(3, 0x42, 0, 0, "abc") + settings() + acknowledged, call, grpcWhole},
		"an ACK first":                  {preface, acknowledged + settings(), call, grpcWhole},
		"before the preface":            {settings(), preface, acknowledged, call, grpcWhole},
		"slowly":                        {preface, slowly(settings()), acknowledged, call, grpcWhole},
		"no ACK":                        {preface, settings(), call, grpcWhole},
		"ACK at the end":                {preface, settings(), call, grpcWhole, acknowledged},
		"twice":                         {preface, settings() + settings() + acknowledged, call, grpcWhole},
		"late":                          {preface, 50 * time.Millisecond, settings() + acknowledged, call, grpcWhole},
		"no streams, later one":         {preface, settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams}), 20 * time.Millisecond, settings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1}), call, grpcWhole},
		"no window, later one":          {preface, settings(http2.Setting{ID: http2.SettingInitialWindowSize}), 20 * time.Millisecond, settings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100}), call, grpcWhole},
		"no window, later an update":    {preface, settings(http2.Setting{ID: http2.SettingInitialWindowSize}), 20 * time.Millisecond, windowUpdate(1, 100), call, grpcWhole},
		"all of them":                   {preface, settings(http2.Setting{ID: 1, Val: 4096}, http2.Setting{ID: 2, Val: 0}, http2.Setting{ID: 3, Val: 100}, http2.Setting{ID: 4, Val: 1 << 20}, http2.Setting{ID: 5, Val: 16384}, http2.Setting{ID: 6, Val: 8192}) + acknowledged, call, grpcWhole},
		"a window and an update":        {preface, settings(http2.Setting{ID: 3, Val: 100}) + windowUpdate(0, 1<<20) + acknowledged, call, grpcWhole},
		"with the answer":               {preface, settings() + acknowledged + grpcWhole, call},
		"with the headers":              {preface, settings() + acknowledged + grpcHeaders, call, data(serving) + grpcOK},
		"with RST_STREAM":               {preface, settings() + acknowledged + resetStream(7), call, grpcWhole},
		"a PING without an answer":      {preface, settings() + acknowledged, call, ping("12345678"), 20 * time.Millisecond, grpcWhole},
		"HTTP/1.1 200":                  {preface, whole},
		"HTTP/1.1 400":                  {preface, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"},
		"HTTP/1.1 505":                  {preface, "HTTP/1.1 505 HTTP Version Not Supported\r\n\r\n<html>"},
		"HTTP/1.1 before the preface":   {"HTTP/1.1 408 Request Timeout\r\n\r\n"},
		"SMTP":                          {"220 smtp ESMTP\r\n", hang},
		"SSH":                           {"SSH-2.0-OpenSSH_9.6\r\n", hang},
		"redis":                         {preface, "-ERR unknown command\r\n"},
		"one byte":                      {preface, "\x00", hang},
		"zeros":                         {preface, strings.Repeat("\x00", 100), hang},
		"endless zeros":                 {preface, endless("\x00"), hang},
		"endless text":                  {preface, endless("text"), hang},
		"a TLS alert":                   {preface, "\x15\x03\x01\x00\x02\x02\x46"},
		"settings in a frame of 16 MB":  {preface, frame(1<<24-1, 4, 0, 0, ""), hang},
		"settings of 10,000":            {preface, manySettings(2000) + acknowledged, call, grpcWhole},
		"a good server after a bad one": {preface},
	} {
		table = append(table, situation{"settings: " + name, raw(steps...), timed{check{}}, "reconnects"})
	}
	table = append(table,
		situation{"refused", server{}, timed{check{port: 9}}, ""},
		situation{"full backlog", server{full: true, scripts: []script{{}}}, timed{check{}}, ""},
		situation{"TLS", raw().secured(certified()), timed{check{}}, ""},
		situation{"a second connection is good", server{frames: true, scripts: []script{{reset}, {preface, settings(), acknowledged, call, grpcWhole}}}, check{}, ""},
		situation{"a second connection after an answer and a GOAWAY", server{frames: true, scripts: []script{{preface, settings(), acknowledged, call, grpcStatus + goAway(0, 0, "")}, {preface, settings(), acknowledged, call, grpcWhole}}}, check{}, ""},
		situation{"a second connection after a GOAWAY", server{frames: true, scripts: []script{{preface, settings(), acknowledged, call, goAway(0, 0, "")}, {preface, settings(), acknowledged, call, grpcWhole}}}, check{}, ""},
		situation{"a second connection after a refused stream", server{frames: true, scripts: []script{{preface, settings(), acknowledged, call, resetStream(7)}, {preface, settings(), acknowledged, call, grpcWhole}}}, timed{check{}}, "refused and gone"},
		situation{"a refused stream, and another one", speaks(resetStream(7), callAgain, headersOn(3, false, ":status", "200", "content-type", "application/grpc")+frame(len(serving), 0, 0, 3, serving)+headersOn(3, true, "grpc-status", "0")), check{}, ""},
		situation{"IPv6", server{frames: true, address: "::1", scripts: []script{{preface, settings(), acknowledged, call, grpcWhole}}}, check{podIP: "::1"}, ""},
		situation{"IPv6 in full", server{frames: true, address: "::1", scripts: []script{{preface, settings(), acknowledged, call, grpcWhole}}}, check{podIP: "0:0:0:0:0:0:0:1"}, ""},
		situation{"a name", speaks(grpcWhole), check{podIP: "localhost"}, ""},
	)
	for _, service := range []string{"", "a", "grpc.health.v1.Health", "ü", "日本", "a b", "a\x00b", "a\nb", "%", strings.Repeat("s", 100), strings.Repeat("s", 200), strings.Repeat("s", 20000)} {
		table = append(table, situation{fmt.Sprintf("service %.30q of %d", service, len(service)), speaks(grpcWhole), check{service: &service}, ""})
	}
	for _, service := range []string{strings.Repeat("s", 70000), strings.Repeat("s", 1<<20)} { // larger than the window
		table = append(table, situation{fmt.Sprintf("service %.30q of %d", service, len(service)), speaks(grpcWhole), timed{check{service: &service}}, ""})
	}
	for _, ip := range unreachable {
		table = append(table, situation{"unreachable " + ip, server{}, timed{check{podIP: ip, port: 9}}, ""})
	}
	judgeAll(t, table)
}

func manySettings(n int) string {
	var s []http2.Setting
	for i := range n {
		s = append(s, http2.Setting{ID: http2.SettingID(100 + i), Val: 1})
	}
	return settings(s...)
}

func TestGRPCCuts(t *testing.T) {
	const phase = 20 * time.Millisecond
	var table []situation
	for n := range len(grpcWhole) {
		table = append(table,
			situation{fmt.Sprintf("closed after %d bytes", n), speaks(grpcWhole[:n]), timed{check{}}, "reconnects"},
			situation{fmt.Sprintf("reset after %d bytes", n), speaks(grpcWhole[:n], phase, reset), timed{check{}}, "reconnects"},
			situation{fmt.Sprintf("a pause after %d bytes", n), speaks(grpcWhole[:n], phase/10, grpcWhole[n:]), check{}, ""})
		if n%9 == 0 {
			table = append(table, situation{fmt.Sprintf("hang after %d bytes", n), speaks(grpcWhole[:n], hang), check{}, ""})
		}
	}
	begin := settings() + acknowledged
	for n := range len(begin) {
		chance := "reconnects"
		if n >= len(settings()) {
			chance = "ready and gone"
		}
		if n%3 == 0 {
			table = append(table,
				situation{fmt.Sprintf("closed after %d bytes of the settings", n), raw(preface, begin[:n]), timed{check{}}, chance},
				situation{fmt.Sprintf("reset after %d bytes of the settings", n), raw(preface, begin[:n], phase, reset), timed{check{}}, chance})
		}
		table = append(table, situation{fmt.Sprintf("a pause after %d bytes of the settings", n), raw(preface, begin[:n], phase/10, begin[n:], call, grpcWhole), check{}, ""})
	}
	table = append(table, situation{"slowly", speaks(slowly(grpcWhole)), check{}, ""})
	judgeAll(t, table)
}
