package secrets

import (
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/daeace23/prober/core/manager"
	"github.com/daeace23/prober/internal/filestamp"
)

// Files are the files that probes refer to with ${file:…}. It is safe for concurrent
// use. The zero value is ready to use.
type Files struct {
	mu     sync.Mutex
	stamps map[string]string    // of each file, from before it was last read
	byPod  map[*v1.Pod][]string // the files of the pods that run, which are read-only
}

// Begin begins to read all files again. It returns those that have changed since they were
// last read.
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

// note notes a file that is about to be read.
func (s *Files) note(file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.stamps[file]; known {
		return // the earlier stamp may be that of what another probe has read
	}
	if s.stamps == nil {
		s.stamps = make(map[string]string)
	}
	s.stamps[file] = filestamp.Of(file)
}

// Keep forgets the files that none of the pods refers to.
func (s *Files) Keep(pods []*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byPod, used := make(map[*v1.Pod][]string, len(pods)), make(map[string]bool)
	for _, pod := range pods {
		files, known := s.byPod[pod]
		if !known {
			files = filesOf(pod)
		}
		byPod[pod] = files
		for _, file := range files {
			used[file] = true
		}
	}
	s.byPod = byPod
	maps.DeleteFunc(s.stamps, func(file, _ string) bool { return !used[file] })
}

// Known returns the stamp of all files from before they were last read.
func (s *Files) Known() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(s.stamps)) {
		b.WriteString(s.stamps[file])
	}
	return b.String()
}

// Now returns the stamp of all files as they are.
func (s *Files) Now() string {
	s.mu.Lock()
	files := slices.Sorted(maps.Keys(s.stamps))
	s.mu.Unlock()
	var b strings.Builder
	for _, file := range files {
		b.WriteString(filestamp.Of(file))
	}
	return b.String()
}

// filesOf returns the files that the probes of pod refer to.
func filesOf(pod *v1.Pod) (files []string) {
	if pod.Annotations[manager.Annotation] == "" {
		return nil
	}
	configs, _ := manager.ProbesOf(pod) // those with errors are never prepared
	for _, c := range configs {
		for _, r := range c.SecretReferences() {
			if r.Source == "file" {
				files = append(files, r.Name)
			}
		}
	}
	return files
}
