package manifest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/daeace23/prober/internal/regular"
	"github.com/daeace23/prober/internal/yamlpos"
)

// maxManifest is the largest size of a manifest file in bytes.
const maxManifest = 8 << 20

// Stamp returns a string that changes when the names, sizes, times or modes of the files change that Load
// would read. It does not open them.
func (s *Source) Stamp() string {
	files, errs := s.files()
	h := sha256.New()
	var line []byte
	for _, file := range files {
		line = strconv.AppendQuote(line[:0], file.path)
		info, err := os.Stat(file.path)
		if err != nil {
			line = fmt.Append(line, " ", err)
		} else {
			for _, n := range [...]int64{info.Size(), info.ModTime().UnixNano(), int64(info.Mode())} {
				line = strconv.AppendInt(append(line, ' '), n, 10)
			}
		}
		h.Write(append(line, '\n'))
	}
	for _, err := range errs {
		fmt.Fprintln(h, err)
	}
	return string(h.Sum(nil))
}

// Files returns the files that Load would read, each once. The error joins the errors of the other paths.
func (s *Source) Files() (names []string, err error) {
	files, errs := s.files()
	for _, file := range files {
		names = append(names, file.path)
	}
	return names, errors.Join(errs...)
}

// listed is a file to be read.
type listed struct {
	path  string
	given bool // listed in [Source].Paths: it may be a pipe
}

// files returns the files of all paths, each once, and the errors of the other paths.
func (s *Source) files() (files []listed, errs []error) {
	seen := make(map[string]bool)
	add := func(file listed) {
		if len(s.Paths) > 1 { // one path has no duplicates
			if seen[file.path] {
				return
			}
			seen[file.path] = true
		}
		files = append(files, file)
	}
	for _, path := range s.Paths {
		if path == "-" {
			add(listed{path, true})
			continue
		}
		info, err := os.Stat(path)
		if err == nil && !info.IsDir() {
			add(listed{path, true})
			continue
		}
		var entries []os.DirEntry
		if err == nil {
			entries, err = os.ReadDir(path)
		}
		if err != nil {
			errs = append(errs, fileError(path, err))
			continue
		}
		files = slices.Grow(files, len(entries))
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
				add(listed{filepath.Join(path, e.Name()), false})
			}
		}
	}
	return files, errs
}

// read returns the text of a file. It keeps the text of a stream, which can be read only once.
func (s *Source) read(ctx context.Context, file listed) ([]byte, error) {
	if text, ok := s.once[file.path]; ok {
		return text, nil
	}
	var text []byte
	var err error
	switch {
	case file.path == "-" && s.Stdin == nil:
		return nil, nil
	case file.path == "-":
		text, err = regular.Stream(ctx, s.Stdin, "stdin", maxManifest)
	default:
		text, err = regular.Read(file.path, maxManifest)
		if !file.given || !errors.Is(err, regular.ErrNotRegular) {
			return text, err
		}
		text, err = regular.Input(ctx, file.path, maxManifest, regular.Patience)
	}
	if err != nil {
		return nil, err
	}
	if s.once == nil {
		s.once = make(map[string][]byte)
	}
	s.once[file.path] = text
	return text, nil
}

// fileError returns err as the error of a file, with the path once.
func fileError(path string, err error) error {
	if _, ok := errors.AsType[*regular.TooLargeError](err); ok {
		err = fmt.Errorf("more than %d MiB", maxManifest>>20)
	} else if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		err = wrapped.Err
	}
	return &yamlpos.Error{File: path, Err: err}
}
