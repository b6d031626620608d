package process_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/handlers/process"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// heap returns the bytes of heap memory in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAnswerBreaksContract checks that an answer that violates the contract is an error of one readable
// line, and takes no memory.
func TestAnswerBreaksContract(t *testing.T) {
	h := load(t, process.Config{Env: []string{"START=hostile"}, Pause: time.Nanosecond, MaxPause: time.Nanosecond})
	for mode, want := range map[string]string{
		"huge":        "protocol: the process answers ResourceExhausted: ",
		"fat":         "protocol: result of 131086 bytes; at most 65536 are allowed",
		"metrics":     "protocol: result of ",
		"many":        "protocol: result: ",
		"nan":         "protocol: result: ",
		"infinite":    "protocol: result: ",
		"deep":        "protocol: ",
		"endless":     "protocol: more than 100000 messages and no verdict",
		"bulky":       "protocol: more than 4194304 bytes of log and no verdict",
		"headers":     "trap: the process answers Internal: ",
		"status":      "protocol: the process answers FailedPrecondition: status",
		"deadline":    "protocol: the process answers DeadlineExceeded: so you say",
		"unavailable": "trap: the process ",
		"none":        "protocol: the process ended its answer without a verdict",
		"relisten":    "trap: the process ",
	} {
		t.Run(mode, func(t *testing.T) {
			b, before := bind(t, h, mode), heap()
			for attempts := 0; attempts < 2; {
				_, err := attempt(t, b, patience)
				if errors.Is(err, probe.ErrNoSlot) {
					continue
				}
				attempts++
				if err == nil {
					t.Fatal("got a verdict")
				}
				text := strings.TrimPrefix(err.Error(), `plugin "tester": `)
				if got := string(probe.ReasonOf(err)) + ": " + text; !strings.HasPrefix(got, want) {
					t.Errorf("got %.300s, want %s", got, want)
				}
				if len(text) > 1000 || !utf8.ValidString(text) {
					t.Errorf("an error of %d bytes: %.300q", len(text), text)
				}
			}
			if after := heap(); after > before+32<<20 {
				t.Errorf("%d MiB in use, after %d", after>>20, before>>20)
			}
			ok := bind(t, h, "ok")
			for { // an attempt may still reach a process that is ending
				if out, err := attempt(t, ok, patience); err == nil && out.Output == "ok" {
					break
				} else if err == nil || probe.ReasonOf(err) != probe.ReasonTrap && !errors.Is(err, probe.ErrNoSlot) {
					t.Fatalf("afterwards: %v, %v", out, err)
				}
			}
		})
	}
}

// TestUnusualAnswers checks unusual answers that the contract allows.
func TestUnusualAnswers(t *testing.T) {
	h := load(t, process.Config{Env: []string{"START=hostile"}})
	got, err := attempt(t, bind(t, h, "negative"), patience)
	if err != nil || len(got.Metrics) != 1 || got.Metrics[0].Value != -1.5 {
		t.Errorf("a negative metric: %+v, %v", got, err)
	}
	if got, err = attempt(t, bind(t, h, "utf8"), patience); err != nil || got.Output != "\uFFFD" {
		t.Errorf("an output that is not UTF-8: %+v", got)
	}
	// A verdict after the deadline is dropped, and not used for the next attempt.
	got, err = attempt(t, bind(t, h, "late"), time.Second)
	if err != nil || got.Result != probe.Failure || got.Reason != probe.ReasonDeadline {
		t.Errorf("late: %+v, %v", got, err)
	}
	if got, err = attempt(t, bind(t, h, "ok"), patience); err != nil || got.Output != "ok" {
		t.Errorf("after a late one: %+v, %v", got, err)
	}
	if n := h.Stats().Starts; n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}

func TestDescriptionBreaksContract(t *testing.T) {
	for describe, want := range map[string]string{
		"huge":    "rpc error: code = ResourceExhausted",
		"garbage": "manifest of the process",
		"long":    "rpc error: code = Internal desc = long",
	} {
		t.Run(describe, func(t *testing.T) {
			t.Parallel()
			refused(t, process.Config{Env: []string{"START=hostile", "DESCRIBE=" + describe}}, found(), want)
		})
	}
}

// TestHandshake checks the first line of a process, go-plugin's handshake. The address in it must be local.
func TestHandshake(t *testing.T) {
	for line, want := range map[string]string{
		"1|1|tcp|198.51.100.1:443|grpc|":                    `the process listens on tcp "198.51.100.1:443": want a unix socket, or tcp and a loopback address`,
		"1|1|tcp|nowhere.example.com:443|grpc|":             `the process listens on tcp "nowhere.example.com:443": want`,
		"1|1|tcp|[::ffff:198.51.100.1]:443|grpc|":           `the process listens on tcp "[::ffff:198.51.100.1]:443": want`,
		"1|1|tcp|0.0.0.0:443|grpc|":                         `the process listens on tcp "0.0.0.0:443": want`,
		"1|1|tcp|:443|grpc|":                                `the process listens on tcp ":443": want`,
		"1|1|tcp|127.0.0.1|grpc|":                           `the process listens on tcp "127.0.0.1": want`,
		"1|1|tcp|127.0.0.1:1|grpc|":                         "the process does not use TLS",
		"1|1|tcp|[::1]:1|grpc|":                             "the process does not use TLS",
		"1|1|udp|127.0.0.1:1|grpc|":                         `the process listens on udp "127.0.0.1:1": want`,
		"1|1|unix||grpc|":                                   `the process listens on unix "": want`,
		"1|1|unix|@abstract|grpc|":                          "the process does not use TLS",
		"1|1|unix|/nowhere|grpc|":                           "the process does not use TLS",
		"1|1|unix|/nowhere|netrpc|":                         `unsupported plugin protocol "netrpc"`,
		"1|2|unix|/nowhere|grpc|":                           "incompatible API version with plugin",
		"9|1|unix|/nowhere|grpc|":                           "incompatible core API version with plugin",
		"1|1|\x1b[31m|\x1b[31m|grpc|":                       "the process listens on",
		"-1|1|unix|/nowhere|grpc|":                          "incompatible core API version",
		"1|99999999999999999999|unix|/n|grpc|":              "Error parsing protocol version",
		"|||||||||":                                         "error parsing core protocol version",
		"1|1|unix|/nowhere|grpc|" + strings.Repeat("*", 60): "error parsing server cert",
		strings.Repeat("1|", 5000):                          "the process listens on 1 ",
	} {
		f := found()
		f.Module, f.Digest = []byte("#!/bin/sh\necho "+base64.StdEncoding.EncodeToString([]byte(line))+" | base64 -d\necho\nread end\n"), ""
		t.Run(fmt.Sprintf("%.40q", line), func(t *testing.T) {
			t.Parallel()
			refused(t, process.Config{Env: []string{"PATH=/usr/bin:/bin"}}, f, want)
		})
	}
}

// refused checks that a plugin is not loaded, with an error of one readable line.
func refused(t *testing.T, cfg process.Config, f plugin.Found, want string) {
	t.Helper()
	h, err := process.Load(t.Context(), unhurried(cfg), f)
	if err == nil {
		_ = h.Close()
		t.Fatal("the plugin was loaded")
	}
	if text := err.Error(); !strings.HasPrefix(text, `plugin "tester": `+want) || len(text) > 1000 || strings.ContainsFunc(text, unicode.IsControl) {
		t.Errorf("got %.300q, want %s", text, want)
	}
}

// TestExcessOutputIsDropped checks that a process that writes endlessly takes no memory and still answers.
func TestExcessOutputIsDropped(t *testing.T) {
	h := load(t, process.Config{})
	ok := bind(t, h, "ok")
	before := heap()
	if _, err := attempt(t, bind(t, h, "drown"), patience); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if got, err := attempt(t, ok, patience); err != nil || got.Result != probe.Success {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if after := heap(); after > before+32<<20 {
		t.Errorf("%d MiB in use, after %d", after>>20, before>>20)
	}
	if n := h.Stats().Starts; n != 1 {
		t.Errorf("%d starts, want 1", n)
	}
}
