package plugincmd_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/cli/clitest"
	"github.com/daeace23/prober/internal/explain"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/registrytest"
	"github.com/daeace23/prober/plugin"
	"github.com/daeace23/prober/plugin/oci"
	"github.com/daeace23/prober/plugin/trust"
	"github.com/daeace23/prober/probe"
)

// gateManifest describes the modules of the tests below. vet has no finding about it.
const gateManifest = clitest.Manifest + "config: {schema: {type: object}}\n"

// sections are the bodies of the sections of a module, by their number.
type sections map[byte]string

// sectionOrder is the order that the specification requires. 13 has the tags of exceptions.
var sectionOrder = []byte{1, 2, 3, 4, 5, 13, 6, 7, 8, 9, 12, 10, 11, 0}

// goodSections are the sections of a module that hosts load. Type 0 is () -> i32, type 1 is () -> (), type 2
// is (i32) -> i32, and function 0 is probe.
func goodSections() sections {
	return sections{
		1:  "\x03\x60\x00\x01\x7f\x60\x00\x00\x60\x01\x7f\x01\x7f",
		3:  "\x01\x00",
		5:  "\x01\x00\x01",
		7:  "\x02\x06memory\x02\x00\x05probe\x00\x00",
		10: "\x01" + body("\x41\x00"),
		0:  "\x04name",
	}
}

// uleb returns n in LEB128.
func uleb(n int) string { return string(binary.AppendUvarint(nil, uint64(n))) }

// sized returns text with its length before it.
func sized(text string) string { return uleb(len(text)) + text }

// body returns a function without locals.
func body(code string) string { return sized("\x00" + code + "\x0b") }

// goodWith returns the good module with other sections; "" removes one.
func goodWith(other sections) string {
	all := goodSections()
	maps.Copy(all, other)
	var out strings.Builder
	out.WriteString("\x00asm\x01\x00\x00\x00")
	for _, id := range sectionOrder {
		if all[id] != "" {
			out.WriteString(string(rune(id)) + sized(all[id]))
		}
	}
	return out.String()
}

// probing returns the good module with other instructions in probe.
func probing(code string) string { return goodWith(sections{10: "\x01" + body(code)}) }

// second returns the good module with a second function, of a type, called name, and other sections.
func second(kind byte, name, code string, other sections) string {
	all := sections{
		3:  "\x02\x00" + string(rune(kind)),
		7:  "\x03\x06memory\x02\x00\x05probe\x00\x00" + sized(name) + "\x00\x01",
		10: "\x02" + body("\x41\x00") + body(code),
	}
	maps.Copy(all, other)
	return goodWith(all)
}

// importing returns the good module with one import: a module, a name and the encoded kind. A
// function is the first of the module, so probe is the second.
func importing(module, name, kind string) string {
	all := sections{2: "\x01" + sized(module) + sized(name) + kind}
	if kind[0] == 0 {
		all[7] = "\x02\x06memory\x02\x00\x05probe\x00\x01"
	}
	return goodWith(all)
}

// unloadableModules are modules that no host can load, one of each kind, and a part of the reason. The errors
// of the kinds in startErrors are found only by running the module.
func unloadableModules() map[string]struct{ module, want string } {
	good := goodWith(nil)
	type kind = struct{ module, want string }
	return map[string]kind{
		"tail call":                   {second(0, "f", "\x12\x00", nil), "it belongs to the proposal tail-call; build "},
		"tail call by table":          {probing("\x41\x00\x13\x00\x00"), "it belongs to the proposal tail-call; build "},
		"exception":                   {second(1, "f", "\x08\x00", sections{13: "\x01\x00\x01"}), "it belongs to the proposal exception-handling; build "},
		"exception tag":               {goodWith(sections{13: "\x01\x00\x01"}), "it belongs to the proposal exception-handling; build "},
		"exception try_table":         {probing("\x1f\x40\x00\x0b\x41\x00"), "it belongs to the proposal exception-handling; build "},
		"exception try":               {probing("\x06\x40\x19\x0b\x41\x00"), "it belongs to the proposal exception-handling; build "},
		"atomic load":                 {probing("\x41\x00\xfe\x10\x02\x00"), "it belongs to the proposal threads; build "},
		"shared memory":               {goodWith(sections{5: "\x01\x03\x01\x02"}), "it belongs to the proposal threads; build "},
		"memory64":                    {goodWith(sections{5: "\x01\x04\x01"}), "it belongs to the proposal memory64; build "},
		"memory of small pages":       {goodWith(sections{5: "\x01\x08\x01\x00"}), "it belongs to the proposal custom-page-sizes; build "},
		"two memories":                {goodWith(sections{5: "\x02\x00\x01\x00\x01"}), "it belongs to the proposal multi-memory; build "},
		"memory above the limit":      {goodWith(sections{5: "\x01\x00" + uleb(9999)}), "memory"},
		"memory above 4 GiB":          {goodWith(sections{5: "\x01\x00" + uleb(65537)}), "memory"},
		"memory maximum below":        {goodWith(sections{5: "\x01\x01\x02\x01"}), ""},
		"no memory":                   {goodWith(sections{5: "", 7: "\x01\x05probe\x00\x00"}), `exports no "memory"`},
		"memory is not exported":      {goodWith(sections{7: "\x01\x05probe\x00\x00"}), `exports no "memory"`},
		"memory is a function":        {goodWith(sections{7: "\x02\x06memory\x00\x00\x05probe\x00\x00"}), `exports no "memory"`},
		"memory of another number":    {goodWith(sections{7: "\x02\x06memory\x02\x01\x05probe\x00\x00"}), ""},
		"relaxed SIMD":                {probing("\x41\x00\xfd\x0f\x41\x00\xfd\x0f\xfd\x80\x02\x1a\x41\x00"), "it belongs to the proposal relaxed-simd; build "},
		"struct type":                 {goodWith(sections{1: "\x04\x60\x00\x01\x7f\x60\x00\x00\x60\x01\x7f\x01\x7f\x5f\x01\x7f\x00"}), "it belongs to the proposal gc; build "},
		"recursive types":             {goodWith(sections{1: "\x01\x4e\x01\x60\x00\x01\x7f"}), "it belongs to the proposal gc; build "},
		"typed reference":             {goodWith(sections{10: "\x01" + sized("\x01\x01\x64\x00\x41\x00\x0b")}), "it belongs to the proposal function-references; build "},
		"call by reference":           {probing("\xd0\x00\x14\x00"), "it belongs to the proposal function-references; build "},
		"struct.new":                  {probing("\xfb\x00\x00\x1a\x41\x00"), "it belongs to the proposal gc; build "},
		"extended constant":           {goodWith(sections{6: "\x01\x7f\x00\x41\x01\x41\x02\x6a\x0b"}), "it belongs to the proposal extended-const; build "},
		"component":                   {"\x00asm\x0d\x00\x01\x00", "a component "},
		"version 2":                   {"\x00asm\x02\x00\x00\x00" + good[8:], "not a WebAssembly module of version 1"},
		"empty":                       {"", "not a WebAssembly module of version 1"},
		"no module":                   {"#!/bin/sh\n", "not a WebAssembly module of version 1"},
		"header alone":                {good[:8], `exports no function "probe"`},
		"global import":               {importing("env", "x", "\x03\x7f\x00"), "this is a global: link "},
		"table import":                {importing("env", "t", "\x01\x70\x00\x01"), "this is a table: link "},
		"memory import":               {importing("env", "m", "\x02\x00\x01"), "this is a memory: link "},
		"tag import":                  {importing("env", "e", "\x04\x00\x01"), "this is a tag: build "},
		"global import of prober":     {importing("prober_v1", "log", "\x03\x7f\x00"), "only functions can be imported"},
		"unknown module":              {importing("env", "abort", "\x00\x01"), `unknown import module "env"`},
		"import of WASI 0.2":          {importing("wasi:cli/stdout@0.2.0", "get-stdout", "\x00\x01"), "prober does not have WASI 0.2: build for WASI preview 1"},
		"unknown WASI version":        {importing("wasi_unstable", "fd_write", "\x00\x01"), `unknown import module "wasi_unstable"`},
		"unknown function":            {importing("prober_v1", "frobs", "\x00\x01"), "unknown import prober_v1.frobs"},
		"unknown function of WASI":    {importing("wasi_snapshot_preview1", "frobs", "\x00\x01"), "frobs"},
		"signature of prober":         {importing("prober_v1", "message", "\x00\x01"), "import prober_v1.message has another signature"},
		"signature of WASI":           {importing("wasi_snapshot_preview1", "fd_write", "\x00\x01"), "fd_write"},
		"type that is not there":      {importing("prober_v1", "message", "\x00\x09"), ""},
		"capability not requested":    {importing("prober_v1_kv", "delete", "\x00\x00"), `does not ask for the capability "kv"`},
		"no probe":                    {goodWith(sections{7: "\x01\x06memory\x02\x00"}), `exports no function "probe"`},
		"probe is a memory":           {goodWith(sections{7: "\x02\x06memory\x02\x00\x05probe\x02\x00"}), `exports no function "probe"`},
		"probe with a parameter":      {goodWith(sections{3: "\x01\x02"}), `the export "probe" has another signature`},
		"probe without a result":      {goodWith(sections{3: "\x01\x01", 10: "\x01" + body("")}), `the export "probe" has another signature`},
		"_initialize with a result":   {second(0, "_initialize", "\x41\x00", nil), `the export "_initialize" has another signature`},
		"_initialize with parameters": {second(2, "_initialize", "\x41\x00", nil), `the export "_initialize" has another signature`},
		"validate_config of nothing":  {second(1, "validate_config", "", nil), `the export "validate_config" has another signature`},
		"_start with a result":        {strings.Replace(second(0, "_start", "\x41\x00", nil), "probe", "prope", 1), `the export "_start" has another signature`},
		"export twice":                {goodWith(sections{7: "\x03\x06memory\x02\x00\x05probe\x00\x00\x05probe\x00\x00"}), ""},
		"export of no function":       {goodWith(sections{7: "\x02\x06memory\x02\x00\x05probe\x00\x07"}), ""},
		"export of no known kind":     {goodWith(sections{7: "\x02\x06memory\x02\x00\x05probe\x09\x00"}), ""},
		"table above the limit":       {goodWith(sections{4: "\x01\x70\x00" + uleb(20_000_000)}), "tables of 20000000 entries"},
		"table of references":         {goodWith(sections{4: "\x01\x64\x00\x00\x01"}), "it belongs to the proposal function-references; build "},
		"start that is not there":     {goodWith(sections{8: "\x09"}), ""},
		"start with a parameter":      {second(2, "f", "\x41\x00", sections{8: "\x01"}), "the start function takes or returns something"},
		"two starts":                  {second(1, "f", "", sections{8: "\x01"}) + "\x08\x01\x01", ""},
		"start traps":                 {second(1, "f", "\x00", sections{8: "\x01"}), "unreachable"},
		"_initialize traps":           {second(1, "_initialize", "\x00", nil), "_initialize: "},
		"_initialize divides by zero": {second(1, "_initialize", "\x41\x01\x41\x00\x6d\x1a", nil), "_initialize: "},
		"_initialize calls itself":    {second(1, "_initialize", "\x10\x01", nil), "_initialize: "},
		"data beyond the memory":      {goodWith(sections{11: "\x01\x00\x41\xff\xff\x07\x0b\x01x"}), ""},
		"element of no function":      {goodWith(sections{4: "\x01\x70\x00\x01", 9: "\x01\x00\x41\x00\x0b\x01\x09"}), ""},
		"data without the count":      {probing("\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00\x41\x00"), ""},
		"wrong data count":            {goodWith(sections{12: "\x05"}), ""},
		"result of another type":      {probing("\x42\x00"), ""},
		"no result":                   {probing(""), ""},
		"stack underflow":             {probing("\x6a"), ""},
		"local that is not there":     {probing("\x20\x05"), ""},
		"global that is not there":    {probing("\x23\x05"), ""},
		"call of no function":         {probing("\x10\x05"), ""},
		"branch to no block":          {probing("\x0c\x05\x41\x00"), ""},
		"instruction that is none":    {probing("\x27"), "instruction 0x27 is not supported"},
		"too many locals":             {goodWith(sections{10: "\x01" + sized("\x01"+uleb(60_000)+"\x7f\x41\x00\x0b")}), ""},
		"more functions than code":    {goodWith(sections{3: "\x02\x00\x00"}), ""},
		"more code than functions":    {goodWith(sections{10: "\x02" + body("\x41\x00") + body("\x41\x00")}), ""},
		"function without end":        {goodWith(sections{10: "\x01" + sized("\x00\x41\x00")}), ""},
		"truncated code":              {strings.TrimSuffix(good, "\x00\x05\x04name")[:len(good)-9], "truncated"},
		"truncated section":           {good + "\x0b", "truncated"},
		"truncated name of section":   {good + "\x00\x02\x05x", "truncated"},
		"custom section of no length": {good + "\x00\x00", "truncated"},
		"unknown section":             {good + "\x0e\x01\x00", ""},
		"section twice":               {good + "\x05\x03\x01\x00\x01", ""},
		"above 32 MiB":                {good + "\x00" + sized("\x01x"+strings.Repeat("x", plugin.MaxModule)), ""},
	}
}

// startErrors are the kinds that only running a module shows.
var startErrors = []string{"start traps", "_initialize traps", "_initialize divides by zero", "_initialize calls itself"}

// hostVerdict returns the error of a host for the plugin in dir, if all requests are granted.
func hostVerdict(t *testing.T, host *wasm.Host, dir string) error {
	t.Helper()
	found, err := plugin.Read(dir)
	if err != nil {
		return err
	}
	if found.Grants, err = plugin.ParseGrants(plugin.WidestGrants()); err != nil {
		t.Fatal(err)
	}
	static := host.Check(t.Context(), found)
	loaded, err := host.Load(t.Context(), found)
	if err == nil {
		err = loaded.Close()
	}
	if static != nil && (err == nil || err.Error() != static.Error()) {
		t.Errorf("Load: %v, and Check: %v", err, static)
	}
	return err
}

// problems returns the messages of a finding of vet about the error of a host.
func problems(err error) (texts []string) {
	if e, ok := errors.AsType[*probe.Error](err); ok {
		err = e.Err
	}
	for _, e := range joined.Errors(err) {
		texts = append(texts, explain.OneLine(e.Error()))
	}
	return texts
}

// newHost returns a host like the gate's.
func newHost(t testing.TB) *wasm.Host {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	host, err := wasm.New(wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	return host
}

// writeGated writes the project of a plugin with a module, and a compiler that makes the module.
func writeGated(t *testing.T, module string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	clitest.WriteTree(t, dir, map[string]string{
		"plugin.yaml": gateManifest, "demo_test.yaml": clitest.Cases, "demo.wat": "", "demo.wasm": module, "module": module, "cp": "#!/bin/sh\ncp module \"$4\"\n",
	})
	t.Setenv("WAT2WASM", filepath.Join(dir, "cp"))
	return dir
}

// gatedKey writes a key that signs.
func gatedKey(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ops.key")
	key, err := trust.Generate()
	if err == nil {
		err = key.Write(file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// A module that no host can load is not built, embedded, signed, pushed or saved. vet and inspect print the
// host's error.
func TestGateRefusesWhatNoHostLoads(t *testing.T) {
	host, key, registry := newHost(t), gatedKey(t), registrytest.New(t)
	for name, kind := range unloadableModules() {
		t.Run(name, func(t *testing.T) {
			dir := writeGated(t, kind.module)
			err := hostVerdict(t, host, dir)
			if err == nil || !strings.Contains(err.Error(), kind.want) {
				t.Fatalf("the host returns %v, want %s", err, kind.want)
			}
			code, stdout, stderr := clitest.Run(nil, "plugin", "vet", dir)
			for _, p := range problems(err) {
				if code != 1 || !strings.Contains(stdout, dir+"/demo.wasm: "+p+"\n") {
					t.Errorf("vet: exit code %d\n%s%s\nwant\n%s", code, stdout, stderr, p)
				}
			}
			module, text, out := filepath.Join(dir, "demo.wasm"), filepath.Join(dir, "plugin.yaml"), filepath.Join(dir, "out.wasm")
			for _, args := range [][]string{
				{"build", dir}, {"embed", module, text, "-o", out}, {"embed", module, text, "-o", "-"}, {"sign", module, "--key", key},
				{"push", module, registry.Host + "/demo:1", "--plain-http"}, {"save", module, "-o", filepath.Join(dir, "layout")},
			} {
				registry.Intercept(nil)
				code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...)
				if code == 0 || stdout != "" || !strings.Contains(stderr, kind.want) || len(registry.Requests()) > 0 {
					t.Errorf("%s: exit code %d, %d bytes\n%s", args[0], code, len(stdout), stderr)
				}
			}
			checkFile(t, module, []byte(kind.module))
			for _, file := range []string{out, module + ".sig", filepath.Join(dir, "layout")} {
				if _, err := os.Stat(file); err == nil {
					t.Errorf("there is %s", file)
				}
			}
			code, stdout, stderr = clitest.Run(nil, "plugin", "inspect", module)
			known := !slices.Contains(startErrors, name)
			if tells := strings.Contains(stdout, "Cannot be loaded: "); tells != known && len(kind.module) < plugin.MaxModule {
				t.Errorf("inspect: exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

func TestGateAcceptsWhatHostsLoad(t *testing.T) {
	host, key := newHost(t), gatedKey(t)
	for name, module := range map[string]string{
		"good": goodWith(nil), "start": second(1, "f", "", sections{8: "\x01"}), "WASI": importing("wasi_snapshot_preview1", "sched_yield", "\x00\x00"),
		"import": importing("prober_v1", "log_enabled", "\x00\x02"), "SIMD": probing("\x41\x00\xfd\x0f\x1a\x41\x00"), "null reference": probing("\xd0\x70\x1a\x41\x00"),
	} {
		t.Run(name, func(t *testing.T) {
			dir := writeGated(t, module)
			if err := hostVerdict(t, host, dir); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"vet", dir}, {"build", dir}, {"embed", dir + "/demo.wasm", dir + "/plugin.yaml", "-o", dir + "/out.wasm"}, {"save", dir, "-o", dir + "/layout"},
				{"sign", dir, "--key", key, "--skip-check"}, {"inspect", dir},
			} {
				code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...)
				if code != 0 || strings.Contains(stdout, "Cannot be loaded: ") {
					t.Errorf("%s: exit code %d\n%s%s", args[0], code, stdout, stderr)
				}
			}
		})
	}
}

// An artifact that was pushed or signed before prober refused it can be pulled, loaded, locked and
// verified, with a warning.
func TestUnloadableArtifactIsPulledWithWarning(t *testing.T) {
	newHost(t)
	key, registry := gatedKey(t), registrytest.New(t)
	module := clitest.Embed(t, second(0, "f", "\x12\x00", nil), gateManifest)
	artifact, err := oci.Pack([]byte(module), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := oci.SaveDir("layout", "1.0.0", artifact); err != nil {
		t.Fatal(err)
	}
	registry.Push(t, "demo:1", artifact)
	ref := registry.Host + "/demo:1"
	if err := os.Mkdir("plugins", 0o700); err != nil {
		t.Fatal(err)
	}
	warning := func(path string) string {
		return "prober: warning: no prober loads " + path + `: plugin "demo": section 10: function 1: instruction 0x12 is not supported: it belongs to the proposal tail-call; build with clang -mno-tail-call`
	}
	for _, c := range []struct{ args, file, named string }{
		{"pull " + ref + " --plain-http -o plugins", "plugins/demo.wasm", "plugins/demo.wasm"},
		{"load layout -o loaded.wasm", "loaded.wasm", "loaded.wasm"},
		{"save " + ref + " --plain-http -o other", "other/index.json", ref},
		{"lock --plugins plugins", "prober.plugins.lock", "plugins/demo.wasm"},
	} {
		code, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, strings.Fields(c.args)...)...)
		if _, err := os.Stat(c.file); code != 0 || err != nil || !strings.Contains(stderr, warning(c.named)) {
			t.Errorf("%s: exit code %d, %v\n%s%s\nwant\n%s", c.args, code, err, stdout, stderr, warning(c.named))
		}
	}
	checkFile(t, "loaded.wasm", []byte(module))
	private, err := trust.ReadPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	found, err := trust.Read("loaded.wasm")
	if err != nil {
		t.Fatal(err)
	}
	signature, err := private.Sign(found, nil)
	if err != nil {
		t.Fatal(err)
	}
	clitest.WriteTree(t, ".", map[string]string{"loaded.wasm.sig": string(signature), "ops.pub": string(private.PEM())})
	if code, stdout, stderr := clitest.Run(nil, "plugin", "verify", "loaded.wasm", "--key", "ops.pub"); code != 0 {
		t.Errorf("verify: exit code %d\n%s%s", code, stdout, stderr)
	}
}

// A module and a path may contain escape sequences, which must not reach the terminal.
func TestMessagesAboutModulesAreSafeForTerminals(t *testing.T) {
	t.Chdir(t.TempDir())
	clitest.WriteTree(t, "demo", map[string]string{
		"plugin.yaml": gateManifest, "demo_test.yaml": clitest.Cases, "demo.wasm": importing("prober_v1\x1b[31m", "log", "\x03\x7f\x00"),
	})
	for _, args := range [][]string{{"vet", "demo"}, {"check", "demo"}, {"inspect", "demo"}, {"embed", "demo/demo.wasm", "demo/plugin.yaml"}, {"vet", "\x1b[31m"}, {"inspect", "./\x1b[31m.wasm"}} {
		_, stdout, stderr := clitest.Run(nil, append([]string{"plugin"}, args...)...)
		if text := stdout + stderr; !strings.Contains(text, "[31m") || strings.Contains(text, "\x1b") {
			t.Errorf("%q: %q", args, text)
		}
	}
}

// FuzzVetAgreesWithHost changes a good module. vet accepts the result if and only if a host does.
func FuzzVetAgreesWithHost(f *testing.F) {
	for _, kind := range unloadableModules() {
		if len(kind.module) < 1<<10 {
			f.Add([]byte(kind.module))
		}
	}
	f.Add([]byte(goodWith(nil)))
	host := newHost(f)
	f.Fuzz(func(t *testing.T, module []byte) {
		dir := t.TempDir()
		clitest.WriteTree(t, dir, map[string]string{"plugin.yaml": gateManifest, "demo_test.yaml": clitest.Cases, "demo.wasm": string(module)})
		err := hostVerdict(t, host, dir)
		_, stdout, stderr := clitest.Run(nil, "plugin", "vet", dir)
		for _, p := range problems(err) {
			if !strings.Contains(stdout, p) {
				t.Errorf("vet\n%s%s\nwant\n%s", stdout, stderr, p)
			}
		}
		for finding := range strings.Lines(stdout) {
			advice := func(text string) bool { return strings.Contains(finding, text) }
			if err == nil && !slices.ContainsFunc([]string{"are stripped", "runs as a program", "the manifest does not request", "the manifest inside differs"}, advice) {
				t.Errorf("vet: %s", finding)
			}
		}
	})
}
