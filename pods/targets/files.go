package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/internal/filestamp"
	"github.com/daeace23/prober/internal/joined"
	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/yamlpos"
)

// maxFiles is the maximum number of files that a pattern may match.
const maxFiles = 1000

// files reads the files that a pattern matches. It is not safe for concurrent use.
type files struct {
	pattern  string
	settling map[string]*filestamp.Settling
	read     map[string]*file // by path
	items    []found          // targets of all files
	changed  bool             // items is out of date
}

// file is a file of targets.
type file struct {
	stamp string // stamp before it was read
	items []found
	err   error // error of the newest contents; then items are older
}

// get reads the changed files, and returns the targets of all files. A file with an error keeps its last targets.
// Without now, files that are still changing are not read.
func (f *files) get(_ context.Context, now bool) ([]found, error) {
	if f.read == nil {
		f.read, f.settling = make(map[string]*file), make(map[string]*filestamp.Settling)
	}
	paths := []string{f.pattern} // a missing file keeps its last targets
	var err error
	if strings.ContainsAny(f.pattern, `*?[\`) {
		paths, err = filepath.Glob(f.pattern) // the pattern was checked
	}
	if len(paths) > maxFiles {
		err = fmt.Errorf("%s matches more than %d files", f.pattern, maxFiles)
	}
	if err == nil {
		f.keep(paths)
		for _, path := range paths {
			f.update(path, now)
		}
	}
	if f.changed {
		f.items, f.changed = nil, false
		for _, path := range slices.Sorted(maps.Keys(f.read)) {
			f.items = append(f.items, f.read[path].items...)
		}
	}
	errs := []error{err}
	for _, path := range slices.Sorted(maps.Keys(f.read)) {
		errs = append(errs, f.read[path].err)
	}
	return f.items, errors.Join(errs...)
}

// keep forgets all files that are not in paths.
func (f *files) keep(paths []string) {
	for path := range f.settling {
		if !slices.Contains(paths, path) {
			f.changed = true
			delete(f.read, path)
			delete(f.settling, path)
		}
	}
}

// update reads a file if it has changed.
func (f *files) update(path string, now bool) {
	settling := f.settling[path]
	if settling == nil {
		settling = &filestamp.Settling{}
		f.settling[path] = settling
	}
	known := cmp.Or(f.read[path], &file{})
	stamp := filestamp.Of(path)
	if due := settling.Due(time.Now(), stamp, known.stamp); !due && (!now || stamp == known.stamp) {
		return
	}
	f.read[path] = known
	known.stamp, known.err = stamp, nil
	text, err := regular.Read(path, maxList)
	if err != nil {
		known.err = fileError(path, err)
		return
	}
	items, err := parseFile(path, text)
	if err != nil {
		known.err = err
		return
	}
	known.items, f.changed = items, true
}

// fileError returns err with the path once.
func fileError(path string, err error) error {
	if _, ok := errors.AsType[*regular.TooLargeError](err); ok {
		err = fmt.Errorf("more than %d MiB", maxList>>20)
	} else if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return &yamlpos.Error{File: path, Err: err}
}

// short returns the error of a source for logs and the API: the first three joined errors, on one line.
func short(err error) error {
	all := joined.Errors(err)
	if len(all) > 3 {
		all = append(all[:3:3], fmt.Errorf("and %d more errors", len(all)-3))
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%.2000s", joined.Line(errors.Join(all...)))
}
