//go:build linux

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// scrape has the values of one response of /metrics that this program uses.
type scrape struct {
	bytes  int                // of the response
	values map[string]float64 // series that are not per probe, by name and labels
	totals map[probeSeries]total
	lag    histogram
}

// probeSeries identifies a probe in prober_probe_total.
type probeSeries struct{ pod, container, kind string }

// total is prober_probe_total of a probe: all ticks and the failed ones.
type total struct{ all, failed int }

func (t total) plus(o total) total  { return total{t.all + o.all, t.failed + o.failed} }
func (t total) minus(o total) total { return total{t.all - o.all, t.failed - o.failed} }

func (t total) atLeast(o total) total { return total{max(t.all, o.all), max(t.failed, o.failed)} }
func (t total) atMost(o total) total  { return total{min(t.all, o.all), min(t.failed, o.failed)} }

// bounds is the range from least to most, both included.
type bounds struct{ least, most total }

// histogram has the cumulative counts of its buckets, by upper bound.
type histogram []bucket

type bucket struct{ le, count float64 }

// scrape scrapes /metrics. It leaves scrape.totals empty unless totals is set.
func (a *agent) scrape(totals bool) (s scrape, err error) {
	err = a.ask("/metrics", func(r io.Reader) error {
		s, err = readScrape(r, totals)
		return err
	})
	return s, err
}

func readScrape(r io.Reader, totals bool) (scrape, error) {
	s := scrape{values: make(map[string]float64), totals: make(map[probeSeries]total)}
	for in := bufio.NewReaderSize(r, 1<<16); ; {
		line, err := in.ReadSlice('\n')
		s.bytes += len(line)
		if err == io.EOF {
			break
		}
		if err != nil {
			return s, err
		}
		if err := s.add(line, totals); err != nil {
			return s, err
		}
	}
	if s.lag == nil {
		return s, errors.New("/metrics without prober_schedule_lag_seconds")
	}
	slices.SortFunc(s.lag, func(a, b bucket) int { return cmp.Compare(a.le, b.le) })
	return s, nil
}

// The beginnings of series that exist per probe or per bucket.
var (
	probeTotal    = []byte("prober_probe_total{")
	probeDuration = []byte("prober_probe_duration_seconds_")
	lagBucket     = []byte("prober_schedule_lag_seconds_bucket{")
)

func (s *scrape) add(line []byte, totals bool) error {
	switch {
	case line[0] == '#', bytes.HasPrefix(line, probeDuration), !totals && bytes.HasPrefix(line, probeTotal):
		return nil
	}
	at := bytes.LastIndexByte(line, ' ')
	if at < 0 {
		return fmt.Errorf("/metrics: %q", line)
	}
	value, err := strconv.ParseFloat(string(bytes.TrimSpace(line[at:])), 64)
	if err != nil {
		return fmt.Errorf("/metrics: %q: %w", line, err)
	}
	series := string(line[:at])
	switch {
	case bytes.HasPrefix(line, probeTotal):
		key := probeSeries{label(series, "pod"), label(series, "container"), strings.ToLower(label(series, "probe_type"))}
		t := s.totals[key]
		t.all += int(value)
		if label(series, "result") == "failed" {
			t.failed += int(value)
		}
		s.totals[key] = t
	case bytes.HasPrefix(line, lagBucket):
		le, err := strconv.ParseFloat(label(series, "le"), 64)
		if err != nil {
			return fmt.Errorf("/metrics: %q: %w", line, err)
		}
		s.lag = append(s.lag, bucket{le, value})
	default:
		s.values[series] = value
	}
	return nil
}

// label returns the value of a label. It does not support values with escapes.
func label(series, name string) string {
	for _, before := range [...]string{"{", ","} {
		if _, rest, ok := strings.Cut(series, before+name+`="`); ok {
			value, _, _ := strings.Cut(rest, `"`)
			return value
		}
	}
	return ""
}

// sum returns the sum of all series whose name begins with metric and that contain part.
func (s *scrape) sum(metric, part string) (sum float64) {
	for name, value := range s.values {
		if strings.HasPrefix(name, metric) && strings.Contains(name, part) {
			sum += value
		}
	}
	return sum
}

// since returns the counts since an earlier scrape.
func (h histogram) since(old histogram) histogram {
	diff := slices.Clone(h)
	for i := range diff {
		if i < len(old) {
			diff[i].count -= old[i].count
		}
	}
	return diff
}

func (h histogram) total() float64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].count
}

// quantile returns the value that the fraction q of all observations does not exceed. It interpolates as
// histogram_quantile of Prometheus does.
func (h histogram) quantile(q float64) float64 {
	rank, below := q*h.total(), bucket{}
	for _, b := range h {
		if b.count >= rank && b.count > below.count {
			if math.IsInf(b.le, 1) {
				return below.le
			}
			return below.le + (b.le-below.le)*(rank-below.count)/(b.count-below.count)
		}
		below = b
	}
	return below.le
}
