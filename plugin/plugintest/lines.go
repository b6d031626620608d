package plugintest

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/daeace23/prober/handlers/wasm"
	"github.com/daeace23/prober/plugin/plugintest/internal/linetable"
)

// Source is a source file of the plugin's author.
type Source struct {
	File  string // relative to the working folder if it is inside, or as the compiler named it if it is not there
	Lines []Line // with code, ascending
}

// Line is a line with code, and how often its code ran in all cases. Of code that runs in several places, such as
// a function that was put into its callers, the place counts that ran most often.
type Line struct {
	Number int
	Runs   uint64
}

// reached returns the number of lines that ran.
func (s *Source) reached() (n int) {
	for _, l := range s.Lines {
		if l.Runs > 0 {
			n++
		}
	}
	return n
}

// unreached returns the ranges of lines that did not run, such as "12-15". Lines without code between them belong
// to the range.
func (s *Source) unreached() (ranges []string) {
	for i := 0; i < len(s.Lines); i++ {
		if s.Lines[i].Runs > 0 {
			continue
		}
		first := s.Lines[i].Number
		for i+1 < len(s.Lines) && s.Lines[i+1].Runs == 0 {
			i++
		}
		text := fmt.Sprint(first)
		if last := s.Lines[i].Number; last > first {
			text = fmt.Sprintf("%d-%d", first, last)
		}
		ranges = append(ranges, text)
	}
	return ranges
}

// lines are the lines of a module's code.
type lines struct {
	table linetable.Table // of files of the author only
	err   error           // why it is empty
}

// linesOf returns the lines of a module whose code is from the author's files.
func linesOf(module []byte) *lines {
	table, err := linetable.Read(module)
	if err != nil {
		return &lines{err: fmt.Errorf("the module's line table cannot be read: %w", err)}
	}
	own := make([]bool, len(table.Files))
	for i, file := range table.Files {
		own[i] = !foreignFile().MatchString(filepath.ToSlash(file))
	}
	table.Rows = slices.DeleteFunc(table.Rows, func(r linetable.Row) bool { return !own[r.File] })
	return &lines{table: *table}
}

// foreignFile matches the paths of files of toolchains, libraries and the SDK.
var foreignFile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/rustc/|^/usr/(include|lib|share)/|^/usr/local/(include|lib|share|go|tinygo)/|(^|/)<|(^|/)prober\.h$|(^|/)sdk/rust/src/|` +
		`(^|/)(\.cargo|\.rustup|\.cache|node_modules|prober-sdk|prober-build-[0-9]+|prober/sdk|wasi-sdk|wasi-sysroot|wasi-libc|libc-(top|bottom)-half|dlmalloc|` +
		`compiler-rt|compiler-builtins|libcxx|libcxxabi|tinygo|pkg/mod|registry/src)/|` +
		`(^|/)library/(alloc|backtrace|core|panic_abort|panic_unwind|proc_macro|std|stdarch|unwind)/`)
})

// has reports whether a function, whose body is at these offsets of the code section, has lines.
func (l *lines) has(start, end int) bool {
	rows := l.table.Rows
	i := sort.Search(len(rows), func(i int) bool { return int(rows[i].Start) >= start })
	return i < len(rows) && int(rows[i].Start) < end
}

// sources returns the files with how often each line ran. dirs are folders in which relative paths may begin.
func (l *lines) sources(blocks []wasm.BlockRuns, dirs []string) (all []Source) {
	runs := newMaxima(blocks)
	files := make(map[uint32]map[int]uint64)
	for _, r := range l.table.Rows {
		n, ok := runs.within(int(r.Start), int(r.End))
		if !ok {
			continue // no instruction of it can run
		}
		file := files[r.File]
		if file == nil {
			file = make(map[int]uint64)
			files[r.File] = file
		}
		file[int(r.Line)] = max(file[int(r.Line)], n)
	}
	var elsewhere []Source // relative paths that are not here
	for i, lines := range files {
		name, known := located(l.table.Files[i], dirs)
		s := Source{File: name}
		for _, n := range slices.Sorted(maps.Keys(lines)) {
			s.Lines = append(s.Lines, Line{n, lines[n]})
		}
		if known {
			all = append(all, s)
		} else {
			elsewhere = append(elsewhere, s)
		}
	}
	if len(all) == 0 { // else they are of libraries that were compiled in other folders
		all = elsewhere
	}
	return merged(all)
}

// merged returns sources by name. Those of the same name become one.
func merged(sources []Source) (all []Source) {
	slices.SortStableFunc(sources, func(a, b Source) int { return cmp.Compare(a.File, b.File) })
	for _, s := range sources {
		if len(all) == 0 || all[len(all)-1].File != s.File {
			all = append(all, s)
			continue
		}
		runs := make(map[int]uint64)
		for _, l := range slices.Concat(all[len(all)-1].Lines, s.Lines) {
			runs[l.Number] += l.Runs
		}
		var lines []Line
		for _, n := range slices.Sorted(maps.Keys(runs)) {
			lines = append(lines, Line{n, runs[n]})
		}
		all[len(all)-1].Lines = lines
	}
	return all
}

// maxParents is how many folders above a plugin are searched for its sources.
const maxParents = 8

// located returns the path of a source file, relative to the working folder if it is inside. A relative name
// may begin in one of dirs or above: where the compiler ran is not known. known is false if it is not there.
func located(name string, dirs []string) (path string, known bool) {
	path = filepath.FromSlash(name)
	if !filepath.IsAbs(path) {
		if path = found(path, dirs); path == "" {
			return name, false
		}
	}
	if here, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(rel) {
			return rel, true
		}
	}
	return path, true
}

// found returns the path of a file in one of dirs or above, "" if there is none.
func found(name string, dirs []string) string {
	for _, dir := range dirs {
		for range maxParents {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				return path
			}
			dir = filepath.Dir(dir)
		}
	}
	return ""
}

// maxima finds the block that ran most often in a range of code.
type maxima struct {
	blocks []wasm.BlockRuns
	tree   []uint64 // a segment tree: the leaves are the runs of the blocks
}

func newMaxima(blocks []wasm.BlockRuns) *maxima {
	n := len(blocks)
	m := &maxima{blocks: blocks, tree: make([]uint64, 2*n)}
	for i, b := range blocks {
		m.tree[n+i] = b.Runs
	}
	for i := n - 1; i > 0; i-- {
		m.tree[i] = max(m.tree[2*i], m.tree[2*i+1])
	}
	return m
}

// within returns the most runs of a block with code from start to end. ok is false if there is none.
func (m *maxima) within(start, end int) (runs uint64, ok bool) {
	n := len(m.blocks)
	from := sort.Search(n, func(i int) bool { return m.blocks[i].End > start })
	to := sort.Search(n, func(i int) bool { return m.blocks[i].Start >= end })
	if from >= to {
		return 0, false
	}
	for a, b := from+n, to+n; a < b; a, b = a/2, b/2 {
		if a%2 == 1 {
			runs = max(runs, m.tree[a])
			a++
		}
		if b%2 == 1 {
			b--
			runs = max(runs, m.tree[b])
		}
	}
	return runs, true
}

// maxRanges is how many ranges of a file a table shows.
const maxRanges = 50

// writeLines writes the lines that the cases did not reach.
func (r *Report) writeLines(out io.Writer) error {
	if r.NoLines != "" {
		_, err := fmt.Fprintf(out, "lines: %s\n", strings.Map(printable, r.NoLines))
		return err
	}
	reached, all := 0, 0
	for i := range r.Sources {
		s := &r.Sources[i]
		n, ranges, more := s.reached(), s.unreached(), ""
		reached, all = reached+n, all+len(s.Lines)
		if len(ranges) > maxRanges {
			ranges, more = ranges[:maxRanges], fmt.Sprintf(" and %d more ranges", len(ranges)-maxRanges)
		}
		if len(ranges) > 0 {
			more = "; not reached: " + strings.Join(ranges, ", ") + more
		}
		fmt.Fprintf(out, "%s: %d of %d lines (%d%%)%s\n", strings.Map(printable, s.File), n, len(s.Lines), 100*n/len(s.Lines), more)
	}
	if all == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "coverage: the cases reach %d of %d lines (%d%%)\n", reached, all, 100*reached/all)
	return err
}

// WriteLCOV writes the lines of reports in the format of lcov, which editors and CI systems read. Lines of several
// reports are added up. It reports whether there are any.
func WriteLCOV(w io.Writer, reports []*Report) (some bool, err error) {
	var sources []Source
	for _, r := range reports {
		sources = append(sources, r.Sources...)
	}
	var b strings.Builder
	for _, s := range merged(sources) {
		some = true
		fmt.Fprintf(&b, "TN:\nSF:%s\n", strings.Map(printable, s.File))
		for _, l := range s.Lines {
			fmt.Fprintf(&b, "DA:%d,%d\n", l.Number, l.Runs)
		}
		fmt.Fprintf(&b, "LF:%d\nLH:%d\nend_of_record\n", len(s.Lines), s.reached())
	}
	_, err = io.WriteString(w, b.String())
	return some, err
}
