package secrets

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/core/declared"
	"github.com/daeace23/prober/internal/filestamp"
)

// Files has the files that probes refer to with ${file:…}. It is safe for concurrent use. The zero value is
// ready to use.
type Files struct {
	mu    sync.Mutex
	files map[string]noted // by the names in references
}

// noted is a file that was read.
type noted struct {
	path  string // see [Policy.path]
	stamp string // taken before the file was last read
}

// Begin records that all files are about to be read again. It returns the names of the files that have
// changed since they were last read, sorted.
func (s *Files) Begin() (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, file := range s.files {
		stamp := filestamp.Of(file.path)
		if stamp != file.stamp {
			changed = append(changed, name)
		}
		s.files[name] = noted{file.path, stamp}
	}
	slices.Sort(changed)
	return changed
}

// note records that the file at path, with the name in references, is about to be read.
func (s *Files) note(name, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[name].path == path {
		return // another probe may have read the file after that stamp
	}
	if s.files == nil {
		s.files = make(map[string]noted)
	}
	s.files[name] = noted{path, filestamp.Of(path)}
}

// Keep removes the files that none of the pods refers to.
func (s *Files) Keep(pods []*declared.Pod) {
	s.mu.Lock()
	none := len(s.files) == 0
	s.mu.Unlock()
	if none {
		return
	}
	used := make(map[string]bool)
	for _, pod := range pods {
		for _, file := range filesOf(pod) {
			used[file] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.files, func(name string, _ noted) bool { return !used[name] })
}

// Stamps returns the joined stamps of all files before they were last read, and their stamps now.
func (s *Files) Stamps() (known, now string) {
	s.mu.Lock()
	files := maps.Clone(s.files)
	s.mu.Unlock()
	var before, after strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		before.WriteString(files[name].stamp)
		after.WriteString(filestamp.Of(files[name].path))
	}
	return before.String(), after.String()
}

// filesOf returns the files that the probes of pod refer to.
func filesOf(pod *declared.Pod) (files []string) {
	if pod.Plain() {
		return nil
	}
	for _, c := range pod.Probes() { // without probes that have errors, which are never prepared
		for _, r := range c.SecretReferences() {
			if r.Source == "file" {
				files = append(files, r.Name)
			}
		}
	}
	return files
}
