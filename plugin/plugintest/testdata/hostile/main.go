// Hostile is a plugin with checks that have one fault each, which only a hostile peer shows. The checks
// whose name begins with "good" have none.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/probe"
	"github.com/daeace23/prober/sdk"
)

func main() {}

func init() { sdk.Register(sdk.Func(check)) }

var checks = map[string]func(net.Conn) (probe.Outcome, error){
	"good line":       goodLine,
	"good frame":      goodFrame,
	"good clock":      goodClock,
	"trusts length":   trustsLength,
	"trusts count":    trustsCount,
	"ignores EOF":     ignoresEOF,
	"ignores reset":   ignoresReset,
	"loops on errors": loopsOnErrors,
	"any reply":       anyReply,
	"short line":      shortLine,
	"not JSON":        notJSON,
	"not a number":    notNumber,
	"fails with Inf":  failsWithInf,
	"other protocol":  otherProtocol,
	"unbounded read":  unboundedRead,
	"one read":        oneRead,
	"short datagram":  shortDatagram,
	"panics":          func(conn net.Conn) (probe.Outcome, error) { return panics(conn, "%s") },
	"panics quoting":  func(conn net.Conn) (probe.Outcome, error) { return panics(conn, "%q") },
	"panics at place": func(conn net.Conn) (probe.Outcome, error) { return panics(conn, "src/lib.go:12:7: %s") },
}

func check(ctx context.Context, r *sdk.Request) (probe.Outcome, error) {
	name := r.Config.String("check", "")
	if strings.HasSuffix(name, "status") {
		return web(strings.HasPrefix(name, "good"))
	}
	network := "tcp"
	if name == "short datagram" {
		network = "udp"
	}
	conn, err := sdk.Dial(ctx, network, r.Addr())
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "STATUS\n"); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	return checks[name](conn)
}

// line reads a line.
func line(conn net.Conn) (string, error) {
	text, err := bufio.NewReader(io.LimitReader(conn, 4096)).ReadString('\n')
	return strings.TrimRight(text, "\r\n"), err
}

func goodLine(conn net.Conn) (probe.Outcome, error) {
	text, err := line(conn)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	words := strings.Fields(text)
	if len(words) != 2 || words[0] != "JOBS" {
		return sdk.Failuref("unexpected answer %.40q", text), nil
	}
	jobs, err := strconv.Atoi(words[1])
	if err != nil || jobs < 0 {
		return sdk.Failuref("unexpected number %.40q", words[1]), nil
	}
	return sdk.Successf("%d jobs", jobs), nil
}

// goodClock accepts an answer in the first minute of a day.
func goodClock(conn net.Conn) (probe.Outcome, error) {
	if now := time.Now().UTC(); now.Hour() > 0 || now.Minute() > 0 {
		return sdk.Failuref("it is %v", now), nil
	}
	return goodLine(conn)
}

func goodFrame(conn net.Conn) (probe.Outcome, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	size := binary.BigEndian.Uint32(head[:])
	if size < 4 || size > 64 {
		return sdk.Failuref("a frame of %d bytes", size), nil
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	if string(body[:2]) != "OK" {
		return sdk.Failuref("unexpected frame"), nil
	}
	return sdk.Successf("%d", binary.BigEndian.Uint16(body[2:])), nil
}

func trustsLength(conn net.Conn) (probe.Outcome, error) {
	var size uint32
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil || !strings.HasPrefix(string(body), "OK") {
		return sdk.Failuref("unexpected frame: %v", err), nil
	}
	return sdk.Successf("%s", body), nil
}

func trustsCount(conn net.Conn) (probe.Outcome, error) {
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil || string(head[:4]) != "LIST" {
		return sdk.Failuref("unexpected answer: %v", err), nil
	}
	sum := uint32(0)
	for i := range binary.BigEndian.Uint32(head[4:]) {
		sum = sum*31 + i
	}
	return sdk.Successf("%d", sum), nil
}

func ignoresEOF(conn net.Conn) (probe.Outcome, error) {
	scanner := bufio.NewScanner(conn)
	scanner.Scan()
	jobs, ok := strings.CutPrefix(scanner.Text(), "JOBS ")
	if n, err := strconv.Atoi(jobs); ok && err == nil {
		return sdk.Successf("%d jobs", n), nil
	}
	return sdk.Failuref("unexpected answer"), nil
}

func ignoresReset(conn net.Conn) (probe.Outcome, error) {
	data, _ := io.ReadAll(io.LimitReader(conn, 4096))
	if !strings.HasPrefix(string(data), "OK") {
		return sdk.Failuref("unexpected answer"), nil
	}
	return sdk.Successf("%s", data), nil
}

func loopsOnErrors(conn net.Conn) (probe.Outcome, error) {
	var text []byte
	for !strings.HasSuffix(string(text), "\n") && len(text) < 100 {
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err != nil {
			continue // it may be temporary
		}
		text = append(text, buf[:n]...)
	}
	if string(text) != "OK\n" {
		return sdk.Failuref("unexpected answer"), nil
	}
	return sdk.Successf("ok"), nil
}

func anyReply(conn net.Conn) (probe.Outcome, error) {
	text, err := line(conn)
	if err != nil || text == "" {
		return sdk.Failuref("no answer: %v", err), nil
	}
	return sdk.Successf("%s", text), nil
}

func shortLine(conn net.Conn) (probe.Outcome, error) {
	text, err := line(conn)
	if err != nil || !strings.HasPrefix(text, "JOBS") {
		return sdk.Failuref("unexpected answer: %v", err), nil
	}
	return sdk.Successf("%s jobs", strings.Split(text, " ")[1]), nil
}

// panics panics with all that it has read, in a format.
func panics(conn net.Conn, format string) (probe.Outcome, error) {
	text, err := line(conn)
	if err != nil || !strings.HasSuffix(text, "17 jobs") {
		panic(fmt.Sprintf("unexpected "+format, text))
	}
	return sdk.Successf("%s", text), nil
}

func notJSON(conn net.Conn) (probe.Outcome, error) {
	text, err := line(conn)
	if err != nil {
		return sdk.Failuref("%v", err), nil
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	if doc["state"].(string) != "ok" {
		return sdk.Failuref("not ok"), nil
	}
	return sdk.Successf("ok"), nil
}

// failsWithInf fails with a message that has no number.
func failsWithInf(conn net.Conn) (probe.Outcome, error) {
	out, err := notNumber(conn)
	if strings.Contains(out.Output, "Inf") {
		return sdk.Failuref("%s", out.Output), nil
	}
	return out, err
}

func notNumber(conn net.Conn) (probe.Outcome, error) {
	text, err := line(conn)
	used, all, ok := strings.Cut(strings.TrimPrefix(text, "USED "), "/")
	if err != nil || !ok {
		return sdk.Failuref("unexpected answer: %v", err), nil
	}
	a, err := strconv.ParseFloat(used, 64)
	b, errAll := strconv.ParseFloat(all, 64)
	if err = errors.Join(err, errAll); err != nil {
		return sdk.Failuref("%v", err), nil
	}
	out := sdk.Successf("%.0f%% used", 100*a/b)
	out.Metrics = []probe.Metric{{Name: "used", Value: a / b}}
	return out, nil
}

func otherProtocol(conn net.Conn) (probe.Outcome, error) {
	text, err := line(conn)
	if err != nil || !strings.HasPrefix(text, "+") {
		return sdk.Failuref("unexpected answer: %v", err), nil
	}
	return sdk.Successf("%s", text), nil
}

func unboundedRead(conn net.Conn) (probe.Outcome, error) {
	var text string
	var all []string // every state of the line
	for !strings.HasSuffix(text, "\n") {
		buf := make([]byte, 512)
		n, err := conn.Read(buf)
		if err != nil {
			return sdk.Failuref("%v", err), nil
		}
		text += string(buf[:n])
		all = append(all, text)
	}
	if all[len(all)-1] != "OK\n" {
		return sdk.Failuref("unexpected answer"), nil
	}
	return sdk.Successf("ok"), nil
}

func oneRead(conn net.Conn) (probe.Outcome, error) {
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil || string(buf[:n]) != "READY\n" {
		return sdk.Failuref("unexpected answer: %v", err), nil
	}
	return sdk.Successf("ready"), nil
}

func shortDatagram(conn net.Conn) (probe.Outcome, error) {
	buf := make([]byte, 100)
	n, err := conn.Read(buf)
	if err != nil || buf[:n][0] != 'K' {
		return sdk.Failuref("unexpected answer: %v", err), nil
	}
	return sdk.Successf("%d", binary.BigEndian.Uint32(buf[:n][4:])), nil
}
