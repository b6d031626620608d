package record

import (
	"encoding/binary"
	"slices"
)

// Hour has the percentiles of the durations of a series in an hour, which is counted since the epoch.
type Hour struct {
	Hour   int32
	Tracks []Track // with different names
}

// Track has the percentiles of one duration in an hour: of whole ticks, or of a phase inside them.
type Track struct {
	Name  string // of the phase; "" for whole ticks
	Ticks uint64 // at least 1
	At    []Bucket
}

// Percents returns which percentiles the tracks of a name have in At, in ascending order.
func Percents(name string) []int {
	if name == "" {
		return wholePercents
	}
	return phasePercents
}

// More percentiles take more space. Those of whole ticks tell more exactly how hours add up.
var (
	wholePercents = []int{10, 50, 75, 90, 99}
	phasePercents = []int{50, 90, 99}
)

// knownNames are the names of most tracks. A number in a payload is an index: names are only added, at the end.
var knownNames = []string{"", "dns", "connect", "tls", "first byte", "headers", "body", "settings", "call", "start", "guest", "probe", "http", "dial", "read", "write", "echo"}

// ownName is the number of a name that follows as text.
const ownName = 255

func appendName(dst []byte, name string) []byte {
	if i := slices.Index(knownNames, name); i >= 0 {
		return append(dst, byte(i))
	}
	dst = binary.AppendUvarint(append(dst, ownName), uint64(len(name)))
	return append(dst, name...)
}

func (d *decoder) name() string {
	switch n := int(d.byte()); {
	case n < len(knownNames):
		return knownNames[n]
	case n == ownName:
		return string(d.bytes(d.uvarint()))
	default:
		d.bad = true
		return ""
	}
}

// appendHours appends the hours of a series, in order. Similar values of successive hours take little space once they
// are compressed. The first hour is encoded as its difference from last.
func appendHours(dst []byte, hours []Hour, last int32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(hours)))
	names := []string{""}
	for i := range hours {
		dst = binary.AppendVarint(dst, int64(hours[i].Hour-last))
		last = hours[i].Hour
		for k := range hours[i].Tracks {
			if name := hours[i].Tracks[k].Name; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	whole := make([]uint64, len(hours))
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, name := range names {
		dst = appendTracks(appendName(dst, name), hours, name, whole)
	}
	return dst
}

// appendTracks appends the tracks of a name: their ticks and then their percentiles. Numbers of ticks are differences from
// the whole ticks of the hour, which are differences from the previous hour.
func appendTracks(dst []byte, hours []Hour, name string, whole []uint64) []byte {
	tracks := make([]*Track, len(hours))
	for i := range hours {
		if at := slices.IndexFunc(hours[i].Tracks, func(t Track) bool { return t.Name == name }); at >= 0 {
			tracks[i] = &hours[i].Tracks[at]
		}
	}
	last := uint64(0)
	for i, t := range tracks {
		ticks, base := uint64(0), whole[i]
		if t != nil {
			ticks = t.Ticks
		}
		if name == "" {
			base, last, whole[i] = last, ticks, ticks
		}
		dst = binary.AppendVarint(dst, int64(ticks-base))
	}
	var before []Bucket
	for _, t := range tracks {
		if t == nil {
			continue
		}
		for i, b := range t.At {
			dst = append(dst, byte(b-expected(before, t.At, i)))
		}
		before = t.At
	}
	return dst
}

// expected returns the percentile i of the previous track; without one, the percentile before i.
func expected(before, at []Bucket, i int) Bucket {
	switch {
	case before != nil:
		return before[i]
	case i > 0:
		return at[i-1]
	default:
		return 0
	}
}

// hours decodes hours of [appendHours].
func (d *decoder) hours(last int32) []Hour {
	hours := make([]Hour, d.count())
	for i := range hours {
		last += int32(d.varint())
		hours[i].Hour = last
	}
	whole := make([]uint64, len(hours))
	for range d.count() {
		if d.tracks(hours, d.name(), whole); d.bad {
			return nil
		}
	}
	return hours
}

// tracks decodes the tracks of a name, and appends them to their hours.
func (d *decoder) tracks(hours []Hour, name string, whole []uint64) {
	ticks := make([]uint64, len(hours))
	last := uint64(0)
	for i := range ticks {
		if name == "" {
			last += uint64(d.varint())
			ticks[i], whole[i] = last, last
			continue
		}
		ticks[i] = whole[i] + uint64(d.varint())
	}
	var before []Bucket
	for i, n := range ticks {
		if n == 0 || d.bad {
			continue
		}
		before = d.percentiles(before, len(Percents(name)))
		hours[i].Tracks = append(hours[i].Tracks, Track{Name: name, Ticks: n, At: before})
	}
}

// percentiles decodes n percentiles, which must not descend.
func (d *decoder) percentiles(before []Bucket, n int) []Bucket {
	at := make([]Bucket, n)
	for i := range at {
		at[i] = expected(before, at, i) + Bucket(d.byte())
		if at[i] >= Buckets || i > 0 && at[i] < at[i-1] {
			d.bad = true
		}
	}
	return at
}

// HourOf is an [Hour] of a series.
type HourOf struct {
	ID uint32
	Hour
}

// AppendHourOf appends an hour of a series to a payload, which has the hours of others too.
func AppendHourOf(dst []byte, h *HourOf) []byte {
	return appendHours(binary.AppendUvarint(dst, uint64(h.ID)), []Hour{h.Hour}, 0)
}

// DecodeHoursOf calls each for the hours in a payload of [AppendHourOf].
func DecodeHoursOf(payload []byte, each func(*HourOf)) error {
	d := decoder{in: payload}
	for len(d.in) > 0 && !d.bad {
		id := uint32(d.uvarint())
		hours := d.hours(0)
		if d.bad {
			break
		}
		for i := range hours {
			each(&HourOf{ID: id, Hour: hours[i]})
		}
	}
	return d.err("hours")
}
