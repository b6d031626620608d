package endpoint

import (
	"fmt"
	"slices"
)

// cycle returns an error if dependsOn would make key depend on itself.
func (s *Set[K]) cycleLocked(key K, dependsOn []K) error {
	seen := make(map[K]bool)
	var walk func(k K) bool
	walk = func(k K) bool {
		if k == key {
			return true
		}
		if seen[k] {
			return false
		}
		seen[k] = true
		e := s.endpoints[k]
		if e == nil {
			return false
		}
		return slices.ContainsFunc(e.cfg.DependsOn, walk)
	}
	for _, d := range dependsOn {
		if walk(d) {
			return invalid("DependsOn", "%v depends on this endpoint", d)
		}
	}
	return nil
}

// link adds e to the dependents of what it depends on, also of keys that have no endpoint yet.
func (s *Set[K]) linkLocked(e *entry[K]) {
	for _, d := range e.cfg.DependsOn {
		if s.dependents[d] == nil {
			s.dependents[d] = make(map[*entry[K]]struct{})
		}
		s.dependents[d][e] = struct{}{}
	}
}

func (s *Set[K]) unlinkLocked(e *entry[K]) {
	for _, d := range e.cfg.DependsOn {
		delete(s.dependents[d], e)
		if len(s.dependents[d]) == 0 {
			delete(s.dependents, d)
		}
	}
}

// blockerLocked returns the first endpoint that e depends on and that is failing, or unknown for another one's failure.
func (s *Set[K]) blockerLocked(e *entry[K]) (key K, ok bool) {
	for _, d := range e.cfg.DependsOn {
		if o := s.endpoints[d]; o != nil && o.down() {
			return d, true
		}
	}
	return key, false
}

func blockedText(key any) string { return fmt.Sprintf("depends on %v, which fails", key) }
