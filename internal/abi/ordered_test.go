package abi

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/probe"
)

// fullRequest returns a request with every field set.
func fullRequest() Request {
	return Request{
		ABI:    1,
		Plugin: Plugin{Name: "redis", Version: "1.2.3", Digest: "sha256:" + strings.Repeat("0f", 32)},
		Probe: Probe{
			Kind: probe.Startup, Attempt: 3, PeriodMs: 86_400_000, TimeoutMs: 9_999_999, FailureThreshold: 10, LastResult: probe.Failure,
		},
		Target: Target{Host: "10.0.0.7", IP: "10.0.0.7", Port: 6379, Unix: "/run/x.sock"},
		Pod:    Pod{Namespace: "prod", Name: "redis-0", UID: "u1", Labels: map[string]string{"app": "redis", "tier": ""}},
		Container: Container{Name: "redis", ID: "containerd://1", Ports: []probe.Port{
			{Name: "tcp", Number: 6379, Protocol: "TCP"}, {Number: 1}, {},
		}},
		Config: []byte(`{"maxLag": "5s", "nested": {"list": [1, "two", null]}}`),
		Host:   Host{Version: "v0.1.0", Features: []string{"net", "http"}},
	}
}

// fieldsOf returns functions that each clear one field of r.
func fieldsOf(r *Request) []func() {
	return []func(){
		func() { r.Plugin.Name = "" }, func() { r.Plugin.Version = "" }, func() { r.Plugin.Digest = "" },
		func() { r.Probe.Attempt = 0 }, func() { r.Probe.PeriodMs = 0 }, func() { r.Probe.TimeoutMs = 0 }, func() { r.Probe.FailureThreshold = 0 },
		func() { r.Target.Host = "" }, func() { r.Target.IP = "" }, func() { r.Target.Port = 0 }, func() { r.Target.Unix = "" },
		func() { r.Pod.Namespace = "" }, func() { r.Pod.Name = "" }, func() { r.Pod.UID = "" }, func() { r.Pod.Labels = nil },
		func() { r.Container.Name = "" }, func() { r.Container.ID = "" }, func() { r.Container.Ports = nil },
		func() { r.Host.Version = "" }, func() { r.Host.Features = nil },
	}
}

// readBoth reads doc with inOrder and decode. It checks that they agree if inOrder accepts doc, and reports
// whether inOrder accepts it.
func readBoth(t *testing.T, doc []byte) (taken bool) {
	t.Helper()
	var got, want Request
	taken = got.inOrder(append(slices.Clone(doc), make([]byte, Room)...), string(doc))
	err := want.decode(doc, string(doc))
	if !taken {
		return false
	}
	if err != nil || !reflect.DeepEqual(want, got) {
		t.Fatalf("%q\nthe decoder: %v\n%s", doc, err, cmp.Diff(want, got))
	}
	return true
}

func TestInOrderReadsAppendRequest(t *testing.T) {
	r := fullRequest()
	for i := range fieldsOf(&r) {
		for _, alone := range []bool{false, true} {
			r := fullRequest()
			for j, remove := range fieldsOf(&r) {
				if (i == j) != alone {
					remove()
				}
			}
			if doc := AppendRequest(nil, &r); !readBoth(t, doc) {
				t.Errorf("not read in order: %s", doc)
			}
		}
	}
	for _, r := range []Request{{}, fullRequest()} {
		for _, r.Probe.Kind = range probe.Kinds {
			for _, r.Probe.LastResult = range []probe.Result{probe.Unknown, probe.Success, probe.Warning, probe.Failure} {
				if doc := AppendRequest(nil, &r); !readBoth(t, doc) {
					t.Errorf("not read in order: %s", doc)
				}
			}
		}
	}
}

func TestInOrderStringsAndIntegers(t *testing.T) {
	for n := range 40 {
		text := strings.Repeat("x", n)
		number, _ := strconv.Atoi(strings.Repeat("9", min(n, 18)))
		for _, special := range []string{"", `"`, `\`, "\n", "ü", "\u2028", "😀", "\xff"} {
			for _, r := range []Request{
				{Plugin: Plugin{Name: text + special + text}},
				{Plugin: Plugin{Version: special + text}, Host: Host{Version: text + special}},
				{Host: Host{Features: []string{special, text}}, Probe: Probe{PeriodMs: int64(number)}},
				{Pod: Pod{Labels: map[string]string{text + special: special + text}}, Probe: Probe{PeriodMs: -int64(number)}},
			} {
				if doc := AppendRequest(nil, &r); !readBoth(t, doc) {
					t.Errorf("not read in order: %s", doc)
				}
			}
		}
	}
}

func TestInOrderNestedConfigs(t *testing.T) {
	for depth := range maxDepth + 2 {
		r := Request{Config: []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))}
		doc := AppendRequest(nil, &r)
		if _, err := DecodeRequest(doc); readBoth(t, doc) != (err == nil) {
			t.Errorf("%d levels: the decoder says %v", depth, err)
		}
	}
}

// TestInOrderChangedBytes reads a request with each byte changed, doubled or removed, and cut
// after each byte.
func TestInOrderChangedBytes(t *testing.T) {
	r := fullRequest()
	doc := AppendRequest(nil, &r)
	taken := 0
	try := func(parts ...[]byte) {
		if readBoth(t, bytes.Join(parts, nil)) {
			taken++
		}
	}
	for i := range doc {
		try(doc[:i])
		try(doc[:i], doc[i+1:])
		try(doc[:i+1], doc[i:])
		for _, c := range "\x00 \t\"\\,:{}[]0179-.eEan\u0080" {
			try(doc[:i], []byte(string(c)), doc[i+1:])
			try(doc[:i], []byte(string(c)), doc[i:])
		}
	}
	if taken == 0 {
		t.Error("nothing was read in order")
	}
}

func TestInOrderRejectsOtherForms(t *testing.T) {
	for _, doc := range []string{
		`{"target":{"port":5,"host":"h"},"abi":1,"config":{}}`,
		`{"later":[{"a":1}],"abi":1,"config":{"a":1},"target":{"host":"h","later":0,"port":5}}`,
		` { "abi" : 1 , "config" : { } , "target" : { "host" : "h" , "port" : 5 } } `,
	} {
		if readBoth(t, []byte(doc)) {
			t.Errorf("read in order: %s", doc)
		}
		got, err := DecodeRequest([]byte(doc))
		if err != nil || got.ABI != 1 || got.Target != (Target{Host: "h", Port: 5}) || len(got.Config) == 0 {
			t.Errorf("%s: got %+v, %v", doc, got, err)
		}
	}
}

func TestDecodeAfterRejectionStartsAnew(t *testing.T) {
	r := fullRequest()
	doc := bytes.Replace(AppendRequest(nil, &r), []byte(`"host":{"version"`), []byte(`"later":1,"host":{"version"`), 1)
	doc = bytes.Replace(doc, []byte(`"labels":{"app":"redis","tier":""}`), []byte(`"labels":{"app":"redis"},"later":{"tier":""}`), 1)
	got := Request{Host: Host{Features: make([]string, 0, 8)}}
	if err := got.Decode(slices.Grow(doc, Room)); err != nil {
		t.Fatal(err)
	}
	r.Pod.Labels = map[string]string{"app": "redis"}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Error(diff)
	}
}

// FuzzInOrder compares inOrder with decode.
func FuzzInOrder(f *testing.F) {
	r := fullRequest()
	f.Add(AppendRequest(nil, &r))
	f.Add(AppendRequest(nil, &Request{}))
	f.Fuzz(func(t *testing.T, doc []byte) { readBoth(t, doc) })
}
