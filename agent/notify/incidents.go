package notify

import "iter"

// incidents is the set of items of a book, at most one for each probe. Loops over a slice are several times faster
// than over a map, and a book looks at all of its items at every step.
type incidents struct {
	byKey map[Key]*item
	list  []*item // list[it.index] is it
}

// get returns the item of a probe, or nil.
func (s *incidents) get(k Key) *item { return s.byKey[k] }

func (s *incidents) len() int { return len(s.list) }

// add adds an item, in place of another one of its probe.
func (s *incidents) add(it *item) {
	if s.byKey == nil {
		s.byKey = make(map[Key]*item)
	}
	if old := s.byKey[it.Key]; old != nil { // a state file may name a probe twice
		s.remove(old)
	}
	it.index = len(s.list)
	s.byKey[it.Key], s.list = it, append(s.list, it)
}

// remove removes an item, if it is in s.
func (s *incidents) remove(it *item) {
	if s.byKey[it.Key] != it {
		return
	}
	last := len(s.list) - 1
	s.list[it.index] = s.list[last]
	s.list[it.index].index = it.index
	s.list[last] = nil
	s.list = s.list[:last]
	delete(s.byKey, it.Key)
}

// each yields all items. A loop may remove the item that it has just got, and no other.
func (s *incidents) each() iter.Seq[*item] {
	return func(yield func(*item) bool) {
		for i := len(s.list) - 1; i >= 0; i-- { // the item that takes the place of a removed one came before
			if !yield(s.list[i]) {
				return
			}
		}
	}
}
