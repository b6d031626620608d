package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/daeace23/prober/agent/api"
)

// ReportFilter selects the contents of a report; empty fields match everything.
type ReportFilter struct {
	Namespace, Pod, Container, Kind string
	// Since and Until are durations before now, such as "30d", or times in RFC 3339; "": 30 days, and now.
	Since, Until string
	Incidents    bool // list the incidents of each probe
	Parts        int  // equal parts of the time with an uptime each; 0 for none
}

func (f *ReportFilter) query() url.Values {
	query := url.Values{"incidents": {strconv.FormatBool(f.Incidents)}}
	for name, value := range map[string]string{
		"namespace": f.Namespace, "pod": f.Pod, "container": f.Container, "kind": f.Kind, "since": f.Since, "until": f.Until,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Parts > 0 {
		query.Set("parts", strconv.Itoa(f.Parts))
	}
	return query
}

// Report returns the availability of probes. It has no timeout, as the agent reads its history.
func (c *Client) Report(ctx context.Context, f ReportFilter) (report api.Report, err error) {
	err = c.request(ctx, http.MethodGet, f.query(), &report, "api", "v1", "report")
	return report, err
}

// Changes calls each for every change of the state of a probe. It returns the list without its items; f.Incidents
// has no effect. It has no timeout, as the agent reads its history.
func (c *Client) Changes(ctx context.Context, f ReportFilter, each func(*api.StateChange) error) (head api.StateChanges, err error) {
	query := f.query()
	query.Del("incidents")
	res, err := c.send(ctx, http.MethodGet, query, "api", "v1", "changes")
	if err != nil {
		return head, err
	}
	defer res.Body.Close()
	if err := readChanges(json.NewDecoder(res.Body), &head, each); err != nil {
		return head, c.unanswered(ctx, err)
	}
	return head, nil
}

// readChanges reads an [api.StateChanges] without holding all of its items.
func readChanges(d *json.Decoder, head *api.StateChanges, each func(*api.StateChange) error) error {
	if err := delimiter(d, '{'); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil:
		case name == "since":
			err = d.Decode(&head.Since)
		case name == "until":
			err = d.Decode(&head.Until)
		case name == "items":
			err = readItems(d, each)
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	return delimiter(d, '}')
}

func readItems(d *json.Decoder, each func(*api.StateChange) error) error {
	if err := delimiter(d, '['); err != nil {
		return err
	}
	for d.More() {
		c := new(api.StateChange)
		if err := d.Decode(c); err != nil {
			return err
		}
		if err := each(c); err != nil {
			return err
		}
	}
	return delimiter(d, ']')
}

func delimiter(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err == nil && token != want {
		err = fmt.Errorf("%v in the place of %v", token, want)
	}
	return err
}

// ReportCSV copies the report as CSV: a row for each probe or, with f.Incidents, for each incident.
func (c *Client) ReportCSV(ctx context.Context, f ReportFilter, to io.Writer) error {
	query := f.query()
	query.Set("format", "csv")
	res, err := c.send(ctx, http.MethodGet, query, "api", "v1", "report")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(to, res.Body); err != nil {
		return c.unanswered(ctx, err)
	}
	return nil
}

// History returns the history of a probe since a duration before now or a time. It has no timeout, as the agent
// reads its history.
func (c *Client) History(ctx context.Context, namespace, pod, container, kind, since string) (h api.ProbeHistory, err error) {
	err = c.request(ctx, http.MethodGet, url.Values{"since": {since}}, &h, "api", "v1", "probes", namespace, pod, container, kind, "history")
	return h, err
}
