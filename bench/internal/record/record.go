// Package record stores measurements: one JSON file for each scenario.
package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/daeace23/prober/bench/internal/measure"
)

// Record is one measurement of a scenario.
type Record struct {
	Scenario string          `json:"scenario"`
	Command  string          `json:"command"` // repeats the measurement
	Machine  measure.Machine `json:"machine"`
	Start    time.Time       `json:"start"`
	Seconds  float64         `json:"seconds"` // duration of the measurement
	// OtherCPU is the number of processors that other programs used during the measurement.
	OtherCPU Number `json:"otherCPU"`
	Runs     []Run  `json:"runs"`
}

// Run is one round of one subject.
type Run struct {
	Subject string            `json:"subject"`          // "prober", "kubelet", "limit", …
	Params  []Param           `json:"params,omitempty"` // of the load
	Round   int               `json:"round"`            // from 1
	Figures map[string]Number `json:"figures,omitempty"`
	// Error says why there are no figures, or why they cannot be trusted.
	Error string `json:"error,omitempty"`
}

// Param is one parameter of a load.
type Param struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Number is a number whose JSON may be infinite: the lag of a tick that never ran.
type Number float64

// MarshalJSON writes "inf" for an infinite number.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(n), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads the format of MarshalJSON.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == `"inf"` {
		*n = Number(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// Values returns a figure of all runs that the function selects, except runs with an error.
func (r *Record) Values(figure string, selects func(*Run) bool) (values []float64) {
	for i := range r.Runs {
		run := &r.Runs[i]
		if v, ok := run.Figures[figure]; ok && run.Error == "" && selects(run) {
			values = append(values, float64(v))
		}
	}
	return values
}

// Param returns the value of a parameter, "" for none.
func (r *Run) Param(name string) string {
	i := slices.IndexFunc(r.Params, func(p Param) bool { return p.Name == name })
	if i < 0 {
		return ""
	}
	return r.Params[i].Value
}

// Store keeps records in a folder.
type Store struct{ Dir string }

// Load returns the record of a scenario; nil if there is none.
func (s Store) Load(scenario string) (*Record, error) {
	text, err := os.ReadFile(s.path(scenario))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(Record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", s.path(scenario), err)
	}
	return r, nil
}

// Save replaces the record of a scenario.
func (s Store) Save(r *Record) error {
	text, err := encode(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	temporary := s.path(r.Scenario) + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, s.path(r.Scenario))
}

// encode formats a record with one run on each line.
func encode(r *Record) ([]byte, error) {
	head := *r
	head.Runs = nil
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	text = append(text[:len(text)-len(`null}`)], "[\n"...)
	for i := range r.Runs {
		line, err := json.Marshal(&r.Runs[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ",\n"...)
		}
		text = append(text, line...)
	}
	return append(text, "\n]}\n"...), nil
}

func (s Store) path(scenario string) string { return filepath.Join(s.Dir, scenario+".json") }
