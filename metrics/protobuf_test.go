package metrics_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daeace23/prober/core/results"
	"github.com/daeace23/prober/core/worker"
	"github.com/daeace23/prober/metrics"
	"github.com/daeace23/prober/probe"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

// messages returns the families of a body in protobuf.
func messages(t *testing.T, body string) (all []*dto.MetricFamily) {
	t.Helper()
	for r := bytes.NewReader([]byte(body)); ; {
		f := new(dto.MetricFamily)
		switch err := protodelim.UnmarshalFrom(r, f); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, f)
	}
}

// joined merges consecutive messages of the same family, and sorts the series of each family.
func joined(all []*dto.MetricFamily) (families []*dto.MetricFamily) {
	for _, f := range all {
		if n := len(families); n > 0 && families[n-1].GetName() == f.GetName() {
			families[n-1].Metric = append(families[n-1].Metric, f.Metric...)
		} else {
			families = append(families, f)
		}
	}
	for _, f := range families {
		slices.SortFunc(f.Metric, func(a, b *dto.Metric) int {
			return slices.CompareFunc(a.Label, b.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetValue(), b.GetValue()) })
		})
	}
	return families
}

func TestHandlerWritesProtobufAsPromhttp(t *testing.T) {
	for _, buckets := range []metrics.Buckets{metrics.ClassicBuckets, metrics.NativeBuckets, metrics.ClassicAndNativeBuckets, metrics.NoBuckets} {
		m := oddMetrics(buckets)
		k := tick(probe.Success, results.Success)
		k.Outcome.Metrics = []probe.Metric{{Name: "lag", Value: 1.5, Unit: "seconds"}}
		m.Observe(web).Tick(k)
		observers(m, 2000)
		ours, peer := newHandlers(t, m)
		want, wantBody := scrape(t, peer, "GET", "", "Accept", protobuf)
		got, body := scrape(t, ours, "GET", "", "Accept", protobuf)
		if got, want := got.Header.Get("Content-Type"), want.Header.Get("Content-Type"); got != want || !strings.Contains(got, "protobuf") {
			t.Errorf("content type %q, want %q", got, want)
		}
		all := messages(t, body)
		largest := 0
		for _, f := range all {
			largest = max(largest, proto.Size(f))
		}
		if largest > 80<<10 {
			t.Errorf("a message has %d bytes, want 80 KiB at most", largest)
		}
		compareFamilies(t, string(buckets), joined(messages(t, wantBody)), joined(all))
		if n := len(joined(all)); n == len(all) {
			t.Errorf("%d families in as many messages: none is large", n)
		}
	}
}

// compareFamilies compares families, and reports the first differing series of each.
func compareFamilies(t *testing.T, buckets string, want, got []*dto.MetricFamily) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		w, g := &dto.MetricFamily{}, &dto.MetricFamily{}
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if proto.Equal(w, g) {
			continue
		}
		for j := range min(len(w.Metric), len(g.Metric)) {
			if !proto.Equal(w.Metric[j], g.Metric[j]) {
				t.Errorf("buckets %s: %s has %v, want %v", buckets, g.GetName(), g.Metric[j], w.Metric[j])
				break
			}
		}
		t.Errorf("buckets %s: got %s of type %v with %d series, want %s of type %v with %d series",
			buckets, g.GetName(), g.GetType(), len(g.Metric), w.GetName(), w.GetType(), len(w.Metric))
	}
}

// client_golang's own histogram counts the same durations.
func TestNativeHistogramMatchesClientGolang(t *testing.T) {
	peer := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", NativeHistogramBucketFactor: 1.1})
	m := metrics.New(metrics.Config{Buckets: metrics.NativeBuckets})
	second := web
	second.PodUID = "u2" // has the same labels
	workers := []worker.ProbeObserver{m.Observe(web), m.Observe(second)}
	observe := func(i int, d time.Duration) {
		k := tick(probe.Success, results.Success)
		k.End = k.Start.Add(d)
		workers[i%len(workers)].Tick(k)
		peer.Observe(d.Seconds())
	}
	for i := range 60 {
		observe(i, time.Duration(1)<<i)
		observe(i, 7*time.Millisecond+time.Duration(i*i)*time.Microsecond)
	}
	for i, d := range []time.Duration{0, time.Second, time.Second + 1, time.Second - 1, 250 * time.Millisecond, time.Hour, 1} {
		observe(i, d)
	}
	check := func(when string) {
		t.Helper()
		ours, _ := newHandlers(t, m)
		_, body := scrape(t, ours, "GET", "?name[]=prober_probe_duration_seconds", "Accept", protobuf)
		all := messages(t, body)
		var want dto.Metric
		if err := peer.Write(&want); err != nil {
			t.Fatal(err)
		}
		if len(all) != 1 || len(all[0].Metric) != 1 {
			t.Fatalf("%s: got %v", when, all)
		}
		options := []cmp.Option{protocmp.Transform(), protocmp.IgnoreFields(&dto.Histogram{}, "created_timestamp", "sample_sum")}
		if diff := cmp.Diff(want.Histogram, all[0].Metric[0].Histogram, options...); diff != "" {
			t.Errorf("%s (-want +got)\n%s", when, diff)
		}
		if got, want := all[0].Metric[0].Histogram.GetSampleSum(), want.Histogram.GetSampleSum(); got < want*0.999999 || got > want*1.000001 {
			t.Errorf("%s: the sum is %v, want %v", when, got, want)
		}
	}
	check("two pods of one name")
	workers[0].Close()
	check("one of them has ended")
}

func TestNativeHistogramInTextHasSumAndCount(t *testing.T) {
	m := metrics.New(metrics.Config{Buckets: metrics.NativeBuckets})
	m.Observe(web).Tick(tick(probe.Success, results.Success))
	ours, _ := newHandlers(t, m)
	_, text := scrape(t, ours, "GET", "?name[]=prober_probe_duration_seconds", "Accept", textFormat)
	const labels = `container="web",namespace="default",pod="shop",probe_type="Readiness"`
	want := []string{
		`prober_probe_duration_seconds_bucket{` + labels + `,le="+Inf"} 1`,
		`prober_probe_duration_seconds_sum{` + labels + `} 0.03`, `prober_probe_duration_seconds_count{` + labels + `} 1`, "",
	}
	if got := strings.Split(text, "\n"); len(got) != 6 || !slices.Equal(got[2:], want) {
		t.Errorf("got %q, want %q after two lines", got, want)
	}
}

func TestNativeUpdateDoesNotAllocate(t *testing.T) {
	m := metrics.New(metrics.Config{Buckets: metrics.ClassicAndNativeBuckets})
	o, k := m.Observe(web), tick(probe.Success, results.Success)
	o.Tick(k)
	if n := testing.AllocsPerRun(100, func() { o.Tick(k) }); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}
