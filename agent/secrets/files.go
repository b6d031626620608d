package secrets

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/filestamp"
)

// Files are the files that probes refer to with ${file:…}. It is safe for concurrent use. The
// zero value is ready to use.
type Files struct {
	mu     sync.Mutex
	stamps map[string]string // of each file, from before it was last read
}

// Begin records that all files are about to be read again. It returns those that have changed
// since they were last read, sorted.
func (s *Files) Begin() (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for file, known := range s.stamps {
		if s.stamps[file] = filestamp.Of(file); s.stamps[file] != known {
			changed = append(changed, file)
		}
	}
	slices.Sort(changed)
	return changed
}

// note records that a file is about to be read.
func (s *Files) note(file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.stamps[file]; known {
		return // another probe may have read the file since that stamp
	}
	if s.stamps == nil {
		s.stamps = make(map[string]string)
	}
	s.stamps[file] = filestamp.Of(file)
}

// Keep forgets the files that none of the pods refers to.
func (s *Files) Keep(pods []*manager.Declared) {
	s.mu.Lock()
	none := len(s.stamps) == 0
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
	maps.DeleteFunc(s.stamps, func(file, _ string) bool { return !used[file] })
}

// Stamps returns the stamp of all files from before they were last read, and their stamp now.
func (s *Files) Stamps() (known, now string) {
	s.mu.Lock()
	stamps := maps.Clone(s.stamps)
	s.mu.Unlock()
	var before, after strings.Builder
	for _, file := range slices.Sorted(maps.Keys(stamps)) {
		before.WriteString(stamps[file])
		after.WriteString(filestamp.Of(file))
	}
	return before.String(), after.String()
}

// filesOf returns the files that the probes of pod refer to.
func filesOf(pod *manager.Declared) (files []string) {
	if pod.Pod().Annotations[manager.Annotation] == "" {
		return nil
	}
	for _, c := range pod.Probes() { // probes with errors are never prepared
		for _, r := range c.SecretReferences() {
			if r.Source == "file" {
				files = append(files, r.Name)
			}
		}
	}
	return files
}
