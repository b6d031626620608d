//go:build e2e

package e2e

import (
	"context"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/daeace23/prober/internal/abi"
	"github.com/daeace23/prober/probe"
)

const optionsGo = `cd $SDK && GOOS=wasip1 GOARCH=wasm CGO_ENABLED=0 go build -trimpath -buildvcs=false -buildmode=c-shared -o $OUT ./testdata/options`

// passed has the documents that a guest passed to the host.
type passed struct {
	URLs   []string // of dial
	TLS    abi.TLSOptions
	HTTP   abi.HTTPRequest
	Body   []byte
	DNS    abi.DNSRequest
	Echo   abi.EchoRequest
	Result abi.Result
	Told   []string
}

func wantPassed() passed {
	tls := abi.TLSOptions{
		ServerName: "d b", ALPN: []string{"h2", "http/1.1"}, Verify: "none", CA: "PEM\n", Credentials: "own", MinVersion: "TLS12", MaxVersion: "TLS13",
	}
	overHTTP := tls
	overHTTP.ALPN = nil
	return passed{
		URLs: []string{"tcp://db.internal:5432", "tls://db.internal:5432?alpn=h2&alpn=http%2F1.1&credentials=own&ipFamily=6&maxVersion=TLS13&minVersion=TLS12&serverName=d+b&sourceAddress=fd00%3A%3A1&verify=none"},
		TLS:  tls,
		HTTP: abi.HTTPRequest{
			Method: "PUT", URL: "https://db.internal/x", Headers: map[string]string{"X-Asked": `a "b"`}, Redirects: 2, TimeoutMs: 250, TLS: overHTTP,
			HTTP2: true, Decompress: "gzip", Route: abi.Route{IPFamily: "4,6", SourceAddress: "10.0.0.1"},
			Proxy: "http://proxy:3128", ProxyHeaders: map[string]string{"X-Team": "shop"},
		},
		Body: []byte{0, 0xff, 'a'},
		DNS:  abi.DNSRequest{Name: "db.internal", Type: "SRV", Server: "target"},
		Echo: abi.EchoRequest{Host: "db.internal", Route: abi.Route{IPFamily: "6,4", SourceAddress: "10.0.0.1"}, Payload: 9, HopLimit: 7, DontFragment: true},
		Result: abi.Result{
			Message: "a=1|b=2 1, 2 20060102T150405Z 2006-01-02T15:04:05Z true true", Details: []byte(`{"a":1}`), Reason: "body",
			Metrics: []probe.Metric{{Name: "seconds", Unit: "s", Value: 0.5, Labels: map[string]string{"role": "main"}}},
		},
		Told: []string{"working"},
	}
}

// TestSDKsSetEveryOption runs a guest of each SDK against a host that records the documents. A field that an SDK
// cannot set is missing in them.
func TestSDKsSetEveryOption(t *testing.T) {
	t.Parallel()
	want := wantPassed()
	checkSet(t, reflect.ValueOf(want), "")
	guests := append(slices.Clone(everything), struct{ language, ext, build string }{"Go", "", optionsGo})
	for _, c := range guests {
		t.Run(c.language, func(t *testing.T) {
			module, err := os.ReadFile(filepath.Join(guest(t, "options", c.ext, c.build), "options", "options.wasm"))
			if err != nil {
				t.Fatal(err)
			}
			if c.language != "Go" { // which has package time
				testTimes(t, module)
			}
			got := record(t, module)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// checkSet fails for every field of the contract that v leaves zero.
func checkSet(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	switch {
	case path == ".HTTP.TLS.ALPN", path == ".Result.Result", path == ".Result.HasResult": // the host chooses, the return value is it
	case v.IsZero():
		t.Errorf("the guests do not set %s", path)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			checkSet(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	}
}

// testTimes compares how an SDK formats times with package time.
func testTimes(t *testing.T, module []byte) {
	host, probe := instantiate(t, module)
	random := rand.New(rand.NewPCG(1, 2))
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	for i := range 500 {
		at := first + random.Int64N(last-first)
		if edges := []int64{0, -1, first, last, 951782400, 951868799}; i < len(edges) {
			at = edges[i]
		}
		host.at, host.told = strconv.FormatInt(at, 10), nil
		if code := probe(); code != -1 {
			t.Fatalf("probe returns %d", code)
		}
		when := time.Unix(at, 0).UTC()
		want := when.Format("20060102T150405Z") + " " + when.Format(time.RFC3339) + " true"
		if len(host.told) == 0 || host.told[0] != want {
			t.Fatalf("%d: got %q, want %q", at, host.told, want)
		}
	}
}

// record calls the probe of a module, and returns the requests that reached the host.
func record(t *testing.T, module []byte) passed {
	t.Helper()
	host, probe := instantiate(t, module)
	if code := probe(); code != 2 {
		t.Fatalf("probe returns %d; messages %q", code, host.told)
	}
	host.got.Told = host.told
	return host.got
}

// instantiate returns an instance of a module on a host that records, and its function probe.
func instantiate(t *testing.T, module []byte) (*recorder, func() int32) {
	t.Helper()
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { r.Close(context.WithoutCancel(ctx)) })
	host := &recorder{t: t}
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	builders := make(map[string]wazero.HostModuleBuilder)
	for _, f := range abi.Imports() {
		b := builders[f.Module]
		if b == nil {
			b = r.NewHostModuleBuilder(f.Module)
			builders[f.Module] = b
		}
		name := f.Module + "." + f.Name
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, m api.Module, stack []uint64) {
			code := host.call(name, m.Memory(), stack)
			if len(f.Results) > 0 {
				stack[0] = uint64(code)
			}
		}), valueTypes(f.Params), valueTypes(f.Results)).Export(f.Name)
	}
	for _, b := range builders {
		if _, err := b.Instantiate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	m, err := r.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	return host, func() int32 {
		code, err := m.ExportedFunction("probe").Call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return int32(code[0])
	}
}

func valueTypes(types []abi.Type) []api.ValueType {
	out := make([]api.ValueType, len(types))
	for i, typ := range types {
		out[i] = map[abi.Type]api.ValueType{abi.I32: api.ValueTypeI32, abi.I64: api.ValueTypeI64, abi.F64: api.ValueTypeF64}[typ]
	}
	return out
}

// recorder is a host that records documents.
type recorder struct {
	t    *testing.T
	got  passed
	told []string
	kept []byte
	at   string // the value of the config, if any
}

// documents are those that the recorder returns.
var documents = map[string]string{
	"prober_v1.request_read": `{"abi":1,"plugin":{"name":"options","version":"1"},"probe":{"kind":"liveness"},"config":{},"host":{"features":["net","kv"]}}`,
	"prober_v1_http.head": `{"status":200,"proto":"HTTP/1.1","headers":{"set-cookie":"a=1, b=2","x-one":"1, 2"},
		"repeated":[{"name":"set-cookie","value":"a=1"},{"name":"set-cookie","value":"b=2"}]}`,
	"prober_v1_dns.read":  `{"rcode":"NOERROR","server":"10.0.0.2:53","seconds":0.5}`,
	"prober_v1_icmp.read": `{"remote":"10.0.0.7","payload":9,"timings":{"dns":0,"setup":0,"rtt":1}}`,
}

// call carries out one host call, and returns its result.
func (r *recorder) call(name string, mem api.Memory, a []uint64) int64 {
	if doc, ok := documents[name]; ok {
		at := map[bool]int{true: 0, false: 1}[name == "prober_v1.request_read"] // after the handle
		return fill(mem, a, at, []byte(doc))
	}
	bytes := func(at int) []byte {
		data, ok := mem.Read(uint32(a[at]), uint32(a[at+1]))
		if !ok {
			r.t.Errorf("%s: a pointer outside of memory", name)
		}
		return slices.Clone(data)
	}
	var err error
	switch name {
	case "prober_v1.config_get":
		if string(bytes(0)) == "at" && r.at != "" {
			return fill(mem, a, 2, []byte(r.at))
		}
		return int64(abi.ENOENT.Code())
	case "prober_v1.deadline_ms":
		return 1<<63 - 1
	case "prober_v1.message":
		r.told = append(r.told, string(bytes(0)))
	case "prober_v1.result_write":
		r.got.Result, err = abi.DecodeStrictResult(bytes(0))
	case "prober_v1_net.dial":
		r.got.URLs = append(r.got.URLs, sorted(string(bytes(0))))
		return 1
	case "prober_v1_net.starttls":
		r.got.TLS, err = abi.Decode[abi.TLSOptions](bytes(1))
	case "prober_v1_http.do":
		r.got.HTTP, err = abi.Decode[abi.HTTPRequest](bytes(0))
		r.got.Body = bytes(2)
		return 1
	case "prober_v1_dns.lookup":
		r.got.DNS, err = abi.Decode[abi.DNSRequest](bytes(0))
		return 1
	case "prober_v1_icmp.echo":
		r.got.Echo, err = abi.Decode[abi.EchoRequest](bytes(0))
		return 1
	case "prober_v1_kv.set":
		r.kept = bytes(2)
	case "prober_v1_kv.get":
		return fill(mem, a, 2, r.kept)
	}
	if err != nil {
		r.t.Errorf("%s: %v", name, err)
	}
	return 0
}

// fill writes data to the buffer whose pointer is argument at, if it fits, and returns its length.
func fill(mem api.Memory, a []uint64, at int, data []byte) int64 {
	if len(data) <= int(uint32(a[at+1])) {
		mem.Write(uint32(a[at]), data)
	}
	return int64(len(data))
}

// sorted returns a URL with its query in order.
func sorted(text string) string {
	before, query, ok := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if !ok || err != nil {
		return text
	}
	return before + "?" + values.Encode()
}
