package otlp

import (
	"math"
	"strings"

	dto "github.com/prometheus/client_model/go"
	commonpb "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
)

// converter converts Prometheus metric families to OpenTelemetry metrics. Names and labels are unchanged.
type converter struct {
	start, now uint64 // nanoseconds since the epoch: start of the counters, and time of the points
}

// unit returns the unit of a metric, by the suffix of its name.
func unit(name string) string {
	name = strings.TrimSuffix(name, "_total")
	for suffix, unit := range map[string]string{"_seconds": "s", "_bytes": "By", "_ratio": "1"} {
		if strings.HasSuffix(name, suffix) {
			return unit
		}
	}
	return ""
}

// family converts a family. It returns the metric and the number of its points.
func (c *converter) family(f *dto.MetricFamily) (*metricspb.Metric, int) {
	m := &metricspb.Metric{Name: f.GetName(), Description: f.GetHelp(), Unit: unit(f.GetName())}
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{
			AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, IsMonotonic: true,
			DataPoints: c.numbers(f.Metric, c.start, func(m *dto.Metric) float64 { return m.Counter.GetValue() }),
		}}
	case dto.MetricType_SUMMARY:
		m.Data = &metricspb.Metric_Summary{Summary: &metricspb.Summary{DataPoints: c.summaries(f.Metric)}}
	case dto.MetricType_HISTOGRAM:
		if len(f.Metric) > 0 && f.Metric[0].Histogram.Schema != nil {
			m.Data = &metricspb.Metric_ExponentialHistogram{ExponentialHistogram: &metricspb.ExponentialHistogram{
				AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, DataPoints: c.exponential(f.Metric),
			}}
			break
		}
		m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
			AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, DataPoints: c.histograms(f.Metric),
		}}
	case dto.MetricType_GAUGE:
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{
			DataPoints: c.numbers(f.Metric, 0, func(m *dto.Metric) float64 { return m.Gauge.GetValue() }),
		}}
	default:
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{
			DataPoints: c.numbers(f.Metric, 0, func(m *dto.Metric) float64 { return m.Untyped.GetValue() }),
		}}
	}
	return m, len(f.Metric)
}

func (c *converter) numbers(all []*dto.Metric, start uint64, value func(*dto.Metric) float64) []*metricspb.NumberDataPoint {
	points := make([]*metricspb.NumberDataPoint, len(all))
	for i, m := range all {
		points[i] = &metricspb.NumberDataPoint{
			Attributes: attributes(m.Label), StartTimeUnixNano: start, TimeUnixNano: c.now, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value(m)},
		}
	}
	return points
}

func attributes(labels []*dto.LabelPair) []*commonpb.KeyValue {
	all := make([]*commonpb.KeyValue, len(labels))
	for i, l := range labels {
		all[i] = text(l.GetName(), l.GetValue())
	}
	return all
}

func (c *converter) summaries(all []*dto.Metric) []*metricspb.SummaryDataPoint {
	points := make([]*metricspb.SummaryDataPoint, len(all))
	for i, m := range all {
		p := &metricspb.SummaryDataPoint{
			Attributes: attributes(m.Label), StartTimeUnixNano: c.start, TimeUnixNano: c.now, Count: m.Summary.GetSampleCount(), Sum: m.Summary.GetSampleSum(),
		}
		for _, q := range m.Summary.Quantile {
			p.QuantileValues = append(p.QuantileValues, &metricspb.SummaryDataPoint_ValueAtQuantile{Quantile: q.GetQuantile(), Value: q.GetValue()})
		}
		points[i] = p
	}
	return points
}

// histograms converts classic histograms. Buckets of Prometheus are cumulative, and buckets of OpenTelemetry
// are not.
func (c *converter) histograms(all []*dto.Metric) []*metricspb.HistogramDataPoint {
	points := make([]*metricspb.HistogramDataPoint, len(all))
	for i, m := range all {
		h := m.Histogram
		p := &metricspb.HistogramDataPoint{
			Attributes: attributes(m.Label), StartTimeUnixNano: c.start, TimeUnixNano: c.now, Count: h.GetSampleCount(), Sum: new(h.GetSampleSum()),
		}
		below := uint64(0)
		for _, b := range h.Bucket {
			if math.IsInf(b.GetUpperBound(), 1) {
				continue
			}
			p.ExplicitBounds = append(p.ExplicitBounds, b.GetUpperBound())
			p.BucketCounts = append(p.BucketCounts, b.GetCumulativeCount()-below)
			below = b.GetCumulativeCount()
		}
		p.BucketCounts = append(p.BucketCounts, h.GetSampleCount()-below)
		points[i] = p
	}
	return points
}

// exponential converts native histograms.
func (c *converter) exponential(all []*dto.Metric) []*metricspb.ExponentialHistogramDataPoint {
	points := make([]*metricspb.ExponentialHistogramDataPoint, len(all))
	for i, m := range all {
		h := m.Histogram
		points[i] = &metricspb.ExponentialHistogramDataPoint{
			Attributes: attributes(m.Label), StartTimeUnixNano: c.start, TimeUnixNano: c.now, Count: h.GetSampleCount(), Sum: new(h.GetSampleSum()),
			Scale: h.GetSchema(), ZeroCount: h.GetZeroCount(), ZeroThreshold: h.GetZeroThreshold(),
			Positive: buckets(h.PositiveSpan, h.PositiveDelta), Negative: buckets(h.NegativeSpan, h.NegativeDelta),
		}
	}
	return points
}

// buckets returns the buckets of a native histogram as one row. Prometheus has spans of counts, each encoded
// as the difference from the previous count. Its buckets have the index of their upper bound, and buckets of
// OpenTelemetry the index of their lower bound.
func buckets(spans []*dto.BucketSpan, deltas []int64) *metricspb.ExponentialHistogramDataPoint_Buckets {
	out := &metricspb.ExponentialHistogramDataPoint_Buckets{}
	if len(spans) == 0 {
		return out
	}
	out.Offset = spans[0].GetOffset() - 1
	count := int64(0)
	for i, s := range spans {
		if i > 0 {
			out.BucketCounts = append(out.BucketCounts, make([]uint64, s.GetOffset())...)
		}
		for range s.GetLength() {
			count += deltas[0]
			deltas = deltas[1:]
			out.BucketCounts = append(out.BucketCounts, uint64(count))
		}
	}
	return out
}
