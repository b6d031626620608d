package metrics

import (
	"cmp"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/daeace23/prober/probe"
)

// maxBlock is the largest number of series in a block of an [index].
const maxBlock = 256

// index is the list of all series. It stays sorted, so a scrape does not sort. It consists of blocks, so an
// insertion or deletion moves at most one block.
type index struct {
	mu     sync.Mutex
	blocks [][]*series // none is empty
	made   uint        // series so far
}

// subject has the labels that the series of one container share. Series with the same subject are neighbors
// in the index, and share one pointer.
type subject struct {
	*place
	pod, podUID string
}

// place is the part of a subject that neighbors mostly share.
type place struct{ container, namespace string }

// compare orders subjects as client_golang sorts series: by label values, in the order of the label names.
func (s *subject) compare(o *subject) int {
	if s == o {
		return 0
	}
	if c := s.comparePod(o); c != 0 {
		return c
	}
	return strings.Compare(s.podUID, o.podUID)
}

// comparePod is compare without the UID of the pod.
func (s *subject) comparePod(o *subject) int {
	if s.place != o.place {
		if c := strings.Compare(s.container, o.container); c != 0 {
			return c
		}
		if c := strings.Compare(s.namespace, o.namespace); c != 0 {
			return c
		}
	}
	return strings.Compare(s.pod, o.pod)
}

// keepLocked returns is for a series at p. It shares the subject or place of a neighbor where they are
// equal.
func (x *index) keepLocked(p position, is *subject) *subject {
	var here *place
	for _, near := range [...]*series{x.beforeLocked(p), x.atLocked(p)} {
		if near == nil {
			continue
		}
		if near.subject.compare(is) == 0 {
			return near.subject
		}
		if *near.subject.place == *is.place {
			here = near.subject.place
		}
	}
	if here == nil {
		here = new(*is.place)
	}
	return &subject{here, is.pod, is.podUID}
}

// samePod reports whether s and o are equal except for the UID of the pod.
func (s *subject) samePod(o *subject) bool {
	return s == o || s.pod == o.pod && (s.place == o.place || *s.place == *o.place)
}

// position is the place of a series in an index.
type position struct{ block, at int }

// seekLocked returns the position of the series of s and kind, and whether it exists. If it does not exist,
// p is the position at which to insert it.
func (x *index) seekLocked(s *subject, kind probe.Kind) (p position, found bool) {
	compare := func(o *series) int {
		if c := o.subject.compare(s); c != 0 {
			return c
		}
		return cmp.Compare(o.kind(), kind)
	}
	block, found := slices.BinarySearchFunc(x.blocks, 0, func(b []*series, _ int) int { return compare(b[0]) })
	if found || block == 0 { // the first of a block, or smaller than all series
		return position{block, 0}, found
	}
	at, found := slices.BinarySearchFunc(x.blocks[block-1], 0, func(o *series, _ int) int { return compare(o) })
	return position{block - 1, at}, found
}

// atLocked returns the series at p, nil at the end of the index.
func (x *index) atLocked(p position) *series {
	if p.block < len(x.blocks) && p.at == len(x.blocks[p.block]) {
		p = position{p.block + 1, 0}
	}
	if p.block >= len(x.blocks) {
		return nil
	}
	return x.blocks[p.block][p.at]
}

// beforeLocked returns the series before p, nil at the beginning of the index.
func (x *index) beforeLocked(p position) *series {
	switch {
	case p.at > 0:
		return x.blocks[p.block][p.at-1]
	case p.block > 0:
		return x.blocks[p.block-1][len(x.blocks[p.block-1])-1]
	}
	return nil
}

func (x *index) insertLocked(p position, s *series) {
	if p.block == len(x.blocks) {
		x.blocks = append(x.blocks, nil)
	}
	b := x.blocks[p.block]
	if len(b) < maxBlock {
		x.blocks[p.block] = slices.Insert(b, p.at, s)
		return
	}
	half := maxBlock / 2
	if p.block == len(x.blocks)-1 && p.at == maxBlock {
		half = maxBlock // series added in order fill their blocks
	}
	x.blocks = slices.Insert(x.blocks, p.block+1, append(make([]*series, 0, maxBlock), b[half:]...))
	clear(b[half:])
	x.blocks[p.block] = b[:half]
	if p.at > half || half == maxBlock {
		p = position{p.block + 1, p.at - half}
	}
	x.blocks[p.block] = slices.Insert(x.blocks[p.block], p.at, s)
}

// deleteLocked removes the series at p, and merges its block with the next if both are small.
func (x *index) deleteLocked(p position) {
	b := slices.Delete(x.blocks[p.block], p.at, p.at+1)
	x.blocks[p.block] = b
	if next := p.block + 1; next < len(x.blocks) && len(b)+len(x.blocks[next]) <= maxBlock/2 {
		x.blocks[p.block] = append(b, x.blocks[next]...)
		x.blocks = slices.Delete(x.blocks, next, next+1)
	}
	if len(x.blocks[p.block]) == 0 {
		x.blocks = slices.Delete(x.blocks, p.block, p.block+1)
	}
}

// twinsLocked returns the series whose labels equal those in s except for the UID of the pod. They include
// s if it is in the index.
func (x *index) twinsLocked(s *series) (twins []*series) {
	first := *s.subject
	first.podUID = ""
	p, _ := x.seekLocked(&first, 0)
	kind := s.kind()
	for o := x.atLocked(p); o != nil && o.subject.samePod(s.subject); o = x.atLocked(p) {
		if o.kind() == kind {
			twins = append(twins, o)
		}
		p = x.afterLocked(p)
	}
	return twins
}

// afterLocked returns the position after p. p must be the position of a series.
func (x *index) afterLocked(p position) position {
	if p.block < len(x.blocks) && p.at >= len(x.blocks[p.block]) {
		p = position{p.block + 1, 0}
	}
	p.at++
	return p
}

// chunk copies the series after last to into, and returns the number copied. A nil last means from the
// start.
func (x *index) chunk(last *series, into []*series) (n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var p position
	if last != nil {
		var found bool
		if p, found = x.seekLocked(last.subject, last.kind()); found {
			p.at++
		}
	}
	for ; p.block < len(x.blocks) && n < len(into); p = (position{p.block + 1, 0}) {
		n += copy(into[n:], x.blocks[p.block][p.at:])
	}
	return n
}

// all yields all series in order. It holds no lock while it yields, and its memory does not depend on the
// number of series. Series that are added or removed meanwhile may be yielded or not.
func (x *index) all() iter.Seq[*series] {
	return func(yield func(*series) bool) {
		var chunk [maxBlock]*series
		var last *series
		for {
			n := x.chunk(last, chunk[:])
			for _, s := range chunk[:n] {
				if !yield(s) {
					return
				}
			}
			if n < len(chunk) {
				return
			}
			last = chunk[n-1]
			runtime.Gosched() // ticks come first
		}
	}
}

// containers yields the series of each container. Pods with the same name are one group. The slice is valid
// until the next one is yielded.
func (x *index) containers() iter.Seq[[]*series] {
	return func(yield func([]*series) bool) {
		var group []*series
		for s := range x.all() {
			if len(group) > 0 && !group[0].subject.samePod(s.subject) {
				if !yield(group) {
					return
				}
				group = group[:0]
			}
			group = append(group, s)
		}
		if len(group) > 0 {
			yield(group)
		}
	}
}

// sum adds up the counts of series with the same labels.
type sum interface {
	reset()
	add(s *series)
	isSet() bool // reports whether the sum is not zero
}

// sums yields the first series of each probe that has counted anything, with total set to its sum. Probes
// of pods with the same name have the same labels, so their counts are added up.
func (x *index) sums(total sum) iter.Seq[*series] {
	return func(yield func(*series) bool) {
		for container := range x.containers() {
			for _, kind := range probe.Kinds {
				if s := x.sum(container, kind, total); s != nil && total.isSet() && !yield(s) {
					return
				}
			}
		}
	}
}

// sum sets total to the counts of the series of one kind in container. It returns the first of these
// series, nil if there are none.
func (x *index) sum(container []*series, kind probe.Kind, total sum) (first *series) {
	total.reset()
	n := 0
	for _, s := range container {
		if s.kind() != kind {
			continue
		}
		if n++; n == 1 {
			first = s
		}
	}
	switch n {
	case 0:
	case 1:
		total.add(first)
	default: // one series may end meanwhile, and another absorb its counts
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, s := range x.twinsLocked(first) {
			total.add(s)
		}
	}
	return first
}
