package pauses

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/api"
	"github.com/daeace23/prober/config"
)

const (
	// MaxFor is the longest duration of a pause.
	MaxFor = 366 * 24 * time.Hour
	minFor = time.Second
)

// Read returns the pause that a request asks for: from the parameters "for" and "reason" of its query, or
// from its body, a JSON [api.PauseRequest]. The caller must limit the size of the body. By is not set.
func Read(r *http.Request) (Pause, error) {
	asked, err := readFields[api.PauseRequest](r, func(q *api.PauseRequest) map[string]*string {
		return map[string]*string{"for": &q.For, "reason": &q.Reason}
	})
	if err != nil {
		return Pause{}, err
	}
	return parse(asked)
}

// ReadForce is [Read] for a forced state. Its request is an [api.ForceRequest], which has "state" too.
func ReadForce(r *http.Request) (Pause, error) {
	asked, err := readFields[api.ForceRequest](r, func(q *api.ForceRequest) map[string]*string {
		return map[string]*string{"state": &q.State, "for": &q.For, "reason": &q.Reason}
	})
	if err != nil {
		return Pause{}, err
	}
	gate, ok := forces[asked.State]
	if !ok {
		return Pause{}, fmt.Errorf("state %.40q must be one of %s", asked.State, strings.Join(slices.Sorted(maps.Keys(forces)), ", "))
	}
	p, err := parse(api.PauseRequest{For: asked.For, Reason: asked.Reason})
	p.Force = gate
	return p, err
}

// readFields reads a request from its body and its query. fieldsOf returns its fields by the names of parameters.
func readFields[T any](r *http.Request, fieldsOf func(*T) map[string]*string) (asked T, err error) {
	if err := ReadBody(r.Body, &asked); err != nil {
		return asked, err
	}
	query, fields := r.URL.Query(), fieldsOf(&asked)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		field := fields[name]
		switch {
		case field == nil:
			return asked, fmt.Errorf("unknown parameter %q; known: %s", name, strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		case len(query[name]) > 1 || *field != "":
			return asked, fmt.Errorf("%q is set more than once", name)
		}
		*field = query[name][0]
	}
	return asked, nil
}

// ReadBody reads a request, to which asked points, from its body: JSON without unknown fields, or nothing.
func ReadBody(body io.Reader, asked any) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(asked); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("body: there is text after the object")
	}
	return nil
}

func parse(asked api.PauseRequest) (p Pause, err error) {
	if asked.For != "" {
		if p.For, err = ParseFor(asked.For); err != nil {
			return Pause{}, fmt.Errorf("for %w", err)
		}
	}
	if p.Reason, err = config.ParseReason(asked.Reason); err != nil {
		return Pause{}, fmt.Errorf("reason %w", err)
	}
	return p, nil
}

// ParseFor parses the length of a pause, which is at most [MaxFor].
func ParseFor(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < minFor || d > MaxFor {
		return 0, fmt.Errorf("%.40q must be a duration such as 10m or 1h30m, from %v to %v", text, minFor, MaxFor)
	}
	return d, nil
}
