package record

import (
	"encoding/binary"
	"math"
	"time"
)

// Counts has the number of ticks by result, indexed by [State].
type Counts [4]uint16

// Sample is the aggregate of a series' ticks in a minute.
type Sample struct {
	Counts    Counts
	Mean, Max Bin
}

// Add merges o, a sample of the same minute.
func (s *Sample) Add(o *Sample) {
	var ticks, more float64
	for i, n := range o.Counts {
		ticks += float64(s.Counts[i])
		more += float64(n)
		s.Counts[i] += min(n, math.MaxUint16-s.Counts[i])
	}
	if ticks+more > 0 {
		mean := (s.Mean.Seconds()*ticks + o.Mean.Seconds()*more) / (ticks + more)
		s.Mean = BinOf(time.Duration(mean * float64(time.Second)))
	}
	s.Max = max(s.Max, o.Max, s.Mean)
}

// Bin is a duration on a logarithmic scale. Each bin is 10 % longer than the previous one, so that the middle of
// a bin differs by at most 5 % from every duration in it. Bin 0 is below a microsecond, and the last bin
// has all durations from 9 hours on.
type Bin uint8

const binRatio = 1.1

var binLog = math.Log(binRatio)

// BinOf returns the bin of a duration.
func BinOf(d time.Duration) Bin {
	us := float64(d) / float64(time.Microsecond)
	if us < 1 {
		return 0
	}
	return Bin(min(1+math.Log(us)/binLog, 255))
}

// Seconds returns the middle of the bin.
func (b Bin) Seconds() float64 {
	if b == 0 {
		return 0
	}
	return math.Exp((float64(b)-0.5)*binLog) / 1e6
}

// appendCounts appends counts. Counts of successes alone, the common case, take one number.
func appendCounts(dst []byte, c Counts) []byte {
	only := c == Counts{Success: c[Success]}
	if only {
		return binary.AppendUvarint(dst, uint64(c[Success])<<1)
	}
	dst = binary.AppendUvarint(dst, uint64(c[Success])<<1|1)
	for _, s := range []State{Unknown, Warning, Failure} {
		dst = binary.AppendUvarint(dst, uint64(c[s]))
	}
	return dst
}

func (d *decoder) counts() (c Counts) {
	first := d.uvarint()
	c[Success] = uint16(first >> 1)
	if first&1 != 0 {
		for _, s := range []State{Unknown, Warning, Failure} {
			c[s] = uint16(d.uvarint())
		}
	}
	return c
}

// SampleOf is the [Sample] of a series.
type SampleOf struct {
	ID uint32
	Sample
}

// AppendMinute appends the payload of a minute to dst. samples are sorted by ID. minute is when it begins, in
// minutes since the epoch.
func AppendMinute(dst []byte, minute int32, samples []SampleOf) []byte {
	dst = binary.AppendVarint(dst, int64(minute))
	dst = binary.AppendUvarint(dst, uint64(len(samples)))
	last := uint32(0)
	for i := range samples {
		dst = binary.AppendUvarint(dst, uint64(samples[i].ID-last))
		last = samples[i].ID
	}
	for i := range samples {
		dst = appendCounts(dst, samples[i].Counts)
	}
	for i := range samples {
		dst = append(dst, byte(samples[i].Mean))
	}
	for i := range samples {
		dst = append(dst, byte(samples[i].Max-samples[i].Mean))
	}
	return dst
}

// DecodeMinute decodes a minute, and appends its samples to samples.
func DecodeMinute(payload []byte, samples []SampleOf) (minute int32, _ []SampleOf, err error) {
	d := decoder{in: payload}
	minute = int32(d.varint())
	n, from := d.count(), len(samples)
	last := uint32(0)
	for range n {
		last += uint32(d.uvarint())
		samples = append(samples, SampleOf{ID: last})
	}
	added := samples[from:]
	for i := range added {
		added[i].Counts = d.counts()
	}
	means := d.bytes(uint64(n))
	spans := d.bytes(uint64(n))
	if d.bad {
		return minute, samples[:from], d.err("minute")
	}
	for i := range added {
		added[i].Mean = Bin(means[i])
		added[i].Max = added[i].Mean + Bin(spans[i])
	}
	return minute, samples, nil
}
