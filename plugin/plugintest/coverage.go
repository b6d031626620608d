package plugintest

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/daeace23/prober/handlers/wasm"
)

// Function is a function of a guest, and the number of its calls in all cases.
type Function struct {
	Name  string `json:"name"`
	Calls uint64 `json:"calls"`
}

// functionsOf returns the functions of the plugin's author, by name. Those of the SDK, of libraries and of
// the language's runtime are left out, as far as their names tell.
func functionsOf(c *wasm.Coverage) (own []Function) {
	all := c.Functions()
	for i := range all {
		all[i].Name = hash().ReplaceAllString(demangled(all[i].Name), "")
	}
	isOwn := ownNames(all)
	for _, f := range all {
		if !strings.HasPrefix(f.Name, "function[") && isOwn(f.Name) { // those without a name are added by compilers and prober
			own = append(own, Function(f))
		}
	}
	slices.SortFunc(own, func(a, b Function) int { return cmp.Compare(a.Name, b.Name) })
	return own
}

// hash matches the hash at the end of the name of a function in Rust.
var hash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`::h[0-9a-f]{16}$`) })

// demangled returns the name of a function in Rust that has the form "_ZN4demo5judge17h0123456789abcdefE", and any
// other name as it is.
func demangled(name string) string {
	rest, ok := strings.CutPrefix(name, "_ZN")
	var path []string
	for ok && rest != "E" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		rest = rest[digits:]
		if err != nil || n > len(rest) {
			return name
		}
		path, rest = append(path, rest[:n]), rest[n:]
	}
	if len(path) == 0 {
		return name
	}
	text := strings.Join(path, "::")
	return strings.NewReplacer("_$LT$", "<", "$LT$", "<", "$GT$", ">", "$RF$", "&", "$u20$", " ", "$u7b$", "{", "$u7d$", "}", "$C$", ",", "..", "::").Replace(text)
}

// ownNames returns a function that reports whether a name is one of the author's. The names of a module tell
// its language.
func ownNames(all []wasm.FunctionCalls) func(name string) bool {
	has := func(prefix string) bool {
		return slices.ContainsFunc(all, func(f wasm.FunctionCalls) bool { return strings.HasPrefix(f.Name, prefix) })
	}
	switch {
	case has("runtime.main"): // Go
		return func(name string) bool { return strings.HasPrefix(name, "main.") }
	case has("~lib/"): // AssemblyScript
		return func(name string) bool { return !strings.HasPrefix(name, "~") && !strings.Contains(name, "prober-sdk/") }
	case has("core::"), has("__rust_"): // Rust
		return ownInRust
	default:
		return ownInC
	}
}

// ownInRust reports whether the path of a function, or the type or trait of a method, is in a crate that is
// neither the SDK nor comes with Rust.
func ownInRust(name string) bool {
	for _, m := range crates().FindAllStringSubmatch(name, -1) {
		if !slices.Contains(foreignCrates, m[1]) {
			return true
		}
	}
	return false
}

// crates matches the first segment of each path in the name of a function in Rust.
var crates = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[^:\w])(\w+)::`) })

var foreignCrates = []string{
	"prober", "core", "std", "alloc", "compiler_builtins", "wasi", "dlmalloc", "hashbrown", "rustc_demangle", "memchr", "gimli", "addr2line",
	"object", "miniz_oxide", "panic_abort", "panic_unwind",
}

// ownInC reports whether a function is neither of prober.h nor one that a compiler calls. Functions of a libc
// cannot be told.
func ownInC(name string) bool {
	return !strings.HasPrefix(name, "prober_") && !strings.HasPrefix(name, "_") && !slices.Contains([]string{"memcpy", "memmove", "memset", "memcmp", "strlen"}, name)
}

// coverage returns the numbers of functions that were called, and of all.
func (r *Report) coverage() (called, all int) {
	for _, f := range r.Functions {
		if f.Calls > 0 {
			called++
		}
	}
	return called, len(r.Functions)
}

// writeCoverage writes the coverage of a report, if there is one.
func (r *Report) writeCoverage(out io.Writer) error {
	called, all := r.coverage()
	if all == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	for _, f := range r.Functions {
		fmt.Fprintf(w, "%d\t  %s\n", f.Calls, strings.Map(printable, f.Name))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "coverage: the cases call %d of %d functions (%d%%)\n", called, all, 100*called/all)
	return err
}
