package endpoint

import "slices"

// cycleLocked reports whether dependsOn would make key depend on itself, and through which of them.
func (s *Set[K]) cycleLocked(key K, dependsOn []K) (through K, ok bool) {
	if len(dependsOn) == 0 {
		return through, false
	}
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
		if e := s.endpoints[k]; e != nil && slices.ContainsFunc(e.dependsOn, walk) {
			return true
		}
		return slices.ContainsFunc(s.changing[k], walk)
	}
	for _, d := range dependsOn {
		if walk(d) {
			return d, true
		}
	}
	return through, false
}

// linkLocked adds e to the dependents of each key in its DependsOn, also of keys that have no endpoint yet.
func (s *Set[K]) linkLocked(e *entry[K]) {
	for _, d := range e.dependsOn {
		if s.dependents[d] == nil {
			s.dependents[d] = make(map[*entry[K]]struct{})
		}
		s.dependents[d][e] = struct{}{}
	}
}

func (s *Set[K]) unlinkLocked(e *entry[K]) {
	for _, d := range e.dependsOn {
		delete(s.dependents[d], e)
		if len(s.dependents[d]) == 0 {
			delete(s.dependents, d)
		}
	}
}

// blockerLocked returns the first endpoint that e depends on and that is failing, or unknown for another
// one's failure; nil if there is none.
func (s *Set[K]) blockerLocked(e *entry[K]) *entry[K] {
	for _, d := range e.dependsOn {
		if o := s.endpoints[d]; o != nil && o.down() {
			return o
		}
	}
	return nil
}
