package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daeace23/prober/agent/history/record"
	"github.com/daeace23/prober/probe"
)

// file returns a file of n records, and their contents.
func file(n int) (text []byte, payloads []string) {
	var w record.Writer
	text = []byte(record.Magic)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		payload := fmt.Sprintf("record %d %s", i, strings.Repeat("x", r.IntN(3000)))
		payloads = append(payloads, payload)
		text = w.Append(text, record.Events, []byte(payload))
	}
	return text, payloads
}

// scan returns the contents of the records that a scanner finds.
func scan(t testing.TB, s *record.Scanner) (found []string) {
	for {
		raw, ok := s.Next()
		if !ok {
			if s.Err() != nil {
				t.Fatal(s.Err())
			}
			return found
		}
		payload, err := s.Payload(raw)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(payload))
	}
}

func scanner(text []byte) *record.Scanner {
	return record.NewScanner(bytes.NewReader(text), int64(len(record.Magic)), int64(len(text)))
}

func TestDamageCostsOnlyItsRecord(t *testing.T) {
	text, payloads := file(60)
	if diff := cmp.Diff(payloads, scan(t, scanner(text))); diff != "" {
		t.Fatal(diff)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		at := len(record.Magic) + r.IntN(len(text)-len(record.Magic))
		bad := bytes.Clone(text)
		bad[at] ^= byte(1 << r.IntN(8))
		s := scanner(bad)
		found := scan(t, s)
		if len(found) != len(payloads)-1 || s.Damaged != 1 && s.Damaged != 2 {
			t.Fatalf("byte %d: %d records of %d, damaged %d", at, len(found), len(payloads), s.Damaged)
		}
		for i, p := range found { // in order, and none that was not written
			if p != payloads[i] && p != payloads[i+1] {
				t.Fatalf("byte %d: record %d is not one that was written", at, i)
			}
		}
	}
}

func TestTornEnd(t *testing.T) {
	text, payloads := file(20)
	ends := map[int]int{len(record.Magic): 0} // of the records that are whole
	for i := range payloads {
		part, _ := file(i + 1)
		ends[len(part)] = i + 1
	}
	whole, wholeAt := 0, len(record.Magic)
	for size := len(record.Magic); size <= len(text); size++ {
		if n, ok := ends[size]; ok {
			whole, wholeAt = n, size
		}
		s := scanner(text[:size])
		if found := scan(t, s); len(found) != whole || s.Whole != int64(wholeAt) || s.Torn() != (size > wholeAt) {
			t.Fatalf("%d bytes: %d records, %d bytes whole, torn %v; want %d, %d", size, len(found), s.Whole, s.Torn(), whole, wholeAt)
		}
	}
}

func TestNamesAndEvents(t *testing.T) {
	series := []record.Series{
		{Key: record.Key{Namespace: "default", Pod: "a", Container: "web", Kind: probe.Readiness}, ID: 7, Handler: "http"},
		{Key: record.Key{Namespace: "default", Pod: "b", Container: "web", Kind: probe.Startup}, ID: 1 << 31},
	}
	var got []record.Series
	if err := record.DecodeNames(record.AppendNames(nil, series), func(s record.Series) { got = append(got, s) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(series, got); diff != "" {
		t.Error(diff)
	}
	events := []record.Event{
		{Op: record.Start, Time: 1_800_000_000_000},
		{Op: record.Snapshot, Time: 1_800_000_000_000, ID: 1},
		{Op: record.Held, State: record.Failure, ID: 4, Time: 1_800_000_000_000, Reason: "dns", Text: "no such host"},
		{Op: record.Change, State: record.Absent, ID: 4, Time: 1_700_000_000_001, Reason: "dns", Text: "ü\x00"},
		{Op: record.Alive, Time: 1_800_000_060_000}, {Op: record.Stop, Time: 1_800_000_060_001},
	}
	var w record.EventWriter
	for range 2 { // the second payload uses nothing of the first
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

func TestPointsAndMinutes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		groups := make([][]record.Point, r.IntN(20))
		for i := range groups {
			groups[i] = randomPoints(r, r.IntN(100))
		}
		n := 0
		err := record.DecodePoints(record.AppendPoints(nil, 5, groups), func(id uint32, points []record.Point) {
			if diff := cmp.Diff(groups[n], points); diff != "" || id != uint32(5+n) {
				t.Fatalf("%d: %s", id, diff)
			}
			n++
		})
		if err != nil || n != len(groups) {
			t.Fatalf("%d of %d groups, %v", n, len(groups), err)
		}
	}
	samples := []record.SampleOf{{ID: 1, Sample: record.Sample{Counts: record.Counts{0, 6}, Mean: 3, Max: 9}}, {ID: 4, Sample: record.Sample{Counts: record.Counts{1, 2, 3, 4}, Mean: 255, Max: 255}}}
	minute, got, err := record.DecodeMinute(record.AppendMinute(nil, -3, samples), nil)
	if diff := cmp.Diff(samples, got); diff != "" || err != nil || minute != -3 {
		t.Error(minute, err, diff)
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

// FuzzDecode decodes anything as everything.
func FuzzDecode(f *testing.F) {
	f.Add(record.AppendNames(nil, []record.Series{{ID: 1, Handler: "h"}}))
	f.Add(record.AppendMinute(nil, 1, []record.SampleOf{{ID: 1}}))
	f.Add(record.AppendPoints(nil, 1, [][]record.Point{randomPoints(rand.New(rand.NewPCG(1, 1)), 20)}))
	f.Add(record.AppendIndex(nil, &record.Directory{Names: []record.NamesAt{{Offset: 3}}, Points: []record.PointsAt{{1, 2}}}))
	text, _ := file(3)
	f.Add(text)
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, err := range []error{
			record.DecodeNames(in, func(record.Series) {}),
			record.DecodeEvents(in, func(*record.Event) {}),
			record.DecodePoints(in, func(uint32, []record.Point) {}),
			func() error { _, _, err := record.DecodeMinute(in, nil); return err }(),
			func() error { _, err := record.DecodeIndex(in); return err }(),
			func() error { _, _, err := record.DecodeHead(in); return err }(),
			func() error { _, err := record.DecodeEnd(in); return err }(),
		} {
			if err != nil && !errors.Is(err, record.ErrDamaged) {
				t.Error(err)
			}
		}
		s := record.NewScanner(bytes.NewReader(in), 0, int64(len(in)))
		for raw, ok := s.Next(); ok; raw, ok = s.Next() {
			_, _ = s.Payload(raw)
		}
	})
}
