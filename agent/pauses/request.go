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
	"unicode"
	"unicode/utf8"

	"github.com/daeace23/prober/agent/api"
)

const (
	// MaxFor is the longest duration of a pause.
	MaxFor = 366 * 24 * time.Hour
	minFor = time.Second
	// MaxReason is the limit of a reason, in bytes.
	MaxReason = 256
)

// Read returns the pause that a request asks for: from the parameters "for" and "reason" of its query, or
// from its body, a JSON [api.PauseRequest]. The caller must limit the size of the body. By is not set.
func Read(r *http.Request) (Pause, error) {
	asked, err := fromBody(r.Body)
	if err != nil {
		return Pause{}, err
	}
	query := r.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		field := map[string]*string{"for": &asked.For, "reason": &asked.Reason}[name]
		switch {
		case field == nil:
			return Pause{}, fmt.Errorf("unknown parameter %q; known: for, reason", name)
		case len(query[name]) > 1 || *field != "":
			return Pause{}, fmt.Errorf("%q is set more than once", name)
		}
		*field = query[name][0]
	}
	return parse(asked)
}

// fromBody reads a request from its body, which may be empty.
func fromBody(body io.Reader) (asked api.PauseRequest, err error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return asked, fmt.Errorf("body: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return asked, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return asked, fmt.Errorf("body: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return asked, errors.New("body: there is text after the object")
	}
	return asked, nil
}

func parse(asked api.PauseRequest) (p Pause, err error) {
	if asked.For != "" {
		if p.For, err = time.ParseDuration(asked.For); err != nil || p.For < minFor || p.For > MaxFor {
			return Pause{}, fmt.Errorf("for %.40q must be a duration such as 10m or 1h30m, from %v to %v", asked.For, minFor, MaxFor)
		}
	}
	if p.Reason, err = Reason(asked.Reason); err != nil {
		return Pause{}, fmt.Errorf("reason %w", err)
	}
	return p, nil
}

// Reason returns text without surrounding spaces, and an error if it is not valid as the reason of a pause.
func Reason(text string) (string, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxReason || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return "", fmt.Errorf("must be one line of at most %d bytes", MaxReason)
	}
	return text, nil
}
