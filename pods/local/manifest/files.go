package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/daeace23/prober/internal/regular"
)

// maxManifest is how many bytes a manifest file may have.
const maxManifest = 8 << 20

// Stamp returns a string that changes when the files that Load would read do: their names,
// sizes, times or modes. It opens none of them.
func (s *Source) Stamp() string {
	files, problems := s.files()
	var b strings.Builder
	for _, file := range files {
		info, err := os.Stat(file.path)
		if err != nil {
			fmt.Fprintf(&b, "%q %v\n", file.path, err)
			continue
		}
		fmt.Fprintf(&b, "%q %d %d %v\n", file.path, info.Size(), info.ModTime().UnixNano(), info.Mode())
	}
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	return b.String()
}

// Files returns the files that Load would read, each once. Its error is [Problems].
func (s *Source) Files() (names []string, err error) {
	files, problems := s.files()
	for _, file := range files {
		names = append(names, file.path)
	}
	if len(problems) > 0 {
		return names, problems
	}
	return names, nil
}

// listed is a file to be read.
type listed struct {
	path  string
	given bool // one of [Source.Paths], which may be a pipe; false for a file of a folder
}

// files returns the files of all paths, each once, and the problems of the other paths.
func (s *Source) files() (files []listed, problems Problems) {
	add := func(file listed) {
		if !slices.ContainsFunc(files, func(f listed) bool { return f.path == file.path }) {
			files = append(files, file)
		}
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
			problems = append(problems, &Problem{File: path, Message: reason(err)})
			continue
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
				add(listed{filepath.Join(path, e.Name()), false})
			}
		}
	}
	return files, problems
}

// read returns the text of a file. It keeps that of a stream, which can be read only once.
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
		text, err = regular.Input(ctx, file.path, maxManifest, cmp.Or(s.Patience, regular.Patience))
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

// reason returns the text of err without the path, which the problem has too.
func reason(err error) string {
	if _, ok := errors.AsType[*regular.TooLargeError](err); ok {
		return fmt.Sprintf("more than %d MiB", maxManifest>>20)
	}
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err.Error()
	}
	return err.Error()
}
