package abi

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/daeace23/prober/probe"
)

// Result is the document that result_write takes: what message and metric would
// have said, and more. Fields that a reader does not know are ignored.
type Result struct {
	Result    probe.Result
	HasResult bool // the document says a result, which the return value must agree with
	Message   string
	Metrics   []probe.Metric
	Details   []byte // a JSON object, or nil
}

// AppendResult appends r to b as JSON. Metrics that JSON cannot carry (NaN,
// infinities) are left out.
func AppendResult(b []byte, r *Result) []byte {
	b = append(b, '{')
	if r.HasResult {
		b = appendField(b, "result", r.Result.String())
	}
	b = appendField(b, "message", r.Message)
	metrics := slices.DeleteFunc(slices.Clone(r.Metrics), func(m probe.Metric) bool {
		return math.IsNaN(m.Value) || math.IsInf(m.Value, 0)
	})
	b = appendList(b, "metrics", len(metrics), func(b []byte, i int) []byte {
		return appendMetric(b, &metrics[i])
	})
	if len(r.Details) > 0 {
		b = append(appendName(b, "details"), r.Details...)
	}
	return append(b, '}')
}

// AppendOutcome appends the result that tells of out. One that is longer than the contract
// allows says no more than would be left of it anyway.
func AppendOutcome(b []byte, out probe.Outcome) []byte {
	r := Result{Message: out.Output, Metrics: out.Metrics, Details: []byte(out.Details)}
	doc := AppendResult(b, &r)
	if len(doc)-len(b) <= MaxResult {
		return doc
	}
	if r.Message = probe.Cut(r.Message); len(r.Details) > probe.MaxOutput {
		r.Details = nil
	}
	return AppendResult(b, &r)
}

func appendMetric(b []byte, m *probe.Metric) []byte {
	b = append(b, '{')
	b = appendField(b, "name", m.Name)
	b = appendFloat(appendName(b, "value"), m.Value)
	b = appendField(b, "unit", m.Unit)
	if len(m.Labels) > 0 {
		b = append(appendName(b, "labels"), '{')
		for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
			b = AppendString(appendName(b, name), m.Labels[name])
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// DecodeResult reads a result and checks it against the limits of the contract.
// Nothing of the answer is part of data.
func DecodeResult(data []byte) (Result, error) { return decodeResult(scanner{data: data}) }

// DecodeStrictResult is [DecodeResult], but a field that the contract does not know is an
// error.
func DecodeStrictResult(data []byte) (Result, error) {
	return decodeResult(scanner{data: data, strict: true})
}

func decodeResult(from scanner) (Result, error) {
	data := from.data
	if len(data) > MaxResult {
		return Result{}, fmt.Errorf("result of %d bytes; at most %d are allowed", len(data), MaxResult)
	}
	var r Result
	d := decoder{from}
	err := d.object(func(name string) error { return named(name, d.result(&r, name)) })
	if err == nil {
		err = d.end()
	}
	if err != nil {
		return Result{}, err
	}
	return r, nil
}

func (d *decoder) result(r *Result, name string) error {
	switch name {
	case "result":
		var text string
		if err := d.readString(&text); err != nil {
			return err
		}
		r.HasResult = true
		return r.Result.UnmarshalText([]byte(text))
	case "message":
		return d.readString(&r.Message)
	case "metrics":
		return d.array(func(i int) error {
			if i >= MaxMetrics {
				return fmt.Errorf("more than %d", MaxMetrics)
			}
			m, err := d.metric()
			r.Metrics = append(r.Metrics, m)
			return err
		})
	case "details":
		if d.next() != '{' {
			return d.fail("an object")
		}
		raw, err := d.raw()
		r.Details = slices.Clone(raw)
		return err
	default:
		return d.unknown()
	}
}

func (d *decoder) metric() (probe.Metric, error) {
	var m probe.Metric
	err := d.fields(textFields{{"name", &m.Name}, {"unit", &m.Unit}}, func(name string) (mine bool, err error) {
		switch name {
		case "value":
			m.Value, err = d.float()
		case "labels":
			err = d.labels(&m.Labels)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil {
		err = CheckMetric(m)
	}
	return m, err
}

// CheckMetric says what is wrong with m, if anything is.
func CheckMetric(m probe.Metric) error {
	switch {
	case !ValidMetricName(m.Name):
		return fmt.Errorf("metric name %.40q: want [a-z_][a-z0-9_]*, %d bytes at most", m.Name, MaxMetricName)
	case len(m.Unit) > MaxUnit:
		return fmt.Errorf("metric %s: a unit has %d bytes at most", m.Name, MaxUnit)
	case math.IsNaN(m.Value) || math.IsInf(m.Value, 0):
		return fmt.Errorf("metric %s: the value is no number", m.Name)
	}
	for name := range m.Labels {
		if !ValidMetricName(name) {
			return fmt.Errorf("metric %s: label name %.40q: want [a-z_][a-z0-9_]*", m.Name, name)
		}
	}
	return nil
}
