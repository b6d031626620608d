package record

import (
	"encoding/binary"
	"slices"
)

// Point is the [Sample] of a minute, which is counted since the epoch.
type Point struct {
	Minute int32
	Sample
}

// AppendPoints appends the payload of the points of a series, sorted by minute, and of its hours. Minutes and
// counts are encoded as runs. Then come the durations, which take most of the space, and then the hours, which
// versions that have none ignore.
func AppendPoints(dst []byte, points []Point, hours []Hour) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(points)))
	if len(points) > 0 {
		dst = appendMinutes(dst, points)
	}
	if len(hours) > 0 {
		dst = appendHours(dst, hours, firstHour(points))
	}
	return dst
}

// firstHour returns the hour of the first of points; 0 if there are none.
func firstHour(points []Point) int32 {
	if len(points) == 0 {
		return 0
	}
	return points[0].Minute / 60
}

// appendMinutes appends points, of which there is at least one.
func appendMinutes(dst []byte, points []Point) []byte {
	dst = appendRuns(dst, points)
	dst = appendCountRuns(dst, points)
	base := medianMean(points)
	dst = append(dst, byte(base))
	for i := range points {
		dst = append(dst, byte(points[i].Mean-base))
	}
	for i := range points {
		dst = append(dst, byte(points[i].Max-points[i].Mean))
	}
	return dst
}

// medianMean returns the median of the means: most means differ little from it.
func medianMean(points []Point) Bin {
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

// appendCountRuns appends the counts of points: pairs of counts and the number of consecutive points with them.
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

// DecodePoints decodes a payload of [AppendPoints]. There are no hours if a version without them wrote it.
func DecodePoints(payload []byte) ([]Point, []Hour, error) {
	d := decoder{in: payload}
	points := d.points(d.count())
	var hours []Hour
	if len(d.in) > 0 && !d.bad {
		hours = d.hours(firstHour(points))
	}
	if d.bad {
		return nil, nil, d.err("points")
	}
	return points, hours, nil
}

// points decodes n points.
func (d *decoder) points(n int) []Point {
	if n == 0 {
		return nil
	}
	all := make([]Point, n)
	next := int32(0)
	for i := 0; i < n && !d.bad; {
		minute := next + int32(d.varint())
		length := d.run(n - i)
		for k := range length {
			all[i+k].Minute = minute + int32(k)
		}
		next = minute + int32(length)
		i += length
	}
	for i := 0; i < n && !d.bad; {
		c := d.counts()
		length := d.run(n - i)
		for k := range length {
			all[i+k].Counts = c
		}
		i += length
	}
	base := Bin(d.byte())
	means, spans := d.bytes(uint64(n)), d.bytes(uint64(n))
	if d.bad {
		return nil
	}
	for i := range all {
		all[i].Mean = base + Bin(means[i])
		all[i].Max = all[i].Mean + Bin(spans[i])
	}
	return all
}

// run decodes the length of a run, which must be from 1 to limit.
func (d *decoder) run(limit int) int {
	n := d.uvarint()
	if n < 1 || n > uint64(limit) {
		d.bad, d.in = true, nil
		return limit
	}
	return int(n)
}
