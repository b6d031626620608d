package plugintest

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/internal/rustname"
)

// Function is a function of a guest, and the number of its calls in all cases.
type Function struct {
	Name  string `json:"name"`
	Calls uint64 `json:"calls"`
}

// functionsOf returns the functions of the plugin's author, by name. Those of the SDK, of libraries and of
// the language's runtime are left out, as far as their names tell.
func functionsOf(c *wasm.Coverage) (own []Function) {
	all := readableFunctions(c)
	isOwn := languageOf(all).own
	for _, f := range all {
		if !strings.HasPrefix(f.Name, "function[") && !strings.HasPrefix(f.Name, "memory.") && isOwn(f.Name) { // those without a name are added by compilers
			own = append(own, Function{f.Name, f.Calls})
		}
	}
	slices.SortFunc(own, func(a, b Function) int { return cmp.Compare(a.Name, b.Name) })
	return own
}

// readableFunctions returns all functions with readable names.
func readableFunctions(c *wasm.Coverage) []wasm.FunctionCalls {
	all := c.Functions()
	for i := range all {
		all[i].Name = readable(all[i].Name)
	}
	return all
}

// readable returns the name of a function as its author wrote it.
func readable(name string) string {
	if path, ok := rustname.Demangle(name); ok {
		name = path
	}
	return hash().ReplaceAllString(demangled(name), "")
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

// language is what coverage knows about a language.
type language struct {
	own   func(name string) bool // reports whether the name of a function is one of the author's
	lines string                 // how to see lines, if a module has none
}

// languageOf returns the language of a module, which the names of its functions tell.
func languageOf(all []wasm.FunctionCalls) language {
	has := func(prefix string) bool {
		return slices.ContainsFunc(all, func(f wasm.FunctionCalls) bool { return strings.HasPrefix(f.Name, prefix) })
	}
	switch {
	case has("runtime.main"): // Go
		return language{
			func(name string) bool { return strings.HasPrefix(name, "main.") },
			"Go writes no line table into modules: run `go test -coverprofile=cover.out` natively",
		}
	case has("~lib/"): // AssemblyScript
		return language{
			func(name string) bool { return !strings.HasPrefix(name, "~") && !strings.Contains(name, "prober-sdk/") },
			"AssemblyScript writes no line table, not even with asc --debug",
		}
	case has("core::"), has("__rust_"): // Rust
		return language{ownInRust, noTable + "rustc -C debuginfo=1, or debug = 1 in place of strip under [profile.release] in Cargo.toml"}
	default:
		return language{ownInC, noTable + "clang -g"}
	}
}

const noTable = "the module has no line table (DWARF), which compilers write with an option, such as "

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

// count makes the runs of the guest count what the config says. The returned function adds the result to the
// report. path is the path of the module.
func (g *guestRun) count(path string) func(*Report) {
	source := &lines{}
	if g.cfg.Cover {
		if source = linesOf(g.module); len(source.table.Rows) > 0 {
			g.coverage.CountBlocks = source.has
		}
	}
	return func(r *Report) {
		if g.cfg.Cover {
			r.Functions = functionsOf(g.coverage)
			r.addLines(source, g.coverage, []string{filepath.Dir(path), filepath.Dir(g.file.Path)})
		}
		if g.cfg.Profile {
			r.Profile = profileOf(g.coverage)
		}
	}
}

// addLines adds the lines that ran, or why they are not known. dirs are folders of the plugin.
func (r *Report) addLines(l *lines, c *wasm.Coverage, dirs []string) {
	for i, dir := range dirs {
		if abs, err := filepath.Abs(dir); err == nil {
			dirs[i] = abs
		}
	}
	switch reason := c.Uncounted(); {
	case l.err != nil:
		r.NoLines = l.err.Error()
	case len(l.table.Rows) == 0 && len(l.table.Files) > 0:
		r.NoLines = "the module's line table has no file of the plugin"
	case len(l.table.Rows) == 0:
		r.NoLines = languageOf(readableFunctions(c)).lines
	case reason != "":
		r.NoLines = "the module does not count them: " + reason
	default:
		if r.Sources = l.sources(c.Blocks(), dirs); len(r.Sources) == 0 {
			r.NoLines = "the module's line table does not fit its code: build it again"
		}
	}
}
