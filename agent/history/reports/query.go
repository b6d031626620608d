package reports

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/daeace23/prober/agent/history"
	"github.com/daeace23/prober/internal/timespan"
	"github.com/daeace23/prober/probe"
)

// reportQuery has the parameters of a report.
type reportQuery struct {
	history.Query
	csv         bool
	perIncident bool // CSV has a row for each incident
}

// single returns the parameters. A parameter that is set twice or not in known is an error.
func single(values url.Values, known ...string) (map[string]string, error) {
	slices.Sort(known)
	all := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("unknown parameter %q; known: %s", name, strings.Join(known, ", "))
		case len(values[name]) > 1:
			return nil, fmt.Errorf("parameter %q is set %d times", name, len(values[name]))
		}
		all[name] = values[name][0]
	}
	return all, nil
}

// span returns the time between the parameters since and until. without is the default of since.
func span(values map[string]string, without string, now time.Time) (since, until time.Time, err error) {
	until = now
	if text := values["until"]; text != "" {
		if until, err = timespan.Before(text, now); err != nil {
			return since, until, fmt.Errorf("until %w", err)
		}
	}
	text := values["since"]
	if text == "" {
		text = without
	}
	if since, err = timespan.Before(text, now); err != nil {
		return since, until, fmt.Errorf("since %w", err)
	}
	if until.After(now) {
		until = now
	}
	if !since.Before(until) {
		return since, until, errors.New("since must be before until, and before now")
	}
	return since, until, nil
}

// parseReport reads the query of a report.
func parseReport(r *http.Request, now time.Time) (q reportQuery, err error) {
	values, err := single(r.URL.Query(), "since", "until", "namespace", "pod", "container", "kind", "limit", "continue", "format", "incidents")
	if err != nil {
		return q, err
	}
	if q.Since, q.Until, err = span(values, "30d", now); err != nil {
		return q, err
	}
	if q.Match, err = match(values); err != nil {
		return q, err
	}
	if err := q.readPage(values); err != nil {
		return q, err
	}
	return q, q.readFormat(r, values)
}

// match returns whether the parameters select a series.
func match(values map[string]string) (func(*history.Key) bool, error) {
	if kind := values["kind"]; kind != "" {
		if _, err := probe.ParseKind(kind); err != nil {
			return nil, err
		}
	}
	return func(k *history.Key) bool {
		is := func(name, value string) bool { return values[name] == "" || values[name] == value }
		return is("namespace", k.Namespace) && is("pod", k.Pod) && is("container", k.Container) && is("kind", k.Kind.String())
	}, nil
}

// parseChanges reads the query of a list of changes.
func parseChanges(r *http.Request, now time.Time) (*history.ChangeQuery, error) {
	values, err := single(r.URL.Query(), "since", "until", "namespace", "pod", "container", "kind")
	if err != nil {
		return nil, err
	}
	q := new(history.ChangeQuery)
	if q.Since, q.Until, err = span(values, "30d", now); err != nil {
		return nil, err
	}
	q.Match, err = match(values)
	return q, err
}

// readPage reads limit and continue.
func (q *reportQuery) readPage(values map[string]string) error {
	if text := values["limit"]; text != "" {
		limit, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return fmt.Errorf("limit %q must be an integer, at least 0", text)
		}
		q.Limit = int(limit)
	}
	if text := values["continue"]; text != "" {
		var token []string
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil || json.Unmarshal(raw, &token) != nil || len(token) != 5 || token[0] != "report" {
			return errors.New("continue must be a metadata.continue of this list")
		}
		kind, err := probe.ParseKind(token[4])
		if err != nil {
			return errors.New("continue must be a metadata.continue of this list")
		}
		q.After = &history.Key{Namespace: token[1], Pod: token[2], Container: token[3], Kind: kind}
	}
	return nil
}

// continuation returns the value of continue for the page after key.
func continuation(key *history.Key) string {
	token, err := json.Marshal([]string{"report", key.Namespace, key.Pod, key.Container, key.Kind.String()})
	if err != nil {
		return "" // strings can always be encoded
	}
	return base64.RawURLEncoding.EncodeToString(token)
}

// readFormat reads format and incidents.
func (q *reportQuery) readFormat(r *http.Request, values map[string]string) error {
	switch format := values["format"]; format {
	case "csv":
		q.csv = true
	case "json":
	case "":
		q.csv = accepts(r, "text/csv") && !accepts(r, "application/json")
	default:
		return fmt.Errorf("unknown format %q; known: csv, json", format)
	}
	switch text := values["incidents"]; text {
	case "true":
		q.Incidents = true
	case "newest":
		q.Incidents, q.Newest = true, true
	case "false":
	case "":
		q.Incidents = !q.csv
	default:
		return fmt.Errorf("incidents %q must be true, false or newest", text)
	}
	q.perIncident = q.csv && q.Incidents
	if q.csv && (q.Limit > 0 || q.After != nil) {
		return errors.New("limit and continue need format=json")
	}
	return nil
}

// accepts reports whether a request names a type in its Accept header.
func accepts(r *http.Request, mediaType string) bool {
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			if t, _, err := mime.ParseMediaType(part); err == nil && t == mediaType {
				return true
			}
		}
	}
	return false
}
