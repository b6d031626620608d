package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

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

// ReportEach calls each for the availability of every probe, and returns the report without its items. The report
// may be larger than the one of Report, as its items are not held. It has no timeout.
func (c *Client) ReportEach(ctx context.Context, f ReportFilter, each func(*api.ReportItem) error) (head api.Report, err error) {
	err = readEach(ctx, c, "report", f.query(), span{&head.Since, &head.Until}, each)
	return head, err
}

// Changes calls each for every change of the state of a probe. It returns the list without its items; f.Incidents
// has no effect. It has no timeout, as the agent reads its history.
func (c *Client) Changes(ctx context.Context, f ReportFilter, each func(*api.StateChange) error) (head api.StateChanges, err error) {
	query := f.query()
	query.Del("incidents")
	err = readEach(ctx, c, "changes", query, span{&head.Since, &head.Until}, each)
	return head, err
}

// span is where the times of a list are stored.
type span struct{ since, until *time.Time }

// readEach requests the list called name, and calls each for its items without holding all of them.
func readEach[T any](ctx context.Context, c *Client, name string, query url.Values, times span, each func(*T) error) error {
	res, err := c.send(ctx, http.MethodGet, query, "api", "v1", name)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := readList(json.NewDecoder(res.Body), times, each); err != nil {
		return c.unanswered(ctx, err)
	}
	return nil
}

func readList[T any](d *json.Decoder, times span, each func(*T) error) error {
	if err := delimiter(d, '{'); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		switch {
		case err != nil:
		case name == "since":
			err = d.Decode(times.since)
		case name == "until":
			err = d.Decode(times.until)
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

func readItems[T any](d *json.Decoder, each func(*T) error) error {
	if err := delimiter(d, '['); err != nil {
		return err
	}
	for d.More() {
		item := new(T)
		if err := d.Decode(item); err != nil {
			return err
		}
		if err := each(item); err != nil {
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
