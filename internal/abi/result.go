package abi

import (
	"fmt"
	"math"
	"slices"

	"github.com/daeace23/prober/probe"
)

// Result is the document that result_write takes. It can replace calls of message and metric, and has
// additional fields. Readers ignore unknown fields.
type Result struct {
	Result    probe.Result
	HasResult bool // the document has a result; it must equal the one that probe returns
	Message   string
	Metrics   []probe.Metric
	Details   []byte // a JSON object, or nil
	Reason    string // the reason for a Failure, a [probe.Reason]
}

func (r *Result) fields() []field {
	return []field{
		{"result", (*verdict)(r)},
		{"message", &r.Message},
		{"metrics", listOf(&r.Metrics, MaxMetrics, metricFields)},
		{"details", &r.Details},
		{"reason", &r.Reason},
	}
}

// verdict encodes the result in a [Result], if there is one.
type verdict Result

func metricFields(m *probe.Metric) []field {
	return []field{{"name", &m.Name}, {"value", &m.Value}, {"unit", &m.Unit}, {"labels", &m.Labels}}
}

// AppendResult appends r to b as JSON. It omits metrics that JSON cannot represent: NaN and infinities.
func AppendResult(b []byte, r *Result) []byte {
	doc := *r
	doc.Metrics = slices.DeleteFunc(slices.Clone(r.Metrics), func(m probe.Metric) bool {
		return math.IsNaN(m.Value) || math.IsInf(m.Value, 0)
	})
	return Append(b, &doc)
}

// AppendOutcome appends the result document for out. If the document is longer than the contract allows, it
// omits the parts that the host would cut.
func AppendOutcome(b []byte, out probe.Outcome) []byte {
	r := Result{Message: out.Output, Metrics: out.Metrics, Details: []byte(out.Details), Reason: string(out.Reason)}
	doc := AppendResult(b, &r)
	if len(doc)-len(b) <= MaxResult {
		return doc
	}
	if r.Message = probe.Cut(r.Message); len(r.Details) > probe.MaxOutput {
		r.Details = nil
	}
	return AppendResult(b, &r)
}

// DecodeResult reads a result and checks the limits of the contract. The result does not refer to data.
func DecodeResult(data []byte) (Result, error) { return decodeResult(scanner{data: data}) }

// DecodeStrictResult is like [DecodeResult], but returns an error for unknown fields.
func DecodeStrictResult(data []byte) (Result, error) {
	return decodeResult(scanner{data: data, strict: true})
}

func decodeResult(s scanner) (Result, error) {
	if len(s.data) > MaxResult {
		return Result{}, fmt.Errorf("result of %d bytes; at most %d are allowed", len(s.data), MaxResult)
	}
	var r Result
	if err := s.document(r.fields()); err != nil {
		return Result{}, err
	}
	for _, m := range r.Metrics {
		if err := CheckMetric(m); err != nil {
			return Result{}, inField("metrics", err)
		}
	}
	r.Details = slices.Clone(r.Details)
	return r, nil
}

// CheckMetric returns an error if m violates a limit of the contract.
func CheckMetric(m probe.Metric) error {
	switch {
	case !ValidMetricName(m.Name):
		return fmt.Errorf("metric name %.40q: must match [a-z_][a-z0-9_]* and have %d bytes at most", m.Name, MaxMetricName)
	case len(m.Unit) > MaxUnit:
		return fmt.Errorf("metric %s: the unit must have %d bytes at most", m.Name, MaxUnit)
	case math.IsNaN(m.Value) || math.IsInf(m.Value, 0):
		return fmt.Errorf("metric %s: the value is not a number", m.Name)
	}
	for name := range m.Labels {
		if !ValidMetricName(name) {
			return fmt.Errorf("metric %s: label name %.40q must match [a-z_][a-z0-9_]*", m.Name, name)
		}
	}
	return nil
}
