package abi_test

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

var update = flag.Bool("update", false, "rewrite v1.json")

// TestSignaturesAreFrozen compares the imports with v1.json. Functions may only be added at the end of a
// module.
func TestSignaturesAreFrozen(t *testing.T) {
	got, err := json.MarshalIndent(abi.Imports(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile("v1.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("v1.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func request() abi.Request {
	return abi.Request{
		ABI:    1,
		Plugin: abi.Plugin{Name: "redis", Version: "1.2.3", Digest: "sha256:00"},
		Probe: abi.Probe{
			Kind: probe.Startup, Attempt: 3, PeriodMs: 500, TimeoutMs: 200, FailureThreshold: 3, LastResult: probe.Failure,
		},
		Target: abi.Target{Host: "10.0.0.7", IP: "10.0.0.7", Port: 6379, Unix: "/run/x.sock"},
		Pod: abi.Pod{Namespace: "prod", Name: "redis-0", UID: "u1", Labels: map[string]string{
			"app": "redis", "odd": "quote \" slash \\ tab \t bell \a ü 漢 😀",
		}},
		Container: abi.Container{Name: "redis", ID: "containerd://1", Ports: []probe.Port{
			{Name: "tcp", Number: 6379, Protocol: "TCP"}, {Number: 1},
		}},
		Config: []byte(`{"maxLag":"5s","nested":{"list":[1,"two",null]}}`),
		Host:   abi.Host{Version: "v0.1.0", Features: []string{"net"}},
	}
}

func TestRequestRoundTrip(t *testing.T) {
	for name, want := range map[string]abi.Request{
		"full":  request(),
		"empty": {Config: []byte("{}")},
	} {
		doc := abi.AppendRequest(nil, &want)
		if !json.Valid(doc) {
			t.Errorf("%s: not JSON: %s", name, doc)
		}
		got, err := abi.DecodeRequest(doc)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestDecodeRequestIgnoresUnknownFields(t *testing.T) {
	got, err := abi.DecodeRequest([]byte(`{"abi":1,"new":{"a":[{}]},"target":{"port":5,"new":[]},"probe":{"new":1e9},"host":{"new":"x"}}`))
	if err != nil || got.Target.Port != 5 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestResultRoundTrip(t *testing.T) {
	want := abi.Result{
		Result: probe.Warning, HasResult: true, Message: "lag\u2028 of 7 s",
		Metrics: []probe.Metric{
			{Name: "lag_seconds", Value: 7.25, Unit: "s", Labels: map[string]string{"role": "replica"}},
			{Name: "big", Value: 1e300}, {Name: "small", Value: -4e-9}, {Name: "whole", Value: 123456789},
		},
		Details: []byte(`{"master":"10.0.0.1"}`),
	}
	doc := abi.AppendResult(nil, &want)
	got, err := abi.DecodeResult(doc)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s\n%s", err, doc, diff)
	}
}

func TestAppendResultLeavesOutNaNAndInfinity(t *testing.T) {
	doc := abi.AppendResult(nil, &abi.Result{Metrics: []probe.Metric{{Name: "a", Value: math.NaN()}, {Name: "b", Value: 1}, {Name: "c", Value: math.Inf(1)}}})
	if want := `{"metrics":[{"name":"b","value":1}]}`; string(doc) != want {
		t.Errorf("got %s, want %s", doc, want)
	}
}

func TestDecodeResultErrors(t *testing.T) {
	for doc, want := range map[string]string{
		``:                            "unexpected end of JSON",
		`{`:                           "unexpected end of JSON",
		`[]`:                          "expected an object",
		`{} x`:                        "expected the end",
		`{"message":1}`:               `message: byte 11 of JSON: expected a string, got '1'`,
		`{"result":"fine"}`:           `unknown result "fine"; known: failure, success, unknown, warning`,
		`{"message":"a` + "\n" + `"}`: "expected a string without control characters",
		`{"message":"\x"}`:            "expected an escape",
		`{"message":"\u12"}`:          `expected four hexadecimal digits`,
		`{"metrics":[{"value":1}]}`:   `metric name "": must match [a-z_][a-z0-9_]*`,
		`{"metrics":[{"name":"A"}]}`:  `metric name "A"`,
		`{"metrics":[{"name":"a","value":1e999}]}`:                  "number 1e999 of JSON is out of range",
		`{"metrics":[{"name":"a","value":01}]}`:                     `expected "," or "}"`,
		`{"metrics":[{"name":"a","unit":"` + long(33) + `"}]}`:      "the unit must have 32 bytes at most",
		`{"metrics":[{"name":"a","labels":{"B":"x"}}]}`:             `label name "B"`,
		`{"metrics":[` + strings.Repeat(`{"name":"a"},`, 65) + `]}`: "more than 64",
		`{"details":[]}`:                            "details: byte 11 of JSON: expected an object",
		`{"x":` + strings.Repeat("[", 100) + `}`:    "nested too deeply",
		`{"message":"` + long(abi.MaxResult) + `"}`: "at most 65536 are allowed",
		`{"x":tru}`: "expected true",
		`{"x":-}`:   "expected a number",
		`{"x":1.}`:  "expected a digit",
		`{"x":1e}`:  "expected a digit",
	} {
		if _, err := abi.DecodeResult([]byte(doc)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", doc, err, want)
		}
	}
}

func long(n int) string { return strings.Repeat("u", n) }

func TestLookup(t *testing.T) {
	doc := []byte(`{"a":{"b":[10,{"c":"deep\n"}]},"n":null,"t":true,"twice":1,"twice":2,"":"empty"}`)
	for path, want := range map[string]string{
		"a.b.0": "10", "a.b.1.c": "deep\n", "a.b.1": `{"c":"deep\n"}`, "t": "true", "twice": "2", "": "empty",
	} {
		if value, ok := abi.Lookup(doc, path); !ok || abi.Text(value) != want {
			t.Errorf("%q: got %s, %v, want %s", path, value, ok, want)
		}
	}
	for _, path := range []string{"b", "a.b.2", "a.b.x", "a.b.0.c", "n", "a.b.-1", "."} {
		if value, ok := abi.Lookup(doc, path); ok {
			t.Errorf("%q: got %s, want nothing", path, value)
		}
	}
}

func TestErrno(t *testing.T) {
	if got := abi.ECONNREFUSED.Code(); got != -14 {
		t.Errorf("got %d, want the number of WASI preview 1", got)
	}
	if got := abi.Errno(999).Error(); got != "errno 999" {
		t.Errorf("got %q", got)
	}
}

// FuzzDecode compares the decoders with encoding/json: they must accept no other documents, and return the
// same values.
func FuzzDecode(f *testing.F) {
	full := request()
	f.Add(abi.AppendRequest(nil, &full))
	f.Add(abi.AppendResult(nil, &abi.Result{HasResult: true, Result: probe.Success, Message: "m", Metrics: []probe.Metric{{Name: "a", Value: 1}}}))
	f.Add([]byte(`{"message":"\ud83d\ude00\ud83d","x":[1,-0.5e+3,true,false,null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if abi.Valid(data) && !json.Valid(data) {
			t.Errorf("%q is not JSON", data)
		}
		if q, err := abi.DecodeRequest(data); err == nil {
			again, err := abi.DecodeRequest(abi.AppendRequest(nil, &q))
			if len(q.Config) == 0 {
				q.Config = []byte("{}")
			}
			if q.Pod.Labels != nil && len(q.Pod.Labels) == 0 {
				q.Pod.Labels = nil
			}
			if diff := cmp.Diff(sane(q), sane(again)); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		}
		r, err := abi.DecodeResult(data)
		if err != nil {
			return
		}
		var want struct {
			Message string `json:"message"`
		}
		if err := json.Unmarshal(data, &want); err == nil && strings.ToValidUTF8(r.Message, "\uFFFD") != strings.ToValidUTF8(want.Message, "\uFFFD") &&
			strings.Count(strings.ToLower(string(data)), `message`) == 1 {
			t.Errorf("message %q, want %q", r.Message, want.Message)
		}
	})
}

// sane returns the encoded request q with invalid UTF-8 replaced, as the encoder does.
func sane(q abi.Request) string {
	return strings.ToValidUTF8(string(abi.AppendRequest(nil, &q)), "\uFFFD")
}

func TestDecodeStrictResult(t *testing.T) {
	for doc, want := range map[string]string{
		`{"result":"success","message":"m","metrics":[{"name":"a","value":1,"unit":"s","labels":{"b":"c"}}],"details":{"any":1}}`: "",
		`{"colour":"red"}`: "colour: the field is unknown",
		`{"metrics":[{"name":"a","value":1,"help":"h"}]}`: "metrics: help: the field is unknown",
	} {
		if _, err := abi.DecodeResult([]byte(doc)); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
		if _, err := abi.DecodeStrictResult([]byte(doc)); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: got %v, want %q", doc, err, want)
		}
	}
}
