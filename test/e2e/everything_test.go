//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/daeace23/prober/internal/abi"
)

const everythingManifest = `apiVersion: prober.dev/v1
kind: Plugin
name: NAME
version: 0.1.0
requests:
- {capability: net, allow: [target], reason: to ask}
- {capability: http, allow: [target], reason: to ask}
- {capability: dns, allow: [target, dns], reason: to ask}
- {capability: kv, allow: [kv], reason: to remember}
- {capability: icmp, reason: to ask}
- {capability: files, reason: to read, optional: true}
`

// everything has the guests that use every function of an SDK, and the commands that build them. $SDK is the
// folder of the SDK, $SOURCE and $OUT are files.
var everything = []struct{ language, ext, build string }{
	{"C", ".c", `clang --target=wasm32 -nostdlib -Xclang -O2 -Wall -Wextra -Werror -Wl,--no-entry -I$SDK/c -o $OUT $SOURCE`},
	{"Rust", ".rs", `rustc="/usr/bin/rustc --edition 2021 --target wasm32-wasi -O -D warnings"
		$rustc --crate-type rlib --crate-name prober -o libprober.rlib $SDK/rust/src/lib.rs &&
		$rustc --crate-type cdylib --extern prober=libprober.rlib -C strip=debuginfo -o $OUT $SOURCE`},
	{"AssemblyScript", ".ts", `mkdir node_modules && cp -r $SDK/assemblyscript node_modules/prober && cp $SOURCE . &&
		asc $(basename $SOURCE) -O --runtime stub --use abort=~lib/prober/index/abort -o $OUT`},
}

// guest builds testdata/NAME.EXT, and returns a plugin folder with it.
func guest(t *testing.T, name, ext, build string) string {
	t.Helper()
	plugins := t.TempDir()
	dir := filepath.Join(plugins, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "plugin.yaml", strings.Replace(everythingManifest, "NAME", name, 1))
	paths := strings.NewReplacer("$SDK", absolute(t, "../../sdk"), "$SOURCE", absolute(t, "testdata/"+name+ext),
		"$OUT", filepath.Join(dir, name+".wasm"))
	shell(t, t.TempDir(), paths.Replace(build))
	return plugins
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// imports returns the functions that modules import from prober, with their signatures.
func imports(t *testing.T, modules ...string) (found []string) {
	t.Helper()
	r := wazero.NewRuntimeWithConfig(t.Context(), wazero.NewRuntimeConfigInterpreter())
	defer r.Close(t.Context())
	for _, file := range modules {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.CompileModule(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.ImportedFunctions() {
			if module, name, _ := f.Import(); strings.HasPrefix(module, abi.ModuleCore) {
				found = append(found, signature(module, name, typeNames(f.ParamTypes()), typeNames(f.ResultTypes())))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func typeNames(types []api.ValueType) (names []abi.Type) {
	for _, t := range types {
		names = append(names, abi.Type(api.ValueTypeName(t)))
	}
	return names
}

func signature(module, name string, params, results []abi.Type) string {
	return fmt.Sprintf("%s.%s%v%v", module, name, params, results)
}

// TestSDKsImportWholeABI builds guests that use all of an SDK. Together they import the whole ABI.
func TestSDKsImportWholeABI(t *testing.T) {
	t.Parallel()
	var want []string
	for _, f := range abi.Imports() {
		want = append(want, signature(f.Module, f.Name, f.Params, f.Results))
	}
	slices.Sort(want)
	for _, c := range everything {
		t.Run(c.language, func(t *testing.T) {
			all, dns := guest(t, "everything", c.ext, c.build), guest(t, "dns", c.ext, c.build)
			ping, files := guest(t, "icmp", c.ext, c.build), guest(t, "files", c.ext, c.build)
			got := imports(t, filepath.Join(all, "everything/everything.wasm"), filepath.Join(dns, "dns/dns.wasm"), filepath.Join(ping, "icmp/icmp.wasm"), filepath.Join(files, "files/files.wasm"))
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			testEverything(t, all)
			testLookUps(t, dns)
			testEchoes(t, ping)
			testFiles(t, files)
		})
	}
}

func testEverything(t *testing.T, plugins string) {
	mail := saying(t, "220 hello\r\n")
	_, port, _ := strings.Cut(mail, ":")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "indeed")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("X-Asked"), body)
	}))
	defer web.Close()
	webAddress := strings.TrimPrefix(web.URL, "http://")
	for _, c := range []struct{ do, target, config, result, text string }{
		{"request", mail, `"text":"a \"quoted\" é"`, "warning", `kind readiness, port ` + port + `, text a "quoted" é`},
		{"config", mail, `"text":"ü","number":12.25,"list":[1,-7],"texts":["a"],"truth":true,"time":"1m1.5s"`, "unknown",
			"text ü, number 12.25, whole -7, truth true, millis 61500"},
		{"config", mail, ``, "unknown", "text none, number 0.00, whole 0, truth false, millis 0"},
		{"net", mail, ``, "success", "tcp says 220 ; starttls fails"},
		{"net", freeAddress(t), ``, "failure", "refused"},
		{"http", webAddress, `"url":"http:///path"`, "success", "418 indeed POST yes ping"},
		{"kv", mail, ``, "success", "value, gone"},
		{"json", mail, ``, "success", "in full"},
		{"nothing", mail, ``, "unknown", "nothing to do after "},
	} {
		t.Run(c.do, func(t *testing.T) {
			config := fmt.Sprintf(`{"do":%q,%s}`, c.do, c.config)
			config = strings.Replace(config, ",}", "}", 1)
			v, code := probePluginIn(t, plugins, "everything", c.target, config, "--grant", "kv", "--grant", "dns")
			want(t, v, code, c.result, c.text)
		})
	}
	t.Run("config refused by validate_config", func(t *testing.T) {
		out, err := exec.Command(filepath.Join(bin, "prober"), "probe", "plugin", "everything", "--plugins", plugins,
			"--target", mail, "--config", `{"do":"evil"}`, "--grant", "kv", "--grant", "dns").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "do no evil") {
			t.Errorf("got %v, %q; want an error with %q in it", err, out, "do no evil")
		}
	})
}

// testEchoes runs a guest that sends an echo request to its target.
func testEchoes(t *testing.T, plugins string) {
	v, code := probePluginIn(t, plugins, "icmp", "127.0.0.1", `{}`, "--grant", "kv", "--grant", "dns")
	if code != 0 && strings.Contains(fmt.Sprint(v), "ping_group_range") {
		t.Skipf("this user may not send echo requests: %v", v)
	}
	want(t, v, code, "success", "127.0.0.1 replied with 1400 bytes")
	v, code = probePluginIn(t, plugins, "icmp", "127.0.0.1", `{}`, "--grant", "kv", "--grant", "dns", "--grant", "!icmp://127.0.0.1")
	want(t, v, code, "failure", "denied")
}

// testFiles runs a guest that reads a file of the host.
func testFiles(t *testing.T, plugins string) {
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, folder, "a", "0123456789")
	config := fmt.Sprintf(`{"path":%q,"folder":%q}`, filepath.Join(folder, "a"), folder)
	v, code := probePluginIn(t, plugins, "files", "127.0.0.1", config, "--grant", "kv", "--grant", "dns", "--grant", "file://"+folder+"/**")
	want(t, v, code, "success", "10 bytes, a, 23456789, a disk")
	v, code = probePluginIn(t, plugins, "files", "127.0.0.1", config, "--grant", "kv", "--grant", "dns", "--grant", "file://"+folder)
	want(t, v, code, "failure", "is not granted")
}

// testLookUps runs a guest that queries its target for a name.
func testLookUps(t *testing.T, plugins string) {
	for _, c := range []struct {
		target, result, text string
	}{
		{nameserver(t, dnsmessage.RCodeSuccess), "success", "NOERROR 10.0.0.9"},
		{nameserver(t, dnsmessage.RCodeNameError), "success", "NXDOMAIN"},
		{freeAddress(t), "failure", "refused"},
	} {
		v, code := probePluginIn(t, plugins, "dns", c.target, `{}`, "--grant", "dns", "--grant", "kv")
		want(t, v, code, c.result, c.text)
	}
	v, code := probePluginIn(t, plugins, "dns", freeAddress(t), `{}`, "--grant", "dns://*.example", "--grant", "kv")
	want(t, v, code, "failure", "denied")
}

// nameserver answers queries over UDP with an address or an error.
func nameserver(t *testing.T, code dnsmessage.RCode) string {
	t.Helper()
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { p.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := p.ReadFrom(buf)
			if err != nil {
				return
			}
			var query dnsmessage.Message
			if query.Unpack(buf[:n]) != nil {
				continue
			}
			m := dnsmessage.Message{Header: dnsmessage.Header{ID: query.ID, Response: true, RCode: code}, Questions: query.Questions}
			if code == dnsmessage.RCodeSuccess {
				h := dnsmessage.ResourceHeader{Name: query.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 60}
				m.Answers = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 9}}}}
			}
			if msg, err := m.Pack(); err == nil {
				_, _ = p.WriteTo(msg, from)
			}
		}
	}()
	return p.LocalAddr().String()
}
