package record

import (
	"encoding/binary"
	"slices"
)

// Point is the [Sample] of a minute, which is since the epoch.
type Point struct {
	Minute int32
	Sample
}

// maxGroup bounds the minutes of a group of series, of any record.
const maxGroup = 1 << 20

// AppendPoints appends the payload of a [Points] record: the points of series with consecutive IDs from
// first on, each sorted by minute. What is alike is together: minutes and counts in runs, and then the
// durations, which are what takes the space.
func AppendPoints(dst []byte, first uint32, groups [][]Point) []byte {
	dst = binary.AppendUvarint(dst, uint64(first))
	dst = binary.AppendUvarint(dst, uint64(len(groups)))
	for _, points := range groups {
		dst = binary.AppendUvarint(dst, uint64(len(points)))
	}
	for _, points := range groups {
		dst = appendRuns(dst, points)
	}
	for _, points := range groups {
		dst = appendCountRuns(dst, points)
	}
	for _, points := range groups {
		if len(points) == 0 {
			continue
		}
		base := middle(points)
		dst = append(dst, byte(base))
		for i := range points {
			dst = append(dst, byte(points[i].Mean-base))
		}
	}
	for _, points := range groups {
		for i := range points {
			dst = append(dst, byte(points[i].Max-points[i].Mean))
		}
	}
	return dst
}

// middle returns the median of the means, from which the others differ by little.
func middle(points []Point) Bin {
	means := make([]Bin, len(points))
	for i := range points {
		means[i] = points[i].Mean
	}
	slices.Sort(means)
	return means[len(means)/2]
}

// appendRuns appends the minutes of points: pairs of a gap and the length of a run without gaps.
func appendRuns(dst []byte, points []Point) []byte {
	next := int32(0)
	for i := 0; i < len(points); {
		n := 1
		for i+n < len(points) && points[i+n].Minute == points[i].Minute+int32(n) {
			n++
		}
		dst = binary.AppendVarint(dst, int64(points[i].Minute-next))
		dst = binary.AppendUvarint(dst, uint64(n))
		next = points[i].Minute + int32(n)
		i += n
	}
	return dst
}

// appendCountRuns appends the counts of points: pairs of counts and how often they follow each other.
func appendCountRuns(dst []byte, points []Point) []byte {
	for i := 0; i < len(points); {
		n := 1
		for i+n < len(points) && points[i+n].Counts == points[i].Counts {
			n++
		}
		dst = binary.AppendUvarint(appendCounts(dst, points[i].Counts), uint64(n))
		i += n
	}
	return dst
}

// DecodePoints calls each for the points of the series of a record, which are valid during the call.
func DecodePoints(payload []byte, each func(id uint32, points []Point)) error {
	d := decoder{in: payload}
	first := uint32(d.uvarint())
	sizes := make([]int, d.count())
	total := 0
	for i := range sizes {
		n := d.uvarint()
		if n > maxGroup || total+int(n) > len(d.in) {
			d.bad = true
			break
		}
		sizes[i] = int(n)
		total += int(n)
	}
	if d.bad {
		return d.err("points")
	}
	all := make([]Point, total)
	d.runs(all, sizes)
	d.durations(all, sizes)
	if d.bad {
		return d.err("points")
	}
	for i, n := range sizes {
		each(first+uint32(i), all[:n])
		all = all[n:]
	}
	return nil
}

// runs decodes minutes and counts.
func (d *decoder) runs(all []Point, sizes []int) {
	rest := all
	for _, size := range sizes {
		points := rest[:size]
		rest = rest[size:]
		next := int32(0)
		for i := 0; i < size && !d.bad; {
			minute := next + int32(d.varint())
			n := d.run(size - i)
			for k := range n {
				points[i+k].Minute = minute + int32(k)
			}
			next = minute + int32(n)
			i += n
		}
	}
	rest = all
	for _, size := range sizes {
		points := rest[:size]
		rest = rest[size:]
		for i := 0; i < size && !d.bad; {
			c := d.counts()
			n := d.run(size - i)
			for k := range n {
				points[i+k].Counts = c
			}
			i += n
		}
	}
}

// run returns the length of a run, which is at least 1 and at most most.
func (d *decoder) run(most int) int {
	n := d.uvarint()
	if n < 1 || n > uint64(most) {
		d.bad, d.in = true, nil
		return most
	}
	return int(n)
}

// durations decodes means and maxima.
func (d *decoder) durations(all []Point, sizes []int) {
	rest := all
	for _, size := range sizes {
		if size == 0 {
			continue
		}
		base := Bin(d.byte())
		means := d.bytes(uint64(size))
		if d.bad {
			return
		}
		for i, m := range means {
			rest[i].Mean = base + Bin(m)
		}
		rest = rest[size:]
	}
	spans := d.bytes(uint64(len(all)))
	for i, s := range spans {
		all[i].Max = all[i].Mean + Bin(s)
	}
}
