package binary

import "strings"

// foreign has imports, as MODULE.FUNCTION, that other hosts and tools are known for, and what to do about them. The
// first match counts; a * at the end matches anything.
var foreign = []struct {
	imports []string
	advice  string
}{
	{[]string{"wasi:*"}, "prober does not have WASI 0.2: build for WASI preview 1, such as wasm32-wasip1"},
	{[]string{"wasi_unstable.*"}, "It is older than WASI preview 1: build with a newer toolchain"},
	{[]string{"gojs.*", "go.*"}, "Go's GOOS=js needs JavaScript: build with GOOS=wasip1"},
	{[]string{"wbg.*", "__wbindgen_*", "./*"}, "wasm-bindgen needs JavaScript: build for wasm32-wasip1 without it"},
	{
		[]string{"a.*", "env.emscripten_*", "env._emscripten_*", "env._embind_*", "env._emval_*", "env.__syscall_*", "env.__cxa_*", "env.__assert_fail", "env.invoke_*"},
		"Emscripten needs JavaScript: build with emcc -sSTANDALONE_WASM, or with clang --target=wasm32-wasi",
	},
	{
		[]string{"env.abort", "env.trace", "env.seed", "env.Date.now", "env.console.*"},
		"AssemblyScript needs the SDK of prober, and the option --use abort=~lib/prober/index/abort",
	},
	{[]string{"env.*"}, "Linkers import from env what is declared and not defined: define it, or import functions of prober"},
}

// adviceFor returns what to do about an import that prober does not have; "" if nothing is known.
func adviceFor(module, function string) string {
	whole := module + "." + function
	for _, f := range foreign {
		for _, pattern := range f.imports {
			prefix, anything := strings.CutSuffix(pattern, "*")
			if whole == pattern || anything && strings.HasPrefix(whole, prefix) {
				return f.advice
			}
		}
	}
	if strings.Contains(module, ":") { // extism:host/env, or an interface of a component
		return "It is an interface of another host: import functions of prober"
	}
	return ""
}
