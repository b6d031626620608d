package record_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/probe"
)

func TestOpenRejectsValuesOfOtherKeys(t *testing.T) {
	var seal record.Sealer
	var open record.Opener
	r := rand.New(rand.NewPCG(1, 2))
	for _, payload := range []string{"", "short", strings.Repeat("long ", 3000)} {
		value := seal.Seal([]byte("events"), []byte("key"), []byte(payload))
		got, err := open.Open([]byte("events"), []byte("key"), value)
		if err != nil || string(got) != payload {
			t.Fatalf("%q, %v", got, err)
		}
		for _, at := range [][2]string{{"events", "kez"}, {"event", "skey"}, {"points", "key"}} {
			if _, err := open.Open([]byte(at[0]), []byte(at[1]), value); !errors.Is(err, record.ErrDamaged) {
				t.Errorf("at %q: %v", at, err)
			}
		}
		for range 500 {
			bad := bytes.Clone(value)
			if r.IntN(4) == 0 {
				bad = bad[:r.IntN(len(bad))]
			} else {
				bad[r.IntN(len(bad))] ^= byte(1 << r.IntN(8))
			}
			if _, err := open.Open([]byte("events"), []byte("key"), bad); !errors.Is(err, record.ErrDamaged) {
				t.Fatalf("%x: %v", bad, err)
			}
		}
	}
}

func TestSeriesWindowsAndEventsRoundTrip(t *testing.T) {
	for _, want := range []record.Series{
		{Key: record.Key{Namespace: "default", Pod: "a", Container: "web", Kind: probe.Readiness}, Handler: "http", Ended: 1_800_000_000_000},
		{Key: record.Key{Namespace: "default", Pod: "b", Container: "web", Kind: probe.Startup}},
	} {
		got, err := record.DecodeSeries(record.AppendSeries(nil, &want))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
	for _, want := range []record.Window{{First: 1_800_000_000_000}, {First: 3, Last: 4, Folded: true}} {
		if got, err := record.DecodeWindow(record.AppendWindow(nil, &want)); got != want || err != nil {
			t.Error(got, err)
		}
	}
	events := []record.Event{
		{Op: record.Start, Time: 1_800_000_000_000},
		{Op: record.Snapshot, Time: 1_800_000_000_000, ID: 1},
		{Op: record.Held, State: record.Failure, ID: 4, Time: 1_800_000_000_000, Reason: "dns", Text: "no such host"},
		{Op: record.Change, State: record.Absent, ID: 4, Time: 1_700_000_000_001, Reason: "dns", Text: "ü\x00"},
		{Op: record.Alive, Time: 1_800_000_060_000}, {Op: record.Stop, Time: 1_800_000_060_001},
	}
	var w record.EventWriter
	for range 2 { // the second payload shares no strings with the first
		for i := range events {
			w.Add(&events[i])
		}
		var got []record.Event
		if err := record.DecodeEvents(w.Take(), func(e *record.Event) { got = append(got, *e) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(events, got); diff != "" {
			t.Error(diff)
		}
	}
}

// randomPoints returns points with gaps.
func randomPoints(r *rand.Rand, n int) []record.Point {
	points := make([]record.Point, n)
	minute := int32(29_000_000)
	for i := range points {
		minute += 1 + int32(r.IntN(3)/2*r.IntN(5))
		mean := record.Bin(r.IntN(200))
		points[i] = record.Point{Minute: minute, Sample: record.Sample{Mean: mean, Max: mean + record.Bin(r.IntN(50))}}
		points[i].Counts[record.Success] = 6
		if r.IntN(10) == 0 {
			points[i].Counts = record.Counts{uint16(r.IntN(65536)), uint16(r.IntN(65536)), uint16(r.IntN(65536)), uint16(r.IntN(65536))}
		}
	}
	return points
}

func TestPointsAndMinutesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		want, wantHours := randomPoints(r, r.IntN(100)), randomHours(r, r.IntN(6))
		got, hours, err := record.DecodePoints(record.AppendPoints(nil, want, wantHours))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()) + cmp.Diff(wantHours, hours, cmpopts.EquateEmpty(), byName); diff != "" || err != nil {
			t.Fatal(err, diff)
		}
	}
	samples := []record.SampleOf{{ID: 1, Sample: record.Sample{Counts: record.Counts{0, 6}, Mean: 3, Max: 9}}, {ID: 4, Sample: record.Sample{Counts: record.Counts{1, 2, 3, 4}, Mean: 255, Max: 255}}}
	minute, got, err := record.DecodeMinute(record.AppendMinute(nil, -3, samples), nil)
	if diff := cmp.Diff(samples, got); diff != "" || err != nil || minute != -3 {
		t.Error(minute, err, diff)
	}
}

var byName = cmpopts.SortSlices(func(a, b record.Track) bool { return a.Name < b.Name })

// randomHours returns hours with tracks that are not in all of them.
func randomHours(r *rand.Rand, n int) []record.Hour {
	hours := make([]record.Hour, n)
	for i := range hours {
		hours[i].Hour = 490_000 + int32(i+i/3)
		for _, name := range []string{"", "connect", "first byte", "a phase of a plugin"} {
			if r.IntN(4) == 0 && name != "" {
				continue
			}
			t := record.Track{Name: name, Ticks: 1 + r.Uint64N(1<<40)}
			for range record.Percents(name) {
				t.At = append(t.At, record.Bucket(r.IntN(record.Buckets)))
			}
			slices.Sort(t.At)
			hours[i].Tracks = append(hours[i].Tracks, t)
		}
	}
	return hours
}

func TestHoursOfSeriesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var want []record.HourOf
	var payload []byte
	for i, h := range randomHours(r, 50) {
		want = append(want, record.HourOf{ID: uint32(i * i), Hour: h})
		payload = record.AppendHourOf(payload, &want[i])
	}
	var got []record.HourOf
	err := record.DecodeHoursOf(payload, func(h *record.HourOf) { got = append(got, *h) })
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if err := record.DecodeHoursOf(payload[:len(payload)-1], func(*record.HourOf) {}); !errors.Is(err, record.ErrDamaged) {
		t.Error(err)
	}
}

func TestBucketsAreWithin12Percent(t *testing.T) {
	last := record.Bucket(4)
	for d := 4 * time.Microsecond; d < 2*time.Hour; d += d/100 + 1 {
		b := record.BucketOf(d)
		if off := math.Abs(b.Seconds()-d.Seconds()) / d.Seconds(); off > 0.12501 {
			t.Fatalf("%v has bucket %d, which is %v s", d, b, b.Seconds())
		}
		if b < last || b > last+1 {
			t.Fatalf("%v has bucket %d, and less had %d", d, b, last)
		}
		last = b
	}
	for d, want := range map[time.Duration]record.Bucket{-1: 0, 999: 0, time.Microsecond: 1, 3 * time.Microsecond: 3, 48 * time.Hour: record.Buckets - 1, math.MaxInt64: record.Buckets - 1} {
		if b := record.BucketOf(d); b != want {
			t.Errorf("%v has bucket %d, want %d", d, b, want)
		}
	}
}

func TestBinsAreWithin5Percent(t *testing.T) {
	last := record.Bin(0)
	for d := time.Microsecond; d < 9*time.Hour; d += d/100 + 1 {
		b := record.BinOf(d)
		if off := math.Abs(b.Seconds()-d.Seconds()) / d.Seconds(); off > 0.05 {
			t.Fatalf("%v has bin %d, which is %v s", d, b, b.Seconds())
		}
		if b < last {
			t.Fatalf("%v has bin %d, and less had %d", d, b, last)
		}
		last = b
	}
	for d, want := range map[time.Duration]record.Bin{-1: 0, 0: 0, 999: 0, 24 * time.Hour: 255} {
		if b := record.BinOf(d); b != want {
			t.Errorf("%v has bin %d, want %d", d, b, want)
		}
	}
}

// FuzzDecode passes any bytes to all decoders.
func FuzzDecode(f *testing.F) {
	f.Add(record.AppendSeries(nil, &record.Series{Handler: "h"}))
	f.Add(record.AppendMinute(nil, 1, []record.SampleOf{{ID: 1}}))
	random := rand.New(rand.NewPCG(1, 1))
	f.Add(record.AppendPoints(nil, randomPoints(random, 20), randomHours(random, 4)))
	f.Add(record.AppendHourOf(nil, &record.HourOf{ID: 7, Hour: randomHours(random, 1)[0]}))
	f.Add(new(record.Sealer).Seal([]byte("b"), []byte("k"), []byte(strings.Repeat("text ", 99))))
	f.Fuzz(func(t *testing.T, in []byte) {
		var open record.Opener
		for _, err := range []error{
			record.DecodeEvents(in, func(*record.Event) {}),
			func() error { _, err := record.DecodeSeries(in); return err }(),
			func() error { _, err := record.DecodeWindow(in); return err }(),
			func() error { _, _, err := record.DecodePoints(in); return err }(),
			record.DecodeHoursOf(in, func(*record.HourOf) {}),
			func() error { _, _, err := record.DecodeMinute(in, nil); return err }(),
			func() error { _, err := open.Open([]byte("b"), []byte("k"), in); return err }(),
		} {
			if err != nil && !errors.Is(err, record.ErrDamaged) {
				t.Error(err)
			}
		}
	})
}
