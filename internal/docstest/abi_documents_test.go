package docstest_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/config"
	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/probe"
)

// document is one that crosses the border.
type document struct {
	value  any // with something in each field
	append func() []byte
	decode func([]byte) error
	names  func() []string
}

func decodes[T any](decode func([]byte) (T, error)) func([]byte) error {
	return func(data []byte) error { _, err := decode(data); return err }
}

func abiDocuments() map[string]document {
	any := []byte(`{"*":1}`)
	request := abi.Request{
		ABI: 1, Plugin: abi.Plugin{Name: "a", Version: "b", Digest: "c"},
		Probe:  abi.Probe{Kind: probe.Startup, Attempt: 1, PeriodMs: 2, TimeoutMs: 3, FailureThreshold: 4, LastResult: probe.Failure},
		Target: abi.Target{Host: "a", IP: "b", Port: 1, Unix: "c"},
		Pod:    abi.Pod{Namespace: "a", Name: "b", UID: "c", Labels: map[string]string{"*": "d"}}, Config: any,
		Container: abi.Container{Name: "a", ID: "b", Ports: []probe.Port{{Name: "c", Number: 1, Protocol: "d"}}},
		Host:      abi.Host{Version: "a", Features: []string{"b"}},
	}
	result := abi.Result{
		Result: probe.Failure, HasResult: true, Message: "a", Details: any, Reason: "body",
		Metrics: []probe.Metric{{Name: "a", Value: 1, Unit: "b", Labels: map[string]string{"*": "c"}}},
	}
	tls := abi.TLSOptions{ServerName: "a", ALPN: []string{"b"}, Verify: "c", CA: "d", Credentials: "e", MinVersion: "f", MaxVersion: "g"}
	peer := &abi.TLSInfo{Version: "a", Cipher: "b", ALPN: "c", ServerName: "d", Certificates: []abi.Certificate{
		{Subject: "a", Issuer: "b", NotBefore: time.Unix(1, 0), NotAfter: time.Unix(2, 0), SANs: []string{"c"}, SHA256: "d", Serial: "e"},
	}, ChainNotAfter: 1, ChainEndsAt: 2, ChainEnd: "f", LeafEnd: "g"}
	info := abi.ConnInfo{Network: "a", Local: "b", Remote: "c", DNS: 1, Connect: 2, TLS: 3, Peer: peer}
	ask := abi.HTTPRequest{
		Method: "a", URL: "b", Headers: map[string]string{"*": "c"}, Redirects: 1, TimeoutMs: 2, TLS: tls,
		HTTP2: true, Decompress: "d", Route: abi.Route{IPFamily: "e", SourceAddress: "f"}, Proxy: "g", ProxyHeaders: map[string]string{"*": "h"},
	}
	head := abi.HTTPHead{
		Status: 1, Proto: "a", URL: "b", Remote: "c", Redirects: 2, Headers: map[string]string{"*": "d"},
		DNS: 1, Connect: 2, TLS: 3, FirstByte: 4, Peer: peer, Length: 1,
		Repeated: []abi.HTTPHeader{{Name: "a", Value: "b"}}, Phases: abi.HTTPPhases{Resolve: 1, Connect: 2, TLS: 3, Processing: 4},
	}
	dns := abi.DNSRequest{Name: "a", Type: "b", Server: "c"}
	answer := abi.DNSAnswer{RCode: "a", Server: "b", Took: 1, Answers: []abi.DNSRecord{{Name: "a", Type: "b", TTL: 1, Data: "c"}}}
	ping := abi.EchoRequest{Host: "a", Route: abi.Route{IPFamily: "b", SourceAddress: "c"}, Payload: 1, HopLimit: 2, DontFragment: true}
	pong := abi.EchoReply{Local: "a", Remote: "b", Payload: 1, HopLimit: 2, DNS: 1, Setup: 2, RTT: 3}
	file := abi.FileInfo{Type: "a", Size: 1, Mode: 2, Modified: time.Unix(3, 0), UID: 4, GID: 5}
	system := abi.FilesystemInfo{Total: 1, Free: 2, Available: 3, Inodes: 4, InodesFree: 5, ReadOnly: true}
	list := abi.FileList{Entries: []abi.FileEntry{{Name: "a", Type: "b"}}}
	return map[string]document{
		"Request":     {request, func() []byte { return abi.AppendRequest(nil, &request) }, decodes(abi.DecodeRequest), abi.Names[abi.Request]},
		"Result":      {result, func() []byte { return abi.AppendResult(nil, &result) }, decodes(abi.DecodeResult), abi.Names[abi.Result]},
		"TLSOptions":  {tls, func() []byte { return abi.Append(nil, &tls) }, decodes(abi.Decode[abi.TLSOptions]), abi.Names[abi.TLSOptions]},
		"ConnInfo":    {info, func() []byte { return abi.Append(nil, &info) }, decodes(abi.Decode[abi.ConnInfo]), abi.Names[abi.ConnInfo]},
		"HTTPRequest": {ask, func() []byte { return abi.Append(nil, &ask) }, decodes(abi.Decode[abi.HTTPRequest]), abi.Names[abi.HTTPRequest]},
		"HTTPHead":    {head, func() []byte { return abi.Append(nil, &head) }, decodes(abi.Decode[abi.HTTPHead]), abi.Names[abi.HTTPHead]},
		"DNSRequest":  {dns, func() []byte { return abi.Append(nil, &dns) }, decodes(abi.Decode[abi.DNSRequest]), abi.Names[abi.DNSRequest]},
		"DNSAnswer":   {answer, func() []byte { return abi.Append(nil, &answer) }, decodes(abi.Decode[abi.DNSAnswer]), abi.Names[abi.DNSAnswer]},
		"EchoRequest": {ping, func() []byte { return abi.Append(nil, &ping) }, decodes(abi.Decode[abi.EchoRequest]), abi.Names[abi.EchoRequest]},
		"EchoReply":   {pong, func() []byte { return abi.Append(nil, &pong) }, decodes(abi.Decode[abi.EchoReply]), abi.Names[abi.EchoReply]},

		"FileInfo":       {file, func() []byte { return abi.Append(nil, &file) }, decodes(abi.Decode[abi.FileInfo]), abi.Names[abi.FileInfo]},
		"FilesystemInfo": {system, func() []byte { return abi.Append(nil, &system) }, decodes(abi.Decode[abi.FilesystemInfo]), abi.Names[abi.FilesystemInfo]},
		"FileList":       {list, func() []byte { return abi.Append(nil, &list) }, decodes(abi.Decode[abi.FileList]), abi.Names[abi.FileList]},
	}
}

// checkFull fails for each field that is left zero: the page could miss it.
func checkFull(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch {
	case v.IsZero():
		t.Errorf("%s is not set: the test has to be told of it", path)
	case v.Type() == reflect.TypeFor[time.Time]():
	case v.Kind() == reflect.Pointer:
		checkFull(t, v.Elem(), path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			checkFull(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice:
		checkFull(t, v.Index(0), path+"[]")
	}
}

// leaves adds the fields of a JSON value and their types to fields.
func leaves(value any, path string, fields map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		for name, item := range v {
			leaves(item, strings.TrimPrefix(path+"."+name, "."), fields)
		}
	case []any:
		for _, item := range v {
			leaves(item, path+"[]", fields)
		}
	case string:
		fields[path] = "string"
	default:
		fields[path] = "number"
	}
}

func leavesOf(t *testing.T, doc []byte) map[string]string {
	t.Helper()
	var value any
	if err := json.Unmarshal(doc, &value); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	fields := map[string]string{}
	leaves(value, "", fields)
	return fields
}

// described returns the fields that the page has of a document, and their types, those
// of the documents within it included.
func described(t *testing.T, page map[string]*section, name string) map[string]string {
	t.Helper()
	s := page[name]
	if s == nil || len(s.tables) != 1 {
		t.Fatalf("want one table under %s", name)
	}
	fields := map[string]string{}
	for _, row := range s.tables[0] {
		for _, field := range codes(row[0]) {
			if row[1] == "" || row[2] == "" {
				t.Errorf("%s: %s: want a type and a default", name, field)
			}
			switch typ := row[1]; typ {
			case "string", "number":
				fields[field] = typ
			case "integer", "bool", "any": // what stands for any is a number
				fields[field] = "number"
			default:
				for inner, typ := range described(t, page, typ) {
					fields[field+"."+inner] = typ
				}
			}
		}
	}
	return fields
}

// TestABIDocuments holds the tables of fields against what is encoded, and the examples
// against the tables and the decoders.
func TestABIDocuments(t *testing.T) {
	atRoot(t)
	page := abiPage(t)
	for name, doc := range abiDocuments() {
		checkFull(t, reflect.ValueOf(doc.value), name)
		fields := described(t, page, name)
		if diff := cmp.Diff(leavesOf(t, doc.append()), fields); diff != "" {
			t.Errorf("%s: (-encoded +%s)\n%s", name, abiFile, diff)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(fields)), slices.Sorted(slices.Values(doc.names()))); diff != "" {
			t.Errorf("%s: (-%s +abi.Names)\n%s", name, abiFile, diff)
		}
		examples := fenced.FindAllStringSubmatch(page[name].text, -1)
		if len(examples) != 1 || examples[0][1] != "json" {
			t.Errorf("%s: want one example in JSON", name)
			continue
		}
		if err := doc.decode([]byte(examples[0][2])); err != nil {
			t.Errorf("%s: the example: %v", name, err)
		}
		for field := range leavesOf(t, []byte(examples[0][2])) {
			below := field[:strings.LastIndexByte(field, '.')+1] + "*"
			if fields[field] == "" && fields[below] == "" {
				t.Errorf("%s: the example has %s, the table does not", name, field)
			}
		}
	}
}

// TestABIExamples decodes the examples in YAML, and follows the links.
func TestABIExamples(t *testing.T) {
	atRoot(t)
	for _, text := range blocks(t, abiFile, "yaml") {
		var err error
		if strings.Contains(text, "kind: Plugin") {
			_, err = plugin.ParseManifest(abiFile, []byte(text))
		} else {
			_, err = config.Parse(abiFile, []byte(text))
		}
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(source(t, abiFile), -1) {
		path, _, _ := strings.Cut(m[1], "#")
		if _, err := os.Stat(filepath.Join("docs", path)); err != nil {
			t.Error(err)
		}
	}
}
